"""Tests of common.environments.flow_suite and flow_solver."""

import numpy as np
import pytest
import tensorflow as tf

from common import environments
from common.environments.flow_solver import COURANT, Solver
from common.environments.spec import EnvironmentSpec

# XLA compiles the solver for each grid and number of flows, which takes longer than a few steps.
pytestmark = pytest.mark.usefixtures("eager")

# The solver, compared with closed forms and plain NumPy.

VISCOSITY = 0.05


def taylor_green(n):
    """Returns a solver of n x n cells in [0, pi]^2, and u at the time 0."""
    h = np.pi / n
    faces, middles = np.arange(n + 1) * h, (np.arange(n) + 0.5) * h
    u = np.sin(faces)[:, None] * np.cos(middles)
    solver = Solver((n, n), h, VISCOSITY, 0.0)
    solver.set_velocity(u[None], -u.T[None])
    return solver, u


def wind_tunnel():
    """Returns a small channel with a round cylinder."""
    return Solver((32, 24), 1 / 8, 0.02, 1.0, lambda x, y: 0.5 - np.hypot(x - 1.2, y - 1.5))


def random_flows(flows, cells, seed=0):
    rng = np.random.default_rng(seed)
    nx, ny = cells
    u = 1 + 0.2 * rng.standard_normal((flows, nx + 1, ny))
    return u, 0.2 * rng.standard_normal((flows, nx, ny + 1))


def test_taylor_green_vortices_between_slip_walls_converge_at_second_order():
    errors = []
    for n in (8, 16):
        solver, u = taylor_green(n)
        solver.advance(1.0)
        errors.append(np.abs(solver.velocity()[0][0] - np.exp(-2 * VISCOSITY) * u).max())
    assert errors[0] < 0.02
    assert np.log2(errors[0] / errors[1]) > 1.8


def test_the_divergence_is_that_of_rounding():
    solver = wind_tunnel()
    solver.set_velocity(*random_flows(3, solver.cells))
    assert np.abs(solver.divergence()).max() > 1
    solver.advance(0.2)
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
    solver = wind_tunnel()
    u, v = random_flows(3, solver.cells)
    u[1:] *= 3
    solver.set_velocity(u[:1], v[:1])
    force, alone = solver.advance(0.15), solver.velocity()[0]
    solver.set_velocity(u, v)
    forces, together = solver.advance(np.array([0.15, 0.15, 0.0])), solver.velocity()[0]
    np.testing.assert_allclose(forces[0], force[0], rtol=1e-3)
    np.testing.assert_allclose(together[0], alone[0], atol=1e-4)
    np.testing.assert_array_equal(together[2], np.float32(u[2]))
    assert not forces[2].any()


def test_a_cylinder_stops_the_fluid_inside_and_is_dragged_along():
    solver = wind_tunnel()
    nx, ny = solver.cells
    solver.set_velocity(np.ones((1, nx + 1, ny)), np.zeros((1, nx, ny + 1)))
    force = solver.advance(1.0)[0]
    assert 0.5 < force[0] < 5 and abs(force[1]) < 1e-3
    u, _ = solver.velocity()
    assert np.abs(u[0, 9:11, 11:13]).max() < 0.1 and u.max() > 1.2


def test_an_ellipse_at_rest_is_taken_along_by_the_flow():
    """Potential flow: at once by its added mass's share, pi b^2 along its major axis or pi a^2."""
    a, b = 0.5, 0.1
    solver = Solver((128, 128), 1 / 32, 1e-4, 1.0, ellipse=(a, b))
    solver.set_velocity(*random_flows(2, solver.cells))  # of which a start leaves nothing
    solver.start(np.array([[2.0, 2.0, 0.0], [2.0, 2.0, np.pi / 2]]), np.arange(2))
    assert not solver.bodies()[:, 3:].any()
    assert np.all(np.abs(solver.velocity()[0][:, 64, 63:65]) < 1e-3)  # the fluid in their places
    solver.advance(0.01)
    first = solver.bodies()[:, 3]
    np.testing.assert_allclose(first, [b / (a + b), a / (a + b)], atol=0.08)
    solver.advance(0.1)
    assert np.all(solver.bodies()[:, 3] > first) and np.all(solver.bodies()[:, 3] < 1)


