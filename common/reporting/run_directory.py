"""The directory of one run: its files, its config and the record of its starts.

A start whose config differs from that of earlier starts fails with a list of the differences,
unless it differs only in hyperparameters that may change.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
from datetime import UTC, datetime
import fcntl
import json
import os
from pathlib import Path
import re
import sys
import time
from typing import Any

from common.config import Config, changeable, completed, earlier_values
from common.reporting import records
from common.reporting.budget import Budget
from common.user_error import UserError

ABSENT = "(absent)"
CHECKPOINT_NAMES = re.compile(r"newest|best|step_\d+")
"""Names under which a run's parameters can be loaded; step_N is a kept checkpoint."""
_MOST = 5
_LONGEST = 80


def differences(
    there: Any, here: Any, config_class: type[Config] | None = None
) -> dict[str, tuple[str, str]]:
    """Returns {"learner.batch_size": ("256", "64"), ...}: the values there and here, as JSON text.

    Args:
      there: a config: nested mappings, sequences and scalars that JSON can represent.
      here: another config.
      config_class: class of the hyperparameters in the member "config"; None: all members are
        compared as they are. With a class, hyperparameters that did not exist when a config was
        written have their earlier values; those that may change in both do not count, nor does a
        difference in the setting's name alone.
    """
    configs = [there, here]
    if config_class is not None:
        configs = [with_earlier(config, config_class) for config in configs]
    # Through JSON, so that a tuple equals the list that a file made of it.
    there, here = (_leaves(json.loads(json.dumps(config))) for config in configs)
    found = {
        key: (there.get(key, ABSENT), here.get(key, ABSENT))
        for key in {**there, **here}
        if there.get(key) != here.get(key)
    }
    if config_class is None:
        return found
    if all(map(_has_hyperparameters, configs)):
        may_change = [changeable(config_class, config["config"]) for config in configs]
        for name in set.intersection(*may_change):
            found.pop(f"config.{name}", None)
    # A setting's name lists hyperparameters, and an earlier run's name lists fewer of them.
    return {} if found.keys() == {"setting"} else found


def with_earlier(config: Any, config_class: type[Config]) -> Any:
    """Returns a config, if it has hyperparameters, with those of the class that it lacks."""
    if not _has_hyperparameters(config):
        return config
    return {**config, "config": completed(config["config"], earlier_values(config_class))}


def _has_hyperparameters(config: Any) -> bool:
    return isinstance(config, Mapping) and isinstance(config.get("config"), Mapping)


def listed(found: Mapping[str, tuple[str, str]], form: str = "{name} {there} -> {here}") -> str:
    """Returns at most five differences as text, first those with a value on both sides.

    Args:
      found: the result of `differences`.
      form: the format of a difference.
    """
    names = sorted(found, key=lambda name: ABSENT in found[name])
    shown = [
        form.format(name=name, there=found[name][0][:_LONGEST], here=found[name][1][:_LONGEST])
        for name in names[:_MOST]
    ]
    more = [f"and {len(names) - _MOST} more"] if len(names) > _MOST else []
    return ", ".join(shown + more)


def _leaves(node: Any, prefix: str = "") -> dict[str, str]:
    """Returns {"learner.batch_size": "256", ...}; NaN equals NaN as JSON text."""
    if not isinstance(node, dict) or (prefix and not node):
        return {prefix: json.dumps(node)}
    leaves = {}
    for key, value in node.items():
        leaves.update(_leaves(value, f"{prefix}.{key}" if prefix else key))
    return leaves


_MOMENT_SECONDS = 5.0
"""Time after which a wait for a lock prints a line."""
_POLL_SECONDS = 0.05
_PATIENCE_SECONDS = 60.0
"""Maximum wait for another process to write config.json, which takes milliseconds."""
_CONFIG = {
    **dict.fromkeys(("paper", "agent", "setting", "environment"), str),
    **dict.fromkeys(("seed", "num_actors"), int),
    "config": {},
}
_BUDGET = {"minutes": float, "actor_steps": int, "learner_steps": int, "episode_return": float}
_START = {
    **dict.fromkeys(("start_time", "end_time", "outcome", "scale"), str),
    "budget": _BUDGET,
    "changed": {},
    "git": {"commit": str, "status": list},
    "versions": {},
    "machine": {"cpu": str, "usable_cores": int, "gpus": list},
}
"""The kinds of values in config.json and in an entry of run.json, see `require_keys`."""


