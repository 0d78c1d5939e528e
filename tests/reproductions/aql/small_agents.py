"""Agents of AQL with small networks and searches."""

import dataclasses

from ended_unrolls import METRICS
import numpy as np
from one_process import OneProcessRun

from common.environments.spec import EnvironmentSpec
from common.networks import packing
from reproductions.aql.agent import AQL
from reproductions.aql.config import SETTINGS

SIZES = {
    "state_size": 6,
    "action_size": 7,
    "joint_sizes": (8, 5),
    "proposal_sizes": (9, 4),
    "num_proposal_samples": 5,
    "num_uniform_samples": 12,
    "cem_samples": 20,
    "unroll_length": 5,
    "batch_size": 4,
    "replay_capacity": 60,
    "queue_capacity": 300,
}


def make_agent(name="aql", **values):
    """The agent of a setting, with other values of hyperparameters."""
    config = dataclasses.replace(SETTINGS.configuration(name), **{**SIZES, **values})
    return AQL(config, name)


def values_at(network, observation, candidates):
    """Q of candidates [B, n, D] at observations [B, Ds]."""
    return network.values_of(network.state(network.shared(observation)), candidates)


def randomize(variables, scale=0.5, seed=3):
    """Makes every variable differ from its first value."""
    generator = np.random.default_rng(seed)
    for variable in variables:
        variable.assign(scale * generator.standard_normal(variable.shape))


def check_one_call(agent, environments):
    """Asserts that an agent acts, stores and learns; returns its evaluator."""
    run = OneProcessRun(agent, environments, in_turns=True)
    agent.declaration.require_spec(agent.config, EnvironmentSpec.of(environments))
    before = packing.to_numpy(run.learner.actor_variables)
    while (metrics := run.trainer.step()) is None:
        run.act()
    assert list(metrics) == METRICS[agent.config.search]
    assert all(np.isfinite(value) for value in metrics.values())
    after = packing.to_numpy(run.learner.actor_variables)
    assert int(run.learner.steps) == 1
    assert np.all(np.isfinite(after)) and np.any(after != before)
    return run.evaluator(environments.num_environments)
