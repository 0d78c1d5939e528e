import sys

import numpy as np
import pytest

from common import environments
from common.environments import UnusableEnvironmentError, user_code
from common.environments.spec import EnvironmentSpec

MODULE = """
import dm_env
from dm_env import specs
import gymnasium
import numpy as np


class Still(dm_env.Environment):
    def __init__(self, seed=0, reward=0.0, discount=1.0, shape=(2,), start=0, least=-2, most=2):
        self._reward, self._discount, self._shape = reward, discount, shape
        self._start, self._least, self._most = dm_env.StepType(start), least, most

    def reset(self):
        return dm_env.restart(np.zeros(self._shape))._replace(step_type=self._start)

    def step(self, action):
        assert self._least < action.min() and action.max() < self._most, "too far"
        return dm_env.transition(self._reward, np.zeros(self._shape), self._discount)

    def observation_spec(self):
        return specs.Array((2,), float)

    def action_spec(self):
        return specs.BoundedArray((1,), float, -1, 1)


class Cart(gymnasium.Env):
    # As in Gymnasium's tutorials, actions are keys of a dictionary.
    observation_space = gymnasium.spaces.Dict(
        place=gymnasium.spaces.Box(-1, 1, (1,)), goal=gymnasium.spaces.Box(-1, 1, (2,))
    )
    action_space = gymnasium.spaces.Discrete(3)

    def observe(self):
        return {"place": self.np_random.random(1, np.float32), "goal": np.zeros(2, np.float32)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observe(), {}

    def step(self, action):
        return self.observe(), {0: -1.0, 1: 0.0, 2: 1.0}[action], False, False, {}


class Gym(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Box(-1, 1, (1,))

    def __init__(self, size=0.0):
        self.size = size

    def reset(self, *, seed=None, options=None):
        return np.full(2, self.size, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 0.0, False, False, {}


class WithoutInfo(Gym):
    def reset(self, *, seed=None, options=None):
        return super().reset()[0]


class Old(Gym):
    def step(self, action):
        return super().step(action)[:-1]


class Unseeded(Gym):
    def reset(self):
        return super().reset()


class Wrong(Gym):
    def step(self, action):
        return np.zeros(2) + np.zeros(3)


class Unclosed(Gym):
    def close(self):
        self.window.close()


class Unsized(Gym):
    def __init__(self, size):
        self.size = size


def make(seed):
    return Still()


def of_gymnasium(seed):
    return gymnasium.wrappers.TimeLimit(Cart(), 5)


def without_a_seed():
    return Still()


def another_kind(seed):
    return [seed]


def failing(seed):
    raise RuntimeError("no simulator\\nfound here")


def leaving(seed):
    raise SystemExit("usage: simulator")


def seeded(scale=1, seed=0):
    return Gym(seed * scale)


def by_position(_, scale=1):
    return Gym(_ * scale)


def all_by_name(**kwargs):
    return Gym(**kwargs)


def by_name(*, size):
    return Gym(size)


def sized(size):
    return Gym(size)


number = 3
"""


ASKS = """
import threading

from common.environments import user_code

here, there = user_code.is_importing(), []
other = threading.Thread(target=lambda: there.append(user_code.is_importing()))
other.start()
other.join()
"""


@pytest.fixture
def own_modules(tmp_path, monkeypatch):
    """Enters a directory with a user's modules, like a program that is started there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    before = set(sys.modules)
    package = tmp_path / "h3_package"
    package.mkdir()
    (package / "still.py").write_text(MODULE)
    (package / "needs.py").write_text("import h3_absent\n")
    (package / "broken.py").write_text("def make(seed:\n")
    yield
    for name in set(sys.modules) - before:
        if name.startswith("h3_package"):
            del sys.modules[name]


def test_an_import_is_that_of_its_thread(own_modules, tmp_path):
    """An agent that another thread made meanwhile, as in Optuna's trials, was refused."""
    (tmp_path / "h3_package" / "asks.py").write_text(ASKS)
    asked = user_code.module("h3_package.asks")
    assert asked.here and asked.there == [False] and not user_code.is_importing()


def test_one_of_gymnasium(own_modules):
    def episode(seed):
        environment = environments.make("python:h3_package.still:of_gymnasium", seed)
        assert EnvironmentSpec.of(environment) == EnvironmentSpec(3, 3, is_discrete=True)
        timesteps = [environment.reset()]
        while not timesteps[-1].last():
            timesteps.append(environment.step(np.int32(2)))
        assert len(timesteps) == 6 and timesteps[-1].discount == 1 and timesteps[-1].reward == 1
        return np.array([timestep.observation for timestep in timesteps])

    np.testing.assert_array_equal(episode(1), episode(1))
    assert (episode(1) != episode(2)).any()


