"""An agent of another distribution, which an entry point declares."""

import dataclasses
import os
import subprocess
import sys

from launched import ROOT
import numpy as np
import pytest

from common.reporting.run_directory import RunDirectory, RunDirectoryError
from reproductions import agent_of, load_policy
from reproductions.d4pg.config import AGENT

FILES = {
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
FLAGS = (
    "--setting=ddpg",
    "--environment=python:reproductions.d4pg.own_environment:make",
    "--max_learner_steps=10",
    "--evaluation_episodes=1",
    "--config.policy_sizes=(8,8)",
    "--config.critic_sizes=(8,8)",
    "--config.batch_size=8",
    "--config.samples_per_insert=8",
    "--config.min_replay_size=50",
)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The directory in which the distribution is installed."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(ROOT)]))
    yield tmp_path
    for module in ("quiet", "quiet_agent"):
        sys.modules.pop(module, None)


def output_of(folder, *arguments):
    command = [sys.executable, "-m", *map(str, arguments)]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_its_runs_are_evaluated_and_loaded(installed):
    workdir = installed / "run"
    output_of(installed, "quiet", *FLAGS, f"--workdir={workdir}")
    assert {"paper": "quiet", "agent": "quiet"}.items() <= RunDirectory(
        workdir
    ).read_config().items()
    shown = output_of(installed, "binaries.evaluate", f"--workdir={workdir}", "--episodes=1")
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
    with pytest.raises(RunDirectoryError, match='agent "loud", which is not here.* d4pg.*quiet'):
        agent_of(record(installed, "loud"))
    with pytest.raises(RunDirectoryError, match='"broken", whose declaration quiet:NOTHING cannot'):
        agent_of(record(installed, "broken"))
