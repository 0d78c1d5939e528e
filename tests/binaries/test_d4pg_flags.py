"""A user's mistake: one line that names it and the way out, nothing written, no TensorFlow."""

import http.server
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import threading

import pytest

from common.program import available
from common.reporting.run_directory import RunDirectory
from reproductions.d4pg.config import D4PGConfig

ROOT = pathlib.Path(__file__).parents[2]
CARTPOLE = "--environment=control:cartpole:swingup"
TOKEN = "a token for this test"
LEARNER = {"cluster": {"learner": ["127.0.0.1:1"]}, "task": {"type": "learner", "index": 0}}


def tf_config(role, **addresses):
    """A cluster of one task a job, read by `role`."""
    cluster = {job: [address] for job, address in addresses.items()}
    return json.dumps({"cluster": cluster, "task": {"type": role, "index": 0}})


def many_replays(replays, actors):
    """A cluster whose replay has so many shards, read by its learner."""
    ports = iter(range(1, 100))
    counts = {"learner": 1, "replay": replays, "actor": actors}
    cluster = {
        job: [f"127.0.0.1:{next(ports)}" for _ in range(count)] for job, count in counts.items()
    }
    return json.dumps({"cluster": cluster, "task": {"type": "learner", "index": 0}})


@pytest.fixture
def without_tensorflow(tmp_path):
    """Variables under which an import of TensorFlow ends the program."""
    folder = tmp_path / "no_tensorflow"
    folder.mkdir()
    (folder / "tensorflow.py").write_text("raise SystemExit('TensorFlow was imported')\n")
    return {"PYTHONPATH": str(folder)}


def clean_environment(variables):
    ours = ("TF_CONFIG", "REPLAY_RL_TOKEN", "REPLAY_RL_TOKEN_FILE")
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    return {**kept, **variables}


