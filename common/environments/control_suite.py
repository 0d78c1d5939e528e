"""The DeepMind Control Suite, with state features as observations; names are "domain:task".

Left out are the tasks of `lqr`, whose actions have no bounds, and `quadruped:escape`, which cannot
reset without a renderer.

An episode is 1000 steps and ends with LAST and discount 1, by its time limit.
"""

from collections.abc import Sequence

import dm_env
import numpy as np

from common.environments import rendering
from common.environments.canonical import CanonicalBatch, CanonicalEnvironment

rendering.disable()  # dm_control loads its renderer at import

try:
    from dm_control import suite
    from dm_control.rl import control
    from dm_control.suite import cheetah
    from dm_control.utils import rewards

    from common.environments.control_batch import ControlBatch
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
    made = [make(name, seed, evaluation, frames) for seed in seeds]
    return ControlBatch(made, TASKS[name]) if name in TASKS else CanonicalBatch(made)


def _cheetah_walk(seed: int) -> dm_env.Environment:
    physics = cheetah.Physics.from_xml_string(*cheetah.get_model_and_assets())
    task = CheetahAtSpeed(CHEETAH_WALK_SPEED, random=seed)
    return control.Environment(physics, task, time_limit=_CHEETAH_TIME_LIMIT)


_OURS = {("cheetah", "walk"): _cheetah_walk}
