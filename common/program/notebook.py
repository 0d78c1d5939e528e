"""An agent for notebooks and scripts, which trains by running the agent's program."""

from collections.abc import Callable, Mapping
import dataclasses
import functools
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any

from common.agents.declaration import AgentDeclaration
from common.cluster.layout import imported
from common.cluster.processes import set_parent_death_signal
from common.environments import user_code
from common.names import with_arguments
from common.reporting import csv_rows
from common.reporting.command_line import native_output_only_on_failure
from common.reporting.csv_rows import NewRows
from common.reporting.run_directory import RunDirectory
from common.user_error import UserError

if TYPE_CHECKING:
    import numpy as np
    import pandas

    from common.agents.trained import TrainedPolicy, TrainedRun

_ERROR = "error: "
_NOT_SAVED = ("logs", "replay")
_POLL_SECONDS = 0.2
_EPISODE = ("wall_seconds", "actor", "actor_steps", "episode_return", "episode_length")
"""Columns of acting.csv that `on_episode` receives."""


class TrainingError(UserError):
    """Error of a run that its program did not finish, or that has not started."""


Callback = Callable[[dict[str, float]], Any]
"""Function that receives the numbers of a CSV row, and stops the training by returning False."""


class NotebookAgent:
    """An agent on an environment, trained by its program in a run directory.

    `train` starts the roles as processes of this machine, as the program does, and continues the
    run with its replay.

    Attributes:
      directory: the run directory.
    """

    def __init__(
        self,
        agent: AgentDeclaration,
        environment: str | Callable[..., Any],
        env_kwargs: Mapping[str, Any] | None = None,
        workdir: str | os.PathLike | None = None,
        setting: str | None = None,
        **values: Any,
    ):
        """Checks the hyperparameters, and makes the environment once to check it; starts nothing.

        Args:
          agent: the agent.
          environment: name of the environment (see `common.environments.make`), or a function or
            class at the top level of a module that creates a `gymnasium.Env` or a
            `dm_env.Environment`.
          env_kwargs: arguments of the environment.
          workdir: the run directory. A run in it is continued. None creates a temporary directory,
            which lasts as long as this object.
          setting: name of a setting of the agent; None: the default setting.
          **values: hyperparameters, such as n_step=3, and flags of the program, such as
            num_actors=4.

        Raises:
          ValueError: there is no such hyperparameter, flag or setting, a value is not allowed, no
            other process can make the environment, or the agent cannot act in it.
        """
        if user_code.is_importing():
            raise ValueError(
                "importing the environment's module creates an agent: move the lines that create "
                'and train it below `if __name__ == "__main__":`, or into another file'
            )
        environment = with_arguments(_name_of(environment), env_kwargs or {})
        setting = setting or agent.settings.default
        if setting not in agent.settings.names:
            known = ", ".join(agent.settings.names)
            raise ValueError(f'{agent.name} has no setting "{setting}": there are {known}')
        chosen = agent.settings.configuration(setting)
        names = {each.name for each in dataclasses.fields(chosen)}
        changed = {name: value for name, value in values.items() if name in names}
        try:
            with native_output_only_on_failure():
                config = dataclasses.replace(chosen, **changed)
                agent.require_environment(config, environment)
        except ValueError as error:
            raise ValueError(_in_keywords(str(error))) from None
        self._agent, self._environment, self._values = agent, environment, values
        self._temporary = None
        if workdir is None:
            self._temporary = tempfile.TemporaryDirectory(prefix=f"{agent.name}_")
            workdir = pathlib.Path(self._temporary.name, "run")
        self.directory = RunDirectory(workdir)
        self._flags = [f"--environment={environment}", f"--setting={setting}", "--keep_replay"]
        self._flags += [
            f"--{'config.' if name in names else ''}{name}={value}"
            for name, value in values.items()
        ]
        self._flags.append(f"--workdir={self.directory.path}")
        command = [*self._command, "--only_check_args"]
        checked = subprocess.run(
            command, capture_output=True, text=True, check=False, env=_variables()
        )
        if checked.returncode:
            raise ValueError(_in_keywords(checked.stderr.strip().removeprefix(_ERROR)))

    def __repr__(self) -> str:
        values = "".join(f", {name}={value!r}" for name, value in self._values.items())
        made = f'reproductions.make("{self._agent.name}", "{self._environment}"{values})'
        return f"{made}: {self.learner_steps:,} updates in {self.directory.path}"

    @property
    def learner_steps(self) -> int:
        """Updates of the run so far."""
        row = csv_rows.last_row(self.directory.learner_csv, csv_rows.PROGRESS)
        return int(row["learner_steps"]) if row else 0

    def train(
        self,
        learner_steps: int,
        callback: Callback | None = None,
        on_episode: Callback | None = None,
    ) -> "NotebookAgent":
        """Trains for more updates, prints the program's output, and returns this agent.

        An interrupt or an exception of a callback stops the run cleanly, with a checkpoint, and is
        then raised again.

        Args:
          learner_steps: number of updates to make.
          callback: called with each evaluation, a row of evaluator.csv: "wall_seconds",
            "actor_steps", "learner_steps", "episode_return_mean", "episode_return_std" and
            "episodes". If it returns False, the run stops cleanly.
          on_episode: called likewise with each episode of the training actors, a row of acting.csv:
            "wall_seconds", "actor", "actor_steps", "episode_return" and "episode_length".

        Raises:
          ValueError: `learner_steps` is less than 1.
          TrainingError: the program ended with an error.
        """
        if learner_steps < 1:
            raise ValueError(f"learner_steps must be at least 1, is {learner_steps}")
        limit, parent = self.learner_steps + learner_steps, os.getpid()
        files = (
            (self.directory.evaluator_csv, csv_rows.RESULT, callback),
            (self.directory.acting_csv, _EPISODE, on_episode),
        )
        readers = [
            (NewRows(file, *columns), columns, function)
            for file, columns, function in files
            if function is not None
        ]
        process = subprocess.Popen(
            [*self._command, f"--max_learner_steps={limit}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=_variables(),
            process_group=0,
            preexec_fn=lambda: set_parent_death_signal(parent, signal.SIGTERM),
        )
        assert process.stdout is not None
        output, rest, error = process.stdout.fileno(), b"", ""
        is_enough, raised = False, None
        while True:
            try:
                printed = _read(output)
                *lines, rest = (rest + (printed or b"")).split(b"\n")
                for line in (line_bytes.decode(errors="replace") for line_bytes in lines):
                    if error or line.startswith(_ERROR):
                        error += f"{line}\n"  # shown by the exception below
                    else:
                        print(line, flush=True)
                for reader, columns, function in () if is_enough or raised else readers:
                    rows = [dict(zip(columns, numbers)) for numbers in reader.read()]
                    results = [function(row) for row in rows]
                    if any(result is not None and not result for result in results):
                        is_enough = True
                        process.send_signal(signal.SIGINT)
                if printed is None:
                    break
            except BaseException as exception:  # an interrupt, or from a callback
                raised = raised or exception
                process.send_signal(signal.SIGINT)
        code = process.wait()
        if raised is not None:
            raise raised
        # An interrupt in the last moment of Python, after the program's own end, kills the process.
        is_stopped = is_enough and code in (128 + signal.SIGINT, -signal.SIGINT)
        if code and not is_stopped:
            message = (
                error.removeprefix(_ERROR).strip() or f"the program ended with exit code {code}"
            )
            raise TrainingError(_in_keywords(message))
        return self

    def evaluate(
        self, episodes: int = 10, seed: int = 0, checkpoint: str = "newest"
    ) -> "np.ndarray":
        """Plays without exploration and returns the return of each episode, float64 [episodes].

        Args:
          episodes: number of episodes, at least 1.
          seed: seed of the environments.
          checkpoint: "newest", or "best" for the parameters of the best evaluation.

        Raises:
          TrainingError: nothing is learnt yet.
        """
        if episodes < 1:
            raise ValueError(f"episodes must be at least 1, is {episodes}")
        run = self._load(checkpoint)
        from common import environments
        from common.roles.evaluator import environment_seeds, run_episodes

        seeds, frames = environment_seeds(seed, episodes), run.agent.declaration.num_frames
        batch = environments.make_batch(run.environment, seeds, evaluation=True, frames=frames)
        try:
            return run_episodes(batch, run.make_policy(batch.num_environments), episodes)
        finally:
            batch.close()

    def policy(self, checkpoint: str = "newest") -> "TrainedPolicy":
        """Returns the policy without exploration; see `TrainedPolicy`.

        Raises:
          TrainingError: nothing is learnt yet.
        """
        run = self._load(checkpoint)
        from common.agents.trained import TrainedPolicy

        return TrainedPolicy(run)

    def evaluations(self) -> "pandas.DataFrame":
        """Returns the run's evaluations so far, a row each, with the columns of evaluator.csv."""
        self._require_rows(self.directory.evaluator_csv)
        return csv_rows.read_rows(self.directory.evaluator_csv)

    def save(self, path: str | os.PathLike) -> None:
        """Copies the run to a new directory, which `load_policy` and `binaries.evaluate` read.

        Raises:
          FileExistsError: `path` exists already.
          TrainingError: nothing is learnt yet.
        """
        self._require_rows(self.directory.learner_csv)
        if os.path.lexists(path):
            raise FileExistsError(f"{path} exists already: remove it, or give another name")
        shutil.copytree(
            self.directory.path, path, ignore=lambda folder, names: {*_NOT_SAVED} & {*names}
        )

    @property
    def _command(self) -> list[str]:
        """The command line of the agent's program."""
        return [sys.executable, "-m", self._agent.module, *self._flags]

    def _require_rows(self, path: pathlib.Path) -> None:
        if not path.exists():
            raise TrainingError(f"{path.name} does not exist yet: call train(learner_steps) first")

    def _load(self, checkpoint: str) -> "TrainedRun":
        self._require_rows(self.directory.learner_csv)
        with native_output_only_on_failure():
            from common.agents import trained

            agent_class = imported(self._agent.agent_class)
            # The user chose this environment's code, unless the directory holds another run.
            is_named = self.directory.read_config().get("environment") == self._environment
            return trained.load(self.directory.path, agent_class, checkpoint, is_named)


def _name_of(environment: str | Callable[..., Any]) -> str:
    """Returns the name by which other processes make an environment.

    Raises:
      ValueError: they cannot import it.
    """
    if isinstance(environment, str):
        return environment
    made_by = environment.func if isinstance(environment, functools.partial) else environment
    module = getattr(made_by, "__module__", "")
    home = sys.modules.get(module)
    names = [name for name, value in vars(home).items() if value is environment] if home else []
    if module == "__main__":  # a script, a module of `python -m`, or a notebook, which has no file
        spec, file = getattr(home, "__spec__", None), getattr(home, "__file__", "")
        module = spec.name if spec else pathlib.Path(file).stem
    if module and names and callable(environment):
        return f"python:{module}:{names[0]}"
    known = getattr(getattr(environment, "spec", None), "id", "ID")
    raise ValueError(
        f'environment must be a name, such as "gym:{known}", or a function or class at the top '
        "level of a module that the run's processes can import (in a notebook, write it to a file "
        f"with %%writefile my_module.py): got {environment!r}"
    )


def _variables() -> dict[str, str]:
    """Returns environment variables with which a process finds the same modules as this process."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def _read(file: int) -> bytes | None:
    """Waits a moment for a pipe; returns the bytes in it, None if all its writers have ended."""
    if not select.select([file], [], [], _POLL_SECONDS)[0]:
        return b""
    return os.read(file, 1 << 16) or None


def _in_keywords(message: str) -> str:
    """Returns a program's message with keywords of `NotebookAgent` instead of flags."""
    return re.sub(r"--(?:config\.)?(?=\w)(?!help\b)", "", message)