def run(*flags, **variables):
    return subprocess.run(
        [sys.executable, "-m", "binaries.d4pg", *map(str, flags)],
        cwd=ROOT,
        timeout=60,
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


def contents(directory):
    return {
        path.relative_to(directory): path.is_file() and path.read_bytes()
        for path in directory.rglob("*")
    }


@pytest.mark.parametrize(
    "flags, words",
    [
        (
            ["--environment=contrl:cartpole:swingup"],
            ["contrl:cartpole", '"control:cartpole:swingup"'],
        ),
        (["--environment=control:cartpol:swingup"], ["cartpol:", '"control:cartpole:swingup"']),
        (["--environment=control:cartpole:swingu"], ["swingu", '"control:cartpole:swingup"']),
        (["--environment="], ["--environment is missing", "control:cartpole:swingup"]),
        ([CARTPOLE, "--config.n_step=0"], ["--config.n_step", "at least 1", "is 0"]),
        ([CARTPOLE, "--config.batch_size=-1"], ["--config.batch_size", "-1"]),
        ([CARTPOLE, "--config.replay_capacity=-5"], ["--config.replay_capacity", "-5"]),
        ([CARTPOLE, "--config.policy_sizes=(64,-1)"], ["--config.policy_sizes", "(64, -1)"]),
        (
            [CARTPOLE, "--config.policy_sizes=wide"],
            ["--config.policy_sizes", "whole numbers", "wide"],
        ),
        ([CARTPOLE, "--config.v_min=200"], ["--config.v_min", "below v_max (150)", "200"]),
        ([CARTPOLE, "--config.v_max=inf"], ["--config.v_max", "finite", "inf"]),
        ([CARTPOLE, "--config.learning_rate=nan"], ["--config.learning_rate", "nan"]),
        ([CARTPOLE, "--config.replay_capacity=100"], ["replay_capacity (100)", "256"]),
        ([CARTPOLE, "--config.n_step=abc"], ["--config.n_step=abc", "--help"]),
        ([CARTPOLE, "--config.nonsense=1"], ["--config.nonsense", "--help"]),
        ([CARTPOLE, "--config.n_stp=1"], ["--config.n_stp", "did you mean --config.n_step?"]),
        ([CARTPOLE, "--noconfig.layer_nrm"], ["--config.layer_nrm", "--config.layer_norm"]),
        ([CARTPOLE, "--num_actor=2"], ["num_actor", "num_actors"]),
        ([CARTPOLE, "--num_actors=0"], ["--num_actors", "[1, 4096]", "is 0"]),
        ([CARTPOLE, "--num_actors=5000"], ["--num_actors", "[1, 4096]", "5000"]),
        ([CARTPOLE, "--seed=4294967296"], ["--seed"]),
        ([CARTPOLE, "--num_actors=2", "--actor_processes=3"], ["--actor_processes", "(2)", "3"]),
        (
            [CARTPOLE, "--actor_processes=1", "--replay_shards=2"],
            ["--replay_shards is 2", "there are 1", "--actor_processes"],
        ),
        (
            [CARTPOLE, "--num_actors=2", "--replay_shards=3"],
            ["--replay_shards is 3", "there are 2"],
        ),
        (
            [CARTPOLE, "--replay=learner", "--replay_shards=2"],
            ["--replay_shards is 2", "learner's"],
        ),
        ([CARTPOLE, "--setting=ddpg", "--replay_shards=2"], ["--replay_shards is 2", "learner's"]),
        ([CARTPOLE, "--replay_shards=33"], ["--replay_shards=33", "[1, 32]"]),
        ([CARTPOLE, "--max_minutes=-1"], ["--max_minutes=-1"]),
        ([CARTPOLE, "--max_minutes=nan"], ["--max_minutes", "finite", "nan"]),
        ([CARTPOLE, "--patience_minutes=inf"], ["--patience_minutes", "finite", "inf"]),
        ([CARTPOLE, "--seed=-1"], ["--seed=-1"]),
        ([CARTPOLE, "--seed=2147483648"], ["--seed"]),
        (
            [CARTPOLE, "--setting=d3pg_unifrm_n1"],
            ["d3pg_unifrm_n1", "did you mean d3pg_uniform_n1?"],
        ),
        ([CARTPOLE, "--setting", "d5pg"], ["--setting=d5pg", "d4pg_prioritized_n5"]),
        ([CARTPOLE, "--setting=ddpg", "--config.samples_per_insert=0"], ["samples_per_insert"]),
        ([CARTPOLE, "cartpole"], ['"cartpole"', "--"]),
        ([CARTPOLE, "--role=leaner"], ["--role=leaner", "learner|replay|actor|evaluator"]),
        (["--flagfile=there_is_no.flags"], ["there_is_no.flags"]),
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
    RunDirectory(tmp_path / "run").open({"paper": "d4pg", "config": {"n_step": 1}})
    before = contents(tmp_path / "run")
    result = run(CARTPOLE, f"--workdir={tmp_path}/run", **without_tensorflow)
    assert_refused(result, str(tmp_path / "run"), "config.n_step 1 -> 5", "new directory")
    assert contents(tmp_path / "run") == before


def test_a_directory_of_something_else_stays_as_it_was(tmp_path, without_tensorflow):
    foreign = tmp_path / "thesis"
    foreign.mkdir()
    (foreign / "chapter.txt").write_text("one")
    result = run(CARTPOLE, f"--workdir={foreign}", **without_tensorflow)
    assert_refused(result, str(foreign), "chapter.txt", "--workdir")
    assert contents(foreign) == {pathlib.Path("chapter.txt"): b"one"}


@pytest.mark.parametrize("below", ["", "run"])
def test_a_file_in_the_place_of_the_workdir(below, tmp_path, without_tensorflow):
    (tmp_path / "file").write_text("mine")
    result = run(CARTPOLE, f"--workdir={tmp_path / 'file' / below}", **without_tensorflow)
    assert_refused(result, str(tmp_path / "file"), "--workdir")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_workdir_without_permission(tmp_path, without_tensorflow):
    (tmp_path / "locked").mkdir(mode=0o500)
    result = run(CARTPOLE, f"--workdir={tmp_path}/locked/run", **without_tensorflow)
    assert_refused(result, "locked/run", "Permission denied", "--workdir")


@pytest.mark.skipif((available.memory() or 0) > 700e9, reason="this machine could hold it")
@pytest.mark.parametrize(
    "role, variables",
    [("local", {}), ("learner", {"TF_CONFIG": json.dumps(LEARNER), "REPLAY_RL_TOKEN": TOKEN})],
)
def test_a_replay_that_this_machine_cannot_hold(role, variables, tmp_path, without_tensorflow):
    workdir = tmp_path / "run"
    result = run(
        "--environment=control:humanoid:run",
        f"--workdir={workdir}",
        "--actor_processes=1",
        f"--role={role}",
        f"--config.replay_capacity={2**30}",
        **variables,
        **without_tensorflow,
    )
    assert_refused(
        result,
        "not enough memory",
        "819 GB when full",
        "--config.replay_capacity",
        "--ignore_resources",
    )
    assert not workdir.exists()


@pytest.mark.parametrize(
    "role, variables, words",
    [
        ("learner", {}, ["TF_CONFIG is not set", "--role=local"]),
        ("learner", {"TF_CONFIG": "{"}, ["TF_CONFIG", "not JSON"]),
        ("learner", {"TF_CONFIG": "[]"}, ["TF_CONFIG", '"cluster"']),
        ("learner", {"TF_CONFIG": json.dumps(LEARNER)}, ["no cluster token", "REPLAY_RL_TOKEN"]),
        (
            "learner",
            {"TF_CONFIG": json.dumps(LEARNER), "REPLAY_RL_TOKEN": "short"},
            ["REPLAY_RL_TOKEN", "5 characters"],
        ),
        (
            "actor",
            {"TF_CONFIG": json.dumps(LEARNER), "REPLAY_RL_TOKEN": TOKEN},
            ["--role=actor", "TF_CONFIG is learner"],
        ),
        (
            "actor",
            {"TF_CONFIG": tf_config("actor", replay="127.0.0.1:1"), "REPLAY_RL_TOKEN": TOKEN},
            ["no learner 0", "add its host:port to TF_CONFIG"],
        ),
        (
            "evaluator",
            {"TF_CONFIG": tf_config("evaluator", replay="127.0.0.1:1"), "REPLAY_RL_TOKEN": TOKEN},
            ["no learner 0", "add its host:port to TF_CONFIG"],
        ),
        (
            "replay",
            {"TF_CONFIG": tf_config("replay", learner="127.0.0.1:1"), "REPLAY_RL_TOKEN": TOKEN},
            ["replay 0", "no job 'replay'"],
        ),
        (
            "learner",
            {"TF_CONFIG": many_replays(3, actors=2), "REPLAY_RL_TOKEN": TOKEN},
            ["TF_CONFIG lists 3 tasks of replay", "there are 2", "--actor_processes"],
        ),
        (
            "learner",
            {"TF_CONFIG": many_replays(33, actors=40), "REPLAY_RL_TOKEN": TOKEN},
            ["TF_CONFIG lists 33 tasks of replay", "can be 32"],
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


def test_a_role_with_an_unknown_task(tmp_path, without_tensorflow):
    result = run(
        "--environment=control:cartpole:swngup",
        f"--workdir={tmp_path}/run",
        "--role=learner",
        TF_CONFIG=json.dumps(LEARNER),
        REPLAY_RL_TOKEN=TOKEN,
        **without_tensorflow,
    )
    assert_refused(result, "swngup", '"control:cartpole:swingup"')
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("role", ["actor", "learner"])
def test_the_address_of_something_else(role, tmp_path, without_tensorflow):
    """A web server where a partner should be is known at once."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    server.RequestHandlerClass.log_message = lambda *_: None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"127.0.0.1:{server.server_address[1]}"
    jobs = {"learner": "127.0.0.1:1", "replay": address}
    try:
        result = run(
            CARTPOLE,
            f"--workdir={tmp_path}/run",
            f"--role={role}",
            "--actor_processes=1",
            TF_CONFIG=tf_config(role, **jobs),
            REPLAY_RL_TOKEN=TOKEN,
            **without_tensorflow,
        )
    finally:
        server.shutdown()
        server.server_close()
    assert_refused(result, address, "no service of a cluster", "TF_CONFIG")
    assert not (tmp_path / "run").exists()


def test_a_host_that_does_not_resolve(tmp_path, without_tensorflow):
    config = tf_config("actor", learner="no-such-host.invalid:4000")
    result = run(
        CARTPOLE,
        f"--workdir={tmp_path}/run",
        "--role=actor",
        "--actor_processes=1",
        "--patience_minutes=0.01",
        TF_CONFIG=config,
        REPLAY_RL_TOKEN=TOKEN,
        **without_tensorflow,
    )
    assert_refused(result, "cannot resolve the host of no-such-host.invalid:4000", "TF_CONFIG")
    assert not (tmp_path / "run").exists()


def test_a_port_in_use(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        cluster = {"learner": ["127.0.0.1:1"], "replay": [address]}
        result = run(
            CARTPOLE,
            f"--workdir={tmp_path}/run",
            "--role=replay",
            REPLAY_RL_TOKEN=TOKEN,
            TF_CONFIG=json.dumps({"cluster": cluster, "task": {"type": "replay", "index": 0}}),
        )
    errors = [line for line in result.stderr.splitlines() if line.startswith("error:")]
    assert result.returncode not in (0, None) and len(errors) == 1, result.stderr
    assert address in errors[0] and "another port" in errors[0]
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "variables", [{"CXX": "/nowhere/g++"}, {"CXX": "g++", "PATH": "/nowhere"}], ids=["CXX", "PATH"]
)
def test_a_build_without_a_compiler(variables, tmp_path):
    shutil.copy(ROOT / "setup.py", tmp_path)
    shutil.copytree(ROOT / "common/replay/cc", tmp_path / "common/replay/cc")
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
