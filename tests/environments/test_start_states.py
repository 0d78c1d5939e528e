"""Episodes that begin in given states: exact continuations of the episodes that reached these."""

import itertools
import json
import pathlib

import numpy as np
import pytest

from common import environments
from common.environments import atari_suite, start_states
from common.environments.batch import BatchedEnvironment
from common.environments.start_states import RecordedEnvironment, StartedEnvironment


def record(path, name, num_episodes=2, num_environments=2, max_steps=60):
    """Writes a file of starts of random play; returns its content."""
    random = np.random.default_rng(5)
    recorded = [RecordedEnvironment(name, seed, num_episodes) for seed in range(num_environments)]
    batch = BatchedEnvironment(recorded)
    batch.reset()
    count = batch.action_spec().num_values
    for _ in range(max_steps):
        batch.step(random.integers(0, count, num_environments).astype(np.int32))
    content = start_states.recorded(recorded, name, "random play", seed=0)
    path.write_text(json.dumps(content))
    return content


def played_on(environment, actions):
    """Returns the rewards and the last observation of an episode that goes on."""
    steps = [environment.step(np.int32(action)) for action in actions]
    return [step.reward for step in steps], steps[-1].observation, steps[-1].step_type


@pytest.mark.parametrize("name", ["gym:CartPole-v1", "atari:pong"])
def test_an_episode_from_a_start_is_the_rest_of_the_one_that_reached_it(tmp_path, name):
    content = record(tmp_path / "starts.json", name, num_environments=1)
    starts = start_states.read(tmp_path / "starts.json", name)
    assert starts.origin == "random play"
    episode = content["episodes"][0]
    first, last = episode["starts"][0][0], episode["starts"][-1][0]
    environment = StartedEnvironment(starts, [starts.starts[0]])
    whole = environments.make(name, episode["seed"], evaluation=True)
    whole.reset()
    seen = [whole.step(np.int32(action)).observation for action in episode["actions"][:first]]
    timestep = environment.reset()
    assert timestep.first() and timestep.reward is None
    np.testing.assert_array_equal(timestep.observation, seen[-1])
    rest = episode["actions"][first:last]
    found, expected = played_on(environment, rest), played_on(whole, rest)
    assert found[0] == expected[0] and found[2] == expected[2]
    np.testing.assert_array_equal(found[1], expected[1])


def test_all_starts_are_played_equally_often_in_an_order_of_the_seed(tmp_path):
    record(tmp_path / "starts.json", "gym:CartPole-v1", num_environments=1, max_steps=12)
    starts = start_states.read(tmp_path / "starts.json", "gym:CartPole-v1")
    count = len(starts.starts)
    for num_environments in (1, 3):
        batch = start_states.make_batch(starts, num_environments, seed=1)
        played = []
        for index, environment in enumerate(batch._environments):
            share = len(range(index, 2 * count, num_environments))
            order = itertools.chain([environment._start], environment._order)
            played += [id(start) for start in itertools.islice(order, share)]
        assert sorted(played) == sorted(2 * [id(start) for start in starts.starts])
    batches = [start_states.make_batch(starts, 1, seed) for seed in range(8)]
    assert len({id(batch._environments[0]._start) for batch in batches}) > 1


def test_the_limit_of_an_episode_includes_the_steps_before_its_start(tmp_path, monkeypatch):
    monkeypatch.setattr(atari_suite, "EVALUATION_FRAMES", 80)
    content = {"environment": "atari:pong", "origin": "", "episodes": []}
    content["episodes"].append({"seed": 3, "actions": [0] * 15, "starts": [[15, 0.0]]})
    (tmp_path / "pong.json").write_text(json.dumps(content))
    starts = start_states.read(tmp_path / "pong.json", "atari:pong")
    batch = start_states.make_batch(starts, 1, seed=0)
    batch.reset()
    types = [int(batch.step(np.zeros(1, np.int32)).step_type[0]) for _ in range(6)]
    assert types == [1, 1, 1, 1, 2, 0]  # five of 20 steps are left
    batch.close()


def test_a_new_file_has_states_within_five_minutes_and_no_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(start_states, "NUM_STARTS", 4)
    monkeypatch.setattr(start_states, "LATEST_STEP", 10)
    content = record(tmp_path / "starts.json", "gym:CartPole-v1", max_steps=90)
    steps = [step for episode in content["episodes"] for step, _ in episode["starts"]]
    assert len(steps) == 4 and 1 <= min(steps) and max(steps) < 10
    for episode in content["episodes"]:
        assert len(episode["actions"]) == episode["starts"][-1][0]
        assert all(before == step for step, before in episode["starts"])  # a reward of 1 a step


def test_the_stand_in_of_pong_is_of_this_version_of_the_emulator():
    path = pathlib.Path(__file__).parents[2] / "results/policies/apex_pong/starts.json"
    starts = start_states.read(path, "atari:pong")
    assert len(starts.starts) == 98 and path.stat().st_size <= 50_000
    scored = [start for start in starts.starts if start.episode_return > 0]
    environment = StartedEnvironment(starts, [min(scored, key=lambda start: len(start.actions))])
    assert environment.reset().first()


def change(**values):
    episode = {"seed": 0, "actions": [0, 1, 0], "starts": [[3, 3.0]]} | values.pop("episode", {})
    return {"environment": "gym:CartPole-v1", "origin": "me", "episodes": [episode]} | values


@pytest.mark.parametrize(
    "content, words",
    [
        (None, "No such file"),
        ("{", "is not a file of start states"),
        (change(episodes=[{}]), "is not a file of start states (KeyError: 'starts')"),
        (change(environment="atari:pong"), "has 1 start states of atari:pong"),
        (change(episodes=[]), "has 0 start states of gym:CartPole-v1"),
        (change(episode={"starts": [[3, 2.0]]}), "lead to a return of 3 instead of 2"),
        (change(episode={"actions": [0] * 99, "starts": [[99, 3.0]]}), "or end the episode"),
        (change(episode={"actions": [0, 9, 0]}), "refuses the action 9 of seed 0 (Asserti"),
        (change(episode={"actions": [0, None, 0]}), "refuses the action None of seed 0 (T"),
        (change(episode={"seed": -1}), "a seed must be in [0, 2^32), is -1"),
        (change(episode={"starts": [[4, 3.0]]}), "a start is after 4 actions of an episode of 3"),
        (change(episode={"starts": [[-1, 2.0]]}), "a start is after -1 actions of an episode of"),
    ],
)
def test_what_a_file_lacks_is_one_line(tmp_path, content, words, refusal):
    path = tmp_path / "starts.json"
    if content is not None:
        path.write_text(content if isinstance(content, str) else json.dumps(content))

    def start():
        starts = start_states.read(path, "gym:CartPole-v1")
        start_states.make_batch(starts, 1, seed=0).reset()

    message = refusal(start)
    assert words in message and f"--starts={path}" in message
