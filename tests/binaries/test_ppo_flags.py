"""What is the PPOs' own of the flags: a mistake is one line, without TensorFlow."""

import pytest
from without_tensorflow import check_refusal

CHEETAH = "--environment=gym:HalfCheetah-v4"
FLAT = "needs flat observations and continuous actions"


@pytest.mark.parametrize(
    "program, flags, words",
    [
        ("refer_ppo", ["--environment=atari:pong"], [FLAT]),
        ("d4pg_ppo", ["--environment=atari:pong"], [FLAT]),
        ("d4pg_ppo", [CHEETAH, "--replay=learner"], ["--replay", "a learner and actors"]),
        ("d4pg_ppo", [CHEETAH, "--config.n_step=5"], ["n_step"]),
        ("d4pg_ppo", [CHEETAH, "--config.terrain_sizes=8"], ["no heights of a terrain"]),
        ("d4pg_ppo", [CHEETAH, "--config.kl_factor=1"], ["--config.kl_factor", "above 1"]),
        (
            "d4pg_ppo",
            [CHEETAH, "--config.single_process", "--actor_processes=2"],
            ["--actor_processes", "one process"],
        ),
        ("refer_ppo", [CHEETAH, "--role=actor"], ["--role=actor", "one process"]),
        (
            "refer_ppo",
            [CHEETAH, "--config.horizon=1000"],
            ["--config.horizon must be a multiple of batch_size (64), is 1000"],
        ),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) and value[0].startswith("-") else "",
)
def test_a_bad_flag(program, flags, words, tmp_path):
    check_refusal(f"binaries.{program}", flags, words, tmp_path)
