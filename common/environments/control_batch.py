"""Batches of the Control Suite's bodies that MuJoCo steps without the suite's Python."""

from collections.abc import Sequence

from dm_control.rl import control
import dm_env
import mujoco
import numpy as np

from common.environments.canonical import CanonicalBatch, CanonicalEnvironment
from common.environments.control_tasks import BatchTask, States

EPISODE_STEPS = 1000
"""Steps of an episode, those of each task in the suite."""
_NO_SENSORS = int(mujoco.mjtDisableBit.mjDSBL_SENSOR)


class ControlBatch(CanonicalBatch):
    """An `EnvironmentBatch` of one of `control_tasks.TASKS`.

    The suite's own environments begin the episodes, so that a seed means what it means there. Then
    the controls are set and MuJoCo called as they would, and what the task says is computed of all
    bodies together. Episodes are equally long, so all begin and end at once.
    """

    def __init__(self, environments: Sequence[CanonicalEnvironment], task: BatchTask):
        """Batches environments of a task of the suite, which this batch alone may step."""
        super().__init__(environments)
        self._task = task
        physics = [one.physics for one in self._environments]
        self._bodies = [(one.model.ptr, one.data.ptr, one.data.ctrl) for one in physics]
        self._warnings = [one.data.warning.number for one in physics]
        model = self._bodies[0][0]
        self._is_rk4 = model.opt.integrator == mujoco.mjtIntegrator.mjINT_RK4
        self._substeps = round(environments[0].control_timestep() / model.opt.timestep)
        self._states = States(model, [data for _, data, _ in self._bodies])
        self._steps = EPISODE_STEPS

    def reset(self) -> dm_env.TimeStep:
        """Starts an episode in each environment."""
        for environment in self._environments:
            environment.reset()
        self._warned = np.concatenate(self._warnings)
        self._steps = 0
        self._states.read()
        k = self.num_environments
        return self._timestep(dm_env.StepType.FIRST, np.zeros(k, np.float32))

    def step(self, actions: np.ndarray) -> dm_env.TimeStep:
        """Takes one row of `actions`, [K, A], in each environment.

        Raises:
          ValueError: there is not one row for each environment.
          PhysicsError: a simulation has become unstable.
        """
        if len(actions) != self.num_environments:
            raise ValueError(f"got {len(actions)} actions for {self.num_environments} environments")
        if self._steps == EPISODE_STEPS:
            return self.reset()
        for (model, data, target), source in zip(self._bodies, self._mapped(actions)):
            target[:] = source
            self._advance(model, data)
        self._check_warnings()
        self._steps += 1
        self._states.read()
        is_last = self._steps == EPISODE_STEPS
        reward = self._task.reward(self._states).astype(np.float32)
        return self._timestep(dm_env.StepType.LAST if is_last else dm_env.StepType.MID, reward)

    def _advance(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Steps as `dm_control.mujoco.Physics` does, so that positions and velocities agree.

        `mj_step1` ends a step, because the data of one that `mj_step` has done is of before it.
        """
        if not self._task.senses_forces:
            model.opt.disableflags |= _NO_SENSORS
        if self._is_rk4:
            mujoco.mj_step(model, data, self._substeps)
        else:
            mujoco.mj_step2(model, data)
            if self._substeps > 1:
                mujoco.mj_step(model, data, self._substeps - 1)
        if not self._task.senses_forces:
            model.opt.disableflags &= ~_NO_SENSORS
        mujoco.mj_step1(model, data)

    def _check_warnings(self) -> None:
        warned = np.concatenate(self._warnings)
        if np.array_equal(warned, self._warned):
            return
        index, kind = np.argwhere((warned != self._warned).reshape(self.num_environments, -1))[0]
        raise control.PhysicsError(
            f"the simulation is unstable: MuJoCo warned of {mujoco.mjtWarning(kind).name} in "
            f"environment {index}"
        )

    def _timestep(self, step_type: dm_env.StepType, reward: np.ndarray) -> dm_env.TimeStep:
        k = self.num_environments
        parts = [part.reshape(k, -1) for part in self._task.observe(self._states)]
        return dm_env.TimeStep(
            np.full(k, step_type, np.int32),
            reward,
            np.ones(k, np.float32),
            np.concatenate(parts, axis=1, dtype=np.float32, casting="same_kind"),
        )
