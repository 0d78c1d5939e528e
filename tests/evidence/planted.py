"""Papers and run directories that stand for real ones, so that planning is tested in no time."""

import dataclasses
import pathlib

from common.config import Config, Settings, field
from common.evidence.keep import TableWriter
from common.evidence.paper import PAPER_SCALE, Change, Experiment, Paper, Run, Scale
from common.evidence.plan import make_plan
from common.evidence.runs import KeptRuns
from common.reporting import csv_rows
from common.reporting.budget import Budget
from common.reporting.csv_rows import CsvRows
from common.reporting.run_directory import RunDirectory
from reproductions.d4pg.config import AGENT as D4PG

SETTINGS = ("good", "better")


@dataclasses.dataclass
class FakeConfig(Config):
    """Hyperparameters of the fake agent."""

    sizes: tuple[int, ...] = field((8, 8))
    single_process: bool = field(False)
    prefetch: int = field(16, may_change=True)


# fake_program.py does what a launcher does, without learning.
PLAYED = (*SETTINGS, "steady", "slow", "mortal", "held", "broken")
AGENT = dataclasses.replace(
    D4PG,
    title="Fake",
    program="fake_program",
    settings=Settings(FakeConfig, dict.fromkeys(PLAYED, {}), "good"),
)
TASKS = ("suite:a:easy", "suite:b:hard")
EXPERIMENT = Experiment(
    "figure 1",
    "two curves on two tasks",
    runs=tuple(
        Run(AGENT, setting, task, (f"--setting={setting}",))
        for setting in SETTINGS
        for task in TASKS
    ),
    budget=Budget(minutes=60),
    seeds=2,
)
SMALL = Scale(
    "small",
    "a small one",
    Budget(learner_steps=10),
    (Change("--num_actors=2"), Change("--config.sizes=(4,4)")),
)


def paper(*experiments):
    """A paper of these, with `SMALL`."""
    return Paper("fake", "Fake", "Nobody 2000", (AGENT,), experiments, (PAPER_SCALE, SMALL), {})


def plant(
    directory: pathlib.Path, learner_steps: int = 10, outcome: str | None = "finished", **config
) -> RunDirectory:
    """A run of `SMALL` as its program leaves it; outcome None: it was killed."""
    task = directory.parent.name.replace("-", ":")
    seed = int(directory.name.removeprefix("seed_"))
    run = RunDirectory(directory)
    run.open(
        {
            "paper": "fake",
            "environment": task,
            "seed": seed,
            "setting": directory.parents[1].name,
            "num_actors": 2,
            "config": {"sizes": [4, 4]},
            **config,
        }
    )
    run.write_run_record(seed=seed, scale="small")
    row = dict.fromkeys(csv_rows.LEARNER) | {
        "wall_seconds": 6 * learner_steps,
        "actor_steps": 40 * learner_steps,
        "learner_steps": learner_steps,
    }
    CsvRows(run.learner_csv, csv_rows.LEARNER).append(row)
    CsvRows(run.evaluator_csv, csv_rows.EVALUATOR)
    CsvRows(run.acting_csv, csv_rows.ACTING)
    if outcome is not None:
        run.close_run_record(outcome)
    return run


def plant_kept(root, setting, learner_steps=10, num_actors=2, sizes=(4, 4), **values):
    """Keeps a finished run of `SMALL` and leaves no directory."""
    progress = (6 * learner_steps, 40 * learner_steps, learner_steps)
    writer = TableWriter(root, "fake", "small")
    values |= {"sizes": [*sizes]}
    config = {"paper": "fake", "setting": setting, "num_actors": num_actors, "config": values}
    record = {"progress": dict(zip(csv_rows.PROGRESS, progress))}
    record["starts"] = [{"outcome": "finished"}]
    writer.put((setting, TASKS[0], 0), config, record, [], [])
    writer.write()


def plan_figure(roots, scale=SMALL, **selection):
    """The plan of `EXPERIMENT`, of runs and tables below two roots."""
    own = paper(EXPERIMENT)
    return make_plan(own, EXPERIMENT, scale, roots[0], KeptRuns(roots[1]), **selection)


def path(root, setting, task, seed, scale="small") -> pathlib.Path:
    """The run directory below a root."""
    return root / "fake" / scale / setting / task.replace(":", "-") / f"seed_{seed}"


def contents(directory: pathlib.Path) -> dict:
    """Every file with its bytes and its time."""
    return {
        file: (file.read_bytes(), file.stat().st_mtime_ns)
        for file in directory.rglob("*")
        if file.is_file()
    }
