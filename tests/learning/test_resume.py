"""A D4PG learner alone on a frozen memory: cut and resumed, it goes on bit for bit as an uncut one.

With prefetch, a memory behind real services, and draws that are ahead when the learner is cut.
"""

import contextlib
import dataclasses

import numpy as np
import pytest

from common.cluster import rpc
from common.cluster.topology import free_ports
from common.environments.spec import EnvironmentSpec
from common.learning.checkpoint import Checkpoints
from common.learning.replay_learner import ReplayLearner
from common.learning.update_loop import UpdateLoop
from common.replay.keys import transition_keys
from common.replay.service import RemoteMemory, ReplayService
from common.replay.shards import ShardedMemory
from common.roles.replay import make_memory
from reproductions.d4pg.agent import D4PG
from reproductions.d4pg.config import D4PGConfig

TOKEN = "a token of the tests"
ITEMS, CALLS, SEED = 60, 3, 11
CONFIG = D4PGConfig(
    policy_sizes=(8,),
    critic_sizes=(9, 8),
    num_atoms=11,
    v_min=-2.0,
    v_max=2.0,
    batch_size=32,
    updates_per_call=1,
    target_period=5,
    learning_rate=1e-2,
    min_replay_size=ITEMS,
    replay_capacity=ITEMS,
)
NARROW, WIDE = EnvironmentSpec(3, 2), EnvironmentSpec(20_000, 2)
"""A call's draw from the wide one takes two messages."""


class Watched:
    """A memory that keeps the keys that a learner learned from, call by call."""

    def __init__(self, memory):
        self._memory = memory
        self.learned = []

    def update_priorities(self, keys, priorities):
        self.learned.append(keys.numpy())
        return self._memory.update_priorities(keys, priorities)

    def __getattr__(self, name):
        return getattr(self._memory, name)


@dataclasses.dataclass
class Place:
    """Sizes of an environment, how many services have the memory (0: it is in the learner's
    process), how many calls are drawn ahead, how and what learners update."""

    spec: EnvironmentSpec
    shards: int = 0
    prefetch: int = 0
    updates_per_call: int = 1
    jit_compile: bool = False
    critic: str = "categorical"

    def __post_init__(self):
        self.agent = D4PG(
            dataclasses.replace(CONFIG, updates_per_call=self.updates_per_call, critic=self.critic)
        )

    @contextlib.contextmanager
    def memory(self):
        """Filled memories, and what a learner sees of them; they outlive each learner."""
        memories = [make_memory(self.agent, self.spec, seed=0) for _ in range(max(1, self.shards))]
        generator = np.random.default_rng(3)
        size = self.spec.observation_size
        steps = self.agent.step_specs(self.spec)._make(
            (
                generator.normal(size=[ITEMS, size]),
                generator.uniform(-1, 1, [ITEMS, 2]),
                generator.normal(size=ITEMS),
                generator.uniform(0.8, 1, ITEMS),
                generator.normal(size=[ITEMS, size]),
            )
        )
        priorities = generator.uniform(1, 2, ITEMS).astype(np.float32)
        steps = steps._make(column.astype(np.float32) for column in steps)
        shards = np.arange(ITEMS) % len(memories)
        keys = transition_keys(shards, 0, 0, np.arange(ITEMS))
        for shard, memory in enumerate(memories):
            rows = shards == shard
            memory.insert(
                keys[rows], steps._make(column[rows] for column in steps), priorities[rows]
            )
        with contextlib.ExitStack() as stack:
            views = [stack.enter_context(self._served(memory)) for memory in memories]
            yield memories, views[0] if len(views) == 1 else ShardedMemory(views)

    @contextlib.contextmanager
    def _served(self, memory):
        """What a learner sees of one of the memories."""
        if not self.shards:
            yield memory
            return
        server = rpc.Server(f"127.0.0.1:{free_ports(1)[0]}", TOKEN)
        ReplayService(server, memory)
        server.start()
        yield RemoteMemory(rpc.Client(server.address, TOKEN), self.agent.step_specs(self.spec))
        server.close()

    def learners(self, count):
        """Equal ones, made before any server: their seeding of TensorFlow would crash it."""
        return [self.agent.make_learner(self.spec, SEED) for _ in range(count)]

    def make(self, learner, memory, directory):
        """What runs a learner, and what saves and restores both."""
        loop = UpdateLoop(
            learner.update, self.agent.updates_per_call, self.agent.batch_size, self.jit_compile
        )
        replay_learner = ReplayLearner(
            memory, loop, learner.steps, schedule_for(self.agent), prefetch=self.prefetch, seed=SEED
        )
        state = {"learner": learner, "draw": replay_learner.saved_draws}
        return replay_learner, Checkpoints(directory, state)

    def run(self, learner, memory, directory, resumes, keeps_the_draws=True):
        """Some calls, then a checkpoint; returns the keys and metrics of each call."""
        watched = Watched(memory)
        replay_learner, checkpoints = self.make(learner, watched, directory)
        assert checkpoints.restore() == resumes
        if not keeps_the_draws:
            replay_learner.saved_draws.store([])
        done = call(replay_learner, CALLS)
        replay_learner.store()
        checkpoints.save()
        replay_learner.close()
        return watched.learned, done

    def run_uncut(self, learner, memory):
        """As two runs, without a cut."""
        watched = Watched(memory)
        replay_learner, _ = self.make(learner, watched, "none")
        done = call(replay_learner, 2 * CALLS)
        replay_learner.close()
        return watched.learned, done


