"""DeepMind Lab's levels, such as "explore_goal_locations_small", where `deepmind_lab` is installed.

No package registry has `deepmind_lab` for this Python, so its users build it. A step is four
frames, and its reward is the sum of theirs (AQL section 5.2). An episode ends by its time limit.
The discount is then 1, so that agents bootstrap from the last state, which is not in the paper.
"""

from typing import Any

from dm_env import specs
import numpy as np

from common.environments import lab_actions
from common.environments.episodic_environment import EpisodicEnvironment, StepOutcome
from common.environments.spec import UnusableEnvironmentError, extra_package

_FOLDER = "contributed/dmlab30/"
_LEVELS = ("explore_goal_locations_small", "explore_object_locations_small")
_OBSERVATION = "RGB_INTERLEAVED"
_FRAMES_PER_SECOND = 60


def names() -> list[str]:
    """Returns the names of the levels, whether or not the Lab is installed.

    Both belong to DMLab-30. AQL's text does not say that they are the levels of its figure 3.
    """
    return list(_LEVELS)


def make(name: str, seed: int) -> "LabEnvironment":
    """Creates the level `name`, one of `names()`; `seed` is in [0, 2**32).

    Raises:
      UnusableEnvironmentError: the Lab is not installed, or does not have the level.
    """
    return LabEnvironment(name, seed)


class LabEnvironment(EpisodicEnvironment):
    """A level of DeepMind Lab.

    Observation: uint8 [84, 84, 3], RGB. Action: int32 [7], see `lab_actions`.
    """

    def __init__(self, name: str, seed: int):
        """Starts the level `name`."""
        super().__init__()  # the Lab ends the episodes
        height, width, _ = lab_actions.OBSERVATION_SHAPE
        config = {"width": str(width), "height": str(height), "fps": str(_FRAMES_PER_SECOND)}
        lab = extra_package(
            "deepmind_lab",
            f"dmlab:{name}",
            "build it as described at github.com/google-deepmind/lab, or use the stand-in "
            "maze:goal (make maze)",
        )
        try:
            self._lab: Any = lab.Lab(_FOLDER + name, [_OBSERVATION], config)
        except Exception as error:
            raise UnusableEnvironmentError(
                f'environment "dmlab:{name}": DeepMind Lab cannot start the level '
                f"{_FOLDER}{name} ({' '.join(str(error).split())}): check that its build has it"
            ) from error
        self._random = np.random.RandomState(seed)

    def _start(self) -> None:
        self._lab.reset(seed=int(self._random.randint(2**31 - 1)))

    def _act(self, action: np.ndarray) -> StepOutcome:
        """Takes `action` for four frames.

        Raises:
          ValueError: the action does not match `action_spec`.
        """
        action = lab_actions.require_valid(action).astype(np.intc)
        reward = self._lab.step(action, num_steps=lab_actions.FRAMES_PER_STEP)
        return StepOutcome(reward, has_finished=not self._lab.is_running())

    def _observe(self) -> np.ndarray:
        # The Lab shows nothing after an episode, so the picture before its last step is repeated.
        if self._lab.is_running():
            self._picture = np.array(self._lab.observations()[_OBSERVATION], np.uint8)
        return self._picture.copy()

    def observation_spec(self) -> specs.Array:
        """Returns the spec of the image."""
        return lab_actions.observation_spec()

    def action_spec(self) -> specs.BoundedArray:
        """Returns the spec of the seven integers."""
        return lab_actions.action_spec()

    def control_timestep(self) -> float:
        """Returns the length of a step in seconds, for films."""
        return lab_actions.FRAMES_PER_STEP / _FRAMES_PER_SECOND

    def close(self) -> None:
        """Ends the Lab's engine."""
        self._lab.close()
