"""The programs of all agents: their help, `replay-rl`, signals, a restart, and agents of others."""

import dataclasses
import importlib
import os
import re
import signal
import subprocess
import sys

from launched import ROOT, forked, launched, run_light
import numpy as np
import pytest
from refusals import check_refusal, refusal
from watched_run import RunByHand

from binaries import environments
from common.cluster.layout import imported
from common.program.layouts import ONE_PROCESS
from common.reporting.csv_rows import last_row
from common.reporting.run_directory import RunDirectory, RunDirectoryError
import reproductions
from reproductions import agent_of, load_policy
from reproductions.d4pg.config import AGENT

PYTHON = sys.executable.replace(f"{ROOT}/", "")
"""What a shell in that directory takes as it stands."""
NAMES = {path.stem for path in (ROOT / "binaries").glob("[!_]*.py")}
AGENTS = sorted(reproductions.AGENTS)
OTHERS = sorted(NAMES - {*AGENTS})


def shown(name, *flags):
    code, output = run_light(f"binaries.{name}", flags)
    assert code == 0, output
    return output


@pytest.mark.parametrize("name", AGENTS)
def test_an_agents_flags_are_grouped(name):
    text = shown(name, "-h")
    assert text == shown(name, "--workdir=runs/one", "--help")
    doc = importlib.import_module(f"binaries.{name}").__doc__
    assert text.startswith(doc.strip().replace("python -m", f"{PYTHON} -m"))
    groups = re.split(r"\n\n(\w+):\n", text)[1:]
    flags = {
        title: re.findall(r"^  --(?:\[no\])?([\w.]+):", lines, re.M)
        for title, lines in zip(groups[::2], groups[1::2])
    }
    assert list(flags) == ["run", "environment", "evaluation", "cluster", "hyperparameters"]
    assert "A run needs --environment and --workdir." in text
    assert {"workdir", "seed", "max_minutes", "ignore_resources"} <= {*flags["run"]}
    assert {"environment", "environment_seconds"} <= {*flags["environment"]}
    assert {"stop_at_return", "film_every"} <= {*flags["evaluation"]}
    assert {"role", "patience_minutes"} <= {*flags["cluster"]}
    agent = imported(reproductions.AGENTS[name])
    config = agent.settings.configuration(agent.settings.default)
    names = {f"config.{field.name}" for field in dataclasses.fields(config)}
    assert {"setting", agent.num_actors_flag} == {*flags["hyperparameters"]} - names
    assert names <= {*flags["hyperparameters"]} and type(config).__name__ not in text


UNSUITABLE = {
    "apex_dpg": ("gym:CartPole-v1", ["discrete actions"]),
    "apex_dqn": ("control:cartpole:swingup", ["needs discrete", "atari:pong"]),
    "aql": ("atari:pong", ["images", "control:cartpole:swingup"]),
    "d4pg": ("gym:CartPole-v1", ["discrete actions"]),
    "d4pg_ppo": ("atari:pong", ["needs flat observations and continuous actions"]),
    "reactor": ("control:cartpole:swingup", ["needs discrete", "atari:pong"]),
    "refer": ("gym:CartPole-v1", ["has 2 discrete actions", "continuous actions"]),
    "refer_ppo": ("atari:pong", ["needs flat observations and continuous actions"]),
}


@pytest.mark.parametrize("name", AGENTS)
def test_an_environment_that_does_not_suit_is_refused(name, tmp_path):
    environment, words = UNSUITABLE[name]
    check_refusal(f"binaries.{name}", [f"--environment={environment}"], words, tmp_path)


FLAG_FILES = sorted((ROOT / "reproductions").rglob("*.flags"))


