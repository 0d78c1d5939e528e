"""The contract of a paper's agent: what every layout needs of it."""

import abc
from collections.abc import Sequence

from common.acting.policy import Policy
from common.environments.spec import EnvironmentSpec
from common.learning.learner import Learner


class Agent(abc.ABC):
    """One paper's agent under one configuration.

    Attributes:
      paper: name of the paper's directory.
      setting: name of the variant of the paper, for the CSV files.
      metrics: names of the scalars that the learner's updates report.
      num_frames: images stacked in an observation; None where observations are not stacked images.
    """

    paper: str
    setting: str
    metrics: Sequence[str]
    num_frames: int | None = None

    @abc.abstractmethod
    def require(self, spec: EnvironmentSpec) -> None:
        """Raises ValueError, in one line, if the agent cannot act in such an environment."""

    @abc.abstractmethod
    def make_learner(self, spec: EnvironmentSpec, seed: int) -> Learner:
        """Builds the learner; networks are initialised from `seed`."""

    @abc.abstractmethod
    def make_evaluator(self, spec: EnvironmentSpec, num_environments: int) -> Policy:
        """Builds the policy that is evaluated."""
