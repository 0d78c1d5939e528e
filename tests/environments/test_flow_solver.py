"""Tests of common.environments.flow_solver beside closed forms and plain NumPy."""

import numpy as np
import pytest

from common.environments.flow_solver import Solver

VISCOSITY = 0.05


def taylor_green(n):
    """Returns a solver of n x n cells in [0, pi]^2, and u at the time 0."""
    h = np.pi / n
    faces, middles = np.arange(n + 1) * h, (np.arange(n) + 0.5) * h
    u = np.sin(faces)[:, None] * np.cos(middles)
    solver = Solver((n, n), h, VISCOSITY, 0.0)
    solver.set_velocity(u[None], -u.T[None])
    return solver, u


def wind_tunnel(cells=8, ellipse=None, viscosity=0.02):
    """Returns a small channel with a round cylinder."""
    return Solver(
        (4 * cells, 3 * cells),
        1 / cells,
        viscosity,
        1.0,
        lambda x, y: 0.5 - np.hypot(x - 1.2, y - 1.5),
        ellipse,
    )


def random_flows(flows, cells, seed=0):
    rng = np.random.default_rng(seed)
    nx, ny = cells
    u = 1 + 0.2 * rng.standard_normal((flows, nx + 1, ny))
    return u, 0.2 * rng.standard_normal((flows, nx, ny + 1))


def test_taylor_green_vortices_between_slip_walls_converge_at_second_order():
    errors = []
    for n in (8, 16, 32):
        solver, u = taylor_green(n)
        solver.advance(1.0)
        errors.append(np.abs(solver.velocity()[0][0] - np.exp(-2 * VISCOSITY) * u).max())
    assert errors[0] < 0.02
    assert np.all(np.log2(np.divide(errors[:-1], errors[1:])) > 1.8)


def test_the_divergence_is_that_of_rounding():
    solver = wind_tunnel()
    solver.set_velocity(*random_flows(2, solver.cells))
    assert np.abs(solver.divergence()).max() > 1
    solver.advance(0.5)
    assert np.abs(solver.divergence()).max() < 5e-5
    u, v = solver.velocity()
    np.testing.assert_allclose(u[:, [0, -1]].mean(2), 1, atol=1e-6)
    assert not v[:, :, [0, -1]].any()


def test_a_poisson_solution_has_the_source_and_no_gradient_at_the_walls():
    solver = wind_tunnel()
    source = np.random.default_rng(1).standard_normal((2, *solver.cells)).astype(np.float32)
    source -= source.mean((1, 2), keepdims=True)
    padded = np.pad(solver._poisson(source).numpy(), ((0, 0), (1, 1), (1, 1)), "edge")
    laplacian = np.diff(padded, 2, 1)[:, :, 1:-1] + np.diff(padded, 2, 2)[:, 1:-1]
    np.testing.assert_allclose(laplacian / solver.spacing**2, source, atol=1e-3)


def test_advection_is_exact_for_cubics_and_its_bias_damps():
    """Of third order: u df/dx of a cubic is exact; of x^4 the bias adds |u| h^3 / 12 f'''' = 2."""
    solver = Solver((8, 8), 1.0, 0.0, 1.0)
    x = np.arange(12.0)[None, :, None] * np.ones((1, 1, 8))
    flat = np.zeros((1, 8, 12))
    for speed in (1.0, -1.0):
        velocity, none = np.full((1, 8, 8), speed), np.zeros((1, 8, 8))
        for power, bias in ((3, 0.0), (4, 2.0)):
            rate = solver._rate(x**power, flat, velocity, none)
            slope = power * x[:, 2:-2] ** (power - 1)
            np.testing.assert_allclose(rate, -speed * slope - bias, rtol=1e-6)


def test_no_flow_depends_on_its_neighbours():
    """Time steps are of each flow, and one that has arrived stays as it is."""
    alone, together = wind_tunnel(), wind_tunnel()
    u, v = random_flows(3, alone.cells)
    u[1:] *= 3
    alone.set_velocity(u[:1], v[:1])
    together.set_velocity(u, v)
    force = alone.advance(0.3)
    forces = together.advance(np.array([0.3, 0.3, 0.0]))
    np.testing.assert_allclose(forces[0], force[0], rtol=1e-3)
    np.testing.assert_allclose(together.velocity()[0][0], alone.velocity()[0][0], atol=1e-4)
    np.testing.assert_array_equal(together.velocity()[0][2], np.float32(u[2]))
    assert not forces[2].any()


