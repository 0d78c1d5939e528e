import pickle

import dm_env
from dm_env import specs
import numpy as np
import pytest

from common.environments import BrokenSpecError, UnusableEnvironmentError
from common.environments.batch import BatchedEnvironment
from common.environments.canonical import CanonicalBatch, CanonicalEnvironment
from common.environments.spec import EnvironmentSpec


class Still(dm_env.Environment):
    """An environment with given observations that records its action."""

    def __init__(self, observation_spec, action_spec, observation=None):
        self._specs = observation_spec, action_spec
        self._observation = observation
        self.action = None

    def reset(self):
        return dm_env.restart(self._observation)

    def step(self, action):
        self.action = action
        return dm_env.transition(0.0, self._observation)

    def observation_spec(self):
        return self._specs[0]

    def action_spec(self):
        return self._specs[1]


FLOATS = specs.Array((2,), np.float32)
BOUNDED = specs.BoundedArray((1,), np.float32, -1, 1)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_extreme_actions_stay_within_the_bounds(dtype):
    """Also where their sum rounds to a number beyond them, as 0.4 + 0.3 does."""
    edges = np.random.default_rng(0).normal(size=(2, 1000)) * 10.0 ** np.arange(-5, 5).repeat(100)
    low, high = np.sort(np.r_["1", edges, [[0.1], [0.7]]].astype(dtype), axis=0)
    inner = Still(
        specs.Array((1,), dtype), specs.BoundedArray(low.shape, dtype, low, high), np.zeros(1)
    )
    environment = CanonicalEnvironment(inner)
    for canonical, bound in ((1, high), (-1, low)):
        environment.step(np.full(low.shape, canonical, np.float32))
        assert (low <= inner.action).all() and (inner.action <= high).all()
        distance = np.abs(inner.action - bound) / np.spacing(np.maximum(abs(low), abs(high)))
        assert distance.max() <= 3 and inner.action.dtype == dtype


@pytest.mark.parametrize("order, size", [(("sight", "terrain"), 4), (("terrain", "sight"), 0)])
def test_the_spec_says_how_many_of_the_last_numbers_are_terrain(order, size):
    parts = {"sight": specs.Array((2,), float), "terrain": specs.Array((2, 2), float)}
    environment = CanonicalEnvironment(Still({name: parts[name] for name in order}, BOUNDED))
    spec = environment.observation_spec()
    assert (spec.shape, spec.terrain_size) == ((6,), size)
    copy = pickle.loads(pickle.dumps(spec))
    assert (copy, copy.terrain_size, copy.name) == (spec, size, "observation")
    assert EnvironmentSpec.of(environment).terrain_size == size


@pytest.mark.parametrize(
    "spec, observation, expected",
    [
        ([FLOATS, FLOATS], [np.array([1, 2]), np.array([3, 4])], [1, 2, 3, 4]),
        (
            {"b": {"y": FLOATS, "x": specs.Array((), float)}, "a": (FLOATS,)},
            {"a": (np.array([4, 5]),), "b": {"x": 3.0, "y": np.array([1, 2])}},
            [1, 2, 3, 4, 5],
        ),
    ],
    ids=["list", "nest"],
)
def test_any_nest_of_arrays_is_observed(spec, observation, expected):
    environment = CanonicalEnvironment(Still(spec, BOUNDED, observation))
    assert environment.observation_spec().shape == (len(expected),)
    flat = environment.reset().observation
    assert flat.dtype == np.float32
    np.testing.assert_array_equal(flat, expected)
    assert not np.shares_memory(flat, environment.reset().observation)


_UNEQUAL = specs.BoundedArray((3,), float, minimum=[-1, 0, -2], maximum=[1, 10, 6])


