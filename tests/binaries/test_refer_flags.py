"""What is ReF-ER's own of the flags: a mistake is one line, without TensorFlow."""

import pytest
from without_tensorflow import check_refusal

CHEETAH = "--environment=gym:HalfCheetah-v4"


@pytest.mark.parametrize(
    "flags, words",
    [
        (["--environment=gym:CartPole-v1"], ["has 2 discrete actions", "continuous actions"]),
        (["--environment=atari:pong"], ["needs flat observations and continuous actions"]),
        (["--environment=gym:HalfCheeta-v4"], ['did you mean "gym:HalfCheetah-v4"']),
        ([CHEETAH, "--setting=vracer_refr"], ["did you mean vracer_refer"]),
        ([CHEETAH, "--role=actor"], ["--role=actor", "one process", "learner, evaluator"]),
        ([CHEETAH, "--replay_shards=2"], ["--replay_shards", "one process"]),
        (
            [CHEETAH, "--actor_processes=3", "--num_actors=2"],
            ["--actor_processes must be at most --num_actors (2), is 3"],
        ),
        (
            [CHEETAH, "--actor_processes=1", "--role=replay"],
            ["--role=replay", "actors that step its environments", "learner, actor, evaluator"],
        ),
        ([CHEETAH, "--config.steps_per_update=0"], ["--config.steps_per_update", "above 0"]),
        ([CHEETAH, "--config.penalty_c=0"], ["--config.penalty_c", "above 0"]),
        ([CHEETAH, "--config.penalty_d=1"], ["--config.penalty_d", "(0, 1)", "is 1"]),
        (
            [CHEETAH, "--config.min_replay_size=100"],
            ["--config.batch_size must be at most min_replay_size (100), is 256"],
        ),
        (
            [CHEETAH, "--config.min_replay_size=300000"],
            ["--config.min_replay_size must be at most replay_capacity (262144), is 300000"],
        ),
        ([CHEETAH, "--config.agent=acer"], ["--config.clipping must be False, as ACER", "is True"]),
        (
            [CHEETAH, "--setting=acer_lr1e-05", "--config.sampling=rank"],
            ["--config.sampling must be uniform for ACER, is rank"],
        ),
        (
            [CHEETAH, "--setting=naf_refer", "--config.advantage=quadratic"],
            ["--config.advantage must be none with the agent naf, is quadratic"],
        ),
        (
            [CHEETAH, "--setting=ddpg_refer", "--config.advantage=gaussian"],
            ["--config.advantage must be none with the agent ddpg, is gaussian"],
        ),
        (
            [CHEETAH, "--setting=naf_er", "--config.recurrent"],
            ["--config.recurrent must be False with the agent naf, is True"],
        ),
        (
            [CHEETAH, "--config.recurrent", "--config.history=300000"],
            ["--config.history must be at most replay_capacity (262144), is 300000"],
        ),
    ],
    ids=lambda value: value[-1] if value[0].startswith("-") else "",
)
def test_a_bad_flag(flags, words, tmp_path):
    check_refusal("binaries.refer", flags, words, tmp_path)
