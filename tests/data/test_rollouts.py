"""Tests of common.data.rollouts: adder, store, and loops in turns, here and elsewhere."""

import dm_env
import numpy as np
import pytest
import tensorflow as tf
from timesteps import ABSENT, FIRST, LAST, MID, random_experience, timestep

from common.acting.loop import ActingLoop
from common.acting.policy import Policy
from common.data.data import StoredState
from common.data.rollouts import Rollout, RolloutAdder, Rollouts, RolloutStore
from common.learning.learner import Gradients
from common.learning.trainer import Trainer
from common.learning.updates import RolloutLearner, RolloutUpdates
from common.replay.store import Counters

HORIZON, EPOCHS, BATCH = 12, 3, 4
STATES = StoredState(tf.TensorSpec([1]), tf.TensorSpec([1]), {})
GAMMA, LAMBDA = 0.9, 0.8
COLUMNS = {"x": tf.TensorSpec([])}


# The adder, fed by hand.


def experience(num_timesteps, k, seed=0, ends=1.0):
    """Returns T timesteps of k environments and the policy's values at them."""
    rng = np.random.default_rng(seed)
    columns = random_experience(rng, num_timesteps, k, {0.0: 0.3, 1.0: 0.7}, ends)
    numbers = np.arange(num_timesteps * k, dtype=np.float32).reshape(num_timesteps, k, 1)
    return [timestep(*row) for row in zip(*columns, numbers)], rng.normal(size=[num_timesteps, k])


def feed(adder, timesteps, values):
    """Returns all deliveries; versions are the number of those before."""
    found, version = [], 0
    for step, value in zip(timesteps, values):
        deliveries = adder.observe(step, extras(value, version))
        found += deliveries
        version += len(deliveries)
        # As the loop does: the extras of the policy that acts, which is another one after a cut.
        adder.act(step, 10 * step.observation, extras(value, version))
    return found


def extras(value, version):
    full = np.full(len(value), version, np.float32)
    return {"value": value.astype(np.float32), "version": full, "mean": full[:, None]}


def expected(timesteps, values, begin, end, gamma=GAMMA, lambda_=LAMBDA):
    """Returns the advantages of the steps from begin to end by observation: the plain sums."""
    found = {}
    for k in range(len(timesteps[0].step_type)):
        for t in range(begin, end):
            if timesteps[t + 1].step_type[k] == FIRST:
                continue
            total, weight = 0.0, 1.0
            for after in range(t + 1, end + 1):
                step = timesteps[after]
                if step.step_type[k] == FIRST:
                    break
                error = step.reward[k] + gamma * step.discount[k] * values[after, k]
                total += weight * (error - values[after - 1, k])
                weight *= gamma * lambda_ * step.discount[k]
                if step.step_type[k] == LAST:
                    break
            found[float(timesteps[t].observation[k, 0])] = total
    return found


@pytest.mark.parametrize("ends", [1.0, 0.5])
def test_the_advantages_are_sums_within_fragments(ends):
    timesteps, values = experience(41, 3, ends=ends)
    ((rollout, num_steps),) = feed(RolloutAdder(60, GAMMA, LAMBDA), timesteps, values)[:1]
    steps = rollout.steps
    observations = steps.states.observation[:, 0]
    end = int(observations[-1]) // 3 + 1
    wanted = expected(timesteps, values, 0, end)
    assert len(observations) == 60 and 60 <= num_steps == len(wanted) <= 62
    np.testing.assert_allclose(
        steps.advantages, [wanted[observation] for observation in observations], rtol=2e-4
    )
    np.testing.assert_array_equal(steps.states.action[:, 0], 10 * observations)
    rows = observations.astype(int) // 3, observations.astype(int) % 3
    np.testing.assert_allclose(steps.values, values[rows], rtol=1e-6)
    rewards = np.array([step.reward for step in timesteps[1:]])
    np.testing.assert_array_equal(steps.rewards, rewards[rows])
    assert (np.diff(observations) > 0).all()  # in the order of time


def test_rollouts_follow_without_gap_and_have_one_version():
    timesteps, values = experience(201, 1, seed=1)
    adder = RolloutAdder(25, GAMMA, LAMBDA)
    rollouts, num_steps = zip(*feed(adder, timesteps, values))
    assert len(rollouts) >= 6
    is_step = [after.step_type[0] != FIRST for after in timesteps[1:]]
    observations = np.concatenate([rollout.steps.states.observation[:, 0] for rollout in rollouts])
    np.testing.assert_array_equal(observations, np.flatnonzero(is_step)[: len(observations)])
    assert set(num_steps) == {25} and adder.num_steps == 25 * len(rollouts)
    for version, rollout in enumerate(rollouts):
        assert rollout.version.dtype == np.int64 and (rollout.version == version).all()
        assert (rollout.steps.states.extras["mean"] == version).all()