class RunDirectoryError(UserError):
    """A run directory that cannot be used."""


class RunInUseError(RunDirectoryError):
    """A run directory that another process is using."""


class ConfigMismatchError(RunDirectoryError):
    """A run directory that holds a run with another config."""


class RunDirectory:
    """The layout of a run directory, its config and its record.

    The constructor does not touch the disk: `open` creates the directory or checks it.

    Args:
      path: the value of --workdir.

    Attributes:
      path: absolute path of the directory.
      config_json: environment, seed, setting and hyperparameters of the run.
      run_json: code, versions, machine, limits and times of each start.
      learner_csv: the learner and the speeds of the run, a row every few seconds.
      acting_csv: the episodes of the training actors.
      lives_csv: the actors of each start of an actor process.
      evaluator_csv: the evaluations.
      evaluation_json: the last evaluation, with the return of each episode.
      checkpoints: directory of the checkpoints.
      best_policy: parameters of the best evaluation, among the checkpoints.
      replay: directory of the replay's contents, if they are saved.
      films: directory of films of evaluations, if they are asked for.
      logs: directory of ROLE-I.log for each process.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path).absolute()  # a user's environment may change the working directory
        self.config_json = self.path / "config.json"
        self.run_json = self.path / "run.json"
        self.learner_csv = self.path / "learner.csv"
        self.acting_csv = self.path / "acting.csv"
        self.lives_csv = self.path / "lives.csv"
        self.evaluator_csv = self.path / "evaluator.csv"
        self.evaluation_json = self.path / "evaluation.json"
        self.checkpoints = self.path / "checkpoints"
        self.best_policy = self.checkpoints / "best.npz"
        self.replay = self.path / "replay"
        self.films = self.path / "films"
        self.logs = self.path / "logs"

    def open(self, config: Mapping[str, Any], config_class: type[Config] | None = None) -> None:
        """Creates the directory for a run with this config, or checks that its run has this config.

        Several processes may open the same directory at once.

        Args:
          config: nested mappings, sequences and scalars that JSON can represent.
          config_class: see `differences`.

        Raises:
          ConfigMismatchError: the directory holds a run with another config; it is left unchanged.
          RunDirectoryError: the directory holds something else, or cannot be written.
        """
        text = json.dumps(config, indent=2) + "\n"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not self.config_json.exists():
                self._refuse_foreign_files()
                self._write_config(text)
            if not os.access(self.path, os.W_OK):
                raise PermissionError(None, "Permission denied", str(self.path))
            self._check_config(config, config_class)
            for directory in (self.checkpoints, self.logs):
                directory.mkdir(exist_ok=True)
        except OSError as error:
            raise RunDirectoryError(
                f"cannot write the run directory {self.path} ({error.strerror}: "
                f"{error.filename or self.path}): give --workdir a directory that you may write to"
            ) from error

    def read_config(self) -> dict[str, Any]:
        """Returns the config of the run; changes nothing.

        Raises:
          RunDirectoryError: the directory holds no run.
          JsonError: config.json is malformed.
        """
        config = records.read_json(self.config_json)
        if config is None:
            problem = f"there is no directory {self.path}"
            if self.path.is_dir():
                problem = f"{self.path} is not a run directory, it has no config.json"
            raise RunDirectoryError(f"{problem}: name the directory of a run")
        return require_config(self.config_json, config)

    def read_starts(self) -> list[dict[str, Any]]:
        """Returns the entries of run.json, the oldest first; none before the first start.

        Raises:
          RunDirectoryError, JsonError: run.json is not the record of a run.
        """
        record = records.read_json(self.run_json)
        if record is None:
            return []
        starts = record.get("starts") if isinstance(record, dict) else None
        return require_starts(self.run_json, starts)

    def kept_checkpoint(self, learner_steps: int) -> Path:
        """Returns the directory of the checkpoint kept after `learner_steps`; it may not exist."""
        return self.checkpoints / f"step_{learner_steps}"

    @property
    def kept_in_words(self) -> str:
        """The names of the kept checkpoints, for an error."""
        if not self.path.is_dir():
            return "there is nothing"
        # A full disk, or a kill, may have left a directory without a checkpoint.
        names = {index.parent.name for index in self.checkpoints.glob("step_*/*.index")}
        kept = sorted(names, key=lambda name: (len(name), name))
        return f"there are {', '.join(kept)}" if kept else "none is kept"

    def film(self, learner_steps: float) -> Path:
        """Returns the file of the film of an evaluation after a number of learner steps."""
        return self.films / f"step_{learner_steps:.0f}.gif"

    def hold(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context that keeps other launchers out, until this process dies at the latest.

        Raises:
          RunInUseError: another launcher holds the directory.
        """
        # This file is never replaced, because its lock would stay with the old one.
        return hold(self.path / ".run.lock", "run", self.path, "--workdir")

    def hold_checkpoints(
        self,
        role: str = "learner",
        patience_seconds: float = 0.0,
        wait: Callable[[float], bool | None] = time.sleep,
    ) -> contextlib.AbstractContextManager[None]:
        """Returns a context that keeps other keepers of the run out, as only one may save.

        Args:
          role: name of the keeper's role.
          patience_seconds: see `hold`.
          wait: see `hold`.
        """
        lock = self.checkpoints / "learner.lock"
        return hold(lock, role, self.path, "--workdir", patience_seconds, wait)

    def write_run_record(
        self,
        *,
        seed: int,
        scale: str,
        scale_changes: str = "",
        budget: Budget | None = None,
        changed: Mapping[str, Any] | None = None,
        command: Sequence[str] | None = None,
        config: Mapping[str, Any] | None = None,
        config_class: type[Config] | None = None,
    ) -> None:
        """Adds an entry for this start to run.json; called by one process of a run.

        Hyperparameters that changed since the previous start take their new values in config.json;
        "changed_since" lists both values.

        Args:
          seed: the seed of the run.
          scale: how the run's size relates to the paper's, such as "paper" or "small".
          scale_changes: what the scale changes from the paper's run, in words.
          budget: the limits of this start.
          changed: the value of each flag that this start was given, by name ("config.NAME" for a
            hyperparameter), except environment, seed, workdir, role and the arguments above.
          command: the user's command line; None: the command line of this process.
          config: see `open`; None: the config in config.json.
          config_class: class of its hyperparameters. Those that did not exist before have had their
            earlier values.
        """
        before = records.read_json(self.config_json)
        if config_class is not None:
            before = with_earlier(before, config_class)
        found = {
            name: [json.loads(there), json.loads(here)]
            for name, (there, here) in differences(before, config or before).items()
            if ABSENT not in (there, here)  # a field that is newer than the run
        }
        start = {
            "start_time": _now(),
            "end_time": None,
            "outcome": None,
            "seed": seed,
            "scale": scale,
            "scale_changes": scale_changes,
            "budget": (budget or Budget()).to_json(),
            "changed": dict(changed or {}),
            "changed_since": found,
            "command": records.as_typed(sys.orig_argv if command is None else command),
            "git": records.git(),
            "versions": records.versions(),
            "machine": records.machine(),
        }
        self._write_starts([*self.read_starts(), start])
        if found:  # after run.json: a start that is cut between the two finds the changes again
            records.replace_file(self.config_json, json.dumps(config, indent=2) + "\n")

    def close_run_record(self, outcome: str) -> None:
        """Records in run.json how the newest start ended: "finished", "stopped" or "failed".

        Raises:
          RunDirectoryError: run.json has no start, or is not the record of a run.
        """
        starts = self.read_starts()
        if not starts:
            raise RunDirectoryError(
                f"{self.run_json} has no start whose outcome can be recorded: if {self.path} was "
                "moved, give its new path as --workdir"
            )
        starts[-1].update(end_time=_now(), outcome=outcome)
        self._write_starts(starts)

    def _write_config(self, text: str) -> None:
        """Writes config.json, unless another process has written it; needs no hard links."""
        lock = self.path / ".config.json.lock"
        with hold(lock, "process", self.path, "--workdir", _PATIENCE_SECONDS):
            if not self.config_json.exists():
                records.replace_file(self.config_json, text)
        lock.unlink(missing_ok=True)

    def _refuse_foreign_files(self) -> None:
        names = [entry.name for entry in self.path.iterdir()]
        # Another process may be opening the same directory at this moment.
        foreign = [name for name in names if not name.startswith(("config.json", ".config.json"))]
        if foreign and not self.config_json.exists():
            raise RunDirectoryError(
                f"{self.path} is not a run directory (it holds {min(foreign)!r} but no "
                "config.json): give --workdir a new or empty directory"
            )

    def _check_config(self, config: Any, config_class: type[Config] | None) -> None:
        found = differences(records.read_json(self.config_json), config, config_class)
        if not found:
            return
        other = "with another config"
        if found.get("agent", (ABSENT,))[0] != ABSENT:
            other = "of the agent {}, not of {}".format(*found.pop("agent"))
            found.pop("paper", None)
        details = f": {listed(found)}" if found else ""
        raise ConfigMismatchError(
            f"{self.path} holds a run {other}{details}; resume it with its own agent and config, "
            "or give --workdir a new directory (--init_from starts from the networks of a run)"
        )

    def _write_starts(self, starts: list[dict[str, Any]]) -> None:
        records.replace_file(self.run_json, json.dumps({"starts": starts}, indent=2) + "\n")


