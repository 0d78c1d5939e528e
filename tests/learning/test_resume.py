"""A D4PG learner on a frozen memory: cut and resumed, it goes on bit for bit as an uncut one.

Nothing is drawn ahead here; a learner that draws ahead drops these draws when it is cut.
"""

import contextlib
import dataclasses
from typing import Any

import numpy as np
import pytest

from common.cluster import rpc, rpc_server
from common.cluster.topology import free_ports
from common.environments.spec import EnvironmentSpec
from common.learning.checkpoint import Checkpoints
from common.remote.inbox import StoreService
from common.remote.outbox import RemoteStore
from common.remote.shards import ShardedStore
from common.replay.columns import transition_keys
from common.replay.memory import Items
from reproductions.d4pg.config import D4PGConfig
from reproductions.d4pg.d4pg import D4PG

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
SPEC = EnvironmentSpec(3, 2)


class Watched:
    """A memory that keeps the keys that a learner learned from, call by call."""

    def __init__(self, memory):
        self._memory = memory
        self.learned = []

    def write_back(self, token, outputs):
        self.learned.append(token.numpy())
        return self._memory.write_back(token, outputs)

    def __getattr__(self, name):
        return getattr(self._memory, name)


class Uncompiled(D4PG):
    """An agent without XLA, which takes longer to compile than all else here."""

    jit_compile = False


@dataclasses.dataclass
class Place:
    """A learner's surroundings.

    Attributes:
      services: how many share the memory; 0: it is in the learner's process.
      updates_per_call: of the learner.
      changes: of the learner's hyperparameters.
    """

    services: int = 0
    updates_per_call: int = 1
    changes: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self):
        changes = dict(self.changes, updates_per_call=self.updates_per_call)
        self.agent = Uncompiled(dataclasses.replace(CONFIG, **changes))

    @contextlib.contextmanager
    def memory(self):
        """Gives filled memories, and what a learner sees of them; they outlive each learner."""
        memories = [
            self.agent.data.make_store(self.agent.step_specs(SPEC), 0)
            for _ in range(max(1, self.services))
        ]
        generator = np.random.default_rng(3)
        steps = self.agent.step_specs(SPEC)._make(
            (
                generator.normal(size=[ITEMS, 3]),
                generator.uniform(-1, 1, [ITEMS, 2]),
                generator.normal(size=ITEMS),
                generator.uniform(0.8, 1, ITEMS),
                generator.normal(size=[ITEMS, 3]),
            )
        )
        priorities = generator.uniform(1, 2, ITEMS).astype(np.float32)
        steps = steps._make(column.astype(np.float32) for column in steps)
        shards = np.arange(ITEMS) % len(memories)
        keys = transition_keys(shards, 0, 0, np.arange(ITEMS))
        for shard, memory in enumerate(memories):
            rows = shards == shard
            of_shard = steps._make(column[rows] for column in steps)
            memory.put(Items(keys[rows], of_shard, priorities[rows]))
        with contextlib.ExitStack() as stack:
            views = [stack.enter_context(self._served(memory)) for memory in memories]
            yield memories, views[0] if len(views) == 1 else ShardedStore(views)

    @contextlib.contextmanager
    def _served(self, memory):
        if not self.services:
            yield memory
            return
        server = rpc_server.Server(f"127.0.0.1:{free_ports(1)[0]}", TOKEN)
        StoreService(server, memory)
        server.start()
        yield RemoteStore(
            rpc.Client(server.address, TOKEN), self.agent.data.wire(self.agent.step_specs(SPEC))
        )
        server.close()

    def learners(self, count):
        """Equal ones, made before any server: their seeding of TensorFlow would crash it."""
        return [self.agent.make_learner(SPEC, SEED) for _ in range(count)]

    def run(self, learner, memory, calls, directory=None, resumes=False):
        """Makes some calls, then a checkpoint; returns the keys and metrics of each call."""
        watched = Watched(memory)
        limiter = self.agent.rate_limiter()
        trainer = self.agent.make_trainer(learner, watched, SPEC, SEED, limiter)
        checkpoints = Checkpoints(directory, {"learner": learner}) if directory else None
        if resumes:
            assert checkpoints.restore()
        metrics = [floats(trainer.step()) for _ in range(calls)]
        if checkpoints:
            checkpoints.save()
        return watched.learned, metrics


def floats(metrics):
    return {name: float(value) for name, value in metrics.items()}


def priorities(memories):
    """Returns the masses of all items, and the totals."""
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
        pytest.param(Place(changes=(("critic", "mixture"),)), id="samples itself"),
        pytest.param(Place(changes=(("normalize_observations", True),)), id="has moments"),
        pytest.param(Place(services=2, updates_per_call=2), id="of two shards"),
    ],
)
def test_goes_on_bit_for_bit(tmp_path, place):
    uncut, first, cut = place.learners(3)
    with place.memory() as (uncut_memories, uncut_view), place.memory() as (memories, cut_view):
        assert priorities(uncut_memories) == priorities(memories)
        uncut_keys, uncut_metrics = place.run(uncut, uncut_view, 2 * CALLS)
        first_keys, first_metrics = place.run(first, cut_view, CALLS, tmp_path)
        second_keys, second_metrics = place.run(cut, cut_view, CALLS, tmp_path, resumes=True)

        np.testing.assert_array_equal(first_keys + second_keys, uncut_keys)
        assert first_metrics + second_metrics == uncut_metrics
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
