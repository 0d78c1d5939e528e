"""The runs that are kept below a root, as figures, tables and claims read them.

What is malformed is said with its file and left out; the rest is used.
"""

import collections
import dataclasses
import functools
import json
import pathlib
import re

import numpy as np
import pandas

from common.experiments import checked_rows, registry
from common.experiments.checked_rows import Once, Warn
from common.experiments.registry import EPISODE_RETURN, Returns, run_path
from common.experiments.status import IN_ORDER
from common.reporting.budget import Budget
from common.reporting.csv_rows import last_row
from common.reporting.differences import differences
from common.reporting.run_directory import RunDirectory

STRETCHES = 50
"""Training episodes are averaged over each fiftieth of a run: ReF-ER's 2e5 steps of 1e7."""

_FRAMES_PER_STEP = {"atari": 4}
"""By suite; 1 elsewhere."""


def frames_per_step(environment: str) -> int:
    """Simulator frames of an actor step: the action repeat."""
    return _FRAMES_PER_STEP.get(environment.partition(":")[0], 1)


@dataclasses.dataclass(frozen=True)
class KeptRun:
    """A run directory in its place of the tree.

    config: of its config.json. starts: of its run.json. warn: told of malformed rows.
    """

    path: pathlib.Path
    paper: str
    scale: str
    setting: str
    environment: str
    seed: int
    config: dict
    starts: tuple[dict, ...]
    warn: Warn

    @property
    def has_ended(self) -> bool:
        """Whether its last start ended in good order: it is not going on, nor was it killed."""
        return self._last_start.get("outcome") in IN_ORDER

    def reached(self, column: str) -> float:
        """How far the run is: the largest value of a column of learner.csv, 0 without rows.

        Args:
          column: "wall_seconds", which is of all starts together, "actor_steps", ...
        """
        values = self._learner((column,))[column].dropna()
        return float(values.max()) if len(values) else 0.0

    @property
    def size(self) -> str:
        """The word for it in its record, of a run by hand "8 actors"; "" where it has none."""
        return str(self._last_start.get("scale") or "")

    def has_flag(self, flag: str) -> bool:
        """Whether its last command line has a flag, "num_actors", with a value, "--num_actors=8".

        Not what is in a file of flags.
        """
        given = [one.lstrip("-") for one in self._command]
        return any(one == flag.lstrip("-") or one.startswith(f"{flag}=") for one in given)

    @property
    def _last_start(self) -> dict:
        """Empty before the first one."""
        return self.starts[-1] if self.starts else {}

    @property
    def _command(self) -> tuple[str, ...]:
        command = self._last_start.get("command")
        return tuple(map(str, command)) if isinstance(command, list) else ()

    @property
    def budget(self) -> Budget:
        """What its last start was limited to.

        By its command line; where that does not say, and for a run that was stopped before, the
        minutes that it took.
        """
        flags = self._command if self._last_start.get("outcome") == "finished" else ()
        limits = dict(limit for flag in flags if (limit := _limit(flag)))
        if not limits:
            limits = {"minutes": float(f"{self.reached('wall_seconds') / 60:.2g}")}
        return Budget(**limits)

    @property
    def cores(self) -> int:
        """How many its machine let it use; 1 where run.json does not say."""
        machine = self._last_start.get("machine")
        return (machine.get("usable_cores") if isinstance(machine, dict) else None) or 1

    def points(self, x: str, y: str, returns: Returns) -> pandas.DataFrame:
        """What a figure draws of this run.

        Args:
          x: "wall_seconds", "actor_steps", "learner_steps" or "environment_frames".
          y: `EPISODE_RETURN`, or a column of learner.csv.
          returns: whose episodes, where y is a return.

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
        identity = {"paper": self.paper, "environment": self.environment, "seed": str(self.seed)}
        path = RunDirectory(self.path).evaluator_csv
        return checked_rows.read(path, names, self.warn, identity)

    def _learner(self, names: tuple[str, ...]) -> pandas.DataFrame:
        """Columns of learner.csv, and "environment_frames", which it has not."""
        read = tuple("actor_steps" if name == "environment_frames" else name for name in names)
        path = RunDirectory(self.path).learner_csv
        frame = checked_rows.read(path, tuple(dict.fromkeys(read)), self.warn)
        frames = frames_per_step(self.environment)
        return pandas.DataFrame(
            {
                name: frame[source] * (frames if name != source else 1)
                for name, source in zip(names, read)
            }
        )

    def _training_episodes(self, x: str, y: str, returns: Returns) -> pandas.DataFrame:
        path = RunDirectory(self.path).acting_csv
        episodes = checked_rows.read(path, ("wall_seconds", "actor", "episode_return"), self.warn)
        if returns is Returns.GREEDIEST_ACTOR:
            episodes = episodes[episodes["actor"] == self.config.get("num_actors", 1) - 1]
        position = episodes["wall_seconds"]
        if x != "wall_seconds":
            # An actor counts from 0 again after a restart; the learner counts them all.
            clock = self._learner(("wall_seconds", x)).dropna()
            position = np.interp(position, clock["wall_seconds"], clock[x]) if len(clock) else []
        if not len(position):
            return pandas.DataFrame({x: [], y: []}, dtype=float)
        stretch = np.ceil(np.asarray(position) / max(position) * STRETCHES)
        episodes = pandas.DataFrame({x: position, y: episodes["episode_return"]})
        return episodes.groupby(stretch).mean()


class KeptRuns:
    """Every run below a root, by paper and scale.

    Args:
      root: of the tree `<paper>/<scale>/<setting>/<environment>/seed_<n>`.
      warn: told once of each thing that is wrong.
    """

    def __init__(self, root: pathlib.Path, warn: Warn):
        self.root = root
        self.warn = Once(warn)
        self._read: dict[tuple[str, str], tuple[KeptRun, ...]] = {}

    def scales(self, paper: str) -> tuple[str, ...]:
        """The scales of which there are directories, sorted."""
        return _folders(self.root / paper)

    def of(self, paper: str, scale: str) -> tuple[KeptRun, ...]:
        """The runs of a scale, sorted by setting, environment and seed.

        A run whose config is not that of the other seeds beside it is left out, with a warning.
        """
        if (paper, scale) not in self._read:
            self._read[paper, scale] = tuple(self._find(paper, scale))
        return self._read[paper, scale]

    def _find(self, paper: str, scale: str):
        folder = self.root / paper / scale
        for setting in _folders(folder):
            for environment in _folders(folder / setting):
                place = folder / setting / environment
                runs = [
                    run
                    for seed in sorted(_folders(place), key=_seed)
                    if (run := self._open(paper, scale, setting, place / seed))
                ]
                yield from self._same_config(runs)

    def _open(self, paper: str, scale: str, setting: str, path: pathlib.Path) -> KeptRun | None:
        """The run at `path`, or None, with a warning, if it is none or does not belong there."""
        config = self._json(RunDirectory(path).config_json, "run left out")
        if not isinstance(config, dict):
            if config is not None:
                self.warn(f"{RunDirectory(path).config_json}: is no config of a run: run left out")
            return None
        environment, seed = str(config.get("environment")), config.get("seed")
        place = self.root / run_path(paper, scale, setting, environment, seed)
        if config.get("paper") != paper or place != path or not isinstance(seed, int):
            self.warn(
                f"{RunDirectory(path).config_json}: is of {config.get('paper')}, {environment}, "
                f"seed {seed!r}, which does not belong there: run left out"
            )
            return None
        evaluated = (last_row(RunDirectory(path).evaluator_csv) or {}).get("setting", setting)
        if evaluated != setting and evaluated in _other_settings(paper, setting):
            self.warn(
                f"{RunDirectory(path).evaluator_csv}: is of the setting {evaluated}, which "
                "does not belong there: run left out"
            )
            return None
        record = self._json(RunDirectory(path).run_json, "taken as a run that has not ended")
        starts = record.get("starts") if isinstance(record, dict) else None
        if not (isinstance(starts, list) and all(isinstance(one, dict) for one in starts)):
            if record is not None:
                self.warn(
                    f"{RunDirectory(path).run_json}: is no record of a run: taken as a run "
                    "that has not ended"
                )
            starts = ()
        return KeptRun(
            path, paper, scale, setting, environment, seed, config, tuple(starts), self.warn
        )

    def _same_config(self, runs: list[KeptRun]):
        """The runs with the config that most of them have; the lowest seed's if in doubt."""
        configs = [json.dumps({**run.config, "seed": None}, sort_keys=True) for run in runs]
        if not runs:
            return
        common = collections.Counter(configs).most_common(1)[0][0]
        model = runs[configs.index(common)]
        for run, config in zip(runs, configs):
            if config == common:
                yield run
                continue
            found = differences({**model.config, "seed": None}, {**run.config, "seed": None})
            file = RunDirectory(run.path).config_json
            changes = ", ".join(
                f"{key} is {here}, {there} in {model.path.name}"
                for key, (there, here) in found.items()
            )
            self.warn(
                f"{file}:{_line_of(file, next(iter(found)))}: another config than the "
                f"seeds beside it ({changes}): run left out"
            )

    def _json(self, path: pathlib.Path, consequence: str):
        try:
            return json.loads(path.read_text())
        except json.JSONDecodeError as error:
            self.warn(f"{path}:{error.lineno}: is not JSON ({error.msg}): {consequence}")
        except UnicodeDecodeError:
            self.warn(f"{path}: is not text: {consequence}")
        except OSError as error:
            self.warn(f"{path}: cannot be read ({error.strerror}): {consequence}")
        return None


