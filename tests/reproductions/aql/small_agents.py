"""Agents of AQL with small networks and searches."""

import dataclasses

import numpy as np

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


def randomize(variables, scale=0.5, seed=3):
    """Makes every variable differ from its first value."""
    generator = np.random.default_rng(seed)
    for variable in variables:
        variable.assign(scale * generator.standard_normal(variable.shape))