def test_a_cylinder_stops_the_fluid_inside_and_is_dragged_along():
    solver = wind_tunnel()
    nx, ny = solver.cells
    solver.set_velocity(np.ones((1, nx + 1, ny)), np.zeros((1, nx, ny + 1)))
    force = solver.advance(3.0)[0]
    assert 0.5 < force[0] < 5 and abs(force[1]) < 1e-3
    u, _ = solver.velocity()
    assert np.abs(u[0, 9:11, 11:13]).max() < 0.1 and u.max() > 1.2


def test_an_ellipse_at_rest_is_taken_along_by_the_flow():
    """Potential flow: at once by its added mass's share, pi b^2 along its major axis or pi a^2."""
    a, b = 0.5, 0.1
    solver = Solver((128, 128), 1 / 32, 1e-4, 1.0, ellipse=(a, b))
    solver.set_velocity(np.ones((2, 129, 128)), np.zeros((2, 128, 129)))
    solver.place(np.array([[2.0, 2.0, 0.0], [2.0, 2.0, np.pi / 2]]), np.arange(2))
    assert not solver.bodies()[:, 3:].any()
    assert np.all(np.abs(solver.velocity()[0][:, 64, 63:65]) < 1e-3)  # the fluid in their places
    solver.advance(0.01)
    first = solver.bodies()[:, 3]
    np.testing.assert_allclose(first, [b / (a + b), a / (a + b)], atol=0.08)
    solver.advance(0.5)
    assert np.all(solver.bodies()[:, 3] > first) and np.all(solver.bodies()[:, 3] < 1)


def test_a_push_gives_an_ellipse_and_its_added_mass_their_momentum():
    """Potential flow: of an ellipse pushed along its major axis the added mass is pi b^2."""
    a, b, time = 0.5, 0.1, 0.1
    solver = Solver((128, 128), 1 / 32, 1e-4, 0.0, ellipse=(a, b))
    solver.set_velocity(np.zeros((2, 129, 128)), np.zeros((2, 128, 129)))
    solver.place(np.array([[2.0, 2.0, 0.0]] * 2), np.arange(2))
    solver.advance(time, np.array([[0.1, 0, 0], [0, 0.1, 0]]))
    along, across = solver.bodies()[0, 3], solver.bodies()[1, 4]
    mass = np.pi * a * b
    assert along == pytest.approx(0.1 * time / (mass + np.pi * b**2), rel=0.25)
    assert across == pytest.approx(0.1 * time / (mass + np.pi * a**2), rel=0.25)


def test_a_torque_turns_an_ellipse_to_the_left():
    solver = Solver((32, 32), 1 / 16, 0.01, 0.0, ellipse=(0.5, 0.1))
    solver.set_velocity(np.zeros((1, 33, 32)), np.zeros((1, 32, 33)))
    solver.place(np.array([[1.0, 1.0, 0.0]]), np.array([0]))
    solver.advance(0.5, np.array([[0, 0, 0.05]]))
    x, y, angle, _, _, spin = solver.bodies()[0]
    assert angle > 0.01 and spin > 0 and abs(x - 1) < 0.01 and abs(y - 1) < 0.01
    _, v = solver.velocity()
    assert v[0, 22, 16] > 0 > v[0, 9, 16]  # the fluid at its right end rises


def test_velocities_are_sampled_bilinearly():
    solver = Solver((8, 8), 0.25, 0.01, 0.0)
    faces, middles = np.arange(9) * 0.25, (np.arange(8) + 0.5) * 0.25
    u = 2 * faces[:, None] + 3 * middles
    v = 5 * middles[:, None] - faces
    solver.set_velocity(u[None], v[None])
    points = np.random.default_rng(0).uniform(0.2, 1.8, (1, 5, 2))
    x, y = np.moveaxis(points, -1, 0)
    expected = np.stack([2 * x + 3 * y, 5 * x - y], -1)
    np.testing.assert_allclose(solver.sample(points), expected, rtol=1e-5)


def test_a_flow_beyond_all_numbers_ends_with_a_force_that_is_none():
    solver = wind_tunnel()
    u, v = random_flows(1, solver.cells)
    u[0, 5, 5] = np.nan
    solver.set_velocity(u, v)
    assert not np.isfinite(solver.advance(0.1)).all()


def test_velocities_of_other_shapes_are_refused():
    with pytest.raises(ValueError, match=r"\[K, 33, 24\] and \[K, 32, 25\], got \[1, 32, 24\]"):
        wind_tunnel().set_velocity(np.zeros((1, 32, 24)), np.zeros((1, 32, 25)))
