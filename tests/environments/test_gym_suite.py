"""Tests of common.environments.gym_suite, compared with Gymnasium's own environments."""

import pathlib
import pickle

import gymnasium
from gymnasium import spaces
import mujoco
import numpy as np
import pytest

from common import environments
from common.environments import (
    BrokenSpecError,
    UnknownEnvironmentError,
    UnusableEnvironmentError,
    gym_suite,
    gym_tasks,
    user_code,
)
from common.environments.batch import WatchedBatch
from common.environments.canonical import CanonicalBatch, CanonicalEnvironment
from common.environments.gym_suite import GymEnvironment
from common.environments.mujoco_batch import MujocoBatch
from common.environments.spec import EnvironmentSpec

SIZES = {
    "Ant-v4": (111, 8, 1.0),
    "HalfCheetah-v4": (17, 6, 1.0),
    "Hopper-v4": (11, 3, 1.0),
    "Humanoid-v4": (376, 17, 0.4),
    "HumanoidStandup-v4": (376, 17, 0.4),
    "InvertedDoublePendulum-v4": (11, 1, 1.0),
    "InvertedPendulum-v4": (4, 1, 3.0),
    "Reacher-v4": (11, 2, 1.0),
    "Swimmer-v4": (8, 2, 1.0),
    "Walker2d-v4": (17, 6, 1.0),
}
"""Numbers of an observation and an action, and the bound of an action (refer.md, section 4)."""


