"""A base class for MuJoCo tasks that are in no suite, and pictures of a simulation."""

import abc

from dm_env import specs
import numpy as np

from common.environments import rendering
from common.environments.episodic_environment import EpisodicEnvironment, StepOutcome

# Other modules import `mujoco` from here, because its first import in a process loads the renderer.
with rendering.imports():
    import mujoco
    import mujoco.batch

_LARGEST_PICTURE = 1024  # largest side of a picture, in pixels


class SimulationCamera:
    """The first camera of a model, which follows a moving body; a free camera if there is none."""

    def __init__(self):
        self._renderer: mujoco.Renderer | None = None

    def picture(
        self, model: mujoco.MjModel, data: mujoco.MjData, height: int, width: int
    ) -> np.ndarray:
        """Returns a picture of a state, uint8 [height, width, 3].

        Raises:
          UnusableEnvironmentError: there is no renderer.
        """
        size, renderer = (height, width), self._renderer
        try:
            is_of_another = renderer is None or renderer.model is not model
            if is_of_another or (renderer.height, renderer.width) != size:
                self.close()
                largest = model.vis.global_
                largest.offheight = largest.offwidth = _LARGEST_PICTURE
                renderer = self._renderer = mujoco.Renderer(model, *size)
            renderer.update_scene(data, camera=0 if model.ncam else -1)
            return renderer.render()
        except Exception as error:
            raise rendering.unusable(error) from error

    def close(self) -> None:
        """Frees the renderer."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None


class MujocoEnvironment(EpisodicEnvironment):
    """Base class of environments with a `mujoco.MjModel` for each episode, or one for all.

    If MuJoCo warns about the simulation, for example because it diverges, the episode fails.

    Attributes:
      model: the current `mujoco.MjModel`.
      data: the model's `mujoco.MjData`.
    """

    def __init__(self, model: mujoco.MjModel, seed: int, substeps: int, max_steps: int):
        """Creates the environment.

        Args:
          model: the model to simulate until a subclass calls `_use`.
          seed: seed of `_generator`, from which a subclass draws.
          substeps: steps of the simulation for each action.
          max_steps: time limit of an episode.
        """
        super().__init__(max_steps)
        self._generator = np.random.default_rng(seed)
        self._substeps = substeps
        self._camera = SimulationCamera()
        self._use(model)

    def _use(self, model: mujoco.MjModel) -> None:
        self.model = model
        self.data = mujoco.MjData(model)

    @abc.abstractmethod
    def _place(self) -> None:
        """Sets the initial positions and velocities of an episode."""

    @abc.abstractmethod
    def _control(self, action: np.ndarray) -> StepOutcome:
        """Sets the controls, calls `_simulate`, and returns the outcome."""

    def _simulate(self) -> None:
        """Simulates the substeps of an action.

        As in dm_control, they start with the second half of a step and end with the first half, so
        that the positions of bodies match the new `qpos`.
        """
        mujoco.mj_step2(self.model, self.data)
        mujoco.mj_step(self.model, self.data, self._substeps - 1)
        mujoco.mj_step1(self.model, self.data)

    def _start(self) -> None:
        self._place()
        mujoco.mj_forward(self.model, self.data)

    def _act(self, action: np.ndarray) -> StepOutcome:
        outcome = self._control(np.asarray(action))
        if self.data.warning.number.any():
            return StepOutcome(0.0, has_failed=True)
        return outcome

    def action_spec(self) -> specs.BoundedArray:
        """Returns the spec of the action, float32 [A] in [-1, 1]."""
        return specs.BoundedArray((self.model.nu,), np.float32, -1.0, 1.0, name="action")

    def control_timestep(self) -> float:
        """Returns the length of a step in seconds."""
        return self.model.opt.timestep * self._substeps

    def render(self, height: int, width: int) -> np.ndarray:
        """Returns a picture from the model's first camera, uint8 [height, width, 3].

        Raises:
          UnusableEnvironmentError: there is no renderer.
        """
        return self._camera.picture(self.model, self.data, height, width)
