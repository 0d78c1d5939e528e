"""The program of an agent, and a run of it. This module does not import TensorFlow."""

from collections.abc import Callable
import dataclasses
from typing import Any

from absl import flags, logging

from common.config import Config, Settings
from common.program import flags as flags_lib
from common.program import resources
from common.program.flags import UsageError
from common.program.layout import FlagValues, Layout, imported
from common.reporting.run_directory import RunDirectory


@dataclasses.dataclass(frozen=True)
class AgentProgram:
    """An agent, as its binary describes it.

    Attributes:
      paper: name of the paper's directory.
      agent: name of the agent, which is that of the paper where it has only one.
      module: of the binary, to start roles with `python -m`.
      agent_class: "module:class" of the agent, built as `class(config, setting)`; importing it
        imports TensorFlow, so only roles do.
      settings: of the paper.
      num_actors: default of --num_actors, given the configuration and the setting.
      num_actors_help: of that flag.
      num_actors_flag: its name, where the paper does not speak of actors.
      layouts: that the settings may have.
      layout: the one that a configuration has.
      require: "module:function" that raises ValueError, in one line, if the agent cannot act in an
        environment, given the configuration and the environment's spec; without TensorFlow.
      bytes_per_step: bytes of a stored step, given the configuration, the environment's spec and
        the environment.
      num_frames: images stacked in an observation, see `common.agents.agent.Agent`.
    """

    paper: str
    agent: str
    module: str
    agent_class: str
    settings: Settings
    num_actors: Callable[[Any, str], int]
    num_actors_help: str
    layouts: tuple[Layout, ...]
    layout: Callable[[Any], Layout]
    require: str
    bytes_per_step: Callable[[Any, Any, Any], float]
    num_frames: int | None = None
    num_actors_flag: str = "num_actors"


@dataclasses.dataclass(frozen=True)
class ProgramRun:
    """A run of an agent's program, as its flags say.

    Attributes:
      program: of the agent.
      config: the hyperparameters.
      setting: name of the configuration.
      num_actors: of the whole run.
      layout: of the configuration.
      values: of the layout's own flags.
      environment: its name.
      directory: of the run.
    """

    program: AgentProgram
    config: Config
    setting: str
    num_actors: int
    layout: Layout
    values: FlagValues
    environment: str
    directory: RunDirectory

    @property
    def record(self) -> dict[str, Any]:
        """The identity of the run, for config.json: not how long it lasts nor where it runs."""
        return {
            "paper": self.program.paper,
            "agent": self.program.agent,
            "setting": self.setting,
            "environment": self.environment,
            "seed": flags_lib.SEED.value,
            "num_actors": self.num_actors,
            "config": {
                field.name: getattr(self.config, field.name)
                for field in dataclasses.fields(self.config)
            },
        }

    @property
    def title(self) -> str:
        """Agent and environment, for people."""
        return f"{self.program.agent} on {self.environment}"

    @property
    def changed(self) -> dict[str, Any]:
        """Flags whose values are the user's, for run.json; hyperparameters as "config.NAME"."""
        chosen = self.program.settings.configuration(flags.FLAGS.setting)
        values = dataclasses.asdict(self.config)
        return flags_lib.changed() | {
            f"config.{name}": value
            for name, value in values.items()
            if value != getattr(chosen, name)
        }

    def inspect_environment(self, share: float) -> tuple[Any, int]:
        """Returns the environment's spec, and the bytes of a part of the replay when it is full.

        Args:
          share: the part of the replay; above 1 for several replays of the configured size.

        Raises:
          UsageError: there is no such environment, or the agent cannot act in it.
        """
        from common import environments
        from common.environments.spec import EnvironmentSpec

        verbosity = logging.get_verbosity()
        logging.set_verbosity(logging.WARNING)  # simulators announce themselves at their import
        try:
            environment = environments.make(
                self.environment, flags_lib.SEED.value, frames=self.program.num_frames
            )
        except environments.UnusableEnvironmentError as error:
            raise UsageError(str(error)) from None
        finally:
            logging.set_verbosity(verbosity)
        spec = EnvironmentSpec.of(environment)
        try:
            imported(self.program.require)(self.config, spec)
        except ValueError as error:
            raise UsageError(str(error)) from None
        replay_bytes = 0
        if share:
            steps = resources.replay_steps(
                share,
                getattr(self.config, "replay_capacity", 0),
                getattr(self.config, "num_copies", 1),
                flags_lib.MAX_ACTOR_STEPS.value,
            )
            step_bytes = self.program.bytes_per_step(self.config, spec, environment)
            replay_bytes = round(steps * step_bytes)
        environment.close()
        return spec, replay_bytes
