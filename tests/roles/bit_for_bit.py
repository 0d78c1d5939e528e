"""Compares what short runs of all agents compute with another checkout, on the same machine.

    git worktree add ../before HEAD~1 && cp common/replay/_ops.* ../before/common/replay
    .venv/bin/python tests/roles/bit_for_bit.py --against=../before             # all cases
    .venv/bin/python tests/roles/bit_for_bit.py --against=../before aql refer   # parts of names

A change that is meant to leave results as they are leaves these hashes as they are. A case is the
command of a run in one process, in which acting, insertion, draws, updates and publication have a
fixed order; "resumed" ones are stopped halfway and continued. What a run leaves is hashed in parts,
to show where a difference is: its episodes, its evaluations, and its checkpoint's variables, whose
names do not count. The case "served" is a run with a replay behind the loopback, see
served_pipeline.py. Hashes of two machines may differ without a change, because sums depend on the
width of vectors.
"""

import argparse
from collections.abc import Iterable, Iterator, Mapping
import csv
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[2]
"""Of this checkout."""
_COMMON = "--seed=3 --learner_threads=1 --evaluation_episodes=1"
_D4PG = (
    "d4pg --environment=gym:Hopper-v4 --config.single_process --num_actors=3 "
    "--config.batch_size=16 --config.samples_per_insert=16 --config.policy_sizes=16,16 "
    "--config.critic_sizes=16,16 --config.min_replay_size=500 --config.replay_capacity=1000 "
    "--config.learning_rate=0.001 --config.target_period=20 --config.actor_period=20 "
    "--evaluation_steps=400 --max_learner_steps=800 "
)
_APEX = (
    "--config.single_process --num_actors=3 --config.samples_per_insert=8 --config.batch_size=16 "
    "--config.min_replay_size=300 --config.replay_capacity=600 --config.target_period=20 "
    "--config.actor_period=20 "
)
_DQN = f"apex_dqn --environment=atari:pong {_APEX} --evaluation_steps=16 --max_learner_steps=32 "
_DPG = (
    f"apex_dpg --environment=gym:Hopper-v4 {_APEX} --config.policy_sizes=16,16 "
    "--config.critic_sizes=16,16 --evaluation_steps=400 --max_learner_steps=800 "
)
_REACTOR = (
    "reactor --environment=python:reproductions.reactor.catch:make --config.single_process "
    "--num_workers=2 --config.batch_size=2 --config.sequence_length=8 "
    "--config.min_replay_size=100 --config.replay_capacity=400 --config.target_period=10 "
    "--evaluation_steps=20 --max_learner_steps=40 "
)
_AQL = (
    "aql --environment=control:walker:walk --config.single_process --num_actors=2 "
    "--config.batch_size=2 --config.state_size=16 --config.action_size=16 "
    "--config.joint_sizes=16 --config.proposal_sizes=16 --config.replay_capacity=400 "
    "--evaluation_steps=20 --max_learner_steps=40 "
)
_REFER = (
    "refer --environment=gym:InvertedDoublePendulum-v4 --config.min_replay_size=600 "
    "--config.replay_capacity=1000 --config.hidden_size=16 --config.batch_size=32 "
    "--evaluation_steps=400 --max_learner_steps=800 "
)
_PPO = (
    "refer_ppo --environment=gym:InvertedDoublePendulum-v4 --config.horizon=256 "
    "--config.hidden_size=16 --config.num_epochs=2 --evaluation_steps=32 --max_learner_steps=64 "
)
CASES: Mapping[str, str] = {
    "d4pg": _D4PG,
    "d4pg_resumed": _D4PG,
    "d4pg_mixture": f"{_D4PG} --setting=d4pg_mixture_prioritized_n5",
    "d4pg_ddpg": f"{_D4PG} --setting=ddpg --num_actors=1",
    "apex_dqn": _DQN,
    "apex_dpg": _DPG,
    "reactor": _REACTOR,
    "reactor_nd": f"{_REACTOR} --setting=reactor_nd",
    "aql": _AQL,
    "aql_qt_opt": f"{_AQL} --setting=qt_opt",
    "refer_vracer": _REFER,
    "refer_vracer_resumed": _REFER,
    "refer_ddpg": f"{_REFER} --setting=ddpg_refer",
    "refer_naf": f"{_REFER} --setting=naf_refer",
    "refer_ppo": _PPO,
    "refer_ppo_resumed": _PPO,
}
"""Command lines of `binaries`, by name."""
SERVED = "served"


