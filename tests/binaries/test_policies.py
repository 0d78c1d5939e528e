"""The trained policies that come with the code."""

import json

import pytest

from binaries.evaluate import POLICIES
from common import environments
from common.agents import trained
from common.cluster.layout import imported
from common.reporting.csv_rows import read_rows
from common.reporting.run_directory import RunDirectory
from common.roles.evaluator import environment_seeds, run_episodes
from reproductions import agent_of

NAMES = sorted(path.name for path in POLICIES.iterdir() if path.is_dir())


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_plays_as_well_as_its_run_says(name):
    directory = RunDirectory(POLICIES / name)
    run = trained.load(directory.path, imported(agent_of(directory.path).agent_class), "best")
    best = read_rows(directory.evaluator_csv)["episode_return_mean"].max()
    seeds, frames = environment_seeds(1, 4), run.agent.declaration.num_frames
    batch = environments.make_batch(run.environment, seeds, evaluation=True, frames=frames)
    returns = run_episodes(batch, run.make_policy(4), 4)
    assert returns.mean() > 0.9 * best > 0


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_is_small_and_has_the_run_that_made_it(name):
    files = [path for path in (POLICIES / name).rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 4e6
    (start,) = json.loads((POLICIES / name / "run.json").read_text())["starts"]
    assert start["outcome"] in ("finished", "stopped") and start["git"]["commit"]