def test_arguments_and_seeds_of_functions_and_classes(own_modules):
    def first(name, seed):
        environment = environments.make(f"python:h3_package.still:{name}", seed)
        return environment.reset().observation.tolist()

    assert first("Gym(size=2.5)", 1) == [2.5, 2.5]
    assert first("Gym", 1) == [0, 0]  # no seed in the place of the size
    assert first("all_by_name", 1) == [0, 0]
    assert [2, 2] == first("all_by_name(size=2)", 1) == first("by_name(size=2)", 1)
    assert first("sized(size=2)", 1) == [2, 2] and first("sized", 3) == [3, 3]
    assert first("seeded(scale=3)", 5) == [15, 15] == first("by_position(scale=3)", 5)
    for name, words in (
        ("Gym(sizes=2)", "TypeError: .*'sizes'"),
        ("Unsized", "TypeError: .*missing 1 required positional argument: 'size'"),
        ("Gym(size=3", "has no closing bracket"),
    ):
        with pytest.raises(UnusableEnvironmentError, match=words):
            first(name, 0)


@pytest.mark.parametrize(
    "name, words",
    [
        ("h3_package.still", ['"python:my_package.my_module:make"']),
        ("h3_package/still.py:make", ['"python:my_package.my_module:make"']),
        ("h3_absent.still:make", ['no module "h3_absent"', "nor installed"]),
        ("h3_package.needs:make", ["failed", "No module named 'h3_absent'", "needs.py, line 1"]),
        ("h3_package.broken:make", ["SyntaxError", "broken.py, line 1"]),
        ("h3_package.still:mak", ['no function "mak"', 'did you mean "make"?']),
        ("h3_package.still:number", ['no function "number"']),
        ("h3_package.still:without_a_seed", ["takes no seed", "still.py, line"]),
        (
            "h3_package.still:another_kind",
            ["returned [0], neither a dm_env.Environment nor a g", "still.py, line"],
        ),
        ("h3_package.still:failing", ["RuntimeError: no simulator found here (", "still.py, line"]),
        ("h3_package.still:leaving", ["SystemExit: usage: simulator"]),
        ("h3_package.still:Still(shape=(3,))", ["float64 [3]", "[2] (", "still.py, line"]),
        ("h3_package.still:Still(discount=1.01)", ["discount", "[0, 1]", "1.01"]),
        ("h3_package.still:Still(reward=null)", ["reward", "finite number", "None"]),
        ("h3_package.still:Still(reward=[1])", ["reward", "finite number", "[1]"]),
        ("h3_package.still:Still(start=1)", ["reset()", "FIRST", "MID"]),
        ("h3_package.still:Still(most=1)", ["AssertionError: too far (", "still.py, line"]),
        ("h3_package.still:Still(least=-1)", ["AssertionError: too far (", "still.py, line"]),
        (
            "h3_package.still:WithoutInfo",
            ["its reset() returned float32 [2]", "(observation, info)"],
        ),
        ("h3_package.still:Old", ["its step() returned 4 values", "check_env", "still.py, line"]),
        ("h3_package.still:Unseeded", ["unexpected keyword argument 'seed' (", "still.py, line"]),
        ("h3_package.still:Wrong", ["ValueError", "operands", "still.py, line"]),
        ("h3_package.still:Unclosed", ["no attribute 'window' (", "still.py, line"]),
        ("__main__:make", ["cannot import __main__", '"python:my_module:make"']),
    ],
)
def test_a_mistake_is_named_in_one_line(name, words, own_modules, refusal):
    def opens_and_closes():
        with environments.opened(f"python:{name}", seed=0):
            pass

    message = refusal(opens_and_closes)
    plain = name.partition("(")[0]
    assert message.startswith(f'environment "python:{plain}"')
    for word in words:
        assert word in message, message


@pytest.mark.parametrize(
    "name, place",
    [
        ("python:project.runs.sent.code:make", "from the run directory"),
        ("python:project.runs.code:make", "from a package that contains the run directory"),
        ("python:os:_exit", "from Python's standard library"),
        ("python:posix:_exit", "from Python's standard library"),
        ("python:code:make", None),  # a user's own, in the place of the standard library's
        ("python:mine.code:make", None),
        ("python:absent:make", None),
        (
            "python:numpy:load(file='x')",
            "from an installed package with arguments chosen by the run",
        ),
        ("python:mine.code:make(size=3)", None),
        ("gym:project.runs.sent.code:Id-v0", "from the run directory"),
        ("gym:Ant-v4", None),
        ("None", None),
    ],
)
def test_code_that_came_with_a_run_is_not_trusted(name, place, tmp_path, monkeypatch):
    run = tmp_path / "project/runs/sent"
    (tmp_path / "mine").mkdir()
    run.mkdir(parents=True)
    for folder in (run, run.parent, tmp_path, tmp_path / "mine"):
        (folder / "code.py").touch()
    monkeypatch.chdir(tmp_path)
    if place is None:
        user_code.require_trusted(name, run)
        return
    with pytest.raises(UnusableEnvironmentError, match=f"would import code {place}, .*: read it"):
        user_code.require_trusted(name, run)
