"""Tests of common.agents.unroll_agent, by an agent of no paper."""

import numpy as np
from unroll_task import EPISODE_STEPS, TIMESTEPS, Sums, make_agent

from common.environments.batch import BatchedEnvironment
from common.environments.canonical import CanonicalEnvironment
from common.environments.spec import EnvironmentSpec


def test_numbers_that_follow_from_the_configuration():
    agent = make_agent(updates_per_call=2)
    assert agent.samples_per_update == 20 and agent.publish_period == 1
    # With less room than this the learner has a call's unrolls and makes room.
    assert agent.max_offer == 8 - 2 * 4 + 1


def test_acts_and_fills_the_queue_with_bursts():
    """Each of two actors gives an unroll and two others of its own, every five timesteps."""
    agent = make_agent()
    environments = BatchedEnvironment([CanonicalEnvironment(Sums(0)) for _ in range(2)])
    spec = EnvironmentSpec.of(environments)
    assert spec.action_choices == (3, 4)
    memory, actors, episodes = agent.make_memory(spec, seed=1), range(6, 8), []
    actor = agent.make_actor(spec, actors, 8, seed=2)
    num_steps = 0

    def add(added):
        nonlocal num_steps
        num_steps += agent.count_steps(added)
        agent.insert(memory, actor, actors, added, incarnation=3)

    loop = agent.acting_loop(actor, environments, add, lambda *episode: episodes.append(episode))
    for _ in range(5 * TIMESTEPS + 1):
        loop.step()
    assert memory.queue.size() == memory.statistics().items == TIMESTEPS * 2 * 3
    assert num_steps == 2 * 5 * EPISODE_STEPS
    bursts = memory.queue.take(TIMESTEPS * 2 * 3)
    fresh = bursts.reward[::3].reshape(TIMESTEPS, 2, 5)
    returns = [sum(episode[1] for episode in episodes if episode[0] == actor) for actor in range(2)]
    np.testing.assert_allclose(fresh.sum(axis=(0, 2)), returns)
    is_last = bursts.is_last[::3].reshape(TIMESTEPS, 2, 5).swapaxes(0, 1).reshape(2, -1)
    assert (np.flatnonzero(is_last[0]) % TIMESTEPS == TIMESTEPS - 1).all()
    for row in range(len(bursts.reward)):
        burst, own = divmod(row, 6)
        first = own // 3  # of an actor's unrolls; its others are `burst` bursts old at most
        rows = range(3 * first, row + 1, 6)
        assert any((bursts.action[row] == bursts.action[one]).all() for one in rows), burst


def test_the_learner_takes_from_the_queue():
    agent = make_agent(replayed_unrolls=0)
    environments = BatchedEnvironment([CanonicalEnvironment(Sums(0)) for _ in range(2)])
    spec = EnvironmentSpec.of(environments)
    memory, learner = agent.make_memory(spec, seed=1), agent.make_learner(spec, seed=1)
    updates = agent.updates_in_turns(learner, memory, spec, 0)
    actor = agent.make_actor(spec, range(2), 2, seed=2)
    rewards = []

    def add(added):
        rewards.append(added.reward.mean())
        agent.insert(memory, actor, range(2), added, incarnation=3)

    loop = agent.acting_loop(actor, environments, add, lambda *episode: None)
    while len(rewards) < 2:
        assert updates.step() is None
        loop.step()
    metrics = updates.step()
    np.testing.assert_allclose(metrics["reward"], np.mean(rewards), rtol=1e-6)
    np.testing.assert_allclose(learner.mean, [np.mean(rewards)], rtol=1e-6)
    assert int(learner.steps) == 1 and updates.statistics.items == 0