def test_a_true_end_a_time_limit_and_a_cut():
    """V of the last state counts but after a true end."""
    ones = np.ones((1, 1), np.float32)

    def alone(step_type, reward=0.0, discount=1.0):
        return timestep([step_type], [reward], [discount], ones)

    timesteps = [
        alone(FIRST),
        alone(LAST, 1, 0),
        alone(FIRST),
        alone(LAST, 2, 1),
        alone(FIRST),
        alone(MID, 3),
    ]
    values = np.array([[10.0], [20], [30], [40], [50], [60]])
    ((rollout, _),) = feed(RolloutAdder(3, GAMMA, LAMBDA), timesteps, values)
    errors = [1 - 10, 2 + 0.9 * 40 - 30, 3 + 0.9 * 60 - 50]
    np.testing.assert_allclose(rollout.steps.advantages, errors, rtol=1e-6)


def test_no_step_leads_to_where_an_environment_is_gone():
    step_types = [FIRST, MID, ABSENT, ABSENT, FIRST, MID, MID]
    timesteps = [
        timestep([step_type], [float(step_type == MID)], [1.0], np.full((1, 1), number, np.float32))
        for number, step_type in enumerate(step_types)
    ]
    values = np.array([[10.0], [20], [30], [40], [50], [60], [70]])
    ((rollout, num_steps),) = feed(RolloutAdder(3, GAMMA, 0.0), timesteps, values)
    np.testing.assert_array_equal(rollout.steps.states.observation[:, 0], [0, 4, 5])
    errors = [1 + 0.9 * after - value for value, after in ((10, 20), (50, 60), (60, 70))]
    np.testing.assert_allclose(rollout.steps.advantages, errors, rtol=1e-6)
    assert num_steps == 3


def test_unrolls_within_a_rollout_take_the_value_for_the_rest():
    timesteps, values = experience(30, 2, seed=2)
    adder = RolloutAdder(24, GAMMA, 1.0, unroll_length=4)
    steps = feed(adder, timesteps, values)[0].rows.steps
    observations = steps.states.observation[:, 0]
    end = int(observations[-1]) // 2 + 1
    wanted = {}
    for begin in range(0, end, 4):
        wanted |= expected(timesteps, values, begin, min(begin + 4, end), lambda_=1.0)
    np.testing.assert_allclose(
        steps.advantages, [wanted[observation] for observation in observations], rtol=2e-4
    )


# The store, beside the tests of every store in tests/remote: the versions of its steps.


def rows(version, *marks):
    return Rollout(np.full(len(marks), version), {"x": np.float32(marks)})


def marks(drawn):
    assert len(set(drawn.version.tolist())) == 1
    return drawn.steps["x"].tolist()


def test_a_draw_drops_the_others():
    store = RolloutStore(COLUMNS, 8)
    assert store.put(rows(0, *range(6))) and not store.put(rows(0, 6, 7, 8))
    assert store.draw(7) is None and store.counters() == Counters(6, 6)
    assert marks(store.draw(4)) == [0, 1, 2, 3]
    assert store.counters() == Counters(0, 6, 4, removed=2)
    assert store.draw(1) is None and store.put(rows(1, *range(8)))


def test_steps_of_a_drawn_version_are_dropped():
    """An actor that was killed has sent twice, so that another comes too late."""
    store = RolloutStore(COLUMNS, 8)
    assert store.put(rows(0, 1, 2)) and store.put(rows(0, 3, 4))
    assert marks(store.draw(4)) == [1, 2, 3, 4]
    assert store.put(rows(0, 5, 6)) and store.counters() == Counters(0, 6, 4, removed=2)
    assert store.put(rows(1, 7, 8)) and store.put(rows(0, 9, 10)) and store.put(rows(1, 11, 12))
    assert marks(store.draw(4)) == [7, 8, 11, 12]


def test_steps_of_another_version_replace_those_held():
    """The learner has returned to a checkpoint while steps of before are on their way."""
    store = RolloutStore(COLUMNS, 8)
    assert store.put(rows(9, *range(7)))
    assert store.put(rows(5, 7, 8, 9)) and store.counters() == Counters(3, 10, removed=7)
    assert marks(store.draw(3)) == [7, 8, 9]


def test_a_store_that_follows_a_learner_takes_steps_of_its_version_alone():
    """It has returned to checkpoint 5; one actor sends steps of before, early, another late."""
    version = 5
    store = RolloutStore(COLUMNS, 8)
    store.follow(lambda: version)
    assert store.put(rows(8, 0, 1)) and store.put(rows(5, 2, 3)) and store.put(rows(8, 4, 5))
    assert store.draw(4) is None and store.put(rows(5, 6, 7))
    assert marks(store.draw(4)) == [2, 3, 6, 7]
    assert store.put(rows(5, 8, 9)) and store.counters() == Counters(0, 10, 4, removed=6)
    version = 6
    assert store.put(rows(6, 10, 11)) and marks(store.draw(2)) == [10, 11]


# The loops.


