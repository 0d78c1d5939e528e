"""A D4PG learner on a frozen memory: cut and resumed, it goes on bit for bit as an uncut one.

It draws samples of its own, and standardises observations. Nothing is drawn ahead here; a learner
that draws ahead drops these draws when it is cut.
"""

import numpy as np
import pytest

from common.environments.spec import EnvironmentSpec
from common.learning.checkpoint import Checkpoints
from common.replay.memory import Items
from reproductions.d4pg.config import D4PGConfig
from reproductions.d4pg.d4pg import D4PG

ITEMS, CALLS, SEED = 60, 2, 11
AGENT = D4PG(
    D4PGConfig(
        critic="mixture",
        normalize_observations=True,
        policy_sizes=(8,),
        critic_sizes=(9, 8),
        num_components=2,
        num_target_samples=3,
        batch_size=16,
        updates_per_call=1,
        target_period=3,
        learning_rate=1e-2,
        min_replay_size=ITEMS,
        replay_capacity=ITEMS,
    )
)
AGENT.jit_compile = False
SPEC = EnvironmentSpec(3, 2)
STEPS = AGENT.step_specs(SPEC)


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


def filled_memory():
    generator = np.random.default_rng(3)
    columns = [generator.normal(size=[ITEMS, *spec.shape]) for spec in STEPS]
    steps = STEPS._make(column.astype(np.float32) for column in columns)
    priorities = generator.uniform(1, 2, ITEMS).astype(np.float32)
    memory = AGENT.data.make_store(STEPS, 0)
    memory.put(Items(np.arange(ITEMS), steps, priorities))
    return memory


def run(learner, memory, calls, directory=None, resumes=False):
    """Makes some calls, then a checkpoint; returns the keys and metrics of each call."""
    watched = Watched(memory)
    trainer = AGENT.make_trainer(learner, watched, SPEC, SEED, AGENT.rate_limiter())
    checkpoints = Checkpoints(directory, {"learner": learner}) if directory else None
    if resumes:
        assert checkpoints.restore()
    metrics = [{n: float(value) for n, value in trainer.step().items()} for _ in range(calls)]
    if checkpoints:
        checkpoints.save()
    return watched.learned, metrics


def priorities(memory):
    """Returns the masses of all items, and the total."""
    sample = memory.sample(20 * ITEMS, seed=1)
    masses = dict(zip(sample.keys.numpy().tolist(), sample.masses.numpy().tolist()))
    assert len(masses) == ITEMS
    return masses, float(sample.total_mass)


@pytest.mark.usefixtures("eager")
def test_goes_on_bit_for_bit(tmp_path):
    """Also after a start without an update, which restores and saves: no moment is lost."""
    uncut, first, idle, cut = (AGENT.make_learner(SPEC, SEED) for _ in range(4))
    uncut_memory, memory = filled_memory(), filled_memory()
    uncut_keys, uncut_metrics = run(uncut, uncut_memory, 2 * CALLS)
    first_keys, first_metrics = run(first, memory, CALLS, tmp_path)
    run(idle, memory, 0, tmp_path, resumes=True)
    second_keys, second_metrics = run(cut, memory, CALLS, tmp_path, resumes=True)

    np.testing.assert_array_equal(first_keys + second_keys, uncut_keys)
    assert first_metrics + second_metrics == uncut_metrics
    assert int(cut.steps) == 2 * CALLS
    # Both Adams' moments and step counts: 2 moments for each online variable.
    optimizers = (*cut.policy_optimizer.variables, *cut.critic_optimizer.variables)
    assert len(optimizers) == 2 * len(cut.networks.trainable_variables) + 2
    for a, b in zip(cut.variables, uncut.variables, strict=True):
        np.testing.assert_array_equal(a, b, err_msg=a.name)
    assert priorities(memory) == priorities(uncut_memory)
    assert memory.statistics() == uncut_memory.statistics()