def test_a_push_gives_an_ellipse_and_its_added_mass_their_momentum():
    """Potential flow: of an ellipse pushed along its major axis the added mass is pi b^2."""
    a, b, time = 0.5, 0.1, 0.1
    solver = Solver((128, 128), 1 / 32, 1e-4, 0.0, ellipse=(a, b))
    solver.set_velocity(np.zeros((2, 129, 128)), np.zeros((2, 128, 129)))
    solver.start(np.array([[2.0, 2.0, 0.0]] * 2), np.arange(2))
    solver.advance(time, np.array([[0.1, 0, 0], [0, 0.1, 0]]))
    along, across = solver.bodies()[0, 3], solver.bodies()[1, 4]
    mass = np.pi * a * b
    assert along == pytest.approx(0.1 * time / (mass + np.pi * b**2), rel=0.25)
    assert across == pytest.approx(0.1 * time / (mass + np.pi * a**2), rel=0.25)


def test_a_torque_turns_an_ellipse_to_the_left():
    solver = Solver((32, 32), 1 / 16, 0.01, 0.0, ellipse=(0.5, 0.1))
    solver.set_velocity(np.zeros((1, 33, 32)), np.zeros((1, 32, 33)))
    solver.start(np.array([[1.0, 1.0, 0.0]]), np.array([0]))
    solver.advance(0.5, np.array([[0, 0, 0.05]]))
    x, y, angle, _, _, spin = solver.bodies()[0]
    assert angle > 0.01 and spin > 0 and abs(x - 1) < 0.01 and abs(y - 1) < 0.01
    u, v = solver.velocity()
    assert v[0, 22, 16] > 0 > v[0, 9, 16]  # the fluid at its right end rises
    assert u[0, 16, 15] > 0 > u[0, 16, 16]  # that above its centre goes to the left


def test_a_flow_stops_when_its_ellipse_leaves_the_box_even_if_it_would_come_back():
    """The first pressure takes it along, and the force brings it back."""
    push, ends = np.array([[-3.0, 0, 0]] * 2), []
    for box in (None, np.array([[0, 2.5], [0, 4]])):
        solver = Solver((32, 32), 1 / 8, 0.01, 1.0, ellipse=(0.5, 0.1), box=box)
        solver.set_velocity(np.zeros((2, 33, 32)), np.zeros((2, 32, 33)))
        solver.start(np.array([[2.4, 2.0, np.pi / 2], [1.0, 2.0, np.pi / 2]]), np.arange(2))
        solver.advance(1.0, push)
        ends.append(solver.bodies()[:, 0])
        assert solver.is_outside().tolist() == [box is not None, False]
    (free, _), (stopped, _) = ends
    assert free < 2.5 < stopped < 2.6
    assert ends[0][1] == pytest.approx(ends[1][1], abs=1e-3)  # its neighbour goes on


# The suite, on its coarsest grid.

NAME = "flow:cylinder_8"
NOTHING = np.zeros((2, 3), np.float32)


@pytest.fixture(scope="module")
def two_flows():
    return environments.make_batch(NAME, [0, 1])


@pytest.fixture
def batch(two_flows):
    """Two flows whose solver is compiled, as in a run."""
    tf.config.run_functions_eagerly(False)
    return two_flows


def put(batch, *poses):
    """Starts the flows with ellipses at x, y and angle behind the half disc."""
    batch._solver.start(np.float32(poses) + np.float32([1.8, 2.0, 0.0]), np.arange(len(poses)))


