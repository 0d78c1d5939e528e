"""Reactor's policy, and the agent on a real memory: what is stored, drawn and written back."""

import dataclasses

from agent_loops import make_loop
import numpy as np
from one_process import OneProcessRun
import pytest
import tensorflow as tf
import tree

from common.environments.batch import BatchedEnvironment
from common.environments.spec import EnvironmentSpec
from common.networks import packing
from common.replay.memory import UNKNOWN_PRIORITY, Fifo, Uniform
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


def test_sequences_overlap_and_come_back_as_they_were():
    """As raw frames and as PNG files: 2 environments, whose rows never mix."""
    batches = []
    for png_frames in (False, True):
        agent = make_agent(png_frames=png_frames)
        run = OneProcessRun(agent, make_environments())
        for _ in range(20):
            run.act()
        sample = run.memory.sample(32, seed=3, max_length=T)
        steps = agent.decode(sample.steps, SPEC) if agent.decodes else sample.steps
        steps = tree.map_structure(lambda column: column.numpy(), steps)
        assert steps.observation.shape == (32, T, 36, 36, 1) and steps.observation.dtype == np.uint8
        assert steps.extras["mu"].shape == (32, T, A)
        batches.append(steps)
    tree.map_structure(np.testing.assert_array_equal, *batches)
    steps = batches[0]
    first, last = steps.step_type == 0, steps.step_type == 2
    assert np.any(first[:, 1:]) and np.all(first[:, 1:] == last[:, :-1])
    assert not np.any(steps.discount[first]) and not np.any(steps.discount[last])
    np.testing.assert_allclose(steps.discount[steps.step_type == 1], 0.99)
    assert set(np.unique(steps.reward[last])) <= {-1.0, 1.0} and not np.any(steps.reward[~last])
    balls = steps.observation[..., 0, :, 0] == 255  # in the first row at FIRST only
    np.testing.assert_array_equal(balls.any(axis=2), first)


def test_a_memorys_distributions_are_the_settings():
    sample = {name: make_agent(name).data.distributions["sample"] for name in SETTINGS.names}
    tree_ = sample.pop("reactor")
    assert (tree_.kind, tree_.exponent, tree_.uniform_mix) == ("contextual", 1.0, 0.1)
    assert sample.pop("reactor_uniform") == Uniform()
    largest = sample.pop("reactor_max_priority")
    assert (largest.kind, largest.exponent, largest.uniform_mix) == ("proportional", 1.0, 0.1)
    assert all(each == tree_ for each in sample.values())
    assert make_agent().data.distributions["remove"] == Fifo()


def test_items_are_of_unknown_priority():
    agent = make_agent()
    policy = agent.make_actor(SPEC, range(1), 1, seed=0)
    _, loop = make_loop(agent, policy, make_environments(count=1))
    while not (deliveries := loop.step()):
        pass
    ((items, _),) = deliveries
    assert items.priorities.tolist() == [UNKNOWN_PRIORITY]
    assert items.item_lengths.tolist() == [T] and items.item_keys.tolist() == [items.keys[0]]
    assert len(items.keys) == T


def test_what_the_programs_ask_it_for():
    agent = Reactor.of_run({"setting": "reactor_nd", "config": {"distributional": False}})
    found = agent.declaration.paper, agent.setting, agent.declaration.num_frames
    assert found == ("reactor", "reactor_nd", 1)
    assert (agent.data.sequence_length, agent.batch_size) == (33, 4)
    assert (agent.samples_per_insert, agent.actor_period) == (0.8, 1)
    adder = agent.data.make_adder(actors=range(1))
    assert (adder._length, adder._reward_clip, adder._gamma) == (33, 1.0, 0.99)
    assert (agent.target_period, agent.jit_compile, agent.decodes) == (1000, False, False)
    assert make_agent(reward_clip=0.0).data.make_adder(actors=range(1))._reward_clip == np.inf
    agent.declaration.require_spec(agent.config, SPEC)
    with pytest.raises(ValueError, match="--environment has flat .* needs discrete"):
        agent.declaration.require_spec(agent.config, EnvironmentSpec(3, 2))
    with pytest.raises(ValueError, match="2 continuous actions, but .* discrete"):
        agent.declaration.require_spec(
            agent.config, EnvironmentSpec(1296, 2, image_shape=(36, 36, 1))
        )
    with pytest.raises(ValueError, match="no hyperparameter sequence_lenght"):
        Reactor.of_run({"setting": "reactor", "config": {"sequence_lenght": 1}})


def test_a_rate_limiter_holds_a_worker_to_five_acting_steps_a_learning_step():
    """Pitfall 17: 4 to 6 (section 3.4); LAST and FIRST count as steps of the memory."""
    agent = make_agent(replay_capacity=400, sequence_length=3)
    run = OneProcessRun(agent, make_environments(count=1))
    run.train(2)
    before = run.memory.statistics().inserted
    run.train(5)
    assert 4 * 5 <= run.memory.statistics().inserted - before <= 6 * 5
