"""Tests of common.data.unrolls: the adder and the queue alone, then with an agent of no paper."""

from agent_loops import make_loop
import numpy as np
import pytest
import tensorflow as tf
from timesteps import ABSENT, FIRST, LAST, MID, random_experience, timestep
from unroll_task import EPISODE_STEPS, TIMESTEPS, Sums, make_agent

from common.data.unrolls import UnrollAdder, UnrollQueue
from common.environments.batch import BatchedEnvironment
from common.environments.canonical import CanonicalEnvironment
from common.environments.spec import EnvironmentSpec
from common.replay.columns import Bytes
from common.replay.local_replay import LocalReplay
from common.replay.store import UNLIMITED

T = 3
ACTORS = range(6, 8)


# The adder.


def make_adder(k, length):
    """An adder that sends all columns and replays nothing."""
    replay = LocalReplay({}, range(0), length, length, seed=1)
    return UnrollAdder(range(k), length, lambda unrolls: unrolls, replay, 0, most_put=k)


def run(adder, step_types, rewards, discounts):
    """Feeds [N, K] arrays; the observation and the extras tell (n, k) of each timestep."""
    num_timesteps, k = step_types.shape
    unrolls = []
    # One buffer each, overwritten: an array that the adder does not copy shows.
    where, image = np.zeros((k, 2), np.float32), np.zeros((k, 2, 2), np.uint8)
    best = np.zeros((k, 3), np.float32)
    for n in range(num_timesteps):
        where[:, 0], where[:, 1], image[:], best[:] = n, np.arange(k), n, n + 0.5
        observation = {"where": where, "image": image}
        step = timestep(step_types[n], rewards[n], discounts[n], observation)
        extras = {"best": best}
        unrolls += [delivery.rows for delivery in adder.observe(step, extras)]
        adder.act(step, np.zeros((k, 1), np.float32), extras)
    where[:], image[:], best[:] = -1, 255, -1
    return unrolls


def test_random_episodes_against_every_single_timestep():
    rng = np.random.default_rng(0)
    count, k, length = 200, 3, 7
    discounts = dict.fromkeys((0, 0.5, 1), 1 / 3)
    step_types, rewards, discounts = random_experience(rng, count, k, discounts)
    unrolls = run(make_adder(k, length), step_types, rewards, discounts)
    assert len(unrolls) == (count - 1) // length  # the last one lacks the reward of its last step
    for number, unroll in enumerate(unrolls):
        for environment in range(k):
            for t in range(length):
                n = number * length + t
                place = (environment, t)
                np.testing.assert_array_equal(unroll.observation["where"][place], [n, environment])
                assert (unroll.observation["image"][place] == n).all()
                assert (unroll.extras["best"][place] == n + 0.5).all()
                is_last = step_types[n, environment] == LAST
                assert unroll.is_last[place] == is_last
                expected = (0, 0) if is_last else (rewards[n + 1], discounts[n + 1])
                expected = [np.broadcast_to(value, k)[environment] for value in expected]
                assert unroll.reward[place] == expected[0]
                assert unroll.discount[place] == expected[1]
    assert unroll.observation["image"].dtype == np.uint8
    assert unroll.reward.dtype == unroll.discount.dtype == unroll.extras["best"].dtype == np.float32
    assert unroll.is_last.dtype == bool


def test_an_episode_without_an_end_is_not_continued_by_the_next_one():
    step_types = np.array([[FIRST], [MID], [FIRST], [MID]])
    (unroll,) = run(make_adder(1, 3), step_types, np.ones((4, 1)), np.ones((4, 1)))
    np.testing.assert_array_equal(unroll.is_last, [[False, True, False]])
    np.testing.assert_array_equal(unroll.discount, [[1, 0, 1]])
    np.testing.assert_array_equal(unroll.reward, [[1, 0, 1]])


def test_no_action_is_taken_where_an_environment_is_gone():
    adder, step_types = (
        make_adder(1, 5),
        np.array([[FIRST], [MID], [ABSENT], [ABSENT], [FIRST], [MID]]),
    )
    (unroll,) = run(adder, step_types, np.array([[0], [1], [0], [0], [0], [2]]), np.ones((6, 1)))
    np.testing.assert_array_equal(unroll.is_last, [[False, True, True, True, False]])
    np.testing.assert_array_equal(unroll.discount, [[1, 0, 0, 0, 1]])
    np.testing.assert_array_equal(unroll.reward, [[1, 0, 0, 0, 2]])
    assert adder.num_steps == 2


def test_of_a_recurrent_state_an_unroll_keeps_the_first():
    adder, buffer, unrolls = make_adder(2, 3), np.zeros((2, 4), np.float32), []
    for n in range(8):
        buffer[:] = n
        step = timestep([MID] * 2, [0, 0], [1, 1], buffer)
        extras = {"best": buffer, "state": {"cell": buffer, "pair": (buffer, buffer + 1)}}
        unrolls += [delivery.rows for delivery in adder.observe(step, extras)]
        adder.act(step, buffer, extras)
    buffer[:] = -1
    assert len(unrolls) == 2
    for number, unroll in enumerate(unrolls):
        assert set(unroll.extras) == {"best"}
        assert unroll.state["cell"].shape == (2, 4)
        assert (unroll.state["cell"] == 3 * number).all()
        assert (unroll.state["pair"][1] == 3 * number + 1).all()


# The queue, beside the tests of every store in tests/remote.


