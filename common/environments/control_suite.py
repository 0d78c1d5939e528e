"""The DeepMind Control Suite, with state features as observations; names are "domain:task".

Left out are the tasks of `lqr`, whose actions have no bounds, and `quadruped:escape`, which cannot
reset without a renderer. An episode is 1000 steps and ends with LAST and discount 1, by its time
limit. MuJoCo steps the bodies of a batch without the suite's Python.
"""

from collections.abc import Sequence

from dm_control.rl import control
import dm_env
import mujoco
import numpy as np

from common.environments import rendering, watch
from common.environments.canonical import CanonicalBatch, CanonicalEnvironment
from common.environments.control_tasks import BatchTask, States

rendering.disable()  # dm_control loads its renderer at import

try:
    from dm_control import suite
    from dm_control.rl import control
    from dm_control.suite import cheetah
    from dm_control.utils import rewards

    from common.environments.control_tasks import CHEETAH_WALK_SPEED, TASKS
except (ImportError, AttributeError, RuntimeError) as error:
    raise rendering.unusable(error) from error

_CHEETAH_TIME_LIMIT = 10.0  # seconds, that of `cheetah:run`

_LEFT_OUT = {("lqr", "lqr_2_1"), ("lqr", "lqr_6_2"), ("quadruped", "escape")}


class CheetahAtSpeed(cheetah.Cheetah):
    """The suite's Cheetah task with a chosen speed.

    The reward rises linearly from 0 at rest to 1 at `speed` metres a second and stays there.
    """

    def __init__(self, speed: float, random: int | None = None):
        """Makes the task; `speed` is in metres a second, `random` is the seed."""
        super().__init__(random=random)
        self._speed = speed

    def get_reward(self, physics: cheetah.Physics) -> float:
        """Returns the reward, in [0, 1]."""
        return rewards.tolerance(
            physics.speed(),
            bounds=(self._speed, float("inf")),
            margin=self._speed,
            value_at_margin=0,
            sigmoid="linear",
        )


def names() -> list[str]:
    """Returns the sorted names of the tasks, such as "cartpole:swingup"."""
    tasks = set(suite.ALL_TASKS) - _LEFT_OUT | set(_OURS)
    return sorted(f"{domain}:{task}" for domain, task in tasks)


def make(
    name: str, seed: int, evaluation: bool = False, frames: int | None = None
) -> CanonicalEnvironment:
    """Makes the task called `name`, one of `names()`; `seed` is in [0, 2**32)."""
    del evaluation, frames  # evaluations follow the rules of training; nothing is stacked
    domain, task = name.split(":")
    if (domain, task) in _OURS:
        environment = _OURS[domain, task](seed)
    else:
        environment = suite.load(domain, task, task_kwargs={"random": seed})

    def render(height: int, width: int) -> np.ndarray:
        try:
            # A domain's first camera shows the whole scene or follows the body that moves.
            return environment.physics.render(height, width, camera_id=0)
        except Exception as error:
            raise rendering.unusable(error) from error

    return CanonicalEnvironment(environment, render)


def make_batch(
    name: str, seeds: Sequence[int], evaluation: bool = False, frames: int | None = None
) -> CanonicalBatch:
    """Makes the task called `name` for each of the seeds; see `make`.

    Those of `control_tasks` are stepped without the suite's Python.
    """
    made = [make(name, seed, evaluation, frames) for seed in watch.each(seeds)]
    return ControlBatch(made, TASKS[name]) if name in TASKS else CanonicalBatch(made)


def _cheetah_walk(seed: int) -> dm_env.Environment:
    physics = cheetah.Physics.from_xml_string(*cheetah.get_model_and_assets())
    task = CheetahAtSpeed(CHEETAH_WALK_SPEED, random=seed)
    return control.Environment(physics, task, time_limit=_CHEETAH_TIME_LIMIT)


_OURS = {("cheetah", "walk"): _cheetah_walk}


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
        for environment in watch.each(self._environments):
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