class Scripted(gymnasium.Env):
    """An environment with the ends of a script: pairs (terminated, truncated)."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-2, 2, (1,), np.float32)

    def __init__(self, ends):
        self.ends, self.actions, self.seeds = list(ends), [], []

    def reset(self, *, seed=None, options=None):
        self.seeds.append(seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.actions.append(action)
        return np.ones(1, np.float32), 1.5, *self.ends.pop(0), {}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_those_of_the_paper(name):
    environment = environments.make(f"gym:{name}", 0)
    observation_size, action_size, bound = SIZES[name]
    assert environment.observation_spec().shape == (observation_size,)
    assert environment.action_spec().shape == (action_size,)
    np.testing.assert_allclose(environment.scale, bound, rtol=1e-6)
    environment.close()


def test_steps_are_those_of_gymnasium_with_actions_outside_their_bounds(capfd):
    ours = environments.make("gym:HalfCheetah-v4", 7)
    assert capfd.readouterr().err == ""  # no warnings about its version
    assert not pathlib.Path("MUJOCO_LOG.TXT").exists()
    with gym_suite._quiet():
        theirs = gymnasium.make("HalfCheetah-v4")
    observation, _ = theirs.reset(seed=7)
    timestep = ours.reset()
    random = np.random.default_rng(0)
    for _ in range(20):
        np.testing.assert_array_equal(timestep.observation, observation.astype(np.float32))
        action = random.normal(0, 2, 6).astype(np.float32)
        timestep = ours.step(action)
        observation, reward, *_ = theirs.step(action)
        assert timestep.reward == reward  # with the cost of the actions as they are
    ours.close()


def pair(name, k=3, **arguments):
    """Returns a batch of an id, and the same environments stepped one by one."""
    made = [
        [
            CanonicalEnvironment(GymEnvironment(gymnasium.make(name, **arguments), seed))
            for seed in range(k)
        ]
        for _ in range(2)
    ]
    return gym_suite.batch_of(name, made[0]), CanonicalBatch(made[1])


def compare(batch, others, steps, scale=0.7):
    """Steps both, which must give the same; returns how often episodes ended, and with a fall."""
    generator, ends = np.random.default_rng(1), np.zeros(2, int)
    pairs = [(batch.reset(), others.reset())]
    shape = (batch.num_environments, *batch.action_spec().shape)
    for _ in range(steps):
        actions = generator.normal(scale=scale, size=shape).astype(np.float32)
        pairs.append((batch.step(actions), others.step(actions)))
        ends += np.sum(pairs[-1][0].step_type == 2), np.sum(pairs[-1][0].discount == 0)
    for ours, theirs in pairs:
        for mine, other in zip(ours, theirs):
            np.testing.assert_array_equal(mine, other)
            assert mine.dtype == other.dtype
    return tuple(ends)


@pytest.mark.parametrize("version", ["v4", "v5"])
@pytest.mark.parametrize("task", gym_tasks._KINDS)
def test_a_batch_is_as_gymnasium(task, version):
    """Its episodes end one by one, by falls or by the limit of steps."""
    name = f"{task}-{version}"
    batch = environments.make_batch(f"gym:{name}", range(2))
    assert isinstance(batch, MujocoBatch)
    ends, falls = compare(*pair(name, max_episode_steps=30), 100, 0.1 if "Pend" in task else 0.7)
    assert ends > falls or "Pendulum" in task
    assert bool(falls) == (task not in ("HalfCheetah", "Swimmer"))


def test_a_batch_has_the_arguments_of_its_environments():
    assert not isinstance(environments.make_batch("gym:Reacher-v4", range(2)), MujocoBatch)
    arguments = {"terminate_when_unhealthy": False, "healthy_reward": 2.0, "frame_skip": 3}
    ends, falls = compare(*pair("Hopper-v5", max_episode_steps=60, **arguments), 130)
    assert (ends, falls) == (6, 0)
    arguments = {"exclude_current_positions_from_observation": False, "forward_reward_weight": 3.0}
    compare(*pair("Swimmer-v4", **arguments), 5)
    compare(*pair("Hopper-v4", terminate_when_unhealthy=False), 60)


def test_an_unstable_simulation_in_a_batch_goes_on_as_in_gymnasium():
    batch, others = pair("HalfCheetah-v4", 2)
    batch.reset(), others.reset()
    batch._batch.qvel[1, 0] = others._environments[1].unwrapped.data.qvel[0] = 1e12
    actions = np.zeros((2, 6), np.float32)
    for _ in range(2):
        for mine, other in zip(batch.step(actions), others.step(actions)):
            np.testing.assert_array_equal(mine, other)


def test_an_unstable_simulation_is_a_warning_in_the_log(tmp_path, monkeypatch, caplog):
    caplog.set_level("WARNING", logger="absl")  # other tests of this process may have raised it
    monkeypatch.chdir(tmp_path)
    environment = environments.make("gym:HalfCheetah-v4", 0)
    environment.reset()
    environment.wrapped._environment.unwrapped.data.qvel[:] = 1e12
    environment.step(np.zeros(6, np.float32))
    assert "unstable" in caplog.text
    assert not list(tmp_path.iterdir())


def test_discrete_actions_of_flat_observations():
    batch = environments.make_batch("gym:CartPole-v1", [3, 4])
    assert EnvironmentSpec.of(batch) == EnvironmentSpec(4, 2, is_discrete=True)
    theirs = gymnasium.make("CartPole-v1")
    observation, _ = theirs.reset(seed=4)
    timestep = batch.reset()
    for action in (0, 1, 1):
        np.testing.assert_array_equal(timestep.observation[1], observation)
        timestep = batch.step(np.array([1 - action, action], np.int32))
        observation, *_ = theirs.step(action)


@pytest.mark.parametrize(
    "space, action, expected",
    [
        (spaces.Discrete(3, start=-1), np.int32(0), -1),
        (spaces.MultiDiscrete([3, 5], start=[1, -2]), np.array([2, 0], np.int32), [3, -2]),
        (spaces.MultiBinary(2), np.array([1, 0], np.int32), [1, 0]),
    ],
)
def test_integers_count_from_zero(space, action, expected):
    gym = Scripted([(False, False)])
    gym.action_space = space
    environment = CanonicalEnvironment(GymEnvironment(gym, seed=0))
    environment.reset()
    environment.step(action)
    spec = EnvironmentSpec.of(environment)
    if isinstance(space, spaces.Discrete):
        assert spec == EnvironmentSpec(1, 3, is_discrete=True) and type(gym.actions[0]) is int
    else:
        choices = (2, 2) if isinstance(space, spaces.MultiBinary) else (3, 5)
        assert spec == EnvironmentSpec(1, 2, action_choices=choices)
    for own in (gym.actions[0], environment.own_action(action)):
        np.testing.assert_array_equal(own, expected)
        assert own in space


@pytest.mark.parametrize(
    "shape, axes, expected",
    [
        ((3, 64, 60), (1, 2, 0), (64, 60, 3)),  # channels first
        ((4, 84, 80), (1, 2, 0), (84, 80, 4)),  # a stack of grey images
        ((64, 60), (0, 1), (64, 60, 1)),
        ((4, 64, 60, 3), (1, 2, 0, 3), (64, 60, 12)),  # a stack
        ((2, 3, 64, 60), (2, 3, 0, 1), (64, 60, 6)),  # a stack with channels first
        ((8, 9, 3), (0, 1, 2), (8, 9, 3)),
    ],
)
def test_the_channels_of_images_come_last(shape, axes, expected):
    picture = np.random.default_rng(0).integers(0, 256, shape, np.uint8)

    class Images(Scripted):
        observation_space = spaces.Box(0, 255, shape, np.uint8)
        action_space = spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return picture, {}

    made = [CanonicalEnvironment(GymEnvironment(Images([]), seed=0)) for _ in range(2)]
    assert EnvironmentSpec.of(made[0]).image_shape == expected
    image = made[0].reset().observation
    assert image.dtype == np.uint8
    np.testing.assert_array_equal(image, picture.transpose(axes).reshape(expected))
    np.testing.assert_array_equal(CanonicalBatch(made).reset().observation, [image, image])


def test_nests_are_joined_and_integers_become_one_hot_vectors():
    class Integers(Scripted):
        observation_space = spaces.Dict(
            a=spaces.Discrete(3, start=-1),
            b=spaces.MultiDiscrete([[2, 3]], start=[[0, 4]]),
            c=spaces.MultiBinary(2),
            d=spaces.Tuple([spaces.Box(0, 9, (1,), np.int64), spaces.Box(0, 9, (1, 2))]),
        )

        def reset(self, *, seed=None, options=None):
            return {
                "a": self.a,
                "b": np.array([[1, 4]]),
                "c": np.array([0, 1], np.int8),
                "d": ([7], np.array([[4.5, 5.0]])),
            }, {}

    gym = Integers([])
    gym.a = 1
    environment = CanonicalEnvironment(GymEnvironment(gym, seed=0))
    flat = environment.reset().observation
    np.testing.assert_array_equal(flat, [0, 0, 1, 0, 1, 1, 0, 0, 0, 1, 7, 4.5, 5])
    assert flat.dtype == np.float32 and environment.observation_spec().shape == (13,)
    gym.a = 2
    with pytest.raises(BrokenSpecError, match=r"observation\['a'\] is 2, but its spec"):
        environment.reset()
    frozen_lake = environments.make("gym:FrozenLake-v1(is_slippery=False)", 0)
    frozen_lake.reset()
    assert frozen_lake.step(np.int32(2)).observation.tolist() == [0, 1, *[0] * 14]


class Camera(Scripted):
    """Observes an image, channels first, with a vector and an integer."""

    observation_space = spaces.Dict(
        speed=spaces.Box(-1e9, 1e9, (4,)),
        camera=spaces.Box(0, 255, (3, 4, 5), np.uint8),
        gear=spaces.Discrete(2),
    )
    speed = np.array([1e-30, -2.5, 3.25e8, 0.1], np.float32)
    camera = np.random.default_rng(0).integers(0, 256, (3, 4, 5), np.uint8)

    def reset(self, *, seed=None, options=None):
        return {"speed": self.speed, "camera": self.camera, "gear": 1}, {}


def test_an_image_has_the_bytes_of_the_numbers_below_it():
    made = [CanonicalEnvironment(GymEnvironment(Camera([]), seed=0)) for _ in range(2)]
    spec = EnvironmentSpec.of(made[0])
    assert (spec.picture_shape, spec.vector_size) == ((4, 5, 3), 6)
    assert (spec.image_shape, spec.observation_dtype) == ((6, 5, 3), np.uint8)  # 24 of 30 bytes
    seen = made[0].reset().observation
    np.testing.assert_array_equal(seen[:4], Camera.camera.transpose(1, 2, 0))
    below = seen[4:].ravel()
    vector = [*Camera.speed, 0, 1]  # in the order of the space, which Gymnasium does not sort
    np.testing.assert_array_equal(below[:24].view(np.float32), np.float32(vector))
    assert not below[24:].any()
    np.testing.assert_array_equal(CanonicalBatch(made).reset().observation, [seen, seen])
    assert pickle.loads(pickle.dumps(made[0].observation_spec())).vector_size == 6


@pytest.mark.parametrize(
    "change, words",
    [
        ({"camera": Camera.camera[:2]}, r"observation\['camera'\] is uint8 \[2, 4, 5\], but"),
        ({"speed": np.zeros(3, np.float32)}, r"observation\['speed'\] is float32 \[3\], but"),
        ({"speed": np.float32([0, np.nan, 0, 0])}, "not finite"),
    ],
)
def test_a_broken_image_or_vector_is_named(change, words):
    gym = Camera([])
    vars(gym).update(change)
    with pytest.raises(UnusableEnvironmentError, match=words):
        CanonicalEnvironment(GymEnvironment(gym, seed=0)).reset()


def test_a_number_beside_an_image_that_is_not_finite_is_named_with_its_place():
    gym = Camera([])
    gym.speed = np.float32([0, np.inf, 0, 0])
    batch = CanonicalBatch([CanonicalEnvironment(GymEnvironment(gym, seed=0))])
    words = "cam: environment 0: its observation is not finite, at timestep 1 of this process"
    with pytest.raises(UnusableEnvironmentError, match=words):
        WatchedBatch(batch, "cam").reset()


def test_a_second_image_is_refused_with_a_way_out():
    class Two(Scripted):
        observation_space = spaces.Dict(
            {name: spaces.Box(0, 255, (8, 8, 3), np.uint8) for name in ("camera", "map")}
        )

    with pytest.raises(UnusableEnvironmentError, match="'map'.*second image.*FilterObservation"):
        CanonicalEnvironment(GymEnvironment(Two([]), seed=0))


def test_own_actions_are_those_of_gymnasium():
    environment = environments.make("gym:Pendulum-v1", 0)
    action = environment.own_action(np.array([-0.5], np.float32))
    assert action.dtype == np.float32 and action.tolist() == [-1.0]  # of [-2, 2]


def test_arguments_and_wrappers(refusal):
    def gravity(name):
        environment = environments.make(name, 0)
        timestep = environment.reset(), environment.step(np.zeros(1, np.float32))
        environment.close()
        return timestep[1].observation

    assert (gravity("gym:Pendulum-v1") != gravity("gym:Pendulum-v1(g=1.6)")).any()
    wrappers = ["FrameStackObservation(stack_size=3)", "TimeLimit(max_episode_steps=2)"]
    name = f"gym:CartPole-v1({wrappers=})"
    batch = environments.make_batch(name, [0, 1])
    assert batch.observation_spec().shape == (12,)
    batch.reset()
    steps = [batch.step(np.zeros(2, np.int32)).step_type.tolist() for _ in range(2)]
    assert steps == [[1, 1], [2, 2]]
    for name, words in (
        ("gym:Pendulum-v1(gravity=1)", "unexpected keyword argument 'gravity'"),
        ('gym:CartPole-v1(wrappers="FrameStack")', 'gymnasium.wrappers has no "FrameStack"; did y'),
        ("gym:CartPole-v1(3)", "arguments look like"),
        ("control:cartpole:swingup(a=1)", "environments of control take no arguments"),
    ):
        assert words in refusal(environments.make, name, 0)


OWN_ID = """
import gymnasium
import numpy as np