def require_config(where: str | Path, found: Any) -> dict[str, Any]:
    """Checks the value of config.json, and returns it.

    Args:
      where: name of the file that contains it.
      found: the value.

    Raises:
      JsonError: a member is of another kind.
    """
    return records.require_keys(where, found, _CONFIG)


def require_starts(where: str | Path, found: Any) -> list[dict[str, Any]]:
    """Checks the entries of run.json, and returns them; see `require_config`.

    Raises:
      RunDirectoryError, JsonError: it is not the record of a run.
    """
    if not (isinstance(found, list) and found):
        raise RunDirectoryError(f"{where} is not a record of a run: correct it or move it away")
    for number, start in enumerate(found):
        records.require_keys(where, start, _START, f"starts[{number}]")
        if unknown := {*start.get("budget", ())} - {*_BUDGET}:
            raise RunDirectoryError(
                f"{where}: a budget has an unknown limit, {min(unknown)!r:.99}: correct it"
            )
    return found


@contextlib.contextmanager
def hold(
    file: Path,
    holder: str,
    place: Path,
    flag: str,
    patience_seconds: float = 0.0,
    wait: Callable[[float], bool | None] = time.sleep,
) -> Iterator[None]:
    """Locks a file until the context ends, or this process dies.

    Args:
      file: the file to lock; created if it does not exist.
      holder: kind of program that locks it, for the message: "run", "campaign".
      place: the directory that the lock protects, for the message.
      flag: the flag that names that directory, for the message.
      patience_seconds: time to wait for another process that has locked it; a line says so.
      wait: waits for a number of seconds; a true result ends the wait.

    Raises:
      RunInUseError: another process holds the lock for longer than `patience_seconds`.
      RunDirectoryError: it cannot be locked.
    """
    try:
        # NFS cannot lock a file that is open only for reading.
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise RunDirectoryError(f"cannot open {file} ({error.strerror})") from None
    try:
        try:
            _lock(descriptor, f"another {holder} uses {place}", patience_seconds, wait)
        except BlockingIOError:
            raise RunInUseError(
                f"another {holder} uses {place} now: wait until it ends, or give another {flag}"
            ) from None
        except OSError as error:
            raise RunDirectoryError(
                f"cannot lock {file} ({error.strerror}): give a {flag} on a file system that "
                "supports locks"
            ) from None
        yield
    finally:
        os.close(descriptor)


def _lock(
    descriptor: int, reason: str, patience_seconds: float, wait: Callable[[float], bool | None]
) -> None:
    """Locks a file; prints the reason for the wait once if that takes longer than a moment.

    Raises:
      BlockingIOError: another process has locked it for longer than the patience.
    """
    begin, said = time.monotonic(), False
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waited = time.monotonic() - begin
            if waited >= patience_seconds or wait(_POLL_SECONDS):
                raise
        if waited >= _MOMENT_SECONDS and not said:
            print(f"{reason}: waiting until it ends", file=sys.stderr, flush=True)
            said = True


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
