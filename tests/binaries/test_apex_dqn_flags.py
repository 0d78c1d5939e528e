"""What is Ape-X DQN's own of the flags: a mistake is one line, without TensorFlow."""

import pytest
from without_tensorflow import ROOT, check_refusal

PONG = "--environment=atari:pong"
FOLDER = ROOT / "reproductions/apex/dqn"
FLAGFILES = {
    "cartpole.flags": "--actor_processes has no meaning",
    "ten_minutes.flags": "--num_actors (8)",
    "two_cores.flags": "--num_actors (8)",
}
"""The error of each with nine actor processes."""


@pytest.mark.parametrize(
    "flags, words",
    [
        (["--environment=atari:pung"], ['unknown environment "atari:pung"', '"atari:pong"']),
        (["--environment=control:cartpole:swingup"], ["needs discrete", "atari:pong"]),
        ([PONG, "--setting=dqn_unifrm"], ["did you mean dqn_uniform?"]),
        ([PONG, "--config.epsilons=(0.4,2)"], ["--config.epsilons", "in [0, 1]", "(0.4, 2)"]),
        ([PONG, "--config.epsilons=wide"], ["--config.epsilons", "numbers in [0, 1]"]),
        ([PONG, "--config.epsilon=2"], ["--config.epsilon", "in [0, 1]"]),
        # More processes than actors: the error says how many actors there are by default.
        ([PONG, "--setting=dqn_two_cores", "--actor_processes=9"], ["--num_actors (8)", "is 9"]),
        ([PONG, "--actor_processes=361"], ["--num_actors (360)", "is 361"]),
        *[
            ([f"--flagfile={FOLDER / name}", "--actor_processes=9"], [words])
            for name, words in FLAGFILES.items()
        ],
    ],
    ids=lambda value: value[-1] if value[0].startswith("-") else "",
)
def test_a_bad_flag(flags, words, tmp_path):
    check_refusal("binaries.apex_dqn", flags, words, tmp_path)


def test_there_are_flagfiles():
    assert sorted(path.name for path in FOLDER.glob("*.flags")) == list(FLAGFILES)
