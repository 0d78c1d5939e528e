"""A continuous-control environment with one flat observation and canonical actions."""

import dm_env
from dm_env import specs
import numpy as np


class CanonicalEnvironment(dm_env.Environment):
    """Gives flat float32 observations and takes actions in [-1, 1].

    Observation: float32 [D], the entries of the wrapped environment's dict, ravelled and joined in
    the order of its spec; a new array at each step (D4PG section 4.1, "features"; the order is
    ours).
    Action: float32 [A] in [-1, 1], mapped to the wrapped bounds by an affine map and nothing else.
    An action outside [-1, 1] is passed on as it maps; a policy clips where its paper does. (MuJoCo
    clamps the controls of limited actuators itself.)
    """

    def __init__(self, environment: dm_env.Environment):
        """Wraps `environment`: dict observations, one bounded array of actions."""
        self._environment = environment
        self._slices = {}
        size = 0
        for key, spec in environment.observation_spec().items():
            length = int(np.prod(spec.shape))
            self._slices[key] = slice(size, size + length)
            size += length
        self._observation_spec = specs.Array((size,), np.float32, name="observation")

        bounds = environment.action_spec()
        low = np.broadcast_to(bounds.minimum, bounds.shape).astype(np.float64)
        high = np.broadcast_to(bounds.maximum, bounds.shape).astype(np.float64)
        self._scale = (high - low) / 2
        self._offset = (high + low) / 2
        self._action_spec = specs.BoundedArray(
            bounds.shape, np.float32, minimum=-1.0, maximum=1.0, name="action")

    def reset(self) -> dm_env.TimeStep:
        """Starts an episode."""
        return self._flat(self._environment.reset())

    def step(self, action: np.ndarray) -> dm_env.TimeStep:
        """Takes `action`, [A]; after a LAST step it starts an episode and ignores the action."""
        return self._flat(self._environment.step(self._scale * action + self._offset))

    def observation_spec(self) -> specs.Array:
        """Returns the spec of the flat observation, float32 [D]."""
        return self._observation_spec

    def action_spec(self) -> specs.BoundedArray:
        """Returns the spec of the canonical action, float32 [A] in [-1, 1]."""
        return self._action_spec

    def reward_spec(self) -> specs.Array:
        """Returns the wrapped environment's reward spec."""
        return self._environment.reward_spec()

    def discount_spec(self) -> specs.BoundedArray:
        """Returns the wrapped environment's discount spec."""
        return self._environment.discount_spec()

    def close(self) -> None:
        """Frees what the wrapped environment holds."""
        self._environment.close()

    def _flat(self, timestep: dm_env.TimeStep) -> dm_env.TimeStep:
        flat = np.empty(self._observation_spec.shape, np.float32)
        for key, where in self._slices.items():
            flat[where] = np.ravel(timestep.observation[key])
        return timestep._replace(observation=flat)
