"""Every hyperparameter of Ape-X DPG beyond those it shares with DQN, with where it comes from.

"Not in the paper" marks a value that the paper leaves open; the reason for ours stands beside it.
"""

import dataclasses

from reproductions.apex.config import ApexConfig, field

NUM_ACTORS = 64
"""N (section 4.2); figure 3 varies it."""

ACTIVATIONS = ("elu", "tanh")
REMOVALS = ("priority", "fifo")


@dataclasses.dataclass
class DPGConfig(ApexConfig):
    """Ape-X DPG on the Control Suite (section 4.2, appendix D)."""

    actor_period: int = field(
        400,
        "Steps of an actor between pulls of parameters: 400 frames (section 4.1), each a step here "
        "(section 4.2).",
    )
    n_step: int = field(
        5,
        "n, length of the returns. Not in the paper, whose 3 is said of Atari (appendix C); D4PG, "
        "which builds on this agent, found 5 uniformly better than 1.",
    )
    batch_size: int = field(256, "Transitions of an update (section 4.2).")
    learning_rate: float = field(1e-4, "Of both Adams (appendix D).")
    noise_sigma: float = field(
        0.3, "sigma, std of the noise of each step, in canonical action units (appendix D)."
    )
    policy_sizes: tuple[int, ...] = field((300, 200), "Hidden layers of pi (appendix D).")
    critic_sizes: tuple[int, ...] = field((400, 300), "Hidden layers of q (appendix D).")
    activation: str = field(
        "elu",
        "After the second layer: elu or tanh. Not in the paper, which names the tanh after the "
        "first alone (appendix D); Acme, by the same group.",
    )
    layer_norm: bool = field(
        False,
        "LayerNorm before the first tanh. Not in the paper (appendix D names none); Acme has it.",
    )
    dqda_clip: float = field(
        1.0,
        "Clips each element of the policy's gradient (appendix D), 0: none. That dq/da is meant, "
        "not the gradient of each weight, is Not in the paper; Acme.",
    )
    max_gradient_norm: float = field(
        40.0, "Largest norm of the critic's gradient, 0: any (appendix C; D: otherwise as per DQN)."
    )
    target_period: int = field(100, "Learner steps between copies of both targets (appendix D).")
    replay_capacity: int = field(1_000_000, "Transitions, a soft limit (appendix D).")
    removal: str = field(
        "priority",
        "What goes above the capacity: priority, drawn by p^removal_exponent, or fifo, the oldest, "
        "as in DQN (appendix D).",
    )
    removal_exponent: float = field(-0.4, "alpha_evict (appendix D).")
    updates_per_call: int = field(
        16, "Updates in one graph call, sampled ahead as the prefetch's 16 are. Not in the paper."
    )

    def validate(self) -> None:
        """Raises ValueError, in one line that names the flag, on a value that makes no sense."""
        super().validate()
        self.require_at_least_1("n_step", "batch_size", "target_period", "updates_per_call")
        for name, choices in (("activation", ACTIVATIONS), ("removal", REMOVALS)):
            self.require(getattr(self, name) in choices, name, " or ".join(choices))
        self.require(self.learning_rate > 0, "learning_rate", "above 0")
        for name in ("noise_sigma", "dqda_clip", "max_gradient_norm"):
            self.require(getattr(self, name) >= 0, name, "at least 0")
        self.require(-7 <= self.removal_exponent <= 0, "removal_exponent", "in [-7, 0]")
        for name in ("policy_sizes", "critic_sizes"):
            sizes = getattr(self, name)
            valid = len(sizes) > 0 and all(type(n) is int and n >= 1 for n in sizes)
            self.require(valid, name, "one or more whole numbers above 0, as in (300, 200)")
        self.require_capacity("batch_size", "min_replay_size", "send_batch")
