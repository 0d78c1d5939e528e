import dataclasses
import math
import re

import pytest
import tensorflow as tf

from common.benchmarks import (
    actor_suite,
    episode_memory_suite,
    image_actor_suite,
    image_learner_suite,
    image_replay_suite,
    learner_suite,
    loops,
    parameter_server_suite,
    priority_tree_suite,
    replay_suite,
    sequence_actor_suite,
    sequence_learner_suite,
    unroll_actor_suite,
    unroll_learner_suite,
    workers_suite,
)
from common.benchmarks.report import Row
from common.benchmarks.roles import BenchmarkedProgram, RoleProcess
from common.cluster.topology import Topology
from common.environments.spec import EnvironmentSpec
from common.program import layouts
from reproductions.apex.dqn.agent import ApexDQN
from reproductions.aql.agent import AQL
from reproductions.d4pg.agent import D4PG
from reproductions.reactor.agent import Reactor

TINY_NETS = {"policy_sizes": (8, 8), "critic_sizes": (8, 8), "batch_size": 16}


class Uncompiled(D4PG):
    """Without XLA, which takes longer to compile than all else here."""

    jit_compile = False


class UncompiledAQL(AQL):
    """Likewise."""

    jit_compile = False


def program(**config):
    return BenchmarkedProgram("binaries.d4pg", Uncompiled, config)


def reactor(**config):
    return BenchmarkedProgram("binaries.reactor", Reactor, config)


def check(rows, names):
    assert [row.name for row in rows] == names
    for row in rows:
        assert row.value > 0 and math.isfinite(row.value) and row.unit, row
        assert (row.peer is None) == (row.peer_value is None) == (row.ratio is None)


def test_replay():
    sizes = replay_suite.ReplaySizes(capacity=8000, loops=16, samples=50, copied_bytes=2**20)
    rows = replay_suite.measure(program(), sizes, repeats=1, with_peers=False)
    check(
        rows,
        [
            "replay/bytes_per_raw_byte_52",
            "replay/bytes_per_raw_byte",
            "replay/in_process_loop",
            "replay/in_process_loop_from_arrays",
            "replay/in_process_loop_limit",
            "replay/sample_p99_under_adds",
            "replay/sample_p99_under_adds_from_python",
            "replay/sample_p99_under_adds_scheduling",
            "replay/sample_p99_under_adds_added",
            "replay/service_loop",
        ],
    )
    assert rows[1].value < 3


def test_priority_tree():
    sizes = priority_tree_suite.PriorityTreeSizes(items=(1000, 3000), calls=4, frames=4000)
    rows = priority_tree_suite.measure(reactor(), sizes, repeats=1)
    names = ["pairs_of_1000", "pairs_of_3000", "bytes_per_frame_byte"]
    check(rows, [f"priority_tree/{name}" for name in names])
    assert 1 < rows[-1].value < 1.2


def test_episode_memory():
    sizes = episode_memory_suite.EpisodeMemorySizes(capacity=2000, length=50, calls=10)
    check(
        episode_memory_suite.measure(program(), sizes, repeats=1),
        [
            "episode_memory/sample",
            "episode_memory/refresh",
            "episode_memory/refresh_full",
            "episode_memory/refresh_unchanged",
            "episode_memory/count_far_policy",
            "episode_memory/add",
        ],
    )


def test_replay_with_peers():
    pytest.importorskip("cpprb")
    sizes = replay_suite.ReplaySizes(capacity=4000, loops=16, samples=50, copied_bytes=2**20)
    agent = program().make_agent(replay_capacity=4000, min_replay_size=1)
    _, memory, keys = replay_suite._bytes_per_raw_byte(agent, replay_suite.HUMANOID, sizes, "")
    rows = replay_suite._in_process(agent, memory, keys, sizes, repeats=2, with_peers=True)
    check(
        rows,
        [
            "replay/in_process_loop",
            "replay/in_process_loop_from_arrays",
            "replay/in_process_loop_numpy",
        ],
    )
    assert [row.peer for row in rows] == ["cpprb 11", "cpprb 11", "NumPy sum tree"]
    statistics = memory.statistics()
    assert statistics.items == 4000 and statistics.duplicates == 0 and statistics.missing == 0
    assert statistics.sampled == 2 * 3 * 16 * 256  # two loops, two repeats and the warm-up