class Own(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Box(-1, 1, (1,))

    def __init__(self, size=1.0, limit=2):
        self.size, self.limit = size, limit

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.full(2, self.size, np.float32), {}

    def step(self, action):
        assert abs(action[0]) < self.limit, "too far"
        return np.zeros(2, np.float32), 0.0, False, False, {}

gymnasium.register("own/Own-v0", "own_ids:Own")
gymnasium.register("OwnPlain-v0", Own)
"""


def test_an_id_that_a_module_registers(tmp_path, monkeypatch):
    (tmp_path / "own_ids.py").write_text(OWN_ID)
    monkeypatch.syspath_prepend(tmp_path)
    environment = environments.make("gym:own_ids:own/Own-v0(size=0.5)", 0)
    assert environment.reset().observation.tolist() == [0.5, 0.5]
    with environments.opened("gym:own_ids:OwnPlain-v0", 0) as environment:
        assert environment.action_spec().shape == (1,)
    with pytest.raises(
        UnusableEnvironmentError, match=r"AssertionError: too far \(.*own_ids.py, l"
    ):
        with environments.opened("gym:own_ids:OwnPlain-v0(limit=1)", 0):
            pass
    with pytest.raises(UnknownEnvironmentError, match='did you mean "gym:own_ids:OwnPlain-v0"'):
        environments.make("gym:own_ids:OwnPlain-v1", 0)
    with pytest.raises(UnusableEnvironmentError, match='there is no module "no_such_ids"'):
        environments.make("gym:no_such_ids:Own-v0", 0)
    with pytest.raises(UnusableEnvironmentError, match="would import code from the run directory"):
        user_code.require_trusted("gym:own_ids:own/Own-v0", tmp_path)


def test_an_environment_that_draws_itself_is_drawn():
    class Drawn(Scripted):
        render_mode = "rgb_array"

        def render(self):
            return np.full((10, 30, 3), 7, np.uint8)

    environment = CanonicalEnvironment(GymEnvironment(Drawn([]), seed=0))
    picture = environment.render(height=20, width=40)
    assert picture.shape == (20, 40, 3) and (picture == 7).all()


@pytest.mark.parametrize(
    "terminated, truncated, discount", [(True, False, 0), (False, True, 1), (True, True, 0)]
)
def test_ends(terminated, truncated, discount):
    gym = Scripted([(False, False), (terminated, truncated), (False, False)])
    environment = GymEnvironment(gym, seed=5)
    assert environment.step(np.zeros(1, np.float32)).first()  # no episode yet
    assert environment.step(np.zeros(1, np.float32)).mid()
    last = environment.step(np.zeros(1, np.float32))
    assert last.last() and (last.discount, last.reward) == (discount, 1.5)
    assert environment.step(np.zeros(1, np.float32)).first()
    assert gym.seeds == [5, None] and len(gym.actions) == 2


def test_every_registered_id_with_arrays_may_be_given():
    environment = environments.make("gym:Pendulum-v1", 0)
    assert environment.reset().observation.shape == (3,)
    assert (
        "gym:Walker2d-v4" in environments.names() and "gym:Pendulum-v1" not in environments.names()
    )
    with pytest.raises(UnusableEnvironmentError, match="only Gymnasium's MuJoCo tasks"):
        environment.render(10, 10)


def test_an_old_version_names_the_one_to_use(refusal):
    message = refusal(environments.make, "gym:Walker2d-v2", 0)
    assert message.startswith('environment "gym:Walker2d-v2": ')
    assert 'use "gym:Walker2d-v4"' in message


def test_a_simulation_is_drawn_in_any_size_as_it_is_then(monkeypatch):
    class Renderer:
        """MuJoCo's renderer, which takes a driver."""

        def __init__(self, model, height, width):
            self.model, self.height, self.width = model, height, width

        def update_scene(self, data, camera):
            self.shown = data.qpos[0] + camera

        def render(self):
            return np.full((self.height, self.width, 3), self.shown)

        def close(self):
            del self.shown

    monkeypatch.setattr(mujoco, "Renderer", Renderer)
    for name, camera in (("HalfCheetah-v4", 0), ("InvertedPendulum-v4", -1)):  # its first or free
        environment = environments.make(f"gym:{name}", 0)
        simulation = environment.wrapped.unwrapped
        for place, size in enumerate(((24, 32), (24, 32), (48, 20))):
            simulation.data = mujoco.MjData(simulation.model)  # some make it for each episode
            simulation.data.qpos[0] = place
            picture = environment.render(*size)
            assert picture.shape == (*size, 3) and np.all(picture == place + camera)
        environment.close()
