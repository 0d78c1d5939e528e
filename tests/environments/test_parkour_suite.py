"""Tests of common.environments.parkour_suite."""

import mujoco
import numpy as np
import pytest

from common import environments
from common.environments import parkour_suite
from common.environments.parkour_suite import HUMANOID_X, HUMANOID_Y, PLANAR_X, Humanoid, Planar
from common.environments.spec import EnvironmentSpec

SIZES = {Planar: (19, 101, 6), Humanoid: (79, 461, 21)}


def boxes_of(model):
    """Returns the lows and the highs of the world's boxes, [N, 3] each."""
    of_world = model.geom_bodyid == 0
    assert np.all(model.geom_type[of_world] == mujoco.mjtGeom.mjGEOM_BOX)
    center, half = model.geom_pos[of_world], model.geom_size[of_world]
    return center - half, center + half


def brute_top(boxes, x, y=0.0):
    """Returns the highest top of what stands at a point, -2 m if there is nothing."""
    low, high = boxes
    stands = (low[:, 2] <= 0) & np.all((low[:, :2] <= [x, y]) & ([x, y] <= high[:, :2]), 1)
    return high[stands, 2].max(initial=-2.0)


def brute_underside(boxes, x):
    low, high = boxes
    hovers = (low[:, 2] > 0) & (low[:, 0] <= x) & (x <= high[:, 0])
    return low[hovers, 2].min(initial=np.inf)


def place(environment, x, y=None):
    """Moves the torso to x (and y); returns the terrain that it sees there and its lower foot."""
    data = environment.data
    if isinstance(environment, Planar):
        data.qpos[1] = x
    else:
        data.qpos[:2] = x, y
    mujoco.mj_forward(environment.model, data)
    foot = min(data.body(name).xpos[2] for name in ("left_foot", "right_foot"))
    return environment._observe()["terrain"], foot


def interesting_x(boxes, offsets):
    """Returns edges of boxes less an offset, so that a point is on the edge, and points between."""
    edges = np.unique([side[:, 0] for side in boxes])
    return [*np.subtract.outer(edges, offsets).ravel(), *np.linspace(-5, 125, 40)]


def test_points_are_denser_near_the_body():
    assert (PLANAR_X[0], PLANAR_X[-1], len(PLANAR_X)) == (pytest.approx(-0.72), 8, 50)
    assert (HUMANOID_X[0], HUMANOID_X[-1], len(HUMANOID_X)) == (pytest.approx(-0.735), 6, 20)
    assert (HUMANOID_Y[0], HUMANOID_Y[-1], len(HUMANOID_Y)) == (-2, 2, 23)
    ahead = PLANAR_X[PLANAR_X > 0]
    assert np.all(np.diff(ahead, n=2) > 0)


def test_planar_terrain_is_that_of_the_models_boxes():
    environment = Planar(3)
    environment.reset()
    boxes = boxes_of(environment.model)
    for x in interesting_x(boxes, (0.0, PLANAR_X[20], PLANAR_X[-1]))[::2]:
        seen, foot = place(environment, x)
        x, z = environment.data.body("torso").xpos[[0, 2]]
        expected = [
            z - brute_top(boxes, x),
            *(brute_top(boxes, x + ahead) - foot for ahead in PLANAR_X),
            *(brute_underside(boxes, x + ahead) - foot for ahead in PLANAR_X),
        ]
        np.testing.assert_allclose(seen, np.clip(expected, -2, 2), atol=1e-6)


def test_humanoid_terrain_is_that_of_the_models_boxes():
    environment = Humanoid(5)
    environment.reset()
    boxes = boxes_of(environment.model)
    xs = interesting_x(boxes, (0.0, HUMANOID_X[12]))[::5]
    for x, y in zip(xs, np.resize([0.0, 0.7, -1.5, 2.0], len(xs)), strict=True):
        seen, foot = place(environment, x, y)
        x, y = environment.data.body("torso").xpos[:2]
        expected = [
            brute_top(boxes, x + ahead, y + aside) - foot
            for ahead in HUMANOID_X
            for aside in HUMANOID_Y
        ]
        assert seen[0] == np.float32(y)
        np.testing.assert_allclose(seen[1:], np.clip(expected, -2, 2), atol=1e-6)


