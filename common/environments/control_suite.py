"""The DeepMind Control Suite, with state features as observations; names are "domain:task".

The tasks of `lqr` are left out, since their actions have no bounds, and so is `quadruped:escape`,
which cannot reset without a renderer. An episode is 1000 steps and ends by its time limit, with
LAST and discount 1. MuJoCo steps the bodies of a batch without the suite's Python.
"""

from collections.abc import Sequence
import functools
from typing import Any

import numpy as np

from common.environments import control_bodies, control_tasks, rendering
from common.environments.canonical import CanonicalEnvironment
from common.environments.control_tasks import CHEETAH_WALK_SPEED, rising
from common.environments.mujoco_batch import MujocoBatch, mujoco
from common.environments.mujoco_environment import SimulationCamera

with rendering.imports():
    from dm_control import suite
    from dm_control.rl import control

TASKS = control_tasks.TASKS | control_bodies.TASKS
"""Observations and rewards by the task's name."""
_LEFT_OUT = {("lqr", "lqr_2_1"), ("lqr", "lqr_6_2"), ("quadruped", "escape")}


def cheetah_walk_reward(physics: Any) -> float:
    """Returns the reward of "cheetah:walk", which is not in the suite.

    The reward rises linearly from 0 at rest to 1 at `CHEETAH_WALK_SPEED` and stays there.
    """
    return rising(physics.speed(), CHEETAH_WALK_SPEED, CHEETAH_WALK_SPEED)


def names() -> list[str]:
    """Returns the sorted names of the tasks, such as "cartpole:swingup"."""
    tasks = set(suite.ALL_TASKS) - _LEFT_OUT | {("cheetah", "walk")}
    return sorted(f"{domain}:{task}" for domain, task in tasks)


def make(name: str, seed: int) -> CanonicalEnvironment:
    """Creates the task `name`, one of `names()`; `seed` is in [0, 2**32)."""
    is_walk = name == "cheetah:walk"
    domain, task = ("cheetah", "run") if is_walk else name.split(":")
    environment = suite.load(domain, task, task_kwargs={"random": seed})
    if is_walk:
        environment.task.get_reward = cheetah_walk_reward
    simulation = environment.physics.model.ptr, environment.physics.data.ptr
    environment.render = functools.partial(SimulationCamera().picture, *simulation)
    return CanonicalEnvironment(environment)


def batch_of(name: str, environments: Sequence[CanonicalEnvironment]) -> "ControlBatch":
    """Returns a batch of environments that `make` created for `name`."""
    return ControlBatch(name, environments)


EPISODE_STEPS = 1000
"""Steps of an episode, the same in every task of the suite."""


class ControlBatch(MujocoBatch):
    """An `EnvironmentBatch` of a task of the suite."""

    def __init__(self, name: str, environments: Sequence[CanonicalEnvironment]):
        """Batches environments of the task `name`, which only this batch may reset."""
        physics = [environment.wrapped.physics for environment in environments]
        super().__init__(
            environments,
            [(each.model.ptr, each.data.ptr) for each in physics],
            TASKS[name],
            substeps=round(environments[0].control_timestep() / physics[0].timestep()),
            max_steps=EPISODE_STEPS,
            stage=mujoco.mjtStage.mjSTAGE_VEL,  # positions and velocities agree, as in the suite
        )
        self._warned = self._batch.warning[..., 1].copy()

    def _check(self) -> None:
        """Raises PhysicsError if a simulation has become unstable, as the suite does."""
        warned = self._batch.warning[..., 1]
        if warned.tobytes() == self._warned.tobytes():  # quicker than NumPy's comparison
            return
        index, kind = np.argwhere(warned != self._warned)[0]
        self._warned = warned.copy()
        raise control.PhysicsError(
            f"the simulation is unstable: MuJoCo warned of {mujoco.mjtWarning(kind).name} in "
            f"environment {index}"
        )
