"""Real roles of a paper's program, in processes of their own, for a benchmark to talk to."""

from collections.abc import Mapping, Sequence
import dataclasses
import functools
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Any

from common.agents.agent import Agent
from common.cluster import rpc
from common.cluster import token as token_lib
from common.cluster.errors import ServiceUnavailableError
from common.cluster.processes import set_parent_death_signal
from common.cluster.topology import Topology

_START_SECONDS = 120.0


@dataclasses.dataclass(frozen=True)
class BenchmarkedProgram:
    """A paper's program.

    Attributes:
      module: name of the binary whose roles are started.
      agent_class: of its agent.
      config: fields that differ from the defaults, for agents and roles alike.
    """

    module: str
    agent_class: type[Agent]
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        """The binary's name without its package, for names of rows."""
        return self.module.rpartition(".")[2]

    def make_agent(self, **fields: Any) -> Agent:
        """Builds the agent, with more fields of the config."""
        return self.agent_class.with_fields(**{**self.config, **fields})


class RoleProcess:
    """A role of a program, which lives as long as a `with`."""

    def __init__(
        self,
        program: BenchmarkedProgram,
        role: str,
        topology: Topology,
        token: str,
        environment: str,
        config: Mapping[str, Any],
        flags: Mapping[str, Any] | None = None,
    ):
        """Prepares the role, with more fields of the config and other flags."""
        self._role = role
        self._command = [
            sys.executable,
            "-m",
            program.module,
            f"--role={role}",
            f"--environment={environment}",
        ]
        fields = {**program.config, **config}
        self._command += [f"--config.{name}={flag_text(value)}" for name, value in fields.items()]
        self._command += [f"--{name}={value}" for name, value in (flags or {}).items()]
        self._variables = role_variables(topology, role, token)

    def __enter__(self) -> "RoleProcess":
        self._directory = tempfile.TemporaryDirectory(prefix="benchmark_")
        directory = pathlib.Path(self._directory.name)
        self._log = directory / "log"
        command = [*self._command, f"--workdir={directory / 'run'}"]
        self._process = start_process(command, self._variables, self._log)
        return self

    def wait_until_available(self, client: rpc.Client) -> None:
        """Returns when the role answers.

        Raises:
          RuntimeError: it has ended, or does not answer in time.
        """
        deadline = time.monotonic() + _START_SECONDS
        while True:
            self.check()
            try:
                client.wait_until_available(2.0)
                return
            except ServiceUnavailableError:
                if time.monotonic() > deadline:
                    raise RuntimeError(
                        f"the {self._role} role does not answer at {client.address}"
                    ) from None

    def check(self) -> None:
        """Raises RuntimeError, with the role's last words, if it has ended."""
        if self._process.poll() is not None:
            raise RuntimeError(
                f"the {self._role} role ended with exit code {self._process.returncode}: "
                + last_words(self._log)
            )

    def __exit__(self, *_) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._directory.cleanup()


def role_variables(topology: Topology, role: str, token: str) -> dict[str, str]:
    """Returns the environment variables of a role that is started by hand."""
    return {"TF_CONFIG": topology.to_tf_config(role, 0), token_lib.TOKEN_VARIABLE: token}


def start_process(
    command: Sequence[str], variables: Mapping[str, str], log: pathlib.Path
) -> subprocess.Popen:
    """Starts a program whose output goes to `log`; it dies with this process."""
    with log.open("wb") as file:
        return subprocess.Popen(
            command,
            env={**os.environ, **variables},
            stdout=file,
            stderr=file,
            preexec_fn=functools.partial(set_parent_death_signal, os.getpid()),
        )


def last_words(log: pathlib.Path) -> str:
    """Returns the line of a log that most likely says why the program ended."""
    lines = log.read_text(errors="replace").split("\n")
    reasons = [line for line in lines if line.startswith(("error:", "Fatal Python error"))]
    return (reasons or [line for line in lines if line.strip()] or ["it said nothing"])[-1]


def flag_text(value: Any) -> str:
    """Returns the value of a field as `--config.NAME=` takes it."""
    return repr(value) if isinstance(value, tuple) else str(value)