def call(replay_learner, count):
    """Returns the metrics of so many calls."""
    return [
        {name: float(value) for name, value in replay_learner.step().items()}
        | {"priority_lag": replay_learner.priority_lag}
        for _ in range(count)
    ]


def priorities(memories):
    """The masses of all items, and the totals."""
    samples = [memory.sample(20 * ITEMS, seed=1) for memory in memories]
    masses = {
        key: mass
        for sample in samples
        for key, mass in zip(sample.keys.numpy().tolist(), sample.masses.numpy().tolist())
    }
    assert len(masses) == ITEMS
    return masses, [float(sample.total_mass) for sample in samples]


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(Place(NARROW), id="in process"),
        pytest.param(Place(NARROW, critic="mixture"), id="its own samples"),
        pytest.param(Place(NARROW, prefetch=3), id="three ahead in process"),
        pytest.param(Place(NARROW, shards=1, prefetch=1, jit_compile=True), id="prefetched"),
        pytest.param(Place(WIDE, shards=1, prefetch=1), id="prefetched in two messages"),
        pytest.param(Place(NARROW, shards=1, prefetch=3), id="three ahead"),
        pytest.param(Place(NARROW, shards=2, prefetch=3, updates_per_call=2), id="of two shards"),
    ],
)
def test_goes_on_bit_for_bit(tmp_path, place):
    uncut, first, cut = place.learners(3)
    with place.memory() as (uncut_memories, uncut_view), place.memory() as (memories, cut_view):
        assert priorities(uncut_memories) == priorities(memories)
        uncut_keys, uncut_done = place.run_uncut(uncut, uncut_view)
        first_keys, first_done = place.run(first, cut_view, tmp_path, resumes=False)
        second_keys, second_done = place.run(cut, cut_view, tmp_path, resumes=True)

        np.testing.assert_array_equal(first_keys + second_keys, uncut_keys)
        assert first_done + second_done == uncut_done  # losses, priority lags
        assert int(cut.steps) == 2 * CALLS * place.updates_per_call
        variables = {variable.name for variable in cut.variables}
        assert any("moment" in name or "/m" in name for name in variables), variables
        assert len(cut.variables) == len(uncut.variables)
        for a, b in zip(cut.variables, uncut.variables):  # networks, targets, Adams, steps
            np.testing.assert_array_equal(a, b, err_msg=a.name)
        assert priorities(memories) == priorities(uncut_memories)
        assert [one.statistics() for one in memories] == [
            one.statistics() for one in uncut_memories
        ]


@pytest.mark.parametrize("prefetch", [1, 3])
def test_without_the_draws_ahead_it_would_not_be_the_same(tmp_path, prefetch):
    """What the test above can see: drawn anew, they follow priorities that are newer."""
    place = Place(NARROW, shards=1, prefetch=prefetch)
    uncut, first, cut = place.learners(3)
    with place.memory() as (_, uncut_view), place.memory() as (_, cut_view):
        uncut_keys, _ = place.run_uncut(uncut, uncut_view)
        first_keys, _ = place.run(first, cut_view, tmp_path, resumes=False)
        second_keys, _ = place.run(cut, cut_view, tmp_path, resumes=True, keeps_the_draws=False)
        np.testing.assert_array_equal(first_keys, uncut_keys[:CALLS])
        assert np.any(second_keys[0] != uncut_keys[CALLS])
        assert any(np.any(a.numpy() != b.numpy()) for a, b in zip(cut.variables, uncut.variables))
