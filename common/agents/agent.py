"""Interface of a paper's agent, as every layout needs it."""

import abc
from collections.abc import Sequence

from common.acting.policy import Policy
from common.environments.spec import EnvironmentSpec
from common.learning.learner import Learner


class Agent(abc.ABC):
    """A paper's agent with a configuration.

    Attributes:
      paper: name of the paper's directory.
      setting: name of the configuration, for CSV files.
      metrics: names of the metrics that the learner's updates report.
      num_frames: images stacked in an observation; None if observations are not stacked images.
    """

    paper: str
    setting: str
    metrics: Sequence[str]
    num_frames: int | None = None

    @abc.abstractmethod
    def require(self, spec: EnvironmentSpec) -> None:
        """Raises ValueError, with a message of one line, if the agent cannot act in `spec`."""

    @abc.abstractmethod
    def make_learner(self, spec: EnvironmentSpec, seed: int) -> Learner:
        """Builds the learner and initialises its networks from `seed`."""

    @abc.abstractmethod
    def make_evaluator(self, spec: EnvironmentSpec, num_environments: int) -> Policy:
        """Builds the policy to evaluate, for a batch of environments."""