@functools.cache
def _other_settings(paper: str, setting: str) -> frozenset[str]:
    """The settings that have directories of their own; not what `setting` calls itself in rows."""
    try:
        runs = [run for one in registry.paper(paper).experiments for run in one.every_run]
    except registry.UnknownError:
        return frozenset()
    own = {flag for run in runs if run.setting == setting for flag in run.flags}
    return frozenset(run.setting for run in runs if f"--setting={run.setting}" not in own)


def _limit(flag: str) -> tuple[str, float] | None:
    """A field of `Budget` with its value, if that is what an argument is: "--max_minutes=5"."""
    found = re.fullmatch(r"--?max_(minutes|actor_steps|learner_steps)=(\d+(?:\.\d*)?)", flag)
    if found is None:
        return None
    return found[1], float(found[2]) if found[1] == "minutes" else int(float(found[2]))


def _folders(path: pathlib.Path) -> tuple[str, ...]:
    if not path.is_dir():
        return ()
    return tuple(sorted(one.name for one in path.iterdir() if one.is_dir()))


def _seed(folder: str) -> tuple[int, str]:
    number = re.fullmatch(r"seed_(\d+)", folder)
    return (int(number[1]) if number else -1, folder)


def _line_of(file: pathlib.Path, key: str) -> int:
    """The line of a JSON file that holds the last part of `key`, "config.batch_size"."""
    name = json.dumps(key.rpartition(".")[2])
    lines = file.read_text().splitlines()
    return next((number for number, line in enumerate(lines, start=1) if name in line), 1)