@pytest.mark.parametrize(
    "bounds, canonical, expected",
    [
        (_UNEQUAL, [-1, -1, -1], [-1, 0, -2]),
        (_UNEQUAL, [1, 1, 1], [1, 10, 6]),
        (_UNEQUAL, [0.5, 0.5, -0.5], [0.5, 7.5, 0]),
        (_UNEQUAL, [3, -2, 2], [3, -5, 10]),  # Affine beyond the bounds: nothing is clipped.
        (specs.BoundedArray((), np.float32, 0, 10), [-1], 0),
        (specs.BoundedArray((2, 2), np.float32, 0, 10), [-1, 0, 0.5, 1], [[0, 5], [7.5, 10]]),
    ],
)
def test_actions_are_mapped_affinely_to_the_shape_and_dtype_of_the_bounds(
    bounds, canonical, expected
):
    still = Still(FLOATS, bounds, np.zeros(2))
    environment = CanonicalEnvironment(still)
    unit = specs.BoundedArray((len(canonical),), np.float32, -1, 1)
    assert environment.action_spec() == unit
    environment.step(np.array(canonical, np.float32))
    assert still.action.shape == bounds.shape and still.action.dtype == bounds.dtype
    np.testing.assert_allclose(still.action, expected)


@pytest.mark.parametrize(
    "bounds, canonical, expected",
    [
        (specs.BoundedArray((3,), np.int64, [-3, 0, 1], [3, 1, 1]), [6, 1, 0], [3, 1, 1]),
        (specs.BoundedArray((2,), np.uint8, 250, 255), [0, 5], [250, 255]),
        (specs.BoundedArray((2, 2), np.int32, -1, 1), [0, 1, 2, 0], [[-1, 0], [1, -1]]),
    ],
    ids=["vector", "uint8", "matrix"],
)
def test_integers_count_from_zero_whatever_their_minimum(bounds, canonical, expected):
    still = Still(FLOATS, bounds, np.zeros(2))
    environment = CanonicalEnvironment(still)
    choices = np.ravel(np.broadcast_to(bounds.maximum - bounds.minimum, bounds.shape)) + 1
    batch = BatchedEnvironment([environment, CanonicalEnvironment(Still(FLOATS, bounds))])
    for each in (environment, batch):
        assert EnvironmentSpec.of(each) == EnvironmentSpec(
            2, len(canonical), action_choices=tuple(choices.tolist())
        )
    action = np.array(canonical, np.int32)
    environment.action_spec().validate(action)
    with pytest.raises(ValueError):
        environment.action_spec().validate(choices.astype(np.int32))
    environment.reset()
    environment.step(action)
    assert still.action.dtype == bounds.dtype and still.action.shape == bounds.shape
    np.testing.assert_array_equal(still.action, expected)


def test_a_discrete_action_stays_one():
    stills = [Still(FLOATS, specs.DiscreteArray(4), np.zeros(2)) for _ in range(2)]
    environments = [CanonicalEnvironment(still) for still in stills]
    batch = CanonicalBatch(environments)
    for each in (environments[0], batch):
        assert EnvironmentSpec.of(each) == EnvironmentSpec(2, 4, is_discrete=True)
    environments[0].reset()
    environments[0].step(np.int32(3))
    assert stills[0].action == 3 and stills[0].action.shape == ()
    batch.reset()
    batch.step(np.array([1, 2], np.int32))
    assert [still.action for still in stills] == [1, 2]


@pytest.mark.parametrize(
    "observations, actions, words",
    [
        ({"view": specs.Array((9,) * 5, np.uint8)}, BOUNDED, ["observation['view']", "5 axes"]),
        ({"n": specs.DiscreteArray(5000)}, BOUNDED, ["observation['n']", "5,000 values, too many"]),
        ({"name": specs.StringArray(())}, BOUNDED, ["observation['name']", "StringArray"]),
        ({}, BOUNDED, ["observation is empty"]),
        (
            FLOATS,
            specs.BoundedArray((2,), bool, False, True),
            ["actions", "bounded array of floats or integers", "bool"],
        ),
        (FLOATS, specs.BoundedArray((2,), np.int64, 0, 2**31), ["fewer than 2^31 values", "int64"]),
        (FLOATS, specs.Array((2,), float), ["actions", "BoundedArray"]),
        (FLOATS, specs.BoundedArray((2,), float, -np.inf, 1), ["actions", "finite bounds", "-inf"]),
        (FLOATS, {"left": BOUNDED}, ["actions", "one bounded array", "left"]),
    ],
)
def test_what_is_no_continuous_control_is_refused(observations, actions, words, refusal):
    message = refusal(CanonicalEnvironment, Still(observations, actions))
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    "spec, observation, words",
    [
        (specs.Array((2, 2), float), np.zeros(1), ["float64 [1]", "float64 [2, 2]"]),
        (FLOATS, 5.0, ["observation is 5.0", "float32 [2]"]),
        (specs.Array((), float), None, ["observation is None", "float64 []"]),
        (FLOATS, np.array(["1", "2"]), ["<U1 [2]"]),
        (FLOATS, [[1.0], [2.0, 3.0]], ["[[1.0], [2.0, 3.0]]"]),
        ({"arm": {"q": FLOATS}}, {"arm": {"p": np.zeros(2)}}, ["observation['arm']['q']", "'p'"]),
        ([FLOATS, FLOATS], [np.zeros(2)], ["observation[1]"]),
    ],
    ids=str,
)
def test_what_the_spec_does_not_say_is_named(spec, observation, words, refusal):
    environment = CanonicalEnvironment(Still(spec, BOUNDED, observation))
    message = refusal(environment.reset, error=BrokenSpecError)
    for word in words:
        assert word in message