@pytest.mark.parametrize("body", SIZES)
def test_observations_have_the_papers_sizes_and_the_flat_one_ends_with_the_terrain(body):
    environment, sizes = body(0), SIZES[body]
    observation = environment.reset().observation
    assert list(observation) == ["proprioception", "terrain"]
    assert [part.shape[0] for part in observation.values()] == list(sizes[:2])
    assert all(part.dtype == np.float32 for part in observation.values())
    flat = environments.make(f"parkour:{body.__name__.lower()}", 0)
    assert EnvironmentSpec.of(flat) == EnvironmentSpec(
        sum(sizes[:2]), sizes[2], terrain_size=sizes[1]
    )
    np.testing.assert_array_equal(flat.reset().observation, np.concatenate([*observation.values()]))


@pytest.mark.parametrize("body", SIZES)
def test_rewards_follow_from_positions(body):
    environment = body(1)
    environment.reset()
    rng = np.random.default_rng(0)
    for _ in range(12):
        before = environment.data.body("torso").xpos.copy()
        action = rng.uniform(-1.5, 1.5, SIZES[body][2])  # actuators clip to [-1, 1]
        timestep = environment.step(action)
        x, y, _ = environment.data.body("torso").xpos
        v, w = (x - before[0]) / 0.025, (y - before[1]) / 0.025
        squared = np.sum(np.clip(action, -1, 1) ** 2)
        if body is Planar:
            expected = 0.025 * (v - 0.01 * squared)
        else:
            costs = 0.005 * (v * v + w * w) + 0.05 * y * y + 0.02 * squared
            expected = 0.025 * (min(v, 4) - costs + 0.02)
        assert timestep.reward == pytest.approx(expected, abs=1e-9)
        if timestep.last():
            break


def test_the_speed_of_the_humanoid_is_rewarded_up_to_four_metres_a_second():
    environment = Humanoid(1)
    environment.reset()
    environment.data.qvel[0] = 6.0
    before = environment.data.body("torso").xpos[0]
    reward = environment.step(np.zeros(21)).reward
    speed = (environment.data.body("torso").xpos[0] - before) / 0.025
    assert speed > 5 and reward < 0.025 * (4.0 - 0.005 * speed**2 + 0.02) + 1e-9


@pytest.mark.parametrize("body", SIZES)
def test_a_body_that_is_held_upright_reaches_the_time_limit_with_discount_1(body):
    environment = body(2)
    environment.reset()
    start, steps, timestep = environment.data.qpos.copy(), 0, None
    while timestep is None or not timestep.last():
        environment.data.qpos[:], environment.data.qvel[:] = start, 0
        timestep = environment.step(np.zeros(SIZES[body][2]))
        steps += 1
    assert steps == 1000 and timestep.discount == 1
    assert environment.step(np.zeros(SIZES[body][2])).first()


def gap_of(model):
    """Returns the begin and the end of the widest gap in the floor."""
    low, high = boxes_of(model)
    is_floor = high[:, 2] == 0
    begins, ends = high[is_floor, 0][:-1], low[is_floor, 0][1:]
    widest = np.argmax(ends - begins)
    return begins[widest], ends[widest]


@pytest.mark.parametrize("kind", ["lies", "leans", "sits", "in a gap", "humanoid lies"])
def test_falls_end_with_discount_0(kind):
    body = Humanoid if kind == "humanoid lies" else Planar
    environment = body(4)
    environment.reset()
    data = environment.data
    if body is Humanoid:
        data.qpos[2:7] = 1.0, np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0  # in the air
    elif kind == "lies":
        data.qpos[0], data.qpos[2] = -1.0, np.pi / 2
    elif kind == "leans":
        data.qpos[2] = np.arccos(0.15)
    elif kind == "sits":
        for side in ("left", "right"):
            data.joint(f"{side}_hip").qpos[0] = np.radians(100)
            data.joint(f"{side}_knee").qpos[0] = 0
    else:
        begin, end = gap_of(environment.model)
        data.qpos[0], data.qpos[1] = -1.5, (begin + end) / 2
    timestep = environment.step(np.zeros(SIZES[body][2]))
    assert timestep.last() and timestep.discount == 0


@pytest.mark.parametrize("body, index, length", [(Planar, 1, 120), (Humanoid, 0, 100)])
def test_the_end_of_the_course_has_discount_1(body, index, length):
    environment = body(4)
    environment.reset()
    environment.data.qpos[index] = length - 0.01
    assert environment.step(np.zeros(SIZES[body][2])).mid()
    environment.data.qpos[index] = length + 0.1
    timestep = environment.step(np.zeros(SIZES[body][2]))
    assert timestep.last() and timestep.discount == 1