@pytest.mark.parametrize("path", FLAG_FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_flag_file_is_one_of_its_program(path, tmp_path):
    """Which refuses its run for an unknown environment and nothing else."""
    (name,) = [name for name in AGENTS if name in (path.parent.name, f"apex_{path.parent.name}")]
    unknown = "control:no_such:task"
    flags = [f"--flagfile={path}", f"--workdir={tmp_path}/run", f"--environment={unknown}"]
    check_refusal(f"binaries.{name}", flags, [unknown], tmp_path)


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_another_programs_required_flags_come_first(name, flag, capsys):
    with pytest.raises(SystemExit) as end:
        importlib.import_module(f"binaries.{name}").main([flag])
    assert not end.value.code
    usage, _, text = capsys.readouterr().out.partition("\n\n")
    usage = usage.replace("[-h]", "")
    assert usage.startswith("usage: /") or usage.startswith(f"usage: {PYTHON} -m binaries.{name}")
    assert not re.search(r"(?<![/\w])python -m", usage + text)
    after = usage[usage.find("[") :] if "[" in usage else ""  # the first flag that is optional
    while "[" in after:
        after = re.sub(r"\[[^\[\]]*\]", "", after)
    assert "--" not in after, usage


def test_replay_rl_lists_the_programs():
    code, output = run_light("binaries", [])
    assert code == 0
    assert {line.split()[0] for line in output.splitlines()[2:]} == NAMES


def test_replay_rl_runs_a_program():
    flags = ["d4pg", "--environment=control:cartpole:swingup", "--setting=d5pg"]
    command = [sys.executable, "-m", "binaries", *flags]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: unknown --setting=d5pg: did you mean")


def test_an_unknown_program_is_one_line():
    line = 'error: there is no program "evalute": did you mean evaluate?\n'
    assert run_light("binaries", ["evalute", "--workdir=runs/one"]) == (2, line)


@pytest.mark.parametrize("name", reproductions.AGENTS)
def test_an_agents_program_and_class_are_those_of_its_declaration(name):
    declared = imported(reproductions.AGENTS[name])
    assert declared.name == name and (ROOT / "reproductions" / declared.paper).is_dir()
    assert importlib.import_module(declared.module).AGENT is declared
    assert imported(declared.agent_class).declaration is declared


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("program", ["d4pg", "experiment"])
def test_a_signal_during_the_imports_ends_it_in_silence(tmp_path, program, number):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # else a background job ignores it
    slow = "print('importing', flush=True); import time; time.sleep(600)"
    (tmp_path / "inspect.py").write_text(slow)  # of the standard library, which all import
    with launched() as start:
        process = start("-m", f"binaries.{program}", env={"PYTHONPATH": str(tmp_path)})
        assert process.stdout.readline() == "importing\n"
        process.send_signal(number)
        assert process.communicate() == ("", "") and process.returncode == -number


def test_a_signal_ends_it_while_an_environment_of_the_users_own_hangs(tmp_path):
    module = "import time\ndef make(seed):\n    print('making', flush=True)\n    time.sleep(600)\n"
    (tmp_path / "hanging.py").write_text(module)
    flags = [f"--workdir={tmp_path / 'run'}", "--environment=python:hanging:make"]
    with launched() as start:
        process = start("-m", "binaries.d4pg", *flags, env={"PYTHONPATH": str(tmp_path)})
        assert process.stdout.readline() == "making\n"
        process.send_signal(signal.SIGTERM)
        assert process.communicate()[0] == "" and process.returncode == -signal.SIGTERM
    assert not (tmp_path / "run").exists()


# An agent of another distribution, which an entry point declares.

QUIET_FILES = {
    "quiet-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: quiet\nVersion: 1.0\n",
    "quiet-1.0.dist-info/entry_points.txt": """
[replay_rl.agents]
quiet = quiet:AGENT
broken = quiet:NOTHING
d4pg = quiet:AGENT
""",
    "quiet.py": """
import dataclasses
from common.program import main
from reproductions.d4pg.config import AGENT as D4PG

AGENT = dataclasses.replace(
    D4PG, name="quiet", title="Quiet", paper="quiet", agent_class="quiet_agent:Quiet",
    program="quiet",
)

if __name__ == "__main__":
    main.start(AGENT)
""",
    "quiet_agent.py": """
from reproductions.d4pg.d4pg import D4PG

class Quiet(D4PG):
    paper = "quiet"
""",
}
SECONDS = 600
"""Patience with a busy machine."""
SMALL = (
    "--environment=python:reproductions.d4pg.own_environment:make",
    *("--seed=3", "--learner_threads=1", "--evaluation_steps=100000", "--evaluation_episodes=1"),
    *("--checkpoint_seconds=0.2", "--config.single_process", "--config.batch_size=16"),
    *("--config.min_replay_size=300", "--config.replay_capacity=500"),
    *("--config.samples_per_insert=16", "--config.policy_sizes=8,8", "--config.critic_sizes=8,8"),
)
"""Flags of a run in one process."""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The directory in which the distribution is installed."""
    for name, text in QUIET_FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(ROOT)]))
    yield tmp_path
    for module in ("quiet", "quiet_agent"):
        sys.modules.pop(module, None)


def test_runs_of_another_distributions_agent_are_evaluated_and_loaded(installed):
    workdir, paths = installed / "run", {"PYTHONPATH": str(installed)}
    with forked() as start:
        flags = (*SMALL, "--setting=ddpg", "--max_learner_steps=10")
        run = RunByHand(start, workdir, "quiet", flags, ONE_PROCESS, learner=1)
        run.ends([run.start("learner", **paths)], SECONDS)
        flags = (f"--workdir={workdir}", "--episodes=1")
        program = start(installed / "evaluate.log", "binaries.evaluate", *flags, **paths)
        assert program.wait(SECONDS) == 0, program.output
    config = RunDirectory(workdir).read_config()
    assert {"paper": "quiet", "agent": "quiet"}.items() <= config.items()
    *_, shown = program.output.splitlines()
    assert shown.startswith("return ") and "after 10 learner steps" in shown
    policy = load_policy(workdir)
    assert policy.learner_steps == 10 and policy(np.zeros(2)).shape == (1,)


def record(folder, agent):
    run = RunDirectory(folder / agent)
    config = dataclasses.asdict(AGENT.settings.config_class())
    run.open({"agent": agent, "environment": "any", "setting": "any", "config": config})
    return run.path


def test_names_of_this_repository_are_its_own(installed):
    assert agent_of(record(installed, "d4pg")) is AGENT
    assert agent_of(record(installed, "quiet")).title == "Quiet"


def test_an_agent_that_cannot_be_found_is_one_line(installed):
    with pytest.raises(
        RunDirectoryError, match='agent "loud", which is not installed.* d4pg.*quiet'
    ):
        agent_of(record(installed, "loud"))
    with pytest.raises(RunDirectoryError, match='"broken", whose declaration quiet:NOTHING cannot'):
        agent_of(record(installed, "broken"))


def test_a_run_that_is_killed_goes_on_with_the_replay_that_it_had(tmp_path):
    with forked() as start:
        flags = start, tmp_path / "run", "binaries.d4pg", SMALL, ONE_PROCESS
        run = RunByHand(*flags, learner=1)
        file = run.workdir / "replay/learner_0.replay"
        learner = run.start("learner")
        run.wait_for(lambda: run.learner("learner_steps") > 400, SECONDS, "it learns")
        run.wait_for(file.exists, SECONDS, "the replay is saved")
        learner.stop(signal.SIGKILL)
        assert learner.wait(SECONDS) == -signal.SIGKILL
        steps = int(run.learner("learner_steps")) + 200
        learner = run.start("learner", 0, f"--max_learner_steps={steps}")
        run.ends([learner], SECONDS)
        assert re.search(r"the replay resumes with (3\d\d|4\d\d|500) saved items", learner.output)
    row = last_row(run.workdir / "learner.csv")
    assert row["learner_steps"] >= steps and row["replay_size"] >= 300
    assert not list(file.parent.iterdir())  # the run is over


# `binaries.environments` as its user meets it.


def listed(capsys, *flags):
    environments.main(list(flags))
    return capsys.readouterr().out.splitlines()


def test_environments_lists_all_names(capsys):
    lines = listed(capsys)
    assert {"control:cartpole:swingup", "atari:pong", "gym:HalfCheetah-v4"} < set(lines)
    assert lines == sorted(lines)


@pytest.mark.parametrize(
    "name, words",
    [
        (
            "control:cartpole:swingup",
            "5 -> 1 continuous apex_dpg, aql, d4pg, d4pg_ppo, refer, refer_ppo",
        ),
        ("gym:CartPole-v1", "4 -> 2 discrete apex_dqn --config.torso=mlp, aql, reactor --config"),
        ("atari:pong", "image [84, 84, 4] -> 18 discrete apex_dqn, reactor"),
    ],
)
def test_which_agents_can_act_in_one(capsys, name, words):
    (line,) = listed(capsys, name)
    assert " ".join(line.split()).startswith(f"{name} {words}")


def test_a_suite_whose_package_is_missing_says_so_and_goes_on(capsys):
    lines = listed(capsys, "dmlab")
    assert len(lines) > 1 and all("deepmind_lab is not installed" in line for line in lines)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["contrl"], "there are atari, control"),
        (["python"], "give a full name, python:..."),
        (["gym:Nope-v1"], 'unknown environment "gym:Nope-v1"'),
        (["--check", "gym:CartPole-v1", "--steps=0"], "--steps must be at least 1, is 0"),
        (["gym:CartPole-v1", "--steps=9"], "--steps needs --check"),
    ],
)
def test_bad_input_is_one_line(capsys, arguments, words):
    assert words in refusal(capsys, environments.main, *arguments)


def test_it_needs_no_tensorflow():
    assert "d4pg" in shown("environments", "gym:Pendulum-v1")
