"""A batch of K incompressible flows in the plane around a fixed body and a free ellipse.

ReF-ER, appendix D: Brinkman penalisation in the frame of the fixed body, with a density of 1.

    du/dt = -(u . grad) u + nu Lap u - grad p + lambda chi (u_body - u),    div u = 0

The solver has a staggered grid, third-order upwind-biased advection, Heun's method, an implicit
penalty, and an exact Poisson solution by cosine transforms as matrix products. The walls at the
bottom and the top slip. Flow enters at the left and leaves at the right through a convective
outlet. The penalty is so large that the fluid is rigid wherever chi > 0. So chi rises from 0 at a
body's surface to 1 a cell inside.

The paper gives equations, domain, Re and Neumann boundary conditions; here is a channel instead.
The paper does not give the order of the schemes, lambda or chi.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

PENALTY = 1e5
"""lambda, in units of inflow speed over length. Not in the paper: as large as single precision
allows, since an implicit penalty has no stability limit."""
COURANT = 0.5
"""max|u| dt / h. The paper's 0.1 takes five times as long."""
_DIFFUSION = 0.2  # largest stable nu dt / h^2, a limit that matters if viscosity dominates

Distance = Callable[[np.ndarray, np.ndarray], np.ndarray]


class _State(NamedTuple):
    """The state of K flows.

    Attributes:
      u: [K, nx + 1, ny], velocity to the right on the faces between columns.
      v: [K, nx, ny + 1], velocity upwards on the faces between rows.
      bodies: [K, 6], each ellipse's x, y and angle, then their velocities.
    """

    u: tf.Tensor
    v: tf.Tensor
    bodies: tf.Tensor


