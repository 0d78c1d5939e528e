import dataclasses
import importlib.util
import inspect
import math
import pathlib
import re
import tempfile
from types import SimpleNamespace

from launched import Program
import numpy as np
import pytest
import tensorflow as tf

from common import environments
from common.benchmarks import actor_cases, learner_cases, replay_cases, roles, run_cases
from common.benchmarks.report import Bench, Row
from common.benchmarks.roles import ChildProcess, started_role
from common.config import Settings
from reproductions import declared
from reproductions.apex.dqn.config import AGENT as APEX_DQN
from reproductions.aql.config import AGENT as AQL_AGENT
from reproductions.d4pg.config import AGENT
from reproductions.reactor.config import AGENT as REACTOR
from reproductions.refer.config import AGENT as REFER

CASES = [case for cases in declared("benchmarks", "CASES").values() for case in cases]
TINY_NETS = {"policy_sizes": (8, 8), "critic_sizes": (8, 8), "batch_size": 16}


EAGER = pytest.mark.usefixtures("eager")


class ForkedProcess(ChildProcess):
    """A role as a fork of a process that has imported TensorFlow."""

    def __enter__(self):
        self._log = tempfile.NamedTemporaryFile("r")
        module, *arguments = self._command[2:]
        program = Program(pathlib.Path(self._log.name), module, arguments, self._variables)
        self._process = SimpleNamespace(
            poll=lambda: None if program.runs else program.wait(0),
            terminate=lambda: program.runs and program.stop(),
            wait=lambda timeout=60: program.wait(timeout),
        )
        return self


@pytest.fixture(autouse=True)
def forks(monkeypatch):
    """Has benchmarks fork their roles."""
    monkeypatch.setattr(roles, "ChildProcess", ForkedProcess)


def bench(agent=AGENT, **config):
    settings = Settings(agent.settings.config_class, {"own": config}, default="own")
    return Bench(dataclasses.replace(agent, settings=settings), repeats=1)


def reactor(**config):
    return bench(REACTOR, **config)


def check(rows, names):
    rows = list(rows)
    assert [row.name for row in rows] == names
    for row in rows:
        assert row.value > 0 and math.isfinite(row.value) and row.unit, row
        assert (row.peer is None) == (row.peer_value is None) == (row.ratio is None)
    return rows


def aql():
    sizes = {"state_size": 8, "action_size": 8, "joint_sizes": (8,), "proposal_sizes": (8,)}
    return bench(AQL_AGENT, **sizes)


@EAGER
@pytest.mark.parametrize(
    "measure, subject, sizes, names",
    [
        (
            replay_cases.priority_tree,
            reactor(),
            dict(items=(1000, 3000), calls=4),
            ["priority_tree/pairs_of_1000", "priority_tree/pairs_of_3000"],
        ),
        (
            learner_cases.item_learner,
            bench(APEX_DQN, batch_size=8, prefetch=2),
            dict(items=40, games=2, updates=2),
            ["learner/apex_dqn_batch8", "learner/apex_dqn_batch8_bfloat16"],
        ),
        (
            learner_cases.item_learner,
            reactor(sequence_length=5),
            dict(items=20, games=2, updates=2, precisions=("float32",)),
            ["learner/reactor_batch4"],
        ),
        (learner_cases.unroll_learner, aql(), dict(updates=2), ["learner/unrolls_batch32"]),
        (
            actor_cases.unroll_actor,
            aql(),
            dict(actors=2, searches=1, batch_steps=32),
            [
                "search/3528_actions",
                "actor/humanoid_stand_with_search",
                "actor/humanoid_stand_with_search_mujoco",
                "actor/cartpole_swingup_with_search",
                "actor/cartpole_swingup_with_search_mujoco",
            ],
        ),
    ],
    ids=["priority_tree", "image_learner", "sequence_learner", "unroll_learner", "unroll_actor"],
)
def test_a_case_has_its_rows(measure, subject, sizes, names):
    check(measure(subject, **sizes), names)


def test_replay():
    rows = check(
        replay_cases.replay(bench(), capacity=8000, loops=16, samples=300),
        [
            "replay/bytes_per_raw_byte_52",
            "replay/bytes_per_raw_byte",
            "replay/in_process_loop",
            "replay/in_process_loop_from_arrays",
            "replay/sample_p99_under_adds",
            "replay/sample_p99_under_adds_added",
            "replay/service_loop",
        ],
    )
    assert rows[1].value < 3


def test_the_loop_works_a_full_memory():
    agent = bench().program.make_agent(replay_capacity=4000, min_replay_size=1)
    specs = agent.step_specs(replay_cases.HUMANOID)
    batch = replay_cases.random_steps(specs, 1000)
    assert sum(column[:1].nbytes for column in batch.steps) == 628
    if importlib.util.find_spec("cpprb"):
        replay_cases.cpprb_loop(agent, 4000, [batch])()
    filled = replay_cases.FilledMemory(agent.data.make_store(specs, seed=0), 4000, [batch])
    for loop in replay_cases.both_loops(filled, batch).values():
        loop()
    statistics = filled.memory.statistics()
    assert statistics.items == 4000 and statistics.duplicates == 0 and statistics.missing == 0
    assert statistics.inserted == 5 * 1000 + 2 * 50 and statistics.sampled == 2 * 256