def test_a_queue_keeps_copies_in_the_order_of_arrival():
    def unrolls(*marks):
        return {"x": np.repeat(np.float32(marks)[:, None], T, 1)}

    def draw(num_items):
        return queue.draw(num_items).steps["x"][:, 0].tolist()

    queue, put = UnrollQueue({"x": tf.TensorSpec([T])}, 4), unrolls(1, 2)
    assert queue.put(put) and queue.put(unrolls(3))
    put["x"][:] = 99
    assert draw(1) == [1]
    assert not queue.put(unrolls(4, 5, 6)) and queue.put(unrolls(7))
    assert queue.draw(4) is None and draw(3) == [2, 3, 7]


def test_strings_keep_zeros_at_their_ends():
    queue, texts = UnrollQueue({"text": Bytes(3)}, 2), [b"a\0", b"\0\0\0"]
    assert queue.put({"text": np.array(texts, object)})
    assert queue.draw(2).steps["text"].tolist() == texts


# With an agent.


class Run:
    """Two actors, a queue, and what is on the way to it."""

    def __init__(self, **changes):
        self.agent = agent = make_agent(**changes)
        environments = BatchedEnvironment([CanonicalEnvironment(Sums(0)) for _ in range(2)])
        self.spec = EnvironmentSpec.of(environments)
        assert self.spec.action_choices == (3, 4)
        self.queue = agent.data.make_store(agent.step_specs(self.spec), seed=1)
        policy = agent.make_actor(self.spec, ACTORS, 8, seed=2)
        self.deliveries, self.rows, self.episodes = [], [], []
        self.adder, self._loop = make_loop(
            *(agent, policy, environments, lambda *episode: self.episodes.append(episode)),
            actors=ACTORS,
            seed=1,
        )

    def act(self):
        before, deliveries = self.adder.num_steps, self._loop.step()
        assert sum(steps for _, steps in deliveries) == self.adder.num_steps - before
        self.deliveries += deliveries
        self.rows += [rows for rows, _ in deliveries]

    def put(self):
        """Puts what waits into the queue, in order; returns whether nothing is left."""
        while self.deliveries and self.queue.put(self.deliveries[0].rows):
            self.deliveries.pop(0)
        return not self.deliveries


def test_numbers_that_follow_from_the_configuration():
    agent = make_agent(updates_per_call=2)
    assert agent.samples_per_update == 20
    assert agent.data.pull_timestep == 1 and agent.data.in_lockstep
    assert agent.rate_limiter() == agent.rate_limiter(in_turns=True) == UNLIMITED


@pytest.mark.parametrize("updates_per_call, sizes", [(1, [5, 1]), (2, [1] * 6)])
def test_a_delivery_fits_while_the_learner_lacks_a_batch(updates_per_call, sizes):
    """With less room than this the learner has a call's unrolls and makes room."""
    run = Run(updates_per_call=updates_per_call, queue_capacity=8)
    while not run.rows:
        run.act()
    deliveries = run.deliveries
    assert [len(delivery.rows.reward) for delivery in deliveries] == sizes
    # The steps count once the queue has all that they brought.
    steps = [delivery.steps for delivery in deliveries]
    assert steps == [0] * (len(sizes) - 1) + [run.adder.num_steps] and steps[-1]
    for _ in range(20):
        while not run.put():
            assert run.queue.draw(updates_per_call * 4) is not None
        run.act()


def test_a_queue_smaller_than_a_call():
    agent = make_agent(updates_per_call=2, queue_capacity=7)
    with pytest.raises(ValueError, match="takes 8 unrolls, but the queue holds 7: raise queue"):
        agent.data.make_store(agent.step_specs(EnvironmentSpec(1, 2)), seed=0)
    agent.config.queue_capacity = 8
    assert agent.data.make_store(agent.step_specs(EnvironmentSpec(1, 2)), 0)


def test_acts_and_fills_the_queue_with_new_and_replayed_unrolls():
    """Each of two actors gives an unroll and two others of its own, every five timesteps."""
    run = Run(queue_capacity=TIMESTEPS * 2 * 3)
    for _ in range(5 * TIMESTEPS + 1):
        run.act()
    assert run.put() and run.queue.counters().items == TIMESTEPS * 2 * 3
    assert run.adder.num_steps == 2 * 5 * EPISODE_STEPS
    drawn = run.queue.draw(TIMESTEPS * 2 * 3).steps
    fresh = drawn.reward[::3].reshape(TIMESTEPS, 2, 5)
    returns = [
        sum(episode[1] for episode in run.episodes if episode[0] == actor) for actor in range(2)
    ]
    np.testing.assert_allclose(fresh.sum(axis=(0, 2)), returns)
    is_last = drawn.is_last[::3].reshape(TIMESTEPS, 2, 5).swapaxes(0, 1).reshape(2, -1)
    assert (np.flatnonzero(is_last[0]) % TIMESTEPS == TIMESTEPS - 1).all()
    for row in range(len(drawn.reward)):
        unroll, own = divmod(row, 6)
        first = own // 3  # of an actor's unrolls; its others are `unroll` unrolls old at most
        rows = range(3 * first, row + 1, 6)
        assert any((drawn.action[row] == drawn.action[other]).all() for other in rows), unroll


def test_the_learner_takes_from_the_queue():
    run = Run(replayed_unrolls=0)
    learner = run.agent.make_learner(run.spec, seed=1)
    limiter = run.agent.rate_limiter(in_turns=True)
    trainer = run.agent.make_trainer(learner, run.queue, run.spec, 0, limiter)
    while len(run.rows) < 2:
        assert trainer.step() is None
        run.act()
        assert run.put()
    metrics = trainer.step()
    mean = np.mean([rows.reward.mean() for rows in run.rows])
    np.testing.assert_allclose(metrics["reward"], mean, rtol=1e-6)
    np.testing.assert_allclose(learner.mean, [mean], rtol=1e-6)
    assert int(learner.steps) == 1 and run.queue.counters().items == 0
