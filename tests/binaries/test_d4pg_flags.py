"""A user's mistake: one line that names it and the way out, nothing written, no TensorFlow.

One row for each place that finds mistakes; values of hyperparameters and settings are tested beside
`common.config` and `common.program.flags`.
"""

import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading

import pytest
import without_tensorflow as no_tensorflow

from common.program import local
from common.reporting.run_directory import RunDirectory
from reproductions.d4pg.config import D4PGConfig

ROOT = pathlib.Path(__file__).parents[2]
CARTPOLE = "--environment=control:cartpole:swingup"
TOKEN = "a token for this test"


def tf_config(role, **counts):
    """A cluster of so many tasks a job, on port 1 and above, read by `role`."""
    ports = iter(range(1, 100))
    cluster = {
        job: [f"127.0.0.1:{next(ports)}" for _ in range(count)] for job, count in counts.items()
    }
    return json.dumps({"cluster": cluster, "task": {"type": role, "index": 0}})


@pytest.fixture
def without_tensorflow(tmp_path):
    """Variables under which an import of TensorFlow ends the program."""
    return no_tensorflow.variables(tmp_path)


def clean_environment(variables):
    ours = ("TF_CONFIG", "REPLAY_RL_TOKEN", "REPLAY_RL_TOKEN_FILE", "SLURM_STEP_NUM_TASKS")
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    return {**kept, **variables}


def run(*flags, **variables):
    return subprocess.run(
        [sys.executable, "-m", "binaries.d4pg", *map(str, flags)],
        cwd=ROOT,
        timeout=120,
        env=clean_environment(variables),
        capture_output=True,
        text=True,
        check=False,
    )


def assert_refused(result, *words):
    lines = result.stderr.strip().splitlines()
    assert result.returncode not in (0, None), result
    assert len(lines) == 1 and lines[0].startswith("error: "), result.stderr
    assert result.stdout == ""
    for word in words:
        assert word in lines[0]


@pytest.mark.parametrize(
    "flags, words",
    [
        (["--environment=control:cartpole:swingu"], ["swingu", '"control:cartpole:swingup"']),
        (["--environment="], ["--environment is missing", "control:cartpole:swingup"]),
        ([CARTPOLE, "--config.n_step=0"], ["--config.n_step", "at least 1", "is 0"]),
        ([CARTPOLE, "--config.n_step=abc"], ["--config.n_step=abc: it must be a whole number"]),
        ([CARTPOLE, "--max_minutes=soon"], ["--max_minutes=soon: it must be a number"]),
        ([CARTPOLE, "--seed=" + "9" * 5000], ["9...: it must be a whole number"]),
        ([CARTPOLE, "--ignore_resources=maybe"], ["=maybe: it must be true or false"]),
        (
            [CARTPOLE, "--flagfile=/none/d4pg.flags"],
            ["error: --flagfile=/none/d4pg.flags: No such"],
        ),
        ([CARTPOLE, "--config.nonsense=1"], ["--config.nonsense", "--help"]),
        ([CARTPOLE, "--setting=d5pg"], ["--setting=d5pg", "d4pg_prioritized_n5"]),
        ([CARTPOLE, "--num_actor=2"], ["unknown flag --num_actor: did you mean --num_actors?"]),
        ([CARTPOLE, "--xyzzy"], ["unknown flag --xyzzy: --help lists them all"]),
        ([CARTPOLE, "--num_actors=5000"], ["--num_actors", "[1, 4096]", "5000"]),
        ([CARTPOLE, "--num_actors=2", "--actor_processes=3"], ["--actor_processes", "(2)", "3"]),
        (
            [CARTPOLE, "--num_actors=2", "--replay_shards=3"],
            ["3 replay processes", "2 actor processes"],
        ),
        (
            [CARTPOLE, "--replay=learner", "--replay_shards=2"],
            ["--replay_shards is 2", "--replay=learner"],
        ),
        (
            [CARTPOLE, "--setting=ddpg", "--replay_shards=2"],
            ["--replay_shards", "one process", "leave it out"],
        ),
        ([CARTPOLE, "--replay_shards=33"], ["--replay_shards=33", "[1, 32]"]),
        ([CARTPOLE, "--max_minutes=nan"], ["--max_minutes", "finite", "nan"]),
        ([CARTPOLE, "--seed=2147483648"], ["--seed"]),
        ([CARTPOLE, "cartpole"], ['"cartpole"', "--"]),
        (
            [CARTPOLE, "--role=leaner"],
            ["--role=leaner", "use one of local, slurm, ray, learner, replay, actor, evaluator"],
        ),
        ([CARTPOLE, "--role=slurm"], ["SLURM_STEP_NUM_TASKS", "srun"]),
        ([CARTPOLE, "--role=ray"], ["--ray_address is missing", "ray start --head"]),
        ([CARTPOLE, "--ray_address=10.0.0.1:6379"], ["--ray_address", "add --role=ray"]),
        (
            [CARTPOLE, "--setting=ddpg", "--role=actor"],
            ["--role=actor", "one process", "learner, evaluator"],
        ),
    ],
    ids=lambda value: value[-1] if value[0].startswith("-") else "",
)
def test_a_bad_flag(flags, words, tmp_path, without_tensorflow):
    workdir = tmp_path / "run"
    assert_refused(run(f"--workdir={workdir}", *flags, **without_tensorflow), *words)
    assert not workdir.exists()


