"""Flow control (ReF-ER, section 5.4 and appendix D): an ellipse has to stay in a cylinder's wake.

A D-section cylinder of diameter D moves to the left at speed U, with Re = U D / nu = 400. The agent
is a free ellipse, as dense as the fluid, of major axis D and aspect ratio 0.2. "flow:cylinder_N"
has N cells a diameter, "flow:cylinder" has 32, and "flow:cylinder_N_courant_C" has time steps of
C h / max|u|. The paper prints h = 2^-10 D; the authors' files have 2^-10 of the domain's length,
N = 128. Everything is in the cylinder's frame, in the units D, U and D / U.

Observation: float32 [14]: position behind the centre of the cylinder's flat side, angle in
[-pi, pi), velocity, spin, and the velocity of the flow relative to the body's surface at the
ellipse's four vertices.
Action: float32 [3]: force in x and y and torque for a unit of time, in U^2 D and U^2 D^2; it is not
clipped. Reward: -|action|^2. If the ellipse's centre leaves a box, even during an action, the
reward is -100 instead and the episode ends with discount 0. After 400 actions it ends with
discount 1.

Not in the paper: the half disc is 1.8 D from the inlet, with its round side upstream. The box, the
starts, the units of actions and the first flow are from the authors' program, the only version with
everything that section 5.4 names (`main_RL_smartCyl.cpp` of CubismUP_2D at 8765bbc). An episode
starts in fluid at rest, with both bodies at speed, and the fluid inside the ellipse moves with it.
That version divides forces by lambda, which ea0a299 corrects four days later. Here they are whole.

This module imports TensorFlow only to create the solver.
"""

from collections.abc import Sequence
import os
import re

import dm_env
from dm_env import specs
import numpy as np

from common.environments.batch import SingleEnvironment, batched_timestep
from common.environments.spec import UnusableEnvironmentError

REYNOLDS = 400.0
SIZE = (8, 4)
"""Length and height of the domain, in D."""
MAX_ACTIONS = 400
OUTSIDE_REWARD = -100.0

_CENTRE = (1.8, 2.0)  # of the half disc
_BOX = ((0.5, 3.5), (-1.5, 1.5))  # in x and y from the half disc
_START = ((0.75, 3.25), (-1.25, 1.25), (-np.pi / 4, np.pi / 4))  # x, y and angle
_HALF_AXES = (0.5, 0.1)
_DEFAULT_CELLS = 32
_ARRAYS = 40  # arrays of a grid's size that a step has in memory at once
_STEP_SECONDS = 0.1  # duration of a time unit in films
_NAME = re.compile(r"cylinder(?:_(\d+))?(?:_courant_(\d+(?:\.\d+)?))?")


def names() -> list[str]:
    """Returns the names of the usual grids."""
    return ["cylinder", *(f"cylinder_{cells}" for cells in (8, 16, 32, 64, 128))]


def is_known(name: str) -> bool:
    """Returns whether `name` is the name of a possible grid."""
    return _grid(name) is not None


def why_unknown(name: str) -> str | None:
    """Returns the reason why there is no such grid; None for other names."""
    if not _NAME.fullmatch(name):
        return None
    return (
        "the cells per diameter must be a multiple of 8, at least 8, and the Courant number must "
        "be in (0, 1]"
    )


def make(name: str, seed: int) -> "FlowEnvironment":
    """Creates a flow, whose solver is created at the first reset or step."""
    return FlowEnvironment(FlowBatch(name, [seed]))


def make_batch(name: str, seeds: Sequence[int]) -> "FlowBatch":
    """Creates a flow for each seed, and their solver.

    Raises:
      UnusableEnvironmentError: the flows do not fit into the machine's memory.
    """
    batch = FlowBatch(name, seeds)
    batch.prepare()
    return batch


