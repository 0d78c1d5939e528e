"""The declaration of an agent: name, settings, layouts and limits, available without TensorFlow.

This module does not import TensorFlow.
"""

from collections.abc import Callable
import dataclasses
import functools
from types import MappingProxyType
from typing import Any

from common.cluster.layout import FlagValues, Layout, imported
from common.config import Settings
from common.user_error import UserError


@dataclasses.dataclass(frozen=True, eq=False)
class AgentDeclaration:
    """The facts about an agent that are available without TensorFlow.

    Attributes:
      name: the agent's name, as in config.json; the paper's name if the paper has a single agent.
      title: the agent's name in captions.
      paper: name of the paper's directory.
      agent_class: "module:class" of the agent, built as `class(config, setting)`. Only roles import
        it, because it imports TensorFlow.
      settings: the agent's settings.
      num_actors: returns the default of --num_actors, given the configuration and the setting.
      num_actors_help: help text of --num_actors.
      layouts: the default layout; optionally the layout of configurations with `single_process`;
        and layouts that a flag chooses.
      require: "module:function" that raises ValueError, in one line, if the agent cannot act in an
        environment, given the configuration and the environment's spec. It needs no TensorFlow.
      bytes_per_step: bytes of a stored step, given the configuration, the environment's spec and
        the environment.
      queue_bytes: bytes of the learner's queue when it is full, given the same arguments.
      num_frames: images stacked in an observation; None if observations are not stacked images.
      num_actors_flag: name of the flag --num_actors; another if the paper does not speak of actors.
      program: module that runs the agent with `python -m`; "" for the module in `binaries` that has
        the agent's name.
    """

    name: str
    title: str
    paper: str
    agent_class: str
    settings: Settings
    num_actors: Callable[[Any, str], int]
    num_actors_help: str
    layouts: tuple[Layout, ...]
    require: str
    bytes_per_step: Callable[[Any, Any, Any], float]
    queue_bytes: Callable[[Any, Any, Any], float] = lambda config, spec, environment: 0
    num_frames: int | None = None
    num_actors_flag: str = "num_actors"
    program: str = ""

    @property
    def module(self) -> str:
        """The module that runs the agent with `python -m`."""
        return self.program or f"binaries.{self.name}"

    def layout(self, config: Any, values: FlagValues = MappingProxyType({})) -> Layout:
        """Returns the layout of a run.

        Args:
          config: the run's configuration.
          values: values of the flags that only some layouts have; None for flags not given.
        """
        for layout in self.layouts:
            if layout.chosen_by and values.get(layout.chosen_by) is not None:
                return layout
        others = [layout for layout in self.layouts if not layout.chosen_by]
        return others[-1 if getattr(config, "single_process", False) else 0]

    def require_spec(self, config: Any, spec: Any) -> None:
        """Raises ValueError, in one line, unless the agent can act in the `EnvironmentSpec`."""
        imported(self.require)(config, spec)

    def require_environment(self, config: Any, name: str) -> None:
        """Raises UserError unless the agent can act in an environment.

        Args:
          config: the agent's configuration.
          name: the environment's name for `common.environments.make`, called at most once. The
            spec is then cached, except for the suites "gym" and "python".
        """
        # Not cached: a user may change a module and load it again.
        find = _spec.__wrapped__ if name.startswith(("gym:", "python:")) else _spec
        spec = find(name, self.num_frames)
        try:
            self.require_spec(config, spec)
        except ValueError as error:
            raise UserError(f"{self.name} on {name}: {error}") from None

    def make_agent(self, **fields: Any) -> Any:
        """Builds the agent of the default setting with these fields changed; imports TensorFlow."""
        setting = self.settings.default
        config = dataclasses.replace(self.settings.configuration(setting), **fields)
        return imported(self.agent_class)(config, setting)


@functools.cache
def _spec(environment: str, num_frames: int | None) -> Any:
    """Returns the spec of an environment; importing the simulator takes seconds."""
    from common import environments
    from common.environments.spec import EnvironmentSpec

    with environments.opened(environment, 0, num_frames) as made:
        return EnvironmentSpec.of(made)