def test_specs_and_starts(batch):
    spec = EnvironmentSpec.of(batch)
    assert (spec.observation_size, spec.action_size, spec.is_discrete) == (14, 3, False)
    starts = []
    for _ in range(10):
        timestep = batch.reset()
        assert not timestep.step_type.any() and not timestep.reward.any()
        assert np.all(timestep.discount == 1)
        starts.extend(timestep.observation)
    x, y, angle = np.transpose(starts)[:3]
    assert not np.array(starts)[:, 3:6].any()  # at rest in the half disc's frame
    assert np.all(np.abs(x - 2) <= 1.25) and np.all(np.abs(y) <= 1.25)
    assert np.ptp(x) > 1.5 and np.ptp(y) > 1.5
    assert np.all(np.abs(angle) <= np.pi / 4) and np.ptp(angle) > 0.7


def test_rewards_are_minus_the_square_of_the_action_and_minus_100_outside(batch):
    batch.reset()
    put(batch, (1.5, 0.0, 0.0), (3.45, 0.0, 0.0))
    action = np.float32([[0.1, -0.2, 0.3], [0.5, 0.0, 0.0]])
    timestep = batch.step(action)
    assert timestep.step_type.tolist() == [1, 2] and timestep.discount.tolist() == [1, 0]
    np.testing.assert_allclose(timestep.reward, [-0.14, -100], rtol=1e-6)
    assert timestep.observation[1, 0] > 3.5  # the last state is the one outside
    timestep = batch.step(action)
    assert timestep.step_type[1] == 0 and timestep.reward[1] == 0
    assert abs(timestep.observation[1, 0] - 2) <= 1.25


def test_an_episode_of_400_actions_ends_by_its_time(batch):
    batch.reset()
    put(batch, (1.5, 0.0, 0.0), (1.5, 0.0, 0.0))
    batch._actions[:] = [398, 397]
    timestep = batch.step(NOTHING)
    assert timestep.step_type.tolist() == [1, 1]
    put(batch, (1.5, 0.0, 0.0), (1.5, 0.0, 0.0))
    timestep = batch.step(NOTHING)
    assert timestep.step_type.tolist() == [2, 1] and timestep.discount.tolist() == [1, 1]
    assert timestep.reward.tolist() == [0, 0]


def test_equal_seeds_give_equal_flows(batch):
    def play(seeds):
        flows = environments.make_batch(NAME, seeds)
        flows._solver = batch._solver  # which is compiled
        actions = np.random.default_rng(0).normal(0, 0.3, (4, 2, 3)).astype(np.float32)
        return np.stack(
            [flows.reset().observation, *(flows.step(action).observation for action in actions)]
        )

    first = play([3, 4])
    np.testing.assert_array_equal(first, play([3, 4]))
    assert np.any(first[:, 0] != first[:, 1])


def test_sensors_are_the_flow_at_the_vertices_less_the_bodys_velocity(batch):
    batch.reset()
    timestep = batch.step(NOTHING)
    u, v = batch._solver.velocity()
    for row, observation in enumerate(timestep.observation):
        x, y, angle, speed_x, speed_y, spin = observation[:6]
        for vertex, (along, across) in enumerate([(0.5, 0), (-0.5, 0), (0, 0.1), (0, -0.1)]):
            dx = along * np.cos(angle) - across * np.sin(angle)
            dy = along * np.sin(angle) + across * np.cos(angle)
            column, line = 8 * (x + dx + 1.8), 8 * (y + dy + 2.0)
            flow = linear(u[row], column, line - 0.5), linear(v[row], column - 0.5, line)
            own = speed_x - spin * dy, speed_y + spin * dx
            sensed = observation[6 + 2 * vertex : 8 + 2 * vertex]
            np.testing.assert_allclose(sensed, np.subtract(flow, own), atol=1e-4)


def linear(grid, column, line):
    """Returns `grid` between its points."""
    rows = [np.interp(line, np.arange(grid.shape[1]), row) for row in grid]
    return np.interp(column, np.arange(grid.shape[0]), rows)


def test_an_episode_starts_in_fluid_at_rest_which_the_half_disc_leaves_behind(batch):
    batch.step(NOTHING + 0.3)
    batch.reset()
    u, v = batch._solver.velocity()
    is_fluid = (np.abs(u - 1) < 1e-6) | (np.abs(u) < 1e-3)  # the fluid, or that in the ellipse
    assert is_fluid.mean() > 0.98 and (np.abs(u - 1) < 1e-6).mean() > 0.9 and not v.any()


