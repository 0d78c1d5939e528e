"""The rules of ReF-ER, and what its learners have in common."""

import dataclasses

from float64_networks import assert_all_equal, values_of
import numpy as np
import pytest
from refer_learners import (
    HISTORY,
    RECURRENT,
    STEPS,
    A,
    B,
    D,
    make_batch,
    make_config,
    make_learner,
    make_windows,
    metrics_of,
    new_learner,
)
import tensorflow as tf

from common.config import from_values
from common.data.data import StoredState
from common.learning.updates import UpdateLoop
from common.types import Batch
from reproductions.refer import rules
from reproductions.refer.config import ReferConfig

AGENTS = ("vracer", "naf", "ddpg")


@pytest.mark.parametrize("steps, expected", [(0, 5.0), (2_000_000, 3.0), (10_000_000, 1 + 4 / 6)])
def test_c_max_and_rates_anneal_by_environment_steps(steps, expected):
    """Equation 13 with C = 4 and A = 5e-7: whatever F, 10 million steps end at 1.67 (figure 7)."""
    for F in (0.2, 4.0):
        config, learner = make_learner("ddpg_refer", steps_per_update=F)
        learner.steps.assign(round(steps / F))
        learner.anneal()
        np.testing.assert_allclose(learner.c_max(), expected, rtol=1e-6)
        part = (expected - 1) / 4
        rates = learner.learning_rate, learner.policy_learning_rate
        np.testing.assert_allclose(rates, [part * 1e-4, part * 1e-5], rtol=1e-6)
        assert config.annealing_per_update == pytest.approx(5e-7 * F)


@pytest.mark.parametrize("F, at_the_end", [(0.2, 1 + 4 / 26), (4.0, 1 + 4 / 2.25)])
def test_the_authors_program_anneals_by_updates(F, at_the_end):
    _, learner = make_learner("vracer_refer", steps_per_update=F, annealed_by="updates")
    learner.steps.assign(round(10_000_000 / F))
    np.testing.assert_allclose(learner.c_max(), at_the_end, rtol=1e-6)


@pytest.mark.parametrize("F, then", [(1.0, "steps"), (0.5, "updates")])
def test_runs_before_the_choice_were_annealed_by_updates(F, then):
    values = dataclasses.asdict(make_config("vracer_refer", steps_per_update=F))
    del values["annealed_by"]
    assert from_values(ReferConfig, values).annealed_by == then  # with F = 1 both are the same


def test_the_bounds_themselves_are_far():
    rho = tf.constant([0.1, 0.25, 0.2500001, 1.0, 3.9999, 4.0, 9.0])
    for gate, expected in ((True, [0, 0, 1, 1, 1, 0, 0]), (False, np.ones(7))):
        mask = rules.Rules(beta=0.5, c_max=4.0, gate=gate).mask(rho)
        np.testing.assert_array_equal(mask, expected)


def test_beta_falls_while_too_much_is_far_and_rises_otherwise():
    beta = tf.constant(0.5, tf.float64)
    np.testing.assert_allclose(rules.next_beta(beta, 0.11, 0.1, 0.01), 0.495)
    np.testing.assert_allclose(rules.next_beta(beta, 0.1, 0.1, 0.01), 0.505)  # D itself is not far


def test_beta_stays_within_0_and_1():
    for beta, far in ((0.0, 1.0), (1.0, 0.0)):
        assert float(rules.next_beta(tf.constant(beta), tf.constant(far), 0.1, 0.3)) == beta


def alone(steps, row):
    """A step without the rows that do not belong to its window, which then is its whole history."""
    begin = HISTORY - int(steps.lengths[row])
    states = tf.nest.map_structure(lambda c: c[row : row + 1, begin:], steps.states)
    return steps._replace(
        states=states, **{n: getattr(steps, n)[row : row + 1] for n in steps._fields[1:]}
    )


