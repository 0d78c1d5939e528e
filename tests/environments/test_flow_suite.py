"""Tests of common.environments.flow_suite, on its coarsest grid with short wakes."""

import subprocess
import sys

import numpy as np
import pytest

from common import environments
from common.environments import UnusableEnvironmentError, flow_suite
from common.environments.spec import EnvironmentSpec

NAME = "flow:cylinder_16"
NOTHING = np.zeros((2, 3), np.float32)


@pytest.fixture(scope="module", autouse=True)
def short_wakes():
    """Wakes that have not developed, which take seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flow_suite, "_DEVELOPED", 1.0)
        patch.setattr(flow_suite, "_PHASES", 3)
        flow_suite._wakes.cache_clear()
        yield
        flow_suite._wakes.cache_clear()


@pytest.fixture(scope="module")
def batch(short_wakes):
    return environments.make_batch(NAME, [0, 1])


def put(batch, *poses):
    """Places the ellipses at x, y and angle behind the half disc."""
    batch._solver.place(np.float32(poses) + np.float32([1.8, 2.0, 0.0]), np.arange(len(poses)))


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
    assert np.all(np.abs(x - 2) <= 0.5) and np.all(np.abs(y) <= 0.5)
    assert np.all(np.abs(angle) <= np.pi / 4) and np.ptp(angle) > 0.7


def test_rewards_are_minus_the_square_of_the_action_and_minus_100_outside(batch):
    batch.reset()
    put(batch, (1.5, 0.0, 0.0), (2.95, 0.0, 0.0))
    action = np.float32([[0.1, -0.2, 0.3], [0.5, 0.0, 0.0]])
    timestep = batch.step(action)
    assert timestep.step_type.tolist() == [1, 2] and timestep.discount.tolist() == [1, 0]
    np.testing.assert_allclose(timestep.reward, [-0.14, -100], rtol=1e-6)
    assert timestep.observation[1, 0] > 3  # the last state is the one outside
    timestep = batch.step(action)
    assert timestep.step_type[1] == 0 and timestep.reward[1] == 0
    assert abs(timestep.observation[1, 0] - 2) <= 0.5


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


def test_equal_seeds_give_equal_flows():
    def play(seeds):
        flows = environments.make_batch(NAME, seeds)
        actions = np.random.default_rng(0).normal(0, 0.3, (4, 2, 3)).astype(np.float32)
        return np.stack(
            [flows.reset().observation, *(flows.step(one).observation for one in actions)]
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
            column, line = 16 * (x + dx + 1.8), 16 * (y + dy + 2.0)
            flow = linear(u[row], column, line - 0.5), linear(v[row], column - 0.5, line)
            own = speed_x - spin * dy, speed_y + spin * dx
            sensed = observation[6 + 2 * vertex : 8 + 2 * vertex]
            np.testing.assert_allclose(sensed, np.subtract(flow, own), atol=1e-4)


def linear(grid, column, line):
    """Returns `grid` between its points."""
    rows = [np.interp(line, np.arange(grid.shape[1]), one) for one in grid]
    return np.interp(column, np.arange(grid.shape[0]), rows)


def test_an_ellipse_left_alone_drifts_downstream_out_of_the_box(batch):
    batch.reset()
    put(batch, (2.0, 0.8, 0.0), (2.0, -0.8, 0.0))
    ended = np.zeros(2, bool)
    for _ in range(6):
        timestep = batch.step(NOTHING)
        ended |= timestep.step_type == 2
    assert ended.all()


def test_one_environment_is_a_row_of_a_batch(batch):
    one, batch = environments.make(NAME, 7), environments.make_batch(NAME, [7, 8])
    np.testing.assert_allclose(one.reset().observation, batch.reset().observation[0], atol=1e-5)
    action = np.float32([0.2, 0.1, -0.1])
    timestep, both = one.step(action), batch.step(np.stack([action, action]))
    np.testing.assert_allclose(timestep.observation, both.observation[0], atol=1e-3)
    assert timestep.reward == pytest.approx(both.reward[0])


def test_a_picture_shows_vorticity_and_bodies():
    environment = environments.make(NAME, 0)
    environment.reset()
    picture = environment.render(100, 160)
    assert picture.shape == (100, 160, 3) and picture.dtype == np.uint8
    assert np.all(picture[50, 32] == 102)  # the half disc
    assert np.all(picture[:9] == 255) and np.all(picture[-9:] == 255)  # beside the domain
    y = (np.arange(64) + 0.5) / 16
    for shear, color in ((-2.5, [255, 128, 128]), (2.5, [128, 128, 255])):
        u = np.tile(shear * y, (1, 129, 1))  # turns everywhere, to the left if u falls with y
        environment._batch._solver.set_velocity(u, np.zeros((1, 128, 65)))
        shown = environment.render(100, 160)[12:-12]
        is_body = np.all(shown == 102, -1)
        assert 0 < is_body.mean() < 0.1
        np.testing.assert_allclose(shown[~is_body], np.tile(color, (np.sum(~is_body), 1)), atol=1)


@pytest.mark.parametrize("name", ["cylinder_20", "cylinder_0", "cylinder_8"])
def test_a_grid_of_other_sizes_is_refused_in_one_line(name):
    with pytest.raises(environments.UnknownEnvironmentError) as raised:
        environments.make(f"flow:{name}", 0)
    message = str(raised.value)
    assert message.startswith(
        f'unknown environment "flow:{name}": the cells a diameter must be a m'
    )
    assert "\n" not in message


def test_a_grid_beyond_memory_is_refused_with_its_size():
    with pytest.raises(UnusableEnvironmentError) as raised:
        environments.make_batch("flow:cylinder_16000", range(24))
    message = str(raised.value)
    assert message.startswith("flow:cylinder_16000: 24 flows on 128000 x 64000 cells take ")
    assert " GB of memory, and this machine has " in message and "\n" not in message


def test_a_flow_that_is_not_finite_is_named_in_one_line(batch):
    batch.reset()
    action = NOTHING.copy()
    action[1, 0] = np.nan
    with pytest.raises(UnusableEnvironmentError) as raised:
        batch.step(action)
    message = str(raised.value)
    assert message.startswith(f"{NAME}: the flow of environment 1 of this process is not finite a")
    assert "\n" not in message


def test_to_make_an_environment_imports_no_tensorflow():
    program = (
        "import sys; from common import environments; "
        "environments.make('flow:cylinder', 0).observation_spec(); "
        "sys.exit('tensorflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