def differences(name: str, checkout: pathlib.Path, other: pathlib.Path) -> list[str]:
    """Runs a case in two checkouts; returns the parts whose hashes differ.

    Raises:
      RuntimeError: a run failed.
    """
    found, expected = hashes(name, checkout), hashes(name, other)
    return [part for part in found if found[part] != expected.get(part)]


def hashes(name: str, checkout: pathlib.Path) -> dict[str, str]:
    """Runs a case in a checkout; returns the hashes of its parts."""
    if name == SERVED:
        return json.loads(_run(checkout, "tests/roles/served_pipeline.py"))
    program, *flags = f"{CASES[name]} {_COMMON}".split()
    starts = [flags]
    if name.endswith("_resumed"):
        limit = next(flag for flag in flags if flag.startswith("--max_learner_steps="))
        starts.insert(0, [*flags, f"--max_learner_steps={int(limit.split('=')[1]) // 2}"])
    with tempfile.TemporaryDirectory() as temporary:
        directory = pathlib.Path(temporary, "run")
        for start in starts:
            _run(checkout, "-m", f"binaries.{program}", *start, f"--workdir={directory}")
        return {
            "episodes": digest(_rows(directory / "acting.csv", "actor", "episode_return")),
            "evaluations": digest(
                _rows(directory / "evaluator.csv", "learner_steps", "episode_return_mean")
            ),
            "variables": digest(sorted(_variables(directory / "checkpoints"))),
        }


def _run(checkout: pathlib.Path, *arguments: str) -> str:
    """Runs Python in a checkout; returns what it prints."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=checkout,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        command = f"{' '.join(arguments)} in {checkout}"
        raise RuntimeError(f"{command} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def _rows(path: pathlib.Path, *columns: str) -> Iterator[bytes]:
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            yield ",".join(row[column] for column in columns).encode()


def _variables(checkpoints: pathlib.Path) -> Iterator[bytes]:
    """Yields the values of the learner's variables; others of a checkpoint count time."""
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(checkpoints))
    for name in reader.get_variable_to_shape_map():
        if name.startswith("learner/"):
            yield reader.get_tensor(name).tobytes()


def digest(parts: Iterable[bytes]) -> str:
    """Returns a short hash of bytes in their order."""
    joined = b"".join(hashlib.sha256(part).digest() for part in parts)
    return hashlib.sha256(joined).hexdigest()[:16]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python tests/roles/bit_for_bit.py", description=__doc__.splitlines()[0]
    )
    parser.add_argument("words", nargs="*", help="parts of names of cases; default: all")
    parser.add_argument(
        "--against",
        type=lambda path: pathlib.Path(path).resolve(),
        required=True,
        metavar="DIR",
        help="the other checkout, with its replay operations compiled",
    )
    return parser.parse_args()


def main() -> None:
    """Prints a line for each case; ends with 1 if a hash differs."""
    arguments = _arguments()
    differs = False
    for name in (SERVED, *CASES):
        if arguments.words and not any(word in name for word in arguments.words):
            continue
        parts = differences(name, ROOT, arguments.against)
        print(f"{name}: {'differs in ' + ', '.join(parts) if parts else 'equal'}", flush=True)
        differs |= bool(parts)
    sys.exit(differs)


if __name__ == "__main__":
    main()