@pytest.mark.parametrize("setting", ["vracer_refer", "ddpg_refer", "naf_refer"])
def test_a_recurrent_loss_is_that_of_each_steps_own_window(setting):
    _, learner = make_learner(setting, **RECURRENT)
    batch = make_windows()
    together = learner.gradients(batch)
    parts = [
        learner.gradients(Batch(alone(batch.steps, row), batch.probabilities[:1], batch.size))
        for row in range(B)
    ]
    for name in rules.Refresh._fields:
        expected = np.concatenate([getattr(part.outputs, name) for part in parts])
        if name == "next_values":  # a batch computes them if one of its steps needs it
            expected = expected * batch.steps.bootstraps.numpy()
        found = getattr(together.outputs, name)
        found = found * batch.steps.bootstraps.numpy() if name == "next_values" else found
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5, err_msg=name)
    gradients = [tf.nest.flatten(part.gradients) for part in (together, *parts)]
    for found, *each in zip(*gradients, strict=True):
        np.testing.assert_allclose(found, np.mean(each, 0), rtol=1e-3, atol=2e-5)


def online_and_slow(learner, agent):
    """Variables, and those that move slowly towards them."""
    if agent == "vracer":
        return (), ()
    if agent == "naf":
        return learner.network.parameters, learner.target_network.parameters
    return learner.online_and_slow


@pytest.mark.parametrize("agent", AGENTS)
def test_an_update_anneals_steps_and_moves_targets_and_beta(agent):
    config, learner = make_learner(f"{agent}_refer", learning_rate=1e-3, policy_learning_rate=1e-4)
    variables = learner.policy_variables
    before, beta = values_of(variables), float(learner.beta)
    online, slow = online_and_slow(learner, agent)
    old = values_of(slow)
    _, metrics = learner.update(make_batch())
    assert int(learner.steps) == STEPS + 1
    # Adam's first step is the learning rate, annealed, times the sign of the gradient.
    rate = (1e-4 if agent == "ddpg" else 1e-3) / (1 + 5e-7 * STEPS)
    change = np.concatenate([np.abs(v - b).ravel() for v, b in zip(variables, before)])
    assert change.max() <= 1.001 * rate
    np.testing.assert_allclose(np.median(change), rate, rtol=1e-2)
    # Of the replay 0.2 are far, more than D = 0.1; beta moves with the critic's rate.
    rate = 1e-3 / (1 + 5e-7 * STEPS)
    np.testing.assert_allclose(learner.beta, (1 - rate) * beta, rtol=1e-6)
    for s, o, v in zip(slow, old, online, strict=True):
        np.testing.assert_allclose(s, 0.99 * o + 0.01 * v.numpy(), rtol=1e-5, atol=1e-7)
    expected = {
        "kl_divergence": 1.5,
        "far_policy_fraction": 0.2,
        "beta": config.initial_beta,
        "c_max": 1 + 4 / 1.5,
        "learning_rate": rate,
        "reward_scale": 3.0,
    }
    assert list(metrics) == metrics_of(config)
    for name, value in expected.items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("agent", AGENTS)
def test_actors_get_the_moments_and_the_networks_that_act(agent):
    _, learner = make_learner(f"{agent}_refer")
    mean, deviation, *variables = learner.actor_variables
    assert mean is learner.standardizer.mean and deviation is learner.standardizer.deviation
    assert variables == list(learner.policy_variables)
    before = values_of(variables)
    learner.update(make_batch())
    assert all(np.any(v.numpy() != b) for v, b in zip(variables, before))


@pytest.mark.parametrize("setting", ["naf_er", "ddpg_er", "acer_lr1e-05"])
def test_slow_networks_begin_as_copies(setting):
    learner = new_learner(make_config(setting, hidden_size=4))
    assert_all_equal(*map(values_of, online_and_slow(learner, setting.split("_")[0])))


