"""The kept runs below a root, as figures, tables and claims read them.

The readers are strict: the first malformed file ends the program with one line that names it.
"""

from collections.abc import Iterator
import dataclasses
import pathlib
from typing import Any

import numpy as np
import pandas

from common.environments import frames_per_step
from common.experiments.effects import is_by_rule
from common.experiments.paper import EPISODE_RETURN, Returns, run_path
from common.experiments.status import IN_ORDER
from common.reporting.budget import Budget
from common.reporting.csv_rows import read_lines, read_numbers
from common.reporting.run_directory import RunDirectory, RunDirectoryError, differences, listed

_RUNS = pathlib.Path("results/runs")
STRETCHES = 50
"""Training episodes are averaged over each fiftieth of a run: ReF-ER's 2e5 steps of 1e7."""


@dataclasses.dataclass(frozen=True)
class KeptRun:
    """A run directory in its place of the tree.

    Attributes:
      path: of the directory.
      paper: name of the paper.
      scale: name of the scale.
      setting: name of the curve; of the directory, not of the agent.
      environment: as in config.json.
      seed: as in config.json.
      config: of config.json.
      starts: of run.json.
    """

    path: pathlib.Path
    paper: str
    scale: str
    setting: str
    environment: str
    seed: int
    config: dict[str, Any]
    starts: tuple[dict[str, Any], ...]

    @property
    def has_ended(self) -> bool:
        """True if its last start ended in order: it is not going on, nor was it killed."""
        return self._last_start.get("outcome") in IN_ORDER

    def reached(self, column: str) -> float:
        """Returns the largest value of a column of learner.csv, 0 without rows.

        Args:
          column: "wall_seconds", which is of all starts together, "actor_steps", ...
        """
        values = self._learner((column,))[column].dropna()
        return float(values.max()) if len(values) else 0.0

    def has(self, column: str) -> bool:
        """Returns whether learner.csv has a column; each agent has its own."""
        path = RunDirectory(self.path).learner_csv
        return path.exists() and column in read_lines(path)[0][1]

    @property
    def size(self) -> str:
        """The scale in its record; for a run by hand a phrase such as "8 actors"."""
        return str(self._last_start.get("scale") or "")

    def value_of(self, flag: str) -> Any:
        """Returns the value that the run had of a flag, such as "config.batch_size".

        Returns:
          The value in config.json, else the one in run.json; None if the flag was not given.
        """
        group, _, name = flag.rpartition(".")
        values = self.config.get(group, {}) if group else self.config
        return values.get(name, self._last_start.get("changed", {}).get(flag))

    @property
    def budget(self) -> Budget:
        """The limits of its last start; for a run that was stopped before, the minutes it took."""
        limits = Budget(**self._last_start.get("budget", {}))
        if self._last_start.get("outcome") == "finished" and limits != Budget():
            return limits
        return Budget(minutes=float(f"{self.reached('wall_seconds') / 60:.2g}"))

    @property
    def commit(self) -> str:
        """The commit of the code of its last start; "" if run.json does not say."""
        return str(self._last_start.get("git", {}).get("commit", ""))

    @property
    def cores(self) -> int:
        """The number that its machine let it use; 1 if run.json does not say."""
        return self._last_start.get("machine", {}).get("usable_cores") or 1

    @property
    def _identity(self) -> dict[str, str]:
        """The cells of every row of evaluator.csv by column."""
        names = ("paper", "setting", "environment", "seed")
        return {name: str(self.config.get(name)) for name in names}

    @property
    def _last_start(self) -> dict[str, Any]:
        """Empty before the first start."""
        return self.starts[-1] if self.starts else {}

    def points(self, x: str, y: str, returns: Returns) -> pandas.DataFrame:
        """Returns what a figure draws of this run.

        Args:
          x: "wall_seconds", "actor_steps", "learner_steps" or "environment_frames".
          y: `EPISODE_RETURN`, or a column of learner.csv.
          returns: which episodes, if y is a return.

        Returns:
          columns x and y, float64, sorted by x; empty if the run has nothing to show yet. Returns
          of training episodes are means over the stretches of the run that have episodes.
        """
        if y != EPISODE_RETURN:
            frame = self._learner((x, y))
        elif returns is Returns.EVALUATOR:
            frame = self._evaluations((x, y))
        else:
            frame = self._training_episodes(x, y, returns)
        return frame.dropna().sort_values(x, kind="stable", ignore_index=True)

    def _evaluations(self, names: tuple[str, ...]) -> pandas.DataFrame:
        return read_numbers(RunDirectory(self.path).evaluator_csv, names, self._identity)

    def _learner(self, names: tuple[str, ...]) -> pandas.DataFrame:
        """Returns columns of learner.csv, and "environment_frames", which is no column of it."""
        read = tuple("actor_steps" if name == "environment_frames" else name for name in names)
        frame = read_numbers(RunDirectory(self.path).learner_csv, tuple(dict.fromkeys(read)))
        found = {name: frame[source] for name, source in zip(names, read)}
        if "environment_frames" in names:
            found["environment_frames"] *= frames_per_step(self.environment)
        return pandas.DataFrame(found)

    def _training_episodes(self, x: str, y: str, returns: Returns) -> pandas.DataFrame:
        columns, path = (
            ("wall_seconds", "actor", "episode_return"),
            RunDirectory(self.path).acting_csv,
        )
        if not path.exists():  # they are in the thinned learner.csv, see `keep`
            return self._learner((x, returns.column)).set_axis([x, y], axis=1)
        episodes = read_numbers(path, columns)
        if returns is Returns.GREEDIEST_ACTOR:
            episodes = episodes[episodes["actor"] == (self.config.get("num_actors") or 1) - 1]
        position = episodes["wall_seconds"]
        if x != "wall_seconds":
            # An actor counts its steps from 0 after a restart; the learner counts all steps.
            clock = self._learner(("wall_seconds", x)).dropna()
            position = np.interp(position, clock["wall_seconds"], clock[x]) if len(clock) else []
        if not len(position):
            return pandas.DataFrame({x: [], y: []}, dtype=float)
        stretch = np.ceil(np.asarray(position) / max(position) * STRETCHES)
        episodes = pandas.DataFrame({x: position, y: episodes["episode_return"]})
        return episodes.groupby(stretch).mean()