def test_without_a_picture_or_a_length_of_steps():
    environment = CanonicalEnvironment(Still(FLOATS, BOUNDED))
    assert environment.control_timestep() == 0.04
    with pytest.raises(UnusableEnvironmentError, match=r"no method render\(height, width\)"):
        environment.render(2, 3)


class Recorder(dm_env.Environment):
    """An environment of a matrix and a reused vector, whose episodes have two steps."""

    def __init__(self, bound):
        self.action = None
        self._bound = bound
        self._steps = 2
        self._vector = np.zeros(2)

    def _observation(self):
        return {"z": np.array([[2.0, 3.0], [4.0, 5.0]]), "a": self._vector}

    def reset(self):
        self._steps = 0
        self._vector[:] = 0
        return dm_env.restart(self._observation())

    def step(self, action):
        if self._steps == 2:
            return self.reset()
        self.action = action
        self._steps += 1
        self._vector += 1
        return dm_env.TimeStep(dm_env.StepType(self._steps), 2.0, 0.5, self._observation())

    def observation_spec(self):
        return {"z": specs.Array((2, 2), float), "a": specs.Array((2,), float)}

    def action_spec(self):
        return specs.BoundedArray((3, 1), np.float32, minimum=-self._bound, maximum=2 * self._bound)


def test_a_batch_gives_what_its_environments_give_one_by_one():
    inner = [Recorder(bound) for bound in (1, 10)]
    batch = CanonicalBatch([CanonicalEnvironment(each) for each in inner])
    alone = [Recorder(bound) for bound in (1, 10)]
    others = BatchedEnvironment([CanonicalEnvironment(each) for each in alone])
    assert batch.observation_spec() == others.observation_spec()
    assert batch.action_spec() == others.action_spec()
    timesteps = [(batch.reset(), others.reset())]
    for actions in np.random.default_rng(0).normal(size=(5, 2, 3)).astype(np.float32):
        timesteps.append((batch.step(actions), others.step(actions)))
        for each, other in zip(inner, alone):
            assert each.action.dtype == np.float32 and each.action.shape == (3, 1)
            np.testing.assert_array_equal(each.action, other.action)
    # Compared at the end: what was returned earlier is never written again.
    for ours, expected in timesteps:
        for field, other in zip(ours, expected):
            assert field.dtype == other.dtype
            np.testing.assert_array_equal(field, other)
    assert [ours.step_type[0] for ours, _ in timesteps] == [0, 1, 2, 0, 1, 2]


def test_a_batch_takes_one_kind_of_wrapped_actions():
    bounds = specs.BoundedArray((1,), np.float64, -1, 1)
    kinds = [CanonicalEnvironment(Still(FLOATS, each)) for each in (BOUNDED, bounds)]
    with pytest.raises(
        BrokenSpecError, match="environment 1 has a different action spec .*float64"
    ):
        CanonicalBatch(kinds)


def test_a_batch_names_the_environment_that_breaks_its_spec():
    good, bad = (Still(FLOATS, BOUNDED, np.zeros(size)) for size in (2, 3))
    batch = CanonicalBatch([CanonicalEnvironment(good), CanonicalEnvironment(bad)])
    with pytest.raises(BrokenSpecError, match=r"environment 1: its observation is float64 \[3\]"):
        batch.reset()
