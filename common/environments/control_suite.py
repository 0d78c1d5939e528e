"""The DeepMind Control Suite: names "domain:task", state features only.

Two groups of tasks are left out: `lqr` has no action bounds, so no canonical action, and
`quadruped:escape` cannot reset without a renderer.

Episodes are 1000 steps. A time limit is LAST with discount 1, and nothing here ends earlier.
"""

from common.environments import rendering

rendering.disable()

# dm_control loads its renderer when it is imported.
try:
    from dm_control import suite
    from dm_control.rl import control
    from dm_control.suite import cheetah
    from dm_control.utils import rewards
except (ImportError, AttributeError, RuntimeError) as error:
    raise rendering.unusable(error) from error
import dm_env
import numpy as np

from common.environments.canonical import CanonicalEnvironment

# Not in the paper: D4PG names a task "cheetah walk" but not its speed, and the suite has `run`
# only. 1 m/s is the walking speed of the suite's walker, humanoid and dog.
CHEETAH_WALK_SPEED = 1.0

ENVIRONMENT_BYTES = 13_000_000
"""It hardly depends on the task."""

_CHEETAH_TIME_LIMIT = 10.0  # seconds, as `cheetah:run`

_LEFT_OUT = {("lqr", "lqr_2_1"), ("lqr", "lqr_6_2"), ("quadruped", "escape")}


class CheetahAtSpeed(cheetah.Cheetah):
    """The suite's Cheetah task with the speed as a parameter.

    The reward rises linearly from 0 at rest to 1 at `speed` metres a second and stays there.
    """

    def __init__(self, speed: float, random: int | None = None):
        """Makes the task: `speed` in metres a second, `random` the seed."""
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
    """Returns the tasks' names, such as "cartpole:swingup", sorted."""
    tasks = set(suite.ALL_TASKS) - _LEFT_OUT | set(_OURS)
    return sorted(f"{domain}:{task}" for domain, task in tasks)


def make(name: str, seed: int, evaluation: bool = False) -> CanonicalEnvironment:
    """Builds the task called `name`, one of `names()`; `seed` in [0, 2**32)."""
    del evaluation  # by the rules of training
    domain, task = name.split(":")
    if (domain, task) in _OURS:
        environment = _OURS[domain, task](seed)
    else:
        environment = suite.load(domain, task, task_kwargs={"random": seed})

    def render(height: int, width: int) -> np.ndarray:
        try:
            # The first camera of a domain shows the whole scene, or follows what moves.
            return environment.physics.render(height, width, camera_id=0)
        except Exception as error:
            raise rendering.unusable(error) from error

    return CanonicalEnvironment(environment, render)


def _cheetah_walk(seed: int) -> dm_env.Environment:
    physics = cheetah.Physics.from_xml_string(*cheetah.get_model_and_assets())
    task = CheetahAtSpeed(CHEETAH_WALK_SPEED, random=seed)
    return control.Environment(physics, task, time_limit=_CHEETAH_TIME_LIMIT)


_OURS = {("cheetah", "walk"): _cheetah_walk}