def test_image_replay(monkeypatch):
    """All but the role, which `test_replay` starts."""
    calls = []

    def through_service(name, program, environment, specs, capacity, batches, *_):
        calls.append((environment, capacity))
        assert specs.observation_t.dtype == tf.string
        assert batches[0].steps.observation_t.dtype == object
        return Row(name, 1.0, "loops/s")

    monkeypatch.setattr(loops, "through_service", through_service)
    sizes = image_replay_suite.ImageReplaySizes(
        capacity=1200, loops=2, service_loops=8, transitions=1000, games=4
    )
    apex = BenchmarkedProgram("binaries.apex_dqn", ApexDQN)
    rows = image_replay_suite.measure(apex, sizes, repeats=1, with_peers=False)
    check(
        rows,
        [
            "image_replay/bytes_per_transition",
            "image_replay/in_process_loop",
            "image_replay/in_process_loop_raw",
            "image_replay/in_process_loop_raw_from_arrays",
            "image_replay/encode",
            "image_replay/decode",
            "image_replay/service_loop",
        ],
    )
    assert rows[0].peer_value > 2 * 84 * 84 * 4 > 10 * rows[0].value
    assert calls == [("atari:pong", 1200)]


def test_the_transition_has_628_bytes():
    agent = program().make_agent()
    batch = replay_suite._batch(agent, replay_suite.HUMANOID, 10)
    assert sum(column.nbytes for column in batch.steps) == 6280


def test_learner():
    sizes = learner_suite.LearnerSizes(items=2000, updates=8, actor_seconds=2.0)
    rows = learner_suite.measure(program(updates_per_call=4, **TINY_NETS), sizes, repeats=1)
    check(
        rows,
        [
            "learner/d4pg_batch16",
            "learner/d4pg_updates_per_call_1",
            "learner/d4pg_batch16_limit",
            "learner/d4pg_batch16_with_actors",
            "learner/d4pg_batch16_with_actors_acting",
        ],
    )


def test_image_learner():
    sizes = image_learner_suite.ImageLearnerSizes(items=40, games=2, updates=2)
    apex = BenchmarkedProgram("binaries.apex_dqn", ApexDQN, {"batch_size": 8, "prefetch": 2})
    rows = image_learner_suite.measure(apex, sizes, repeats=1)
    check(rows, ["learner/apex_dqn_batch8", "learner/apex_dqn_batch8_bfloat16"])


def test_sequence_learner():
    sizes = sequence_learner_suite.SequenceLearnerSizes(items=20, games=2, updates=2)
    rows = sequence_learner_suite.measure(reactor(sequence_length=5), sizes, repeats=1)
    check(rows, ["learner/reactor_batch4", "learner/reactor_batch4_retrace"])
    assert rows[1].peer_value == pytest.approx(1000 / rows[0].peer_value)


def test_random_actions_of_a_game():
    sizes = image_actor_suite.ImageActorSizes(environments=5)
    spec = EnvironmentSpec(84 * 84 * 4, 18, image_shape=(84, 84, 4), is_discrete=True)
    actions = actor_suite._random_actions(sizes, spec)
    first, second = next(actions), next(actions)
    assert first.shape == (5,) and first.dtype == "int32" and any(first != second)


def test_operations_of_the_update_are_those_of_the_equations():
    agent = program().make_agent()
    learner = agent.make_learner(learner_suite.WALKER, seed=0)
    policy = 24 * 300 + 300 * 200 + 200 * 6
    critic = 30 * 400 + 400 * 300 + 300 * 51
    # Target: both forward. Critic: forward, and back to all weights and hidden layers. Policy: both
    # forward, through the critic back to its input, and back to the policy's weights and layers.
    products = policy + critic + 3 * critic - 30 * 400 + policy + 2 * critic + 2 * policy - 24 * 300
    counted = learner_suite._operations(agent, learner)
    assert counted == 2 * 256 * products
    assert int(learner.steps) == 0


