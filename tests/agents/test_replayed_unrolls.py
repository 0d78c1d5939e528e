"""Tests of common.data.unrolls, by an agent of no paper."""

import numpy as np
import pytest
from unroll_task import EPISODE_STEPS, TIMESTEPS, Sums, make_agent

from common.environments.batch import BatchedEnvironment
from common.environments.canonical import CanonicalEnvironment
from common.environments.spec import EnvironmentSpec
from common.replay.store import UNLIMITED

ACTORS = range(6, 8)


class Run:
    """Two actors, a queue, and what is on the way to it."""

    def __init__(self, **changes):
        self.agent = agent = make_agent(**changes)
        environments = BatchedEnvironment([CanonicalEnvironment(Sums(0)) for _ in range(2)])
        self.spec = EnvironmentSpec.of(environments)
        assert self.spec.action_choices == (3, 4)
        self.queue = agent.make_store(self.spec, seed=1)
        policy = agent.make_actor(self.spec, ACTORS, 8, seed=2)
        self.writer = agent.make_writer(policy, ACTORS, self.spec, seed=1)
        self.added, self.deliveries, self.episodes = [], [], []
        self.loop = agent.acting_loop(
            policy, environments, self._add, lambda *episode: self.episodes.append(episode)
        )

    def _add(self, added):
        self.added.append(added)
        deliveries = list(self.writer.add(added))
        assert sum(steps for _, steps in deliveries) == self.writer.count_steps(added)
        self.deliveries += deliveries

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
    while not run.added:
        run.loop.step()
    deliveries = run.deliveries
    assert [len(delivery.rows.reward) for delivery in deliveries] == sizes
    # The steps count once the queue has all that they brought.
    steps = [delivery.steps for delivery in deliveries]
    assert steps == [0] * (len(sizes) - 1) + [run.writer.count_steps(run.added[0])] and steps[-1]
    for _ in range(20):
        while not run.put():
            assert run.queue.draw(updates_per_call * 4) is not None
        run.loop.step()


def test_a_queue_smaller_than_a_call():
    agent = make_agent(updates_per_call=2, queue_capacity=7)
    with pytest.raises(ValueError, match="takes 8 unrolls, but the queue holds 7: raise queue"):
        agent.make_store(EnvironmentSpec(1, 2), seed=0)
    assert make_agent(updates_per_call=2, queue_capacity=8).make_store(EnvironmentSpec(1, 2), 0)


def test_acts_and_fills_the_queue_with_new_and_replayed_unrolls():
    """Each of two actors gives an unroll and two others of its own, every five timesteps."""
    run = Run(queue_capacity=TIMESTEPS * 2 * 3)
    for _ in range(5 * TIMESTEPS + 1):
        run.loop.step()
    assert run.put() and run.queue.counters().items == TIMESTEPS * 2 * 3
    assert sum(map(run.writer.count_steps, run.added)) == 2 * 5 * EPISODE_STEPS
    drawn = run.queue.draw(TIMESTEPS * 2 * 3).steps
    fresh = drawn.reward[::3].reshape(TIMESTEPS, 2, 5)
    returns = [sum(one[1] for one in run.episodes if one[0] == actor) for actor in range(2)]
    np.testing.assert_allclose(fresh.sum(axis=(0, 2)), returns)
    is_last = drawn.is_last[::3].reshape(TIMESTEPS, 2, 5).swapaxes(0, 1).reshape(2, -1)
    assert (np.flatnonzero(is_last[0]) % TIMESTEPS == TIMESTEPS - 1).all()
    for row in range(len(drawn.reward)):
        unroll, own = divmod(row, 6)
        first = own // 3  # of an actor's unrolls; its others are `unroll` unrolls old at most
        rows = range(3 * first, row + 1, 6)
        assert any((drawn.action[row] == drawn.action[one]).all() for one in rows), unroll


def test_the_learner_takes_from_the_queue():
    run = Run(replayed_unrolls=0)
    learner = run.agent.make_learner(run.spec, seed=1)
    limiter = run.agent.rate_limiter(in_turns=True)
    trainer = run.agent.make_trainer(learner, run.queue, run.spec, 0, limiter)
    while len(run.added) < 2:
        assert trainer.step() is None
        run.loop.step()
        assert run.put()
    metrics = trainer.step()
    mean = np.mean([added.reward.mean() for added in run.added])
    np.testing.assert_allclose(metrics["reward"], mean, rtol=1e-6)
    np.testing.assert_allclose(learner.mean, [mean], rtol=1e-6)
    assert int(learner.steps) == 1 and run.queue.counters().items == 0
