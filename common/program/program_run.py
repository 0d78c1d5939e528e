"""A run of an agent's program. This module does not import TensorFlow."""

import dataclasses
from typing import Any

from absl import flags, logging

from common.agents.declaration import AgentDeclaration
from common.cluster.layout import FlagValues, Layout, imported
from common.config import Config
from common.program import flags as flags_lib
from common.program import resources
from common.program.flags import UsageError
from common.reporting.run_directory import RunDirectory


@dataclasses.dataclass(frozen=True)
class ProgramRun:
    """A run of an agent's program, as its flags say.

    Attributes:
      agent: the one that is run.
      config: the hyperparameters.
      setting: name of the configuration.
      num_actors: of the whole run.
      layout: of the configuration.
      values: of the layout's own flags.
      environment: its name.
      directory: of the run.
    """

    agent: AgentDeclaration
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
            "paper": self.agent.paper,
            "agent": self.agent.name,
            "setting": self.setting,
            "environment": self.environment,
            "seed": flags_lib.SEED.value,
            "num_actors": self.num_actors,
            "config": dict(vars(self.config)),
        }

    @property
    def title(self) -> str:
        """Agent and environment, for people."""
        return f"{self.agent.name} on {self.environment}"

    @property
    def changed(self) -> dict[str, Any]:
        """Flags whose values are the user's, for run.json; hyperparameters as "config.NAME"."""
        chosen = self.agent.settings.configuration(flags.FLAGS.setting)
        values = dataclasses.asdict(self.config)
        return flags_lib.changed() | {
            f"config.{name}": value
            for name, value in values.items()
            if value != getattr(chosen, name)
        }

    def inspect_environment(
        self, share: float = 0.0, num_environments: int = 0, has_queue: bool = False
    ) -> tuple[Any, resources.Need]:
        """Returns the environment's spec, and the bytes that are needed of a machine or process.

        Args:
          share: its part of the replay; above 1 for several replays of the configured size.
          num_environments: in it.
          has_queue: whether the learner's queue, if there is one, is in it.

        Raises:
          UsageError: there is no such environment, or the agent cannot act in it.
        """
        from common import environments
        from common.environments import watched
        from common.environments.spec import EnvironmentSpec

        verbosity = logging.get_verbosity()
        logging.set_verbosity(logging.WARNING)  # simulators announce themselves at their import
        try:
            with watched.making(self.environment):
                environment = environments.make(
                    self.environment, flags_lib.SEED.value, frames=self.agent.num_frames
                )
        except environments.UnusableEnvironmentError as error:
            raise UsageError(str(error)) from None
        finally:
            logging.set_verbosity(verbosity)
        spec = EnvironmentSpec.of(environment)
        try:
            imported(self.agent.require)(self.config, spec)
        except ValueError as error:
            raise UsageError(str(error)) from None
        engines = num_environments * getattr(environment, "engine_bytes", 0)
        replay = queue = 0.0
        if share:
            steps = resources.replay_steps(
                share,
                getattr(self.config, "replay_capacity", 0),
                getattr(self.config, "num_copies", 1),
                flags_lib.MAX_ACTOR_STEPS.value,
            )
            replay = steps * self.agent.bytes_per_step(self.config, spec, environment)
        if has_queue:
            queue = self.agent.queue_bytes(self.config, spec, environment)
        environment.close()
        return spec, resources.Need(round(replay), engines, round(queue))