def half_disc(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns the distance from the cylinder's surface, in D, positive inside."""
    x, y = x - _CENTRE[0], y - _CENTRE[1]
    return np.minimum(0.5 - np.hypot(x, y), -x)


class FlowBatch:
    """K flows as one; see `common.environments.batch.EnvironmentBatch`."""

    def __init__(self, name: str, seeds: Sequence[int]):
        """Creates a flow for each seed.

        Args:
          name: name of the grid, which `is_known`.
          seeds: a seed in [0, 2**32) for each flow.

        Raises:
          UnusableEnvironmentError: the flows do not fit into the machine's memory.
        """
        cells, self._courant = _grid(name)
        self._name, self._cells = f"flow:{name}", cells
        _require_memory(self._name, cells, len(seeds))
        self._random = [np.random.default_rng(seed) for seed in seeds]
        self._actions = np.full(len(seeds), -1)  # in the episode; -1: the next call starts one
        self._solver = None

    @property
    def num_environments(self) -> int:
        """The number of flows, K."""
        return len(self._random)

    def observation_spec(self) -> specs.Array:
        """Returns the spec of one flow's observation."""
        return specs.Array((14,), np.float32, name="observation")

    def action_spec(self) -> specs.BoundedArray:
        """Returns the spec of one flow's action; actions beyond its bounds are not clipped."""
        return specs.BoundedArray((3,), np.float32, minimum=-1.0, maximum=1.0, name="action")

    def prepare(self) -> None:
        """Creates the solver, unless there is one."""
        if self._solver is None:
            from common.environments.flow_solver import COURANT, Solver

            k, (nx, ny) = self.num_environments, (side * self._cells for side in SIZE)
            self._solver = Solver(
                (nx, ny),
                1 / self._cells,
                1 / REYNOLDS,
                1.0,
                half_disc,
                _HALF_AXES,
                self._courant or COURANT,
                np.float32(_BOX) + np.float32(_CENTRE)[:, None],
            )
            self._solver.set_velocity(np.ones((k, nx + 1, ny)), np.zeros((k, nx, ny + 1)))

    def reset(self) -> dm_env.TimeStep:
        """Starts an episode in each flow."""
        self._actions[:] = -1
        return self.step(np.zeros((self.num_environments, 3), np.float32))

    def step(self, actions: np.ndarray) -> dm_env.TimeStep:
        """Takes an action, float32 [K, 3], in each flow.

        Raises:
          ValueError: the shape of `actions` is not [K, 3].
          UnusableEnvironmentError: a flow is not finite.
        """
        k = self.num_environments
        actions = np.asarray(actions, np.float32)
        if actions.shape != (k, 3):
            raise ValueError(f"actions must be [{k}, 3], got {list(actions.shape)}")
        self.prepare()
        starts = self._actions < 0
        self._start(np.flatnonzero(starts))
        force = self._solver.advance(np.where(starts, 0.0, 1.0), actions)
        bodies = self._solver.bodies()
        is_finite = np.isfinite(np.concatenate([force, bodies], 1)).all(1)
        if not is_finite.all():
            row = int(np.argmin(is_finite))
            raise UnusableEnvironmentError(
                f"{self._name}: the flow of environment {row} of this process is not finite after "
                f"action {self._actions[row] + 1} of its episode, {actions[row].tolist()}: use "
                "smaller actions or more cells"
            )
        self._actions += 1
        place = bodies[:, :2] - np.float32(_CENTRE)
        is_outside = ~starts & self._solver.is_outside()
        ends = is_outside | (self._actions == MAX_ACTIONS)
        reward = np.where(is_outside, OUTSIDE_REWARD, -np.sum(actions**2, 1))
        self._actions[ends] = -1
        observation = self._observation(bodies, place)
        return batched_timestep(starts, ends, reward, ~is_outside, observation)

    def vorticity(self) -> np.ndarray:
        """Returns dv/dx - du/dy at the inner corners of cells, float32 [K, nx - 1, ny - 1]."""
        u, v = self._solver.velocity()
        return (np.diff(v[:, :, 1:-1], axis=1) - np.diff(u[:, 1:-1], axis=2)) * self._cells

    def bodies(self) -> np.ndarray:
        """Returns each ellipse's x, y and angle in the domain, then their velocities, [K, 6]."""
        return self._solver.bodies()

    def close(self) -> None:
        """Frees the flows."""
        self._solver = None

    def _start(self, rows: np.ndarray) -> None:
        """Starts episodes in the flows `rows`."""
        if not len(rows):
            return
        starts = [[self._random[row].uniform(*bounds) for bounds in _START] for row in rows]
        self._solver.start(np.float32(starts) + np.float32([*_CENTRE, 0]), rows)

    def _observation(self, bodies: np.ndarray, place: np.ndarray) -> np.ndarray:
        angle = (bodies[:, 2] + np.pi) % (2 * np.pi) - np.pi
        cosine, sine = np.cos(bodies[:, 2]), np.sin(bodies[:, 2])
        axes = np.stack([np.stack([cosine, sine], 1), np.stack([-sine, cosine], 1)], 1)
        axes *= np.float32(_HALF_AXES)[:, None]
        offsets = np.concatenate([axes[:, :1], -axes[:, :1], axes[:, 1:], -axes[:, 1:]], 1)
        flow = self._solver.sample(bodies[:, None, :2] + offsets)
        spin = bodies[:, 5, None] * np.stack([-offsets[..., 1], offsets[..., 0]], 0)
        surface = bodies[:, None, 3:5] + np.moveaxis(spin, 0, -1)
        sensed = (flow - surface).reshape(len(bodies), 8)
        return np.concatenate([place, angle[:, None], bodies[:, 3:], sensed], 1, dtype=np.float32)


class FlowEnvironment(SingleEnvironment):
    """A single flow, with the observations and actions of `FlowBatch`."""

    _batch: FlowBatch

    def control_timestep(self) -> float:
        """Returns the duration of a time unit in films, in seconds."""
        return _STEP_SECONDS

    def render(self, height: int, width: int) -> np.ndarray:
        """Returns the vorticity with the bodies in grey, as in figure 6: uint8 [height, width, 3].

        Red is counterclockwise and blue clockwise, with full colours from 5 U / D. The domain
        fills the picture's width or height.
        """
        scale = min(width / SIZE[0], height / SIZE[1])
        x = (np.arange(width) + 0.5 - width / 2) / scale + SIZE[0] / 2
        y = (height / 2 - np.arange(height) - 0.5) / scale + SIZE[1] / 2
        vorticity = self._batch.vorticity()[0]
        cells = (vorticity.shape[0] + 1) / SIZE[0]
        columns, rows = (
            np.clip(np.rint(position * cells - 1).astype(int), 0, size - 1)
            for position, size in zip((x, y), vorticity.shape)
        )
        strength = np.clip(vorticity[columns, rows[:, None]] / 5, -1, 1)
        picture = np.stack(
            [1 - np.maximum(-strength, 0), 1 - np.abs(strength), 1 - np.maximum(strength, 0)], -1
        )
        body_x, body_y, angle = self._batch.bodies()[0, :3]
        offset = (x - body_x) + 1j * (y[:, None] - body_y)
        turned = offset * np.exp(-1j * angle)
        is_ellipse = np.hypot(turned.real / _HALF_AXES[0], turned.imag / _HALF_AXES[1]) < 1
        picture[is_ellipse | (half_disc(x, y[:, None]) > 0)] = 0.4
        picture[np.abs(y - SIZE[1] / 2) > SIZE[1] / 2] = 1.0
        picture[:, np.abs(x - SIZE[0] / 2) > SIZE[0] / 2] = 1.0
        return np.round(255 * picture).astype(np.uint8)


def _grid(name: str) -> tuple[int, float | None] | None:
    """Returns a name's cells a diameter and Courant number (None: default); None if unknown."""
    match = _NAME.fullmatch(name)
    if not match:
        return None
    cells, courant = int(match[1] or _DEFAULT_CELLS), float(match[2]) if match[2] else None
    is_possible = cells > 0 and cells % 8 == 0 and (courant is None or 0 < courant <= 1)
    return (cells, courant) if is_possible else None


def _require_memory(name: str, cells: int, flows: int) -> None:
    nx, ny = (side * cells for side in SIZE)
    needed = 4 * (flows * _ARRAYS * nx * ny + nx**2 + ny**2)
    has = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > has:
        raise UnusableEnvironmentError(
            f"{name}: {flows} flows on {nx} x {ny} cells need {needed / 1e9:.0f} GB of memory, but "
            f"this machine has {has / 1e9:.0f} GB: choose fewer cells per diameter or fewer actors"
        )