def test_actor_sends_what_it_makes(capsys):
    sizes = actor_suite.ActorSizes(
        "control:cartpole:swingup", environments=2, batch_steps=60, turns=1
    )
    rows = actor_suite.measure(program(send_batch=10), sizes, repeats=1)
    check(rows, ["actor/cartpole_swingup", "actor/cartpole_swingup_wall"])
    assert rows[0].ratio < 1
    counts = re.search(r"got (\d+) items of (\d+)", capsys.readouterr().err)
    got, steps = map(int, counts.groups())
    # 120 batch steps; open elements and an unsent rest of a batch stay behind.
    assert steps == 2 * 120 and steps - 2 * 5 - 10 <= got <= steps


def test_actor_of_a_worker_adds_to_its_own_memory(capsys):
    sizes = sequence_actor_suite.SequenceActorSizes(batch_steps=30, turns=1)
    rows = sequence_actor_suite.measure(reactor(sequence_length=5), sizes, repeats=1)
    check(rows, ["actor/pong_in_worker", "actor/pong_in_worker_wall"])
    counts = re.search(r"got (\d+) items of (\d+)", capsys.readouterr().err)
    # The last step is not complete yet, and the four before it begin no whole sequence.
    assert [int(count) for count in counts.groups()] == [2 * 30 - 5, 2 * 30]


def test_parameter_server(capsys):
    sizes = parameter_server_suite.ParameterServerSizes(workers=3, rounds=2)
    rows = parameter_server_suite.measure(reactor(), sizes, repeats=1)
    check(rows, ["parameter_server/rounds_of_3_workers"])
    assert "908,235 parameters" in capsys.readouterr().err


def test_two_workers_that_cannot_start_are_an_error_with_their_words():
    sizes = workers_suite.WorkersSizes(min_replay_size=30_000)
    with pytest.raises(RuntimeError, match="exit code 2.*min_replay_size"):
        workers_suite.measure(reactor(), sizes, repeats=1)


def test_a_role_that_cannot_start_is_an_error_with_its_words():
    role = RoleProcess(
        program(),
        "replay",
        Topology.local(layouts.DISTRIBUTED.roles, {"learner": 1, "replay": 1}),
        "a token of the tests",
        "control:cartpole:swingup",
        {"replay_capacity": 0},
    )
    with role, pytest.raises(RuntimeError, match="replay_capacity"):
        role._process.wait(timeout=60)
        role.check()
    assert not role._log.exists()


def test_sizes_for_quick_are_smaller():
    for suite in (
        replay_suite,
        image_replay_suite,
        learner_suite,
        image_learner_suite,
        actor_suite,
        image_actor_suite,
        sequence_learner_suite,
        sequence_actor_suite,
        parameter_server_suite,
        workers_suite,
    ):
        quick, full = dataclasses.astuple(suite.QUICK), dataclasses.astuple(suite.FULL)
        numbers = [(q, f) for q, f in zip(quick, full) if isinstance(f, (int, float))]
        assert all(q <= f for q, f in numbers) and any(q < f for q, f in numbers)


def aql():
    sizes = {"state_size": 8, "action_size": 8, "joint_sizes": (8,), "proposal_sizes": (8,)}
    return BenchmarkedProgram("binaries.aql", UncompiledAQL, sizes)


def test_unroll_actor():
    sizes = unroll_actor_suite.UnrollActorSizes(actors=2, searches=1, batch_steps=32)
    rows = unroll_actor_suite.measure(aql(), sizes, repeats=1)
    check(
        rows,
        [
            "search/3528_actions",
            "search/exact_q_3528_time_over_aql",
            "actor/humanoid_stand_with_search",
            "actor/cartpole_swingup_with_search",
        ],
    )
    assert rows[0].ratio == rows[1].value


def test_unroll_learner():
    sizes = unroll_learner_suite.UnrollLearnerSizes(updates=2)
    check(unroll_learner_suite.measure(aql(), sizes, repeats=1), ["learner/unrolls_batch32"])
