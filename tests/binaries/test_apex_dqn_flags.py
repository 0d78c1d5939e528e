"""What is Ape-X DQN's own of the flags: a mistake is one line, without TensorFlow."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PONG = "--environment=atari:pong"
FLAGFILES = sorted((ROOT / "reproductions/apex/dqn").glob("*.flags"))


def run(workdir, flags, tmp_path):
    folder = tmp_path / "no_tensorflow"
    folder.mkdir()
    (folder / "tensorflow.py").write_text("raise SystemExit('TensorFlow was imported')\n")
    return subprocess.run(
        [sys.executable, "-m", "binaries.apex_dqn", f"--workdir={workdir}", *flags],
        cwd=ROOT,
        env={"PYTHONPATH": str(folder)},
        timeout=60,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "flags, words",
    [
        (["--environment=atari:pung"], ['unknown environment "atari:pung"', '"atari:pong"']),
        (["--environment=control:cartpole:swingup"], ["needs images and discrete", "atari:pong"]),
        ([PONG, "--setting=dqn_unifrm"], ["did you mean dqn_uniform?"]),
        ([PONG, "--config.epsilons=(0.4,2)"], ["--config.epsilons", "in [0, 1]", "(0.4, 2)"]),
        ([PONG, "--config.epsilons=wide"], ["--config.epsilons", "numbers in [0, 1]"]),
        ([PONG, "--config.epsilon=2"], ["--config.epsilon", "in [0, 1]"]),
        # More processes than actors: the error says how many actors there are by default.
        ([PONG, "--setting=dqn_two_cores", "--actor_processes=9"], ["--num_actors (8)", "is 9"]),
        ([PONG, "--actor_processes=361"], ["--num_actors (360)", "is 361"]),
        *[
            ([f"--flagfile={path}", "--actor_processes=9"], ["--num_actors (8)"])
            for path in FLAGFILES
        ],
    ],
    ids=lambda value: value[-1] if value[0].startswith("-") else "",
)
def test_a_bad_flag(flags, words, tmp_path):
    workdir = tmp_path / "run"
    result = run(workdir, flags, tmp_path)
    lines = result.stderr.strip().splitlines()
    assert result.returncode == 2 and len(lines) == 1 and lines[0].startswith("error: "), result
    for word in words:
        assert word in lines[0]
    assert not workdir.exists()


def test_there_are_flagfiles():
    assert [path.name for path in FLAGFILES] == ["ten_minutes.flags", "two_cores.flags"]
