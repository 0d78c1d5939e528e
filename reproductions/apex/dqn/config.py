"""Every hyperparameter of Ape-X DQN beyond those it shares with DPG, with where it comes from.

"Not in the paper" marks a value that the paper leaves open; the reason for ours stands beside it.
"""

import dataclasses

from reproductions.apex.config import ApexConfig, field

NUM_ACTORS = 360
"""N (section 4.1); figures 4 to 6, 13 and 14 vary it."""

PRECISIONS = ("float32", "bfloat16")


@dataclasses.dataclass
class DQNConfig(ApexConfig):
    """Ape-X DQN on Atari (section 4.1, appendix C)."""

    n_step: int = field(
        3, "n, length of the returns (appendix C, where our text lost it; RLlib has 3, too)."
    )
    batch_size: int = field(512, "Transitions of an update (section 4.1).")
    learning_rate: float = field(0.00025 / 4, "Of centred RMSProp (appendix C).")
    rmsprop_decay: float = field(0.95, "Of its moments, without momentum (appendix C).")
    rmsprop_epsilon: float = field(
        1.5e-7,
        "epsilon (appendix C). That it stands inside the root is Not in the paper; that of DQN, "
        "0.01, is 1.5e-7 there for the mean over 256 instead of the sum.",
    )
    max_gradient_norm: float = field(
        40.0, "Largest global norm of the gradient, 0: any (appendix C)."
    )
    target_period: int = field(2500, "Learner steps between copies of the target (appendix C).")
    replay_capacity: int = field(
        2_000_000, "Transitions, a soft limit; figures 4 and 5 vary it (section 4.1)."
    )
    reward_clip: float = field(
        1.0,
        "Rewards are clipped to its both sides before they are summed, 0: not (appendix C, where "
        "our text lost the range; that of DQN).",
    )
    epsilon: float = field(
        0.4, "epsilon of actor i is this ^ (1 + i / (N - 1) * epsilon_alpha) (section 4.1)."
    )
    epsilon_alpha: float = field(7.0, "alpha of the ladder of epsilons (section 4.1).")
    epsilons: tuple[float, ...] = field(
        (),
        "A fixed set instead of the ladder: actor i takes number i modulo their count, as in "
        "figure 7 (appendix B).",
    )
    evaluation_epsilon: float = field(
        0.001, "Of the evaluator's policy. Not in the paper; that of Rainbow. 0: greedy."
    )
    num_copies: int = field(
        1,
        "How often each transition is added; 8 in figure 6 (appendix A). Each copy counts in "
        "min_replay_size and replay_capacity.",
    )
    rescale_gradient: bool = field(
        False,
        "Divides the gradient that enters the convolutions by sqrt(2). Not in the paper, which "
        "has the network of Wang et al. 2016; they do so.",
    )
    precision: str = field(
        "float32",
        "float32, or bfloat16: the learner computes the convolutions and hidden layers in it, with "
        "variables, last layers, errors and optimiser in float32. Not in the paper (a GPU).",
    )

    def validate(self) -> None:
        """Raises ValueError, in one line that names the flag, on a value that makes no sense."""
        super().validate()
        self.require_at_least_1("n_step", "batch_size", "target_period", "num_copies")
        self.require(self.learning_rate > 0, "learning_rate", "above 0")
        self.require(0 <= self.rmsprop_decay < 1, "rmsprop_decay", "in [0, 1)")
        self.require(self.rmsprop_epsilon > 0, "rmsprop_epsilon", "above 0")
        for name in ("max_gradient_norm", "reward_clip", "epsilon_alpha"):
            self.require(getattr(self, name) >= 0, name, "at least 0")
        for name in ("epsilon", "evaluation_epsilon"):
            self.require(0 <= getattr(self, name) <= 1, name, "in [0, 1]")
        self.require(
            all(isinstance(each, float | int) and 0 <= each <= 1 for each in self.epsilons),
            "epsilons",
            "numbers in [0, 1], as in (0.4,0.1)",
        )
        self.require(self.precision in PRECISIONS, "precision", " or ".join(PRECISIONS))
        self.require_capacity("batch_size", "min_replay_size", "send_batch")