def test_optimisers_have_the_configured_constants():
    _, learner = make_learner(
        "vracer_refer", adam_beta1=0.5, adam_beta2=0.75, adam_epsilon=0.01, annealing=0.0
    )
    batch = make_batch()
    (gradient, *_), before = (
        learner.gradients(batch).gradients,
        learner.network.parameters[0].numpy(),
    )
    learner.update(batch)
    expected = before - 1e-4 * gradient / (np.abs(gradient) + 0.01)
    np.testing.assert_allclose(learner.network.parameters[0], expected, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("agent", AGENTS)
def test_a_checkpoint_has_networks_targets_optimisers_moments_and_beta(agent, tmp_path):
    (_, saved), (_, fresh) = (make_learner(f"{agent}_refer", seed) for seed in range(2))
    saved.update(make_batch())
    saved.standardizer.set(np.ones(D), np.full(D, 4.0))
    path = tf.train.Checkpoint(learner=saved).write(str(tmp_path / "checkpoint"))
    tf.train.Checkpoint(learner=fresh).read(path).assert_consumed()
    assert_all_equal(values_of(fresh.variables), values_of(saved.variables))
    assert float(fresh.beta) != fresh._config.initial_beta
    saved.update(make_batch(1)), fresh.update(make_batch(1))
    assert_all_equal(values_of(fresh.variables), values_of(saved.variables))


@pytest.mark.parametrize(
    "setting, values",
    [("vracer_refer", {"advantage": "quadratic"}), ("ddpg_refer", {}), ("vracer_refer", RECURRENT)],
)
def test_a_compiled_update_is_an_eager_one(setting, values):
    """As the learner's process runs it, the MLPs under XLA."""
    (_, compiled), (_, eager) = (
        make_learner(setting, learning_rate=1e-2, **values) for _ in range(2)
    )
    batch = make_windows() if "recurrent" in values else make_batch()
    loop = UpdateLoop(compiled.update, 1, B, jit_compile="recurrent" not in values)
    outputs, metrics = loop.learn(batch)
    expected, expected_metrics = eager.update(batch)
    for name in rules.Refresh._fields:
        found, wanted = getattr(outputs, name), getattr(expected, name)
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5, err_msg=name)
    for c, e in zip(compiled.variables, eager.variables, strict=True):
        np.testing.assert_allclose(c, e, rtol=1e-3, atol=1e-5)
    for name, value in expected_metrics.items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-3, err_msg=name)


OPTIMUM = np.array([0.5, -0.3], np.float32)


@pytest.mark.parametrize("agent", ["vracer", "ddpg"])
def test_the_mean_goes_to_the_best_action_of_a_bandit(agent):
    """An action ends the episode, with a reward of minus its squared distance from the optimum."""
    config = make_config(
        f"{agent}_refer",
        hidden_size=16,
        learning_rate=1e-2,
        policy_learning_rate=3e-3,
        initial_beta=1.0,
        sigma=0.6,
    )
    tf.random.set_seed(0)
    learner = new_learner(config)
    batch, state = make_batch(size=64, bootstraps=False), tf.zeros([1, D])

    def policy():
        variance = tf.fill([A], 0.36)
        if agent == "ddpg":
            return learner.networks.policy(state), variance
        if agent == "vracer":
            variance = learner.network.variance
        return learner.network(state).mean, variance

    @tf.function
    def train(num_updates):
        for i in tf.range(num_updates):
            mean, variance = policy()
            noise = tf.random.stateless_normal([64, A], [0, i])
            action = mean + tf.sqrt(variance) * noise
            rewards = -tf.reduce_sum(tf.square(action - OPTIMUM), axis=-1)
            extras = {"mean": tf.tile(mean, [64, 1]), "variance": tf.ones([64, 1]) * variance}
            steps = batch.steps._replace(
                states=StoredState(tf.zeros([64, D]), action, extras),
                rewards=rewards,
                q_ret=rewards,
                discounts=tf.zeros([64]),
            )
            learner.update(batch._replace(steps=steps))

    train(900)
    mean, _ = policy()
    np.testing.assert_allclose(mean[0], OPTIMUM, atol=0.07)
