"""The directory of one run: where its files are, which config it is of, who ran it on what."""

from collections.abc import Iterator, Mapping, Sequence
import contextlib
from datetime import UTC, datetime
import fcntl
import json
import os
from pathlib import Path
import sys
import tempfile
from typing import Any

from common.reporting import provenance
from common.reporting.differences import differences


class RunDirectoryError(ValueError):
    """The directory cannot be used for this run. One line that says why and what to do."""


class ConfigMismatchError(RunDirectoryError):
    """The directory holds a run with another config."""


class RunDirectory:
    """The layout of a run directory, its config and its record.

    Making the object touches nothing: `open` makes the directory or checks it.

    Args:
      path: the value of --workdir.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)

    @property
    def config_json(self) -> Path:
        """Every hyperparameter and setting of the run."""
        return self.path / "config.json"

    @property
    def run_json(self) -> Path:
        """Code, versions, machine, seed and times, an entry for each start."""
        return self.path / "run.json"

    @property
    def learner_csv(self) -> Path:
        return self.path / "learner.csv"

    @property
    def acting_csv(self) -> Path:
        return self.path / "acting.csv"

    @property
    def lives_csv(self) -> Path:
        """Whenever an actor process began, which actors it had."""
        return self.path / "lives.csv"

    @property
    def evaluator_csv(self) -> Path:
        return self.path / "evaluator.csv"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def tensorboard(self) -> Path:
        return self.path / "tensorboard"

    @property
    def logs(self) -> Path:
        """Holds ROLE-I.log for each process."""
        return self.path / "logs"

    def open(self, config: Mapping[str, Any]) -> None:
        """Makes the directory for a run with this config, or accepts the run of this config in it.

        Several processes may open the same directory at once.

        Args:
          config: nested mappings, sequences and scalars that JSON can hold.

        Raises:
          ConfigMismatchError: it holds a run with another config. Nothing is changed.
          RunDirectoryError: it holds something else, or cannot be written.
        """
        text = json.dumps(config, indent=2) + "\n"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not self.config_json.exists():
                self._refuse_foreign_files()
                _write_new(self.config_json, text)
            if not os.access(self.path, os.W_OK):
                raise PermissionError(None, "Permission denied", str(self.path))
            self._check_config(config)
            for directory in (self.checkpoints, self.tensorboard, self.logs):
                directory.mkdir(exist_ok=True)
        except OSError as error:
            raise RunDirectoryError(
                f"cannot write the run directory {self.path} ({error.strerror}): "
                "give --workdir a directory that you may write"
            ) from error

    def read_config(self) -> dict[str, Any]:
        """Returns the config of the run that is here; touches nothing.

        Raises:
          RunDirectoryError: there is no run here.
        """
        if not self.path.is_dir():
            raise RunDirectoryError(f"there is no directory {self.path}: name that of a run")
        if not self.config_json.exists():
            raise RunDirectoryError(
                f"{self.path} is no run directory, it has no config.json: name that of a run"
            )
        config = _read_json(self.config_json)
        if not isinstance(config, dict):
            raise RunDirectoryError(f"{self.config_json} is not the config of a run: mend it")
        return config

    def hold(self) -> contextlib.AbstractContextManager[None]:
        """Keeps other launchers out in a `with`; the system lets go if this process dies.

        Raises:
          RunDirectoryError: another one holds it.
        """
        return self._hold("run", self.config_json)

    def hold_checkpoints(self) -> contextlib.AbstractContextManager[None]:
        """Keeps other learners out, as `hold` does launchers: only one may save and log."""
        return self._hold("learner", self.checkpoints / "learner.lock")

    def write_run_record(
        self,
        *,
        seed: int,
        scale: str,
        scale_changes: str = "",
        budget=None,
        changed=None,
        command: Sequence[str] | None = None,
    ) -> None:
        """Adds the entry of this start to run.json; one process of a run does so.

        Args:
          seed: of the run.
          scale: how the run's size relates to the paper's, e.g. "paper" or "laptop".
          scale_changes: what that changes from the paper's run, in words.
          command: the command line; that of this process if not given. What is below the
            working directory is named from there.
        """
        start = {
            "start_time": _now(),
            "end_time": None,
            "outcome": None,
            "seed": seed,
            "scale": scale,
            "scale_changes": scale_changes,
            "budget": budget and budget.to_json(),
            "changed": changed,
            "command": provenance.as_typed(sys.orig_argv if command is None else command),
            "git": provenance.git(),
            "versions": provenance.versions(),
            "machine": provenance.machine(),
        }
        self._write_starts([*self._starts(), start])

    def close_run_record(self, outcome: str) -> None:
        """Says in run.json how the newest start ended, e.g. "finished" or "stopped by SIGTERM".

        Raises:
          RunDirectoryError: `write_run_record` was not called.
        """
        starts = self._starts()
        if not starts:
            raise RunDirectoryError(f"{self.run_json} has no start to close")
        starts[-1].update(end_time=_now(), outcome=outcome)
        self._write_starts(starts)

    @contextlib.contextmanager
    def _hold(self, holder: str, file: Path) -> Iterator[None]:
        try:
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)  # NFS locks no other way
        except OSError as error:
            raise RunDirectoryError(f"cannot open {file} ({error.strerror})") from None
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunDirectoryError(
                    f"another {holder} uses {self.path} at this moment: wait for its end, or give "
                    "another --workdir"
                ) from None
            except OSError as error:
                raise RunDirectoryError(
                    f"cannot lock {file} ({error.strerror}): give a --workdir on a file system "
                    "that has locks"
                ) from None
            yield
        finally:
            os.close(descriptor)

    def _refuse_foreign_files(self) -> None:
        names = [entry.name for entry in self.path.iterdir()]
        # Another process may be opening the same directory at this moment.
        foreign = [name for name in names if not name.startswith(("config.json", ".config.json"))]
        if foreign and not self.config_json.exists():
            raise RunDirectoryError(
                f"{self.path} is no run directory (it holds {min(foreign)!r} but no config.json): "
                "give --workdir a new or empty directory"
            )

    def _check_config(self, config: Any) -> None:
        found = differences(_read_json(self.config_json), config)
        if found:
            changes = ", ".join(f"{key} {there} -> {here}" for key, (there, here) in found.items())
            raise ConfigMismatchError(
                f"{self.path} holds a run with another config: {changes}; resume it with its own "
                "config, or give --workdir a new directory"
            )

    def _starts(self) -> list[dict[str, Any]]:
        if not self.run_json.exists():
            return []
        return _read_json(self.run_json)["starts"]

    def _write_starts(self, starts: list[dict[str, Any]]) -> None:
        temporary = _write_temporary(self.run_json, json.dumps({"starts": starts}, indent=2) + "\n")
        os.replace(temporary, self.run_json)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except ValueError as error:  # no JSON, or no text at all
        raise RunDirectoryError(
            f"{path} is not JSON ({error}): mend it, or give --workdir a new directory"
        ) from error


def _write_temporary(path: Path, text: str) -> str:
    """Writes a whole file beside `path`, to be moved there."""
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    with os.fdopen(descriptor, "w") as file:
        os.fchmod(file.fileno(), 0o644)  # mkstemp's 0600 hides a run from one's colleagues
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return temporary


def _write_new(path: Path, text: str) -> None:
    """Makes `path` whole at once, or leaves the file that another process made."""
    temporary = _write_temporary(path, text)
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(temporary)