def test_a_few_lines_of_feedback_stay_to_the_end_at_a_small_cost(batch):
    """The task can be solved: leaving at once costs 100."""
    observation = batch.reset().observation
    batch._actions[:] = 300
    returns = 0.0
    for step in range(100):
        place, speed = observation[:, :2] - np.float32([1.2, 0]), observation[:, 3:5]
        action = np.pad(-0.5 * place - 0.3 * speed, ((0, 0), (0, 1)))
        timestep = batch.step(action)
        observation = timestep.observation
        returns += 0.995**step * timestep.reward
    assert timestep.step_type.tolist() == [2, 2] and timestep.discount.tolist() == [1, 1]
    assert np.all(returns > -90)


def test_one_environment_is_a_row_of_a_batch(monkeypatch):
    single, batch = environments.make(NAME, 7), environments.make_batch(NAME, [7, 8])
    np.testing.assert_allclose(single.reset().observation, batch.reset().observation[0], atol=1e-5)
    advance = Solver.advance
    monkeypatch.setattr(Solver, "advance", lambda self, time, push: advance(self, time / 10, push))
    action = np.float32([0.2, 0.1, -0.1])
    timestep, both = single.step(action), batch.step(np.stack([action, action]))
    np.testing.assert_allclose(timestep.observation, both.observation[0], atol=1e-3)
    assert timestep.reward == pytest.approx(both.reward[0])


def test_a_picture_shows_vorticity_and_bodies():
    environment = environments.make(NAME, 0)
    environment.reset()
    picture = environment.render(100, 160)
    assert picture.shape == (100, 160, 3) and picture.dtype == np.uint8
    assert np.all(picture[50, 32] == 102)  # the half disc
    assert np.all(picture[:9] == 255) and np.all(picture[-9:] == 255)  # beside the domain
    y = (np.arange(32) + 0.5) / 8
    for shear, color in ((-2.5, [255, 128, 128]), (2.5, [128, 128, 255])):
        u = np.tile(shear * y, (1, 65, 1))  # turns everywhere, to the left if u falls with y
        environment._batch._solver.set_velocity(u, np.zeros((1, 64, 33)))
        shown = environment.render(100, 160)[12:-12]
        is_body = np.all(shown == 102, -1)
        assert 0 < is_body.mean() < 0.1
        np.testing.assert_allclose(shown[~is_body], np.tile(color, (np.sum(~is_body), 1)), atol=1)


@pytest.mark.parametrize(
    "name, cells, courant",
    [("cylinder", 32, COURANT), ("cylinder_8", 8, COURANT), ("cylinder_16_courant_0.1", 16, 0.1)],
)
def test_a_name_has_the_grid_and_the_courant_number(name, cells, courant):
    solver = environments.make_batch(f"flow:{name}", [0])._solver
    assert solver.cells == (8 * cells, 4 * cells) and solver._courant == courant


@pytest.mark.parametrize(
    "name, words",
    [
        ("cylinder_20", '": the cells per diameter must be a multiple of 8'),
        ("cylinder_0", '": the cells per diameter must be'),
        ("cylinder_8_courant_0", '": the cells per diameter must be'),
        ("cylinder_courant_1.5", '": the cells per diameter must be'),
        ("cylinder_16000", ": 1 flows on 128000 x 64000 cells need "),
    ],
)
def test_a_grid_of_other_sizes_is_refused_in_one_line(name, words, refusal):
    assert f"flow:{name}{words}" in refusal(environments.make, f"flow:{name}", 0)


def test_a_flow_that_is_not_finite_is_named_in_one_line(batch, refusal):
    batch.reset()
    message = refusal(batch.step, np.float32([[0, 0, 0], [np.nan, 0, 0]]))
    assert message.startswith(f"{NAME}: the flow of environment 1 of this process is not finite a")