@pytest.mark.parametrize("name", parkour_suite.names())
def test_equal_seeds_give_equal_episodes_and_each_episode_has_a_new_course(name):
    first, second, other = (environments.make(f"parkour:{name}", seed) for seed in (7, 7, 8))
    size = first.action_spec().shape[0]
    rng = np.random.default_rng(0)
    courses = []
    for _ in range(2):
        timesteps = [environment.reset() for environment in (first, second, other)]
        courses.append(first.wrapped.model.geom_pos.tolist())
        assert courses[-1] == second.wrapped.model.geom_pos.tolist()
        assert courses[-1] != other.wrapped.model.geom_pos.tolist()
        for _ in range(20):
            np.testing.assert_array_equal(timesteps[0].observation, timesteps[1].observation)
            assert timesteps[0].reward == timesteps[1].reward
            action = rng.uniform(-1, 1, size).astype(np.float32)
            timesteps = [environment.step(action) for environment in (first, second, other)]
    assert courses[0] != courses[1]


@pytest.mark.parametrize("body", SIZES)
def test_full_torques_give_finite_observations_and_no_warning(body):
    environment, rng = body(0), np.random.default_rng(0)
    timestep, action = environment.reset(), None
    for step in range(100):
        if step % 10 == 0:
            action = rng.choice([-1.0, 1.0], SIZES[body][2])
        timestep = environment.step(action)
        assert all(np.isfinite(part).all() for part in timestep.observation.values())
        assert not environment.data.warning.number.any()


@pytest.mark.parametrize(
    "make, start, free",
    [(parkour_suite.planar_course, 60.0, 3), (parkour_suite.humanoid_course, 50, 4)],
)
def test_courses_grow_more_difficult_and_are_never_the_same(make, start, free):
    generator = np.random.default_rng(0)
    made = [make(generator) for _ in range(15)]
    assert made[0].boxes != made[1].boxes
    early, late = [], []
    for course in made:
        floors = [box for box in course.boxes if box.center[2] == -parkour_suite.DEPTH / 2]
        edges = [(box.center[0] - box.half[0], box.center[0] + box.half[0]) for box in floors]
        assert (edges[0][0], edges[-1][1]) == pytest.approx((-6, course.length + 6))
        for (_, begin), (end, _) in zip(edges[:-1], edges[1:], strict=True):
            largest = 1.2 if make is parkour_suite.planar_course else 1.0
            assert begin >= 4 - 1e-9 and 0.2 - 1e-9 <= end - begin <= largest
            (late if begin > start else early).append(end - begin)
        xs = sorted({box.center[0] - box.half[0] for box in course.boxes if box not in floors})
        assert all(second - first > free for first, second in zip(xs[:-1], xs[1:], strict=True))
    assert np.mean(late) > np.mean(early) + 0.1


def test_planar_obstacles_have_the_sizes_of_their_kind():
    generator = np.random.default_rng(1)
    boxes = [box for _ in range(40) for box in parkour_suite.planar_course(generator).boxes]
    barriers = [box for box in boxes if not box.hovers and box.center[2] > 0]
    platforms = [box for box in boxes if box.hovers]
    assert min(len(barriers), len(platforms)) > 100
    for box in barriers:
        assert box.center[2] == pytest.approx(box.half[2])
        assert 0.05 <= 2 * box.half[2] <= 0.6 and 0.05 - 1e-9 <= box.half[0] <= 0.2 + 1e-9
    undersides = np.array([box.center[2] - box.half[2] for box in platforms])
    over = undersides < 0.5
    assert np.all((undersides[over] >= 0.05) & (undersides[over] <= 0.45))
    assert np.all((undersides[~over] >= 1.1 - 1e-9) & (undersides[~over] <= 1.85))
    assert 0.4 < over.mean() < 0.6
    assert all(box.half[2] == pytest.approx(0.05) for box in platforms)


def test_walls_have_an_opening_within_the_track():
    generator = np.random.default_rng(2)
    walls: dict[tuple[int, float], list[parkour_suite.Box]] = {}
    for number in range(20):
        for box in parkour_suite.humanoid_course(generator).boxes:
            if box.half[2] == 1.0 and box.center[2] == 1.0:
                walls.setdefault((number, box.center[0]), []).append(box)
    assert len(walls) > 50
    for (_, x), boxes in walls.items():
        difficulty = min(1.0, (x - 0.1) / 50)
        opening = 4.0 - sum(2 * box.half[1] for box in boxes)
        assert 2.2 - difficulty - 1e-6 <= opening <= 2.4 - difficulty + 0.02
        sides = {round(float(np.sign(box.center[1])), 1) for box in boxes}
        assert len(sides) == len(boxes)  # one at either side