def frame(
    paper: str, scale: str, root: pathlib.Path = _RUNS, y: str = EPISODE_RETURN, clock: str = ""
) -> pandas.DataFrame:
    """Returns the values of all ended runs of a scale as one long table.

    Args:
      paper: name of the paper.
      scale: name of the scale.
      root: of the tree of kept runs.
      y: `EPISODE_RETURN` for evaluations, or a column of learner.csv.
      clock: the column to take x from; "": the quantity that limits a run, which is learner steps,
        actor steps, else seconds.

    Returns:
      columns setting, task, seed, x, value, budget, commit and by_rule, a row a value. by_rule says
      of a run whether it was evaluated as often as claims ask. Runs without the column have no row.
    """
    names = ["setting", "task", "seed", "x", "value", "budget", "commit", "by_rule"]
    tables = []
    for run in KeptRuns(root).of(paper, scale):
        if run.has_ended:
            budget = run.budget
            limits = [name for name in ("learner_steps", "actor_steps") if getattr(budget, name)]
            limit = next(iter(limits), "wall_seconds")
            evaluated = points = run.points(limit, EPISODE_RETURN, Returns.EVALUATOR)
            if y != EPISODE_RETURN and not run.has(y):
                continue
            if y != EPISODE_RETURN or clock:
                points = run.points(clock or limit, y, Returns.EVALUATOR)
            tables.append(
                points.set_axis(["x", "value"], axis=1).assign(
                    setting=run.setting,
                    task=run.environment,
                    seed=run.seed,
                    budget=str(budget),
                    commit=run.commit,
                    by_rule=is_by_rule(evaluated[limit]),
                )
            )
    return (
        pandas.concat(tables, ignore_index=True)[names]
        if tables
        else pandas.DataFrame(columns=names).astype({"by_rule": bool})
    )


class KeptRuns:
    """Every run below a root, by paper and scale.

    Args:
      root: of the tree `<paper>/<scale>/<setting>/<environment>/seed_<n>`.

    Raises:
      RunDirectoryError: the root is no directory.
    """

    def __init__(self, root: pathlib.Path):
        if not root.is_dir():
            raise RunDirectoryError(f"there are no runs: {root} is no directory, give other --runs")
        self.root = root
        self._read: dict[tuple[str, str], tuple[KeptRun, ...]] = {}

    def scales(self, paper: str) -> tuple[str, ...]:
        """Returns the scales that have directories, sorted."""
        return _folders(self.root / paper)

    def of(self, paper: str, scale: str) -> tuple[KeptRun, ...]:
        """Returns the runs of a scale, sorted by setting, environment and seed.

        Raises:
          UserError: a run is damaged, in the wrong place, or of another config than the seeds
            beside it.
        """
        if (paper, scale) not in self._read:
            self._read[paper, scale] = tuple(self._find(paper, scale))
        return self._read[paper, scale]

    def _find(self, paper: str, scale: str) -> Iterator[KeptRun]:
        folder = self.root / paper / scale
        for setting in _folders(folder):
            for environment in _folders(folder / setting):
                place = folder / setting / environment
                runs = [self._open(paper, scale, setting, place / one) for one in _folders(place)]
                _check_same_config(runs)
                yield from sorted(runs, key=lambda run: run.seed)

    def _open(self, paper: str, scale: str, setting: str, path: pathlib.Path) -> KeptRun:
        files = RunDirectory(path)
        config = files.read_config()
        environment, seed = str(config.get("environment")), config.get("seed")
        place = self.root / run_path(paper, scale, setting, environment, seed)
        if config.get("paper") != paper or place != path or not isinstance(seed, int):
            raise RunDirectoryError(
                f"{files.config_json}: is of {config.get('paper')}, {environment}, seed "
                f"{seed!r}: move the run where it belongs"
            )
        starts = tuple(files.read_starts())
        return KeptRun(path, paper, scale, setting, environment, seed, config, starts)


def _check_same_config(runs: list[KeptRun]) -> None:
    for run in runs[1:]:
        found = differences(runs[0].config | {"seed": run.seed}, run.config)
        if found:
            changes = listed(found, f"{{name}} is {{here}}, {{there}} in {runs[0].path.name}")
            raise RunDirectoryError(
                f"{RunDirectory(run.path).config_json}: another config than the seeds beside it "
                f"({changes}): move the run away"
            )


def _folders(path: pathlib.Path) -> tuple[str, ...]:
    """Returns the names of the folders; hidden ones are of a keeping that goes on or was cut."""
    if not path.is_dir():
        return ()
    return tuple(sorted(one.name for one in path.iterdir() if one.is_dir() and one.name[0] != "."))
