"""What the configurations of Ape-X DQN and Ape-X DPG share.

"Not in the paper" marks a value that the paper leaves open; the reason for ours stands beside it.
Appendix D says "otherwise as per DQN" of DPG, so what is here is said of Atari in section 4.1 and
appendix C and holds for both.
"""

import dataclasses
import math
from typing import Any


def field(default: Any, help_text: str) -> Any:
    """A hyperparameter with the text that `--help` shows."""
    return dataclasses.field(default=default, metadata={"help": help_text})


@dataclasses.dataclass
class ApexConfig:
    """What both agents have, with the same values in both."""

    discount: float = field(0.99, "gamma. Not in the paper; that of DQN and DDPG.")
    min_replay_size: int = field(50_000, "Transitions before the first update (appendix C).")
    priority_exponent: float = field(
        0.6, "alpha_sample of P ~ p^alpha (section 4.1, appendix D); 0 is uniform (figure 14)."
    )
    priority_floor: float = field(
        1e-6,
        "Added to each |delta|, or one of 0 would never be drawn again. Not in the paper; Schaul "
        "et al. 2016.",
    )
    importance_exponent: float = field(
        0.4, "beta of (1 / (N P))^beta, divided by the batch's largest (section 4.1). 0: none."
    )
    send_batch: int = field(50, "B, transitions an actor sends at once (section 4.1).")
    actor_period: int = field(
        100, "Steps of an actor between pulls of parameters: 400 frames (section 4.1)."
    )
    removal_period: int = field(
        100,
        "Learner steps between removals of what exceeds the capacity, which adding does not wait "
        "for (section 4.1).",
    )
    prefetch: int = field(16, "Batches that the learner draws ahead (section 4.1).")
    samples_per_insert: float = field(
        0.0,
        "Samples per inserted transition that both sides are held to; 0: unlimited, as in the "
        "paper (section 3), where it came to 0.78.",
    )

    def __post_init__(self):
        self.validate()

    def validate(self) -> None:
        """Raises ValueError, in one line that names the flag, on a value that makes no sense."""
        for each in dataclasses.fields(self):
            if isinstance(getattr(self, each.name), float):
                self.require(math.isfinite(getattr(self, each.name)), each.name, "a finite number")
        self.require_at_least_1(
            "min_replay_size", "send_batch", "actor_period", "removal_period", "prefetch"
        )
        self.require(0 <= self.discount <= 1, "discount", "in [0, 1]")
        self.require(0 <= self.priority_exponent <= 7, "priority_exponent", "in [0, 7]")
        self.require(self.priority_floor > 0, "priority_floor", "above 0")
        self.require(self.importance_exponent >= 0, "importance_exponent", "at least 0")
        self.require(self.samples_per_insert >= 0, "samples_per_insert", "at least 0")

    def require(self, condition: bool, name: str, wanted: str) -> None:
        """Raises ValueError, that --config.NAME must be as `wanted`, unless `condition`."""
        if not condition:
            raise ValueError(f"--config.{name} must be {wanted}, is {getattr(self, name)}")

    def require_at_least_1(self, *names: str) -> None:
        """`require` for whole numbers."""
        for name in names:
            self.require(getattr(self, name) >= 1, name, "at least 1")

    def require_capacity(self, *names: str) -> None:
        """Checks `replay_capacity`, and that each of these fits."""
        self.require_at_least_1("replay_capacity")
        # The memory has room for twice as many, up to a removal.
        self.require(self.replay_capacity <= 2**29, "replay_capacity", "at most 2^29")
        for name in names:
            self.require(
                getattr(self, name) <= self.replay_capacity,
                name,
                f"at most replay_capacity ({self.replay_capacity})",
            )
