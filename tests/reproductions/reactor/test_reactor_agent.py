"""Reactor's policy, and the agent on a real memory: what is stored, drawn and written back."""

import dataclasses

import numpy as np
from one_process import OneProcessRun
import pytest
import tensorflow as tf
import tree

from common.environments.batch import BatchedEnvironment
from common.environments.spec import EnvironmentSpec
from common.networks import packing
from reproductions.reactor import catch
from reproductions.reactor.config import SETTINGS
from reproductions.reactor.networks import ReactorState
from reproductions.reactor.reactor import Reactor

pytestmark = pytest.mark.usefixtures("eager")
A, K, T = 3, 5, 6
SPEC = EnvironmentSpec(36 * 36, A, image_shape=(36, 36, 1), is_discrete=True)
SMALL = dict(sequence_length=T, replay_capacity=64, min_replay_size=20, num_atoms=11, v_max=2.0)


def make_agent(setting="reactor", **values):
    config = dataclasses.replace(SETTINGS.configuration(setting), **{**SMALL, **values})
    return Reactor(config, setting)


def make_environments(seed=0, count=2):
    return BatchedEnvironment([catch.make(seed + i) for i in range(count)])


def images(seed=0):
    return np.random.default_rng(seed).integers(0, 256, (K, 36, 36, 1), dtype=np.uint8)


def make_policies(agent, learner):
    """Two of the same seed, and the evaluator's."""
    policies = [agent.make_actor(SPEC, range(K), K, seed=4) for _ in range(2)]
    policies.append(agent.make_evaluator(SPEC, K))
    for policy in policies:
        policy.load(packing.to_numpy(learner.actor_variables))
    return policies


@pytest.mark.parametrize("setting", ["reactor", "reactor_stored_state"])
def test_mu_is_the_policy_when_it_acted(setting):
    """Pitfall 6: with its floor, and from the state that the frames before left."""
    agent = make_agent(setting)
    learner = agent.make_learner(SPEC, seed=1)
    policy, same, evaluator = make_policies(agent, learner)
    state, other, seen = policy.initial_state(K), policy.initial_state(K), []
    online = learner.network.initial_state(K)
    for t in range(3):
        before = state
        action, state, extras = policy(images(t), state)
        again, other, _ = same(images(t), other)
        assert action.dtype == np.int32 and action.shape == (K,)
        np.testing.assert_array_equal(action, again)
        outputs, online = learner.network.unroll(
            tf.constant(images(t)[np.newaxis]), tf.zeros([1, K], tf.bool), online
        )
        np.testing.assert_allclose(extras["mu"], outputs.policy[0], rtol=1e-5)
        np.testing.assert_allclose(extras["mu"].sum(axis=1), 1, rtol=1e-5)
        assert extras["mu"].min() >= 0.01 / A
        seen.append(extras)
        if setting == "reactor":
            assert set(extras) == {"mu"}
            tree.map_structure(
                lambda x, y: np.testing.assert_allclose(x, y, atol=1e-5), state, online.policy
            )
        else:
            assert isinstance(extras["state"], ReactorState)
            tree.map_structure(np.testing.assert_array_equal, extras["state"], before)
            tree.map_structure(
                lambda x, y: np.testing.assert_allclose(x, y, atol=1e-5), state, online
            )
    assert np.any(seen[0]["mu"] != seen[1]["mu"])
    evaluator(images(), evaluator.initial_state(K))


def test_actions_are_drawn_with_their_probabilities():
    """Also the evaluator's, and the same in every evaluator."""
    agent = make_agent()
    for policy in (agent.make_actor(SPEC, range(1), 1, seed=3), agent.make_evaluator(SPEC, 1)):
        mu = np.repeat(np.float32([[0.2, 0.05, 0.75], [0.0, 1.0, 0.0]]), 20_000, axis=0)
        actions = policy._draw(mu)
        shares = np.bincount(actions[:20_000], minlength=A) / 20_000
        np.testing.assert_allclose(shares, [0.2, 0.05, 0.75], atol=0.015)
        assert np.all(actions[20_000:] == 1)
    draws = [agent.make_evaluator(SPEC, 1)._draw(mu) for _ in range(2)]
    np.testing.assert_array_equal(*draws)


@pytest.mark.parametrize(
    "setting, values",
    [("reactor", {"png_frames": True}), ("reactor_max_priority", {}), ("reactor_stored_state", {})],
)
def test_every_memory_and_network_acts_stores_and_learns(setting, values):
    agent = make_agent(setting, sequence_length=3, **values)
    run = OneProcessRun(agent, make_environments())
    before = packing.to_numpy(run.learner.actor_variables)
    run.train(1)
    run.memory.check()
    statistics = run.memory.statistics()
    assert (statistics.items, statistics.sampled) == (statistics.inserted, 4)
    after = packing.to_numpy(run.learner.actor_variables)
    assert int(run.learner.steps) == 1
    assert np.all(np.isfinite(after)) and np.any(after != before)


def test_a_rate_limiter_holds_a_worker_to_five_acting_steps_a_learning_step():
    """Pitfall 17: 4 to 6 (section 3.4); LAST and FIRST count as steps of the memory."""
    agent = make_agent(replay_capacity=400, sequence_length=3)
    run = OneProcessRun(agent, make_environments(count=1))
    run.train(2)
    before = run.memory.statistics().inserted
    run.train(5)
    assert 4 * 5 <= run.memory.statistics().inserted - before <= 6 * 5
