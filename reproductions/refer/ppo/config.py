"""Hyperparameters of the PPO with which ReF-ER compares.

"Not in the paper" marks a value that the paper leaves open; the reason for ours stands beside it.
"""

import dataclasses

from common.config import field
from common.data.rollout_config import RolloutConfig


@dataclasses.dataclass
class ReferPPOConfig(RolloutConfig):
    """PPO with a clipped objective (appendix A, "PPO")."""

    horizon: int = field(
        2048, "Environment steps of a rollout, of all actors (appendix A).", minimum=1, suffix="h{}"
    )
    num_epochs: int = field(
        10, "Optimiser epochs on a rollout (appendix A).", minimum=1, suffix="epochs{}"
    )
    batch_size: int = field(64, "B, steps of an update (appendix A).", minimum=1, suffix="batch{}")
    clip: float = field(
        0.2,
        "Distance of rho from 1 at which the policy's gradient is clipped (appendix A).",
        above=0,
        below=1,
        suffix="clip{:g}",
    )
    discount: float = field(
        0.995, "gamma, per step (appendix A).", minimum=0, maximum=1, suffix="discount{:g}"
    )
    trace: float = field(
        0.97,
        "lambda of generalised advantage estimation (appendix A).",
        minimum=0,
        maximum=1,
        suffix="trace{:g}",
    )
    policy_learning_rate: float = field(
        1e-4, "Step size of Adam for the policy (appendix A).", above=0, suffix="policy_lr{:g}"
    )
    value_learning_rate: float = field(
        3e-4, "Step size of Adam for the value (appendix A).", above=0, suffix="value_lr{:g}"
    )
    annealing: float = field(
        5e-7,
        "A of both learning rates, eta / (1 + A t), t in environment steps (equation 13; appendix "
        "A: the same as in the other experiments).",
        minimum=0,
        suffix="A{:g}",
    )
    adam_beta1: float = field(
        0.9,
        "Adam's momentum. Not in the paper; Adam's default.",
        minimum=0,
        below=1,
        suffix="momentum{:g}",
    )
    adam_beta2: float = field(
        0.999,
        "Adam's decay of squares. Not in the paper; Adam's default.",
        minimum=0,
        below=1,
        suffix="decay{:g}",
    )
    adam_epsilon: float = field(
        1e-7, "Adam's epsilon. Not in the paper; that of V-RACER here.", above=0, suffix="adam{:g}"
    )
    hidden_size: int = field(
        64, "Units of each of the two hidden layers (appendix A).", minimum=1, suffix="units{}"
    )
    noise_bound: float = field(
        3.0,
        "Standard deviations at which the policy's noise is truncated (appendix A).",
        above=0,
        suffix="bound{:g}",
    )
    initial_variance: float = field(
        0.2,
        "Diagonal of Sigma at the start. Not in the paper; V-RACER's, as in the authors' program.",
        above=0,
        suffix="variance{:g}",
    )

    def validate(self) -> None:
        """Adds that batches divide the rollout."""
        super().validate()
        self.require(
            self.horizon % self.batch_size == 0,
            "horizon",
            f"a multiple of batch_size ({self.batch_size})",
        )
