"""What is Reactor's own of the flags: a mistake is one line, without TensorFlow."""

import pytest
from without_tensorflow import check_refusal

PONG = "--environment=atari:pong"


@pytest.mark.parametrize(
    "flags, words",
    [
        (["--environment=control:cartpole:swingup"], ["needs discrete", "atari:pong"]),
        ([PONG, "--setting=reactor_unifrm"], ["did you mean reactor_uniform?"]),
        ([PONG, "--num_workers=0"], ["--num_workers must be in [1, 4096], is 0"]),
        ([PONG, "--num_actors=2"], ["unknown flag --num_actors: did you mean --num_workers?"]),
        ([PONG, "--replay_shards=2"], ["--replay_shards", "workers and a parameter server"]),
        ([PONG, "--learner_threads=2"], ["--learner_threads", "workers and a parameter server"]),
        ([PONG, "--config.single_process", "--worker_threads=1"], ["--worker_threads"]),
        ([PONG, "--role=learner"], ["--role=learner", "parameter_server, worker, evaluator"]),
        ([PONG, "--config.sequence_length=1"], ["--config.sequence_length", "is 1"]),
        ([PONG, "--config.replay_capacity=32"], ["--config.sequence_length", "replay_capacity"]),
        ([PONG, "--config.c=0.5"], ["--config.c", "is 0.5"]),
        ([PONG, "--config.v_min=11"], ["--config.v_min", "below v_max (10)"]),
        ([PONG, "--config.policy_floor=0"], ["--config.policy_floor", "(0, 1)", "is 0"]),
        ([PONG, "--config.policy_floor=1"], ["--config.policy_floor", "(0, 1)", "is 1"]),
    ],
    ids=lambda value: value[-1] if value[0].startswith("-") else "",
)
def test_a_bad_flag(flags, words, tmp_path):
    check_refusal("binaries.reactor", flags, words, tmp_path)