class Solver:
    """K flows on equal grids, float32. Each flow has its own time steps."""

    def __init__(
        self,
        cells: tuple[int, int],
        spacing: float,
        viscosity: float,
        inflow: float,
        distance: Distance | None = None,
        ellipse: tuple[float, float] | None = None,
        courant: float = COURANT,
        box: np.ndarray | None = None,
    ):
        """Creates the grid; `set_velocity` determines the number of flows.

        Args:
          cells: nx and ny.
          spacing: h, the side of a cell.
          viscosity: nu, the kinematic viscosity.
          inflow: velocity at the left; 0: a closed box, whose four walls slip.
          distance: maps coordinates x and y, arrays that broadcast, to the distance from the
            surface of the fixed body, positive inside; None: no fixed body.
          ellipse: half axes of a free ellipse as dense as the fluid; None: no ellipse.
          courant: max|u| dt / h.
          box: [2, 2], minimum and maximum of x, then of y. A flow stops once the centre of its
            ellipse is outside of the box. None disables this.
        """
        nx, ny = self.cells = cells
        self.spacing = h = spacing
        self._viscosity, self._inflow, self._courant = viscosity, inflow, courant
        self._ellipse = ellipse
        self._low, self._high = np.float32([[-np.inf] * 2, [np.inf] * 2] if box is None else box.T)
        x_face, x_cell = _points(nx, h)
        y_face, y_cell = _points(ny, h)
        self._points_u = tf.constant(x_face[1:-1, None]), tf.constant(y_cell[None])
        self._points_v = tf.constant(x_cell[:, None]), tf.constant(y_face[None, 1:-1])
        self._fixed: tuple[tf.Tensor, tf.Tensor] | None = None
        if distance is not None:
            self._fixed = tuple(
                tf.constant(PENALTY * np.clip(distance(x.numpy(), y.numpy()) / h, 0, 1), tf.float32)
                for x, y in (self._points_u, self._points_v)
            )
        cosines_x, eigenvalues_x = _cosines(nx, h)
        cosines_y, eigenvalues_y = _cosines(ny, h)
        eigenvalues = eigenvalues_x[:, None] + eigenvalues_y
        eigenvalues[0, 0] = np.inf  # the mean pressure is arbitrary
        self._cosines = tf.constant(cosines_x, tf.float32), tf.constant(cosines_y, tf.float32)
        self._inverse = tf.constant(1 / eigenvalues, tf.float32)
        self._advance = tf.function(self._integrate, jit_compile=True, autograph=False)
        self._state = _State(
            *(tf.zeros(shape) for shape in ((0, nx + 1, ny), (0, nx, ny + 1))), tf.zeros((0, 6))
        )

    def set_velocity(self, u: np.ndarray, v: np.ndarray) -> None:
        """Sets the velocities of K flows, which must be free of divergence.

        Args:
          u: [K, nx + 1, ny], to the right, at the middle of the faces between columns.
          v: [K, nx, ny + 1], upwards, at the middle of the faces between rows.
        """
        bodies = self._state.bodies if len(self._state.bodies) == len(u) else tf.zeros((len(u), 6))
        self._state = _State(tf.constant(u, tf.float32), tf.constant(v, tf.float32), bodies)

    def velocity(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns u [K, nx + 1, ny] and v [K, nx, ny + 1], float32."""
        return self._state.u.numpy(), self._state.v.numpy()

    def start(self, poses: np.ndarray, rows: np.ndarray) -> None:
        """Starts flows in which the fluid outside of the ellipses has the inflow's velocity.

        The ellipses and the fluid inside them are at rest. The pressure of the first step then
        transfers a part of the surrounding fluid's motion to them.

        Args:
          poses: [R, 3], the ellipses' x, y and angle in radians.
          rows: [R], indices of the flows.
        """
        u, v, bodies = (np.array(field) for field in self._state)
        bodies[rows] = np.pad(poses, ((0, 0), (0, 3)))
        (in_u, *_), _ = self._inside(tf.constant(bodies[rows]), tf.ones(len(rows)))
        u[rows], v[rows] = self._inflow, 0.0
        u[rows, 1:-1] *= 1 - in_u.numpy()
        self._state = _State(*map(tf.constant, (u, v, bodies)))

    def bodies(self) -> np.ndarray:
        """Returns each ellipse's x, y and angle, then their velocities, float32 [K, 6]."""
        return self._state.bodies.numpy()

    def is_outside(self) -> np.ndarray:
        """Returns whether each ellipse's centre is outside of the box, bool [K]."""
        place = self.bodies()[:, :2]
        return ((place < self._low) | (place > self._high)).any(1)

    def advance(self, time: float | np.ndarray, wrench: np.ndarray | None = None) -> np.ndarray:
        """Advances each flow by a time, or until its ellipse has left the box.

        A flow that diverges stops all flows; its force is huge or not finite.

        Args:
          time: the time for all flows, or for each flow, [K].
          wrench: [K, 3], force and torque on the ellipses in addition to the fluid's.

        Returns:
          the mean force of the fluid on the fixed body, [K, 2].
        """
        k = len(self._state.u)
        times = np.broadcast_to(np.asarray(time, np.float32), (k,))
        wrenches = np.zeros((k, 3), np.float32) if wrench is None else np.float32(wrench)
        self._state, impulse = self._advance(self._state, tf.constant(times), tf.constant(wrenches))
        return impulse.numpy() / np.maximum(times, np.finfo(np.float32).tiny)[:, None]

    def sample(self, points: np.ndarray) -> np.ndarray:
        """Returns velocities [K, M, 2] at `points` (x, y) [K, M, 2] by bilinear interpolation."""
        half = self.spacing / 2
        state = self._state
        return np.stack(
            [
                _interpolated(state.u.numpy(), points - np.float32([0, half]), self.spacing),
                _interpolated(state.v.numpy(), points - np.float32([half, 0]), self.spacing),
            ],
            -1,
        )

    def divergence(self) -> np.ndarray:
        """Returns div u in the cells, float32 [K, nx, ny]."""
        return self._divergence(self._state.u, self._state.v).numpy()

    def _integrate(self, state: _State, times: tf.Tensor, wrench: tf.Tensor):
        """Returns the state after `times` [K] and the impulse on the fixed body, [K, 2]."""

        def step(remaining, state, impulse):
            speed = tf.maximum(
                tf.reduce_max(tf.abs(state.u), (1, 2)), tf.reduce_max(tf.abs(state.v), (1, 2))
            )
            longest = self._courant * self.spacing / tf.maximum(speed, 1e-6)
            if self._viscosity:
                longest = tf.minimum(longest, _DIFFUSION * self.spacing**2 / self._viscosity)
            dt = remaining / tf.maximum(tf.math.ceil(remaining / longest), 1.0)
            # A flow that has finished must not change in a single bit.
            is_moving = remaining > 0
            new, gained = self._step(state, dt, wrench)
            state = _State(
                tf.where(is_moving[:, None, None], new.u, state.u),
                tf.where(is_moving[:, None, None], new.v, state.v),
                tf.where(is_moving[:, None], new.bodies, state.bodies),
            )
            place = state.bodies[:, :2]
            is_outside = tf.reduce_any((place < self._low) | (place > self._high), 1)
            remaining = tf.where(is_outside, 0.0, remaining - dt)
            return remaining, state, impulse + tf.where(is_moving[:, None], gained, 0.0)

        def goes_on(remaining, state, impulse):
            del state
            # A flow that diverges would need infinitely many steps.
            return tf.reduce_any(remaining > 0) & tf.reduce_all(tf.abs(impulse) < 1e6)

        _, state, impulse = tf.while_loop(
            goes_on, step, (times, state, tf.zeros((tf.shape(times)[0], 2)))
        )
        return state, impulse

    def _step(self, state: _State, dt: tf.Tensor, wrench: tf.Tensor):
        """Returns the state after a step of Heun's method, and the impulse on the fixed body."""
        u, v, bodies = state
        steps = dt[:, None, None]
        inside = None
        if self._ellipse is not None:
            bodies = tf.concat([bodies[:, :3] + dt[:, None] * bodies[:, 3:], bodies[:, 3:]], 1)
            inside = self._inside(bodies, dt)
        outlet = u[:, -1:] - steps * self._inflow * (u[:, -1:] - u[:, -2:-1]) / self.spacing
        push = dt[:, None] * wrench
        inner_u, inner_v = u[:, 1:-1], v[:, :, 1:-1]

        du_1, dv_1 = self._rates(u, v)
        guess_u, guess_v, _ = self._penalized(
            inner_u + steps * du_1, inner_v + steps * dv_1, steps, inside, push
        )
        du_2, dv_2 = self._rates(*self._projected(guess_u, guess_v, outlet))
        inner_u, inner_v, impulse = self._penalized(
            inner_u + 0.5 * steps * (du_1 + du_2),
            inner_v + 0.5 * steps * (dv_1 + dv_2),
            steps,
            inside,
            push,
        )
        u, v = self._projected(inner_u, inner_v, outlet)
        if inside is not None:
            # After the projection, whose pressure accounts for the ellipse's added mass.
            motion, _ = self._rigid(u[:, 1:-1], v[:, :, 1:-1], inside, tf.zeros_like(push))
            bodies = tf.concat([bodies[:, :3], motion], 1)
        return _State(u, v, bodies), impulse

    def _rates(self, u: tf.Tensor, v: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns du/dt [K, nx - 1, ny] and dv/dt [K, nx, ny - 1] by advection and diffusion."""
        is_closed = self._inflow == 0
        u_x = tf.concat([-u[:, 1:2], u, -u[:, -2:-1]] if is_closed else [u[:, :1], u, u[:, -1:]], 1)
        u_y = tf.pad(u[:, 1:-1], ((0, 0), (0, 0), (2, 2)), "SYMMETRIC")
        inner = v[:, :, 1:-1]
        if is_closed:
            v_x = tf.pad(inner, ((0, 0), (2, 2), (0, 0)), "SYMMETRIC")
        else:
            last = inner[:, -1:]
            v_x = tf.concat([-inner[:, 1:2], -inner[:, :1], inner, last, last], 1)
        v_y = tf.concat([-v[:, :, 1:2], v, -v[:, :, -2:-1]], 2)
        return (
            self._rate(u_x, u_y, u[:, 1:-1], _corners(v)),
            self._rate(v_x, v_y, _corners(u), inner),
        )

    def _rate(self, f_x: tf.Tensor, f_y: tf.Tensor, u: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        """Returns -(u, v) . grad f + nu Lap f; f_x and f_y extend two points beyond both ends."""
        h = self.spacing
        total = 0.0
        for axis, (f, speed) in enumerate(((f_x, u), (f_y, v)), start=1):
            a, b, c, d, e = _shifted(f, axis)
            total -= speed * (a - 8 * b + 8 * d - e) / (12 * h)
            total -= tf.abs(speed) * (a - 4 * b + 6 * c - 4 * d + e) / (12 * h)
            total += self._viscosity * (b - 2 * c + d) / h**2
        return total

    def _divergence(self, u: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        return (u[:, 1:] - u[:, :-1] + v[:, :, 1:] - v[:, :, :-1]) / self.spacing

    def _projected(self, inner_u, inner_v, outlet) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the velocities on all faces after the pressure has removed their divergence."""
        # Outflow must equal inflow, or no pressure could remove the divergence.
        outlet += self._inflow - tf.reduce_mean(outlet, 2, keepdims=True)
        inlet = tf.fill(tf.shape(outlet), self._inflow)
        walls = ((0, 0), (0, 0), (1, 1))
        u, v = tf.concat([inlet, inner_u, outlet], 1), tf.pad(inner_v, walls)
        pressure = self._poisson(self._divergence(u, v)) / self.spacing
        u = tf.concat([inlet, inner_u - (pressure[:, 1:] - pressure[:, :-1]), outlet], 1)
        v = tf.pad(inner_v - (pressure[:, :, 1:] - pressure[:, :, :-1]), walls)
        return u, v

    def _poisson(self, source: tf.Tensor) -> tf.Tensor:
        """Returns p with Lap p = source and zero normal gradient at the walls, [K, nx, ny]."""
        x, y = self._cosines
        spectrum = tf.einsum("ax,kxy,by->kab", x, source, y) * self._inverse
        return tf.einsum("ax,kab,by->kxy", x, spectrum, y)

    def _penalized(self, u, v, dt, inside, push) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns inner faces' velocities with rigid bodies, and the impulse on the fixed body."""
        impulse = tf.zeros_like(push[:, :2])
        if inside is not None:
            _, (u, v) = self._rigid(u, v, inside, push)
        if self._fixed is not None:
            slowed = u / (1 + dt * self._fixed[0]), v / (1 + dt * self._fixed[1])
            impulse = tf.stack(
                [tf.reduce_sum(field - new, (1, 2)) for field, new in zip((u, v), slowed)], 1
            ) * (self.spacing**2)
            u, v = slowed
        return u, v, impulse

    def _inside(self, bodies: tf.Tensor, dt: tf.Tensor):
        """Returns (lambda dt chi / (1 + lambda dt chi), offsets from the centre) at u and at v."""
        parts = []
        cosine, sine = (function(bodies[:, 2])[:, None, None] for function in (tf.cos, tf.sin))
        a, b = self._ellipse
        for x, y in (self._points_u, self._points_v):
            x, y = x - bodies[:, 0, None, None], y - bodies[:, 1, None, None]
            along, across = cosine * x + sine * y, cosine * y - sine * x
            # Distance to first order: f / |grad f| of f = 1 - radius, times the radius.
            radius = tf.sqrt((along / a) ** 2 + (across / b) ** 2)
            slope = tf.sqrt((along / a**2) ** 2 + (across / b**2) ** 2)
            distance = tf.maximum(radius, 1e-4) * (1 - radius) / tf.maximum(slope, 1e-4 / a)
            chi = tf.clip_by_value(distance / self.spacing, 0.0, 1.0)
            strength = PENALTY * dt[:, None, None] * chi
            parts.append((strength / (1 + strength), x, y))
        return parts

    def _rigid(self, u, v, inside, push):
        """Returns the rigid motions of the ellipses, and the velocities of the fluid that follows.

        The ellipses are as dense as the fluid, so they have the momenta of the fluid inside them
        and of `push`, an impulse and its moment, [K, 3].

        Returns:
          the motions [K, 3], velocities and spin; u and v on the inner faces.
        """
        (in_u, _, y), (in_v, x, _) = inside
        a, b = self._ellipse
        least = 0.1 * np.pi * a * b / self.spacing**2  # for an ellipse that has left the domain
        push = push / self.spacing**2

        def total(value):
            return tf.reduce_sum(value, (1, 2))

        mass_u, mass_v = (tf.maximum(total(field), least) for field in (in_u, in_v))
        moment_u, moment_v = -total(in_u * y), total(in_v * x)
        inertia = total(in_u * y**2) + total(in_v * x**2)
        inertia = tf.maximum(inertia, least * (a**2 + b**2) / 4)
        momentum_u, momentum_v = total(in_u * u) + push[:, 0], total(in_v * v) + push[:, 1]
        angular = total(in_v * x * v) - total(in_u * y * u) + push[:, 2]
        spin = (angular - moment_u * momentum_u / mass_u - moment_v * momentum_v / mass_v) / (
            inertia - moment_u**2 / mass_u - moment_v**2 / mass_v
        )
        speed_u = (momentum_u - moment_u * spin) / mass_u
        speed_v = (momentum_v - moment_v * spin) / mass_v
        motion = tf.stack([speed_u, speed_v, spin], 1)
        own_u, own_v, own_spin = (part[:, None, None] for part in tf.unstack(motion, axis=1))
        u += in_u * (own_u - own_spin * y - u)
        v += in_v * (own_v + own_spin * x - v)
        return motion, (u, v)


def _points(cells: int, spacing: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns the coordinates of the cells' faces and centres, float32."""
    faces = np.arange(cells + 1) * spacing
    return faces.astype(np.float32), (faces[:-1] + spacing / 2).astype(np.float32)


def _cosines(cells: int, spacing: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns the second difference's orthonormal eigenvectors, in rows, and its eigenvalues."""
    waves = np.arange(cells)
    vectors = np.cos(np.pi * waves[:, None] * (waves + 0.5) / cells) * np.sqrt(2 / cells)
    vectors[0] /= np.sqrt(2)
    return vectors, 2 * (np.cos(np.pi * waves / cells) - 1) / spacing**2


def _corners(f: tf.Tensor) -> tf.Tensor:
    """Returns the mean of each four neighbouring points."""
    return 0.25 * (f[:, :-1, :-1] + f[:, 1:, :-1] + f[:, :-1, 1:] + f[:, 1:, 1:])


def _shifted(f: tf.Tensor, axis: int) -> list[tf.Tensor]:
    """Returns five views of f, shifted by -2 to 2 points along an axis."""
    length = f.shape[axis] - 4
    views = [slice(shift, shift + length) for shift in range(5)]
    return [f[:, view] if axis == 1 else f[:, :, view] for view in views]


def _interpolated(grid: np.ndarray, points: np.ndarray, spacing: float) -> np.ndarray:
    """Returns `grid` [K, X, Y], with its origin at (0, 0), at `points` [K, M, 2], as [K, M]."""
    last = np.array(grid.shape[1:]) - 1
    places = np.clip(points / spacing, 0, last)
    low = np.minimum(places.astype(int), last - 1)
    right, up = np.moveaxis(places - low, -1, 0)
    i, j = np.moveaxis(low, -1, 0)
    rows = np.arange(len(grid))[:, None]
    below = (1 - right) * grid[rows, i, j] + right * grid[rows, i + 1, j]
    above = (1 - right) * grid[rows, i, j + 1] + right * grid[rows, i + 1, j + 1]
    return (1 - up) * below + up * above
