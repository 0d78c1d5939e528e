"""Tests of reproductions.d4pg.sizes."""

import pytest

from common.agents.agent import EnvironmentSpec
from common.networks import packing
from common.replay.memory import Signature
from reproductions.d4pg import settings
from reproductions.d4pg.agent import D4PG
from reproductions.d4pg.config import D4PGConfig
from reproductions.d4pg.sizes import sizes

SPECS = [EnvironmentSpec(5, 1), EnvironmentSpec(67, 21)]
CONFIGS = {
    **{
        name: settings.SETTINGS.configuration(name)
        for name in (
            "d4pg_prioritized_n5",
            "d3pg_uniform_n1",
            "d4pg_mixture_prioritized_n5",
            "ddpg",
        )
    },
    "other_sizes": D4PGConfig(
        policy_sizes=(30,),
        critic_sizes=(20, 30, 10),
        layer_norm=False,
        num_atoms=101,
        replay_capacity=20_000,
    ),
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("spec", SPECS)
def test_they_are_those_of_the_agent(config, spec):
    agent = D4PG(config)
    learner = agent.make_learner(spec, seed=0)
    found = sizes(config, spec)
    assert found.parameters == packing.pack(learner.actor_variables).shape.num_elements()
    assert found.bytes_per_step == Signature(agent.step_specs(spec)).bytes_per_step
    assert found.replay_capacity == agent.replay_capacity
    # Networks, targets and moments are all that there is, but for a few counters.
    stored = sum(v.shape.num_elements() * v.dtype.size for v in learner.variables)
    assert found.learner_bytes == pytest.approx(stored, abs=1000)


def test_they_are_those_of_the_facts():
    """Parameters without LayerNorm, of cartpole and humanoid (../shared/papers/d4pg.md)."""
    without = D4PGConfig(layer_norm=False)
    assert sizes(without, EnvironmentSpec(5, 1)).parameters == 62_201 + 138_451
    assert sizes(without, EnvironmentSpec(67, 21)).parameters == 84_821 + 171_251
    assert sizes(without, EnvironmentSpec(67, 21)).bytes_per_step == 628