def test_a_missing_workdir(without_tensorflow):
    assert_refused(run(CARTPOLE, **without_tensorflow), "--workdir is missing")


def test_a_run_of_another_config_stays_as_it_was(tmp_path, without_tensorflow):
    directory = RunDirectory(tmp_path / "run")
    directory.open({"paper": "d4pg", "config": {"n_step": 1}})
    before = directory.config_json.read_bytes()
    result = run(CARTPOLE, f"--workdir={directory.path}", **without_tensorflow)
    assert_refused(result, str(directory.path), "config.n_step 1 -> 5", "new directory")
    assert directory.config_json.read_bytes() == before
    assert not directory.run_json.exists()


@pytest.mark.skipif((local.available_memory() or 0) > 700e9, reason="this machine could hold it")
def test_a_replay_that_this_machine_cannot_hold(tmp_path, without_tensorflow):
    result = run(
        "--environment=control:humanoid:run",
        f"--workdir={tmp_path}/run",
        f"--config.replay_capacity={2**30}",
        **without_tensorflow,
    )
    assert_refused(result, "not enough memory", "--config.replay_capacity", "--ignore_resources")
    assert not (tmp_path / "run" / "run.json").exists()


@pytest.mark.parametrize(
    "role, variables, words",
    [
        ("learner", {}, ["TF_CONFIG is not set", "--role=local"]),
        (
            "learner",
            {"TF_CONFIG": tf_config("learner", learner=1)},
            ["no cluster token", "REPLAY_RL_TOKEN"],
        ),
        (
            "actor",
            {"TF_CONFIG": tf_config("learner", learner=1), "REPLAY_RL_TOKEN": TOKEN},
            ["--role=actor", "TF_CONFIG is learner"],
        ),
        (
            "actor",
            {"TF_CONFIG": tf_config("actor", learner=1), "REPLAY_RL_TOKEN": TOKEN},
            ["--actor_processes is missing", "TF_CONFIG does not list the tasks of actor"],
        ),
        (
            "learner",
            {
                "TF_CONFIG": tf_config("learner", learner=1, replay=3, actor=2),
                "REPLAY_RL_TOKEN": TOKEN,
            },
            ["3 replay processes", "2 actor processes", "--actor_processes"],
        ),
    ],
)
def test_a_role_without_its_place(role, variables, words, tmp_path, without_tensorflow):
    workdir = tmp_path / "run"
    result = run(
        CARTPOLE, f"--workdir={workdir}", f"--role={role}", **variables, **without_tensorflow
    )
    assert_refused(result, *words)
    assert TOKEN not in result.stderr
    assert not workdir.exists()


def test_the_address_of_something_else(tmp_path, without_tensorflow):
    """A web server where a partner should be is known at once."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    server.RequestHandlerClass.log_message = lambda *_: None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"127.0.0.1:{server.server_address[1]}"
    cluster = {"learner": ["127.0.0.1:1"], "replay": [address]}
    try:
        result = run(
            *(CARTPOLE, f"--workdir={tmp_path}/run", "--role=actor", "--actor_processes=1"),
            TF_CONFIG=json.dumps({"cluster": cluster, "task": {"type": "actor", "index": 0}}),
            REPLAY_RL_TOKEN=TOKEN,
            **without_tensorflow,
        )
    finally:
        server.shutdown()
        server.server_close()
    assert_refused(result, address, "no service of a cluster", "TF_CONFIG")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "variables", [{"CXX": "/nowhere/g++"}, {"CXX": "g++", "PATH": "/nowhere"}], ids=["CXX", "PATH"]
)
def test_a_build_without_a_compiler(variables, tmp_path):
    shutil.copy(ROOT / "setup.py", tmp_path)
    shutil.copytree(ROOT / "common/replay/cc", tmp_path / "common/replay/cc")
    (tmp_path / "reproductions").mkdir()
    shutil.copy(ROOT / "reproductions/__init__.py", tmp_path / "reproductions")
    former = tmp_path / "common/replay/_ops.tf-0.0.0.so"
    former.write_text("built before")
    result = subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"],
        cwd=tmp_path,
        timeout=60,
        env=clean_environment(variables),
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode != 0
    errors = [line for line in result.stderr.splitlines() if line.startswith("error:")]
    assert len(errors) == 1 and variables["CXX"] in errors[0] and "install g++" in errors[0]
    assert "Traceback" not in result.stderr
    assert former.read_text() == "built before"


def test_help_explains_every_flag_and_hyperparameter(without_tensorflow):
    text = " ".join(run("--help", **without_tensorflow).stdout.split())
    for name in (
        "environment",
        "workdir",
        "role",
        "seed",
        "num_actors",
        "actor_processes",
        "learner_threads",
        "max_minutes",
        "max_actor_steps",
        "max_learner_steps",
        "evaluation_episodes",
        "evaluation_seconds",
        "patience_minutes",
        "replay",
        "replay_shards",
        "[no]ignore_resources",
        "checkpoint_seconds",
        "setting",
        "config",
    ):
        assert f" --{name}: " in text
    for name in D4PGConfig.__dataclass_fields__:
        explained = re.search(rf"--config\.{name}=(.*?)(--config\.|\(default)", text)
        assert explained, name
        assert re.search(r"section|algorithm|appendix|figure|Not in the paper", explained[1]), name
