"""What is AQL's own of the flags: a mistake is one line, without TensorFlow."""

import pytest
from without_tensorflow import check_refusal

CARTPOLE = "--environment=control:cartpole:swingup"
HUMANOID = "--environment=control:humanoid:stand"
ROVER = "--environment=python:reproductions.aql.rover:make"


@pytest.mark.parametrize(
    "flags, words",
    [
        (["--environment=atari:pong"], ["images", "control:cartpole:swingup"]),
        ([CARTPOLE, "--setting=aql_gausian"], ["did you mean aql_gaussian"]),
        (
            [CARTPOLE, "--config.num_proposal_samples=0", "--config.num_uniform_samples=0"],
            ["--config.num_uniform_samples", "num_proposal_samples is 0", "is 0"],
        ),
        ([HUMANOID, "--setting=exact_q"], ["5^21", "10,000", "--setting=aql"]),
        (
            [HUMANOID, "--setting=qt_opt", "--config.cem_elites=101"],
            ["--config.cem_elites must be at most cem_samples (100), is 101"],
        ),
        (
            [CARTPOLE, "--config.replay_capacity=29"],
            ["--config.unroll_length must be at most replay_capacity (29), is 30"],
        ),
        (
            [CARTPOLE, "--config.queue_capacity=31"],
            ["--config.batch_size must be at most queue_capacity (31), is 32"],
        ),
        ([CARTPOLE, "--setting=aql_3528_actions"], ["flat observations", "maze:goal"]),
        ([ROVER, "--setting=qt_opt"], ["7^2 * 3^2 * 2^3 = 3,528", "continuous actions"]),
        ([ROVER, "--setting=d3pg"], ["3,528", "continuous actions"]),
        ([ROVER, "--setting=aql_gaussian"], ["3,528", "continuous actions"]),
        ([CARTPOLE, "--config.unroll_length=1"], ["--config.unroll_length", "is 1"]),
        ([CARTPOLE, "--replay=learner"], ["--replay", "actors with replays of their own"]),
        ([CARTPOLE, "--replay_shards=2"], ["--replay_shards", "actors with replays of their own"]),
        ([CARTPOLE, "--role=replay"], ["--role=replay", "learner, actor, evaluator"]),
        ([CARTPOLE, "--evaluation_steps=10"], ["--evaluation_steps"]),
        ([CARTPOLE, "--config.single_process", "--actor_processes=2"], ["--actor_processes"]),
    ],
    ids=lambda value: value[-1] if value[0].startswith("-") else "",
)
def test_a_bad_flag(flags, words, tmp_path):
    check_refusal("binaries.aql", flags, words, tmp_path)
