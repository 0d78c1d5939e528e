"""K simulations of one MuJoCo model that step together, without the Python of a suite's tasks.

A suite's Python takes several times as long as MuJoCo. `control_tasks` and `gym_tasks` compute
observations and rewards from the states of K bodies at once.
"""

from collections.abc import Callable, Sequence
import copy
import functools
import os
from typing import Any, NamedTuple

import dm_env
import numpy as np

from common.environments import watch
from common.environments.batch import batched_timestep
from common.environments.canonical import CanonicalBatch, CanonicalEnvironment
from common.environments.mujoco_environment import mujoco

_STATE = int(mujoco.mjtState.mjSTATE_INTEGRATION)
_FORCES = mujoco.mjtStage.mjSTAGE_ACC
_WORK_PER_THREAD = 400
"""Work that pays for a thread, in velocities times substeps: 2 ms of a humanoid; it costs 0.05."""


class States:
    """The states of K bodies: live arrays [K, ...] of a `mujoco.batch.Batch` by MuJoCo's names.

    `states.qpos` is [K, nq], `states.body("torso").xpos` [K, 3], `states.sensor("touch").data`
    [K, 1], and `states.geom("target").size`, of the models, [K, 3]. Each is looked up only once.

    Attributes:
      qpos_tm1: float64 [K, nq], the positions before the step.
    """

    qpos_tm1: np.ndarray

    def __init__(self, source: Any):
        self._source = source

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._source, name)
        if callable(value):
            value = functools.cache(lambda key, part=value: States(part(key)))
        setattr(self, name, value)
        return value


class Task(NamedTuple):
    """The observations, rewards and ends of episodes of a task.

    Attributes:
      observe: returns the parts of the observations, [K, ...] each, in the suite's order.
      reward: returns the rewards, [K].
      ends: returns which episodes end with discount 0, bool [K]; None: no episode does.
      varies: fields of the model that the start of an episode changes.
      senses_forces: whether the task reads sensors of forces or accelerations. If not, MuJoCo skips
        them, which makes a humanoid 7 % faster.
    """

    observe: Callable[[States], Sequence[np.ndarray]]
    reward: Callable[[States], np.ndarray]
    ends: Callable[[States], np.ndarray] | None = None
    varies: tuple[str, ...] = ()
    senses_forces: bool = True


class MujocoBatch(CanonicalBatch):
    """An `EnvironmentBatch` of a `Task`.

    The suite's own environments start the episodes, so that a seed gives the same starts as there.
    MuJoCo then steps copies of their states.

    Attributes:
      simulations: (model, data) of each environment; the data contains the start of its episode.
      substeps: number of MuJoCo's steps for an action.
    """

    def __init__(
        self,
        environments: Sequence[CanonicalEnvironment],
        simulations: Sequence[tuple[mujoco.MjModel, mujoco.MjData]],
        task: Task,
        substeps: int,
        max_steps: int,
        stage: mujoco.mjtStage = mujoco.mjtStage.mjSTAGE_NONE,
    ):
        """Batches environments of a task.

        Args:
          environments: K environments, which only this batch may reset.
          simulations: the model and the data of each environment.
          task: the task's observations, rewards and ends.
          substeps: number of MuJoCo's steps for an action.
          max_steps: time limit of an episode.
          stage: the stage up to which MuJoCo evaluates the state after an action. With NONE, only
            `qpos` and `qvel` are up to date; derived quantities are from the last substep.
        """
        super().__init__(environments)
        self.simulations = list(simulations)
        self._task, self.substeps, self._max_steps = task, substeps, max_steps
        self._stage = int(stage)
        k, model = len(simulations), copy.copy(simulations[0][0])
        if not task.senses_forces:
            model.sensor_needstage[model.sensor_needstage == _FORCES] = mujoco.mjtStage.mjSTAGE_NONE
        threads = min(int(os.environ.get("OMP_NUM_THREADS", 1)), k)  # this process's limit
        threads = min(threads, 1 + k * model.nv * substeps // _WORK_PER_THREAD)
        self._batch = mujoco.batch.Batch(model, k, threads, persistent=True)
        self._varying = [
            (self._batch.expand(name), [getattr(model, name) for model, _ in simulations])
            for name in task.varies
        ]
        self._states = States(self._batch)
        self._states.qpos_tm1 = self._states.qpos.copy()
        with np.errstate(all="ignore"):  # arrays that are read here are filled from now on
            task.observe(self._states), task.reward(self._states)
        self._steps = np.zeros(k, np.int64)

    def reset(self) -> dm_env.TimeStep:
        """Starts an episode in each environment."""
        k = self.num_environments
        return self._timestep(np.ones(k, bool), np.zeros(k), np.zeros(k, bool))

    def step(self, actions: np.ndarray) -> dm_env.TimeStep:
        """Takes one row of `actions`, [K, A], in each environment.

        Raises:
          ValueError: the number of rows is not K.
        """
        if len(actions) != self.num_environments:
            raise ValueError(f"got {len(actions)} actions for {self.num_environments} environments")
        starts, states = self._ended, self._states
        if starts.all():
            return self.reset()
        states.qpos_tm1[:] = states.qpos
        states.ctrl[:] = self._mapped(actions)
        self._batch.step(~starts if starts.any() else None, self.substeps, self._stage)
        self._check()
        ends = self._task.ends(states) if self._task.ends else np.zeros(len(starts), bool)
        return self._timestep(starts, self._task.reward(states), ends)

    def _check(self) -> None:
        """Raises an error if the suite would raise one after this step."""

    def _timestep(
        self, starts: np.ndarray, reward: np.ndarray, ends: np.ndarray
    ) -> dm_env.TimeStep:
        """Returns the timestep of the current states; starts episodes where `starts` is True."""
        k = self.num_environments
        parts = [part.reshape(k, -1) for part in self._task.observe(self._states)]
        observation = np.concatenate(parts, axis=1, dtype=np.float32, casting="same_kind")
        self._steps += 1
        for index in watch.each(np.flatnonzero(starts)):
            observation[index] = self._start(index)
        self._steps[starts] = 0
        self._ended = (ends & ~starts) | (self._steps == self._max_steps)
        return batched_timestep(starts, self._ended, reward, ~ends, observation)

    def _start(self, index: int) -> np.ndarray:
        """Starts an episode and returns its first observation."""
        observation = self._canonical[index].reset().observation
        mujoco.mj_getState(*self.simulations[index], self._batch.state[index], _STATE)
        for rows, sources in self._varying:
            rows[index] = sources[index]
        return observation
