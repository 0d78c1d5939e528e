"""Match: its rules, and the return of uniform search in numbers and in play."""

import numpy as np
import pytest

from reproductions.aql import match

LEVELS = np.linspace(-1, 1, 5)


def play(environment, choose):
    """Plays an episode; `choose` maps signs to an action."""
    timesteps = [environment.reset()]
    while not timesteps[-1].last():
        timesteps.append(environment.step(choose(timesteps[-1].observation)))
    return timesteps


@pytest.mark.parametrize("size, value", [(5, 82.3), (21, 49.4), (56, 37.4)])
def test_the_best_of_500_uniform_samples_returns_the_known_share(size, value):
    assert round(match.uniform_return(size, 500), 1) == value


def test_the_formula_is_a_sum_over_all_outcomes():
    """Two sub-actions, two samples: the better has 0, 1 or 2 matches."""
    none, both = 0.8**4, 1 - (1 - 0.04) ** 2
    assert match.uniform_return(2, 2) == pytest.approx(100 * (both + (1 - none - both) / 2))
    assert match.uniform_return(7, 1) == pytest.approx(20)


@pytest.mark.parametrize("size", [5, 21, 56])
@pytest.mark.parametrize("is_continuous", [False, True])
def test_the_environment_agrees(size, is_continuous):
    generator = np.random.default_rng(size)
    environment = getattr(match, f"make_{size}")(seed=3)

    def best_of_500(signs):
        shape = (500, size)
        samples = (
            generator.uniform(-1, 1, shape) if is_continuous else generator.choice(LEVELS, shape)
        )
        return samples[np.argmax((samples * signs > 0.6).sum(axis=1))]

    rewards = [t.reward for _ in range(10) for t in play(environment, best_of_500)[1:]]
    error = 100 * np.std(rewards) / np.sqrt(len(rewards))
    assert 100 * np.mean(rewards) == pytest.approx(match.uniform_return(size, 500), abs=4 * error)
    assert error < 0.4


def test_an_episode_has_100_steps_that_depend_on_nothing_before():
    timesteps = play(match.make_21(seed=0), lambda signs: signs)
    assert len(timesteps) == 101
    assert sum(t.reward for t in timesteps[1:]) == pytest.approx(100)
    assert {t.discount for t in timesteps[1:]} == {0.0}
    assert len({t.observation.tobytes() for t in timesteps}) == 101
    assert [t.last() for t in timesteps] == [False] * 100 + [True]
    worst = play(match.make_21(seed=0), lambda signs: -signs)
    assert sum(t.reward for t in worst[1:]) == 0


@pytest.mark.parametrize("level, share", zip(LEVELS, [0, 0, 0, 0, 1]))
def test_one_level_of_five_matches(level, share):
    environment = match.make_5(seed=0)
    timestep = environment.step(None)  # begins an episode
    assert timestep.first()
    assert environment.step(timestep.observation * level).reward == share