class Counting:
    """Environments whose observation is the number of the step in the episode, as is the reward."""

    def __init__(self, lengths):
        self.lengths = np.array(lengths)
        self.num_environments = len(lengths)
        self.times = np.zeros(len(lengths), np.int64)

    def reset(self):
        return self._timestep()

    def step(self, action):
        assert action.shape == (self.num_environments, 1)
        self.times = np.where(self.times == self.lengths, 0, self.times + 1)
        return self._timestep()

    def _timestep(self):
        is_last = self.times == self.lengths
        step_type = np.where(is_last, 2, np.where(self.times == 0, 0, 1)).astype(np.int32)
        times = self.times.astype(np.float32)
        return dm_env.TimeStep(step_type, times, np.float32(~is_last), times[:, None].copy())


class Versioned(Policy):
    """A policy whose action and value tell the version of its parameters."""

    version = 0

    def load(self, flat):
        self.version = int(flat[0])

    def __call__(self, observation, state=()):
        version = np.full(len(observation), self.version, np.float32)
        extras = {"version": version, "value": 100 * version + observation[:, 0]}
        return version[:, None].copy(), state, extras


class Recorder(RolloutLearner):
    """A learner that keeps all batches and whose parameter is the number of its rollouts."""

    def __init__(self):
        super().__init__()
        self.version = tf.Variable(0.0)
        self.calls, self.batches = [], {}

    @property
    def actor_variables(self):
        return (self.version,)

    def prepare(self, rollout):
        self.calls.append(("prepare", int(self.steps)))

    def begin(self, rollout):
        return rollout

    def gradients(self, batch):
        # Without the step they would come in any order: nothing else here depends on the last.
        tf.numpy_function(self._keep, [self.steps.read_value(), *self.flat(batch.steps)], [])
        return Gradients((), (), {"mean_reward": tf.reduce_mean(batch.steps.rewards)})

    def _keep(self, step, *leaves):
        self.batches[int(step)] = [leaf.copy() for leaf in leaves]  # their memory is used again

    def seen(self):
        """Returns the columns [updates * batch] of all updates in their order."""
        assert sorted(self.batches) == list(range(int(self.steps)))
        batches = [self.batches[step] for step in sorted(self.batches)]
        return [np.concatenate(column) for column in zip(*batches)]

    def apply(self, gradients):
        self.steps.assign_add(1)

    def end(self, steps):
        self.version.assign_add(1.0)
        return {"last_reward": steps.rewards[-1]}

    @staticmethod
    def flat(steps):
        return [steps.states.observation[:, 0], steps.states.action[:, 0], steps.values]


def make_trainer(data, store, learner, seed=0):
    updates = RolloutUpdates(
        learner, HORIZON, BATCH, EPOCHS * HORIZON // BATCH, seed, jit_compile=False
    )
    return Trainer(store, updates, learner.steps, data.rate_limiter(0, None))


def run(lengths, num_rollouts, seed=0):
    """Returns the columns [rollouts, epochs, horizon] that the learner has seen."""
    data, learner, policy = Rollouts(HORIZON, 0.9, 0.8), Recorder(), Versioned()
    store, waiting = data.make_store(STATES, seed=0), []
    trainer = make_trainer(data, store, learner, seed)
    loop = ActingLoop(Counting(lengths), policy, data.make_adder(), lambda *_: None)
    while int(learner.version) < num_rollouts:
        metrics = trainer.step()
        if metrics is not None:
            assert metrics.keys() == {"mean_reward", "last_reward"}
            policy.load(learner.version.numpy()[None])
            assert store.counters().items == 0
        waiting += loop.step()
        while waiting and store.put(waiting[0].rows):
            waiting.pop(0)
        assert not waiting
    calls = [("prepare", EPOCHS * HORIZON // BATCH * i) for i in range(num_rollouts)]
    assert learner.calls == calls
    return [column.reshape(num_rollouts, EPOCHS, HORIZON) for column in learner.seen()]


def test_all_steps_of_a_rollout_have_one_version_and_none_is_lost():
    observation, action, values = run([1000], 3)
    for i in range(3):
        for epoch in range(EPOCHS):
            wanted = np.arange(i * HORIZON, (i + 1) * HORIZON)
            np.testing.assert_array_equal(np.sort(observation[i, epoch]), wanted)
            np.testing.assert_array_equal(values[i, epoch], observation[i, epoch] + 100 * i)
        assert (action[i] == i).all()
        assert len({tuple(epoch) for epoch in observation[i]}) == EPOCHS  # orders of their own


def test_versions_with_several_actors_and_ends():
    _, action, _ = run([5, 1000, 7], 3)
    for i in range(3):
        assert (action[i] == i).all()


def test_orders_follow_from_the_seed():
    first, again, other = (run([1000], 2, seed)[0] for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.parametrize("num_actors, wanted", [(12, [7, 5]), (7, [7, 6]), (10_000, [1, 1])])
def test_shares_of_processes_fill_a_rollout(num_actors, wanted):
    data = Rollouts(HORIZON, 0.9, 0.8)
    sizes = {12: (7, 5), 7: (4, 3), 10_000: (1, 1)}[num_actors]
    shares = [data.make_adder(share=k / num_actors)._size for k in sizes]
    assert shares == wanted