def test_image_replay(monkeypatch):
    """All but the role, which `test_replay` starts."""
    calls = []

    def through_service(bench, name, environment, specs, capacity, batches, *_):
        calls.append((environment, capacity))
        assert specs.observation_t.dtype == tf.string
        assert batches[0].steps.observation_t.dtype == object
        return Row(name, 1.0, "loops/s")

    monkeypatch.setattr(replay_cases, "through_service", through_service)
    rows = check(
        replay_cases.image_replay(
            bench(APEX_DQN), capacity=1200, loops=2, service_loops=8, transitions=500, games=2
        ),
        [
            "image_replay/bytes_per_transition",
            "image_replay/in_process_loop",
            "image_replay/in_process_loop_raw",
            "image_replay/encode",
            "image_replay/decode",
            "image_replay/service_loop",
        ],
    )
    assert rows[0].peer_value > 2 * 84 * 84 * 4 > 10 * rows[0].value
    assert calls == [("atari:pong", 1200)]


@EAGER
def test_learner(monkeypatch):
    """With two actors in the place of the paper's 32."""

    def of_two(*run, flags):
        return started_role(*run, flags={**flags, "num_actors": 2})

    monkeypatch.setattr(learner_cases, "started_role", of_two)
    tiny = bench(updates_per_call=4, **TINY_NETS)
    check(
        learner_cases.learner(tiny, items=2000, updates=8, actor_seconds=0.5),
        [
            "learner/d4pg_batch16",
            "learner/d4pg_updates_per_call_1",
            "learner/d4pg_batch16_with_actors",
            "learner/d4pg_batch16_with_actors_acting",
        ],
    )


@EAGER
def test_actor_sends_what_it_makes(capsys):
    rows = actor_cases.actor(
        bench(send_batch=10), "control:cartpole:swingup", actors=2, batch_steps=60, turns=1
    )
    name = "actor/cartpole_swingup"
    rows = check(rows, [name, f"{name}_wall", f"{name}_mujoco"])
    assert rows[0].ratio < 1 and rows[2].ratio < 1
    counts = re.search(r"received (\d+) items from (\d+)", capsys.readouterr().err)
    got, steps = map(int, counts.groups())
    # 120 batch steps; open elements and an unsent rest of a batch stay behind.
    assert steps == 2 * 120 and steps - 2 * 5 - 10 <= got <= steps


def test_actor_of_a_worker_adds_to_its_own_memory(capsys):
    sizes = dict(environment="atari:pong", actors=1, batch_steps=30, turns=1, in_worker=True)
    rows = actor_cases.actor(reactor(sequence_length=5), **sizes)
    check(rows, ["actor/pong_in_worker", "actor/pong_in_worker_wall"])
    counts = re.search(r"received (\d+) items from (\d+)", capsys.readouterr().err)
    # The last step is not complete yet, and the four before it begin no whole sequence.
    assert [int(count) for count in counts.groups()] == [2 * 30 - 5, 2 * 30]


@EAGER
def test_parameter_server(capsys):
    rows = run_cases.parameter_server(reactor(), workers=2, rounds=2)
    check(rows, ["parameter_server/rounds_of_2_workers"])
    assert "908,235 parameters" in capsys.readouterr().err


def test_two_workers_that_cannot_start_are_an_error_with_their_words():
    with pytest.raises(RuntimeError, match="exit code 2.*min_replay_size"):
        next(run_cases.workers(reactor(), min_replay_size=30_000))


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_sizes_for_quick_are_smaller(case):
    assert case.measures
    parameters = inspect.signature(case.imported()).parameters
    full = {name: parameter.default for name, parameter in parameters.items()} | dict(case.sizes)
    assert set(full) == set(parameters) and set(case.quick) < set(full)
    assert all(np.max(quick) < np.max(full[name]) for name, quick in case.quick.items())


@EAGER
def test_update_cost():
    pair, tiny = ("acer_lr1e-05", "vracer_refer"), {"hidden_size": 8, "batch_size": 4}
    overrides = {name: {**REFER.settings.overrides[name], **tiny} for name in pair}
    settings = Settings(REFER.settings.config_class, overrides, default="vracer_refer")
    request = Bench(dataclasses.replace(REFER, settings=settings), repeats=1)
    rows = check(
        run_cases.update_cost(request, *pair, capacity=300, length=20, updates=(2, 16)),
        ["learner/acer_updates", "learner/acer_cost_over_vracer"],
    )
    assert rows[0].ratio == pytest.approx(1 / rows[1].value)


@EAGER
@pytest.mark.skipif(
    not (importlib.util.find_spec("vizdoom") and importlib.util.find_spec("labmaze")),
    reason="needs the extra maze: make maze",
)
def test_actors_and_learners_in_a_maze():
    tiny = {"channels": (2,), "lstm_size": 4, "unroll_length": 3}
    settings = ("aql_3528_actions", "exact_q_3528_actions")
    request = Bench(AQL_AGENT, repeats=1)
    (row,) = check(
        actor_cases.maze_actor(request, settings, actors=2, batch_steps=4, **tiny),
        ["actor/maze_aql_3528_actions"],
    )
    assert row.peer == settings[1]
    check(
        learner_cases.unroll_learner(
            request, "maze:goal", settings[0], updates=2, batch_size=2, **tiny
        ),
        ["learner/maze_aql_3528_actions_batch2"],
    )


@pytest.mark.parametrize("name", ["control:cheetah:run", "gym:HalfCheetah-v4"])
def test_mj_step_moves_the_bodies_as_the_task_does(name):
    environment = environments.make(name, seed=0)
    first, second = environment.reset().observation, environment.step(np.full(6, 0.5)).observation
    batch = environments.make_batch(name, range(2))
    batch.reset()
    step = actor_cases.mj_steps(batch)
    state, other = step(np.array([[0.5] * 6, [-0.5] * 6]))
    # An observation is all positions but the first, then velocities.
    np.testing.assert_allclose(second, np.concatenate([state.qpos[1:], state.qvel]), atol=1e-5)
    assert np.abs(second - first).max() > 0.1
    assert np.abs(state.qvel - other.qvel).max() > 0.1
