"""An agent in a notebook or a script, whose run its program makes."""

import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any

from common.agents.declaration import AgentDeclaration
from common.cluster.layout import imported
from common.cluster.processes import set_parent_death_signal
from common.reporting import csv_rows
from common.reporting.command_line import native_output_only_on_failure
from common.reporting.run_directory import RunDirectory
from common.reporting.user_error import UserError

if TYPE_CHECKING:
    import numpy as np
    import pandas

    from common.agents.trained import TrainedPolicy, TrainedRun

_ERROR = "error: "
_NOT_SAVED = ("logs", "replay", "tmp")


class TrainingError(UserError):
    """A run that its program did not finish, or that has not begun."""


class NotebookAgent:
    """An agent on an environment, trained by its program in a run directory.

    `train` starts the roles as processes of this machine, as the program does, and goes on from
    where the run is. The replay does not last from one call to the next: each fills it first.

    Attributes:
      directory: of the run.
    """

    def __init__(
        self,
        agent: AgentDeclaration,
        environment: str,
        workdir: str | os.PathLike | None = None,
        setting: str | None = None,
        **values: Any,
    ):
        """Checks the hyperparameters, and makes the environment once to check it; starts nothing.

        Args:
          agent: the agent.
          environment: its name; see `common.environments.make`.
          workdir: the run directory; a run in it is continued. None: a temporary one, which lasts
            as long as this object.
          setting: of the agent; None: its default.
          **values: hyperparameters, such as n_step=3, and flags of the program, such as
            num_actors=4.

        Raises:
          ValueError: there is no such hyperparameter, flag or setting, a value is not allowed, or
            the environment is no name, or the agent cannot act in it.
        """
        if not isinstance(environment, str):
            known = getattr(getattr(environment, "spec", None), "id", "ID")
            raise ValueError(
                f'environment must be a name, such as "gym:{known}", or "python:my_module:make" '
                f"for one of your own, since the processes of a run make it: got {environment!r}"
            )
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
        self._agent, self._environment = agent, environment
        self._temporary = None
        if workdir is None:
            self._temporary = tempfile.TemporaryDirectory(prefix=f"{agent.name}_")
            workdir = pathlib.Path(self._temporary.name, "run")
        self.directory = RunDirectory(workdir)
        self._flags = [f"--environment={environment}", f"--setting={setting}"]
        self._flags += [
            f"--{'config.' if name in names else ''}{name}={value}"
            for name, value in values.items()
        ]
        self._flags.append(f"--workdir={self.directory.path}")
        command = [*self._command, "--only_check_args"]
        checked = subprocess.run(command, capture_output=True, text=True, check=False)
        if checked.returncode:
            raise ValueError(_in_keywords(checked.stderr.strip().removeprefix(_ERROR)))

    def train(self, learner_steps: int) -> "NotebookAgent":
        """Makes so many more updates, prints the program's lines, and returns this agent.

        An interrupt stops the run in order, with a checkpoint.

        Raises:
          TrainingError: the program ended before.
        """
        row = csv_rows.last_row(self.directory.learner_csv, csv_rows.PROGRESS)
        limit = learner_steps + (int(row["learner_steps"]) if row else 0)
        parent = os.getpid()
        process = subprocess.Popen(
            [*self._command, f"--max_learner_steps={limit}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
            preexec_fn=lambda: set_parent_death_signal(parent, signal.SIGTERM),
        )
        assert process.stdout is not None
        error = ""
        while True:
            try:
                for line in process.stdout:
                    if error or line.startswith(_ERROR):
                        error += line  # raised, and so shown, below
                    else:
                        print(line, end="", flush=True)
                code = process.wait()
                break
            except KeyboardInterrupt:
                process.send_signal(signal.SIGINT)
        if code:
            message = error.removeprefix(_ERROR).strip() or f"it ended with exit code {code}"
            raise TrainingError(_in_keywords(message))
        return self

    def evaluate(
        self, episodes: int = 10, seed: int = 0, checkpoint: str = "newest"
    ) -> "np.ndarray":
        """Plays without exploration and returns the return of each episode, float64 [episodes].

        Args:
          episodes: number of them.
          seed: of the environments.
          checkpoint: "newest", or "best": the best evaluation's.

        Raises:
          TrainingError: there is nothing to play yet.
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
        """Returns the policy without exploration, see `TrainedPolicy`.

        Raises:
          TrainingError: nothing is learnt yet.
        """
        run = self._load(checkpoint)
        from common.agents.trained import TrainedPolicy

        return TrainedPolicy(run)

    def evaluations(self) -> "pandas.DataFrame":
        """Returns the evaluations that the run has made, a row each, as in evaluator.csv."""
        self._require_rows(self.directory.evaluator_csv)
        return csv_rows.read_rows(self.directory.evaluator_csv)

    def save(self, path: str | os.PathLike) -> None:
        """Copies the run to a new directory, which `load_policy` and `binaries.evaluate` read.

        Raises:
          FileExistsError: there is something at `path`.
          TrainingError: nothing is learnt yet.
        """
        self._require_rows(self.directory.learner_csv)
        shutil.copytree(
            self.directory.path, path, ignore=lambda folder, names: {*_NOT_SAVED} & {*names}
        )

    @property
    def _command(self) -> list[str]:
        """The command line of the agent's program."""
        return [sys.executable, "-m", self._agent.module, *self._flags]

    def _require_rows(self, path: pathlib.Path) -> None:
        if not path.exists():
            raise TrainingError(f"{path.name} is not there yet: call train(learner_steps) first")

    def _load(self, checkpoint: str) -> "TrainedRun":
        self._require_rows(self.directory.learner_csv)
        with native_output_only_on_failure():
            from common.agents import trained

            agent_class = imported(self._agent.agent_class)
            # Its user named the environment, unless the directory holds another run.
            is_named = self.directory.read_config().get("environment") == self._environment
            return trained.load(self.directory.path, agent_class, checkpoint, is_named)


def _in_keywords(message: str) -> str:
    """Returns a program's message with keywords of `NotebookAgent` in the place of flags."""
    return re.sub(r"--(?:config\.)?(?=\w)", "", message)
