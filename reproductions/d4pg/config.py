"""Every hyperparameter of D4PG, once, with where it comes from.

"Not in the paper" marks a value that the paper leaves open; the reason for ours stands beside it.
"""

import dataclasses
import math

NUM_ACTORS = 32
"""K, control suite (section 4.1); 64 for manipulation and parkour (4.2, 4.3). DDPG has 1."""

CRITICS = ("categorical", "scalar", "mixture")
NOISES = ("gaussian", "ou")
REMOVALS = ("fifo", "priority")
STATES = ("first", "last")


def _field(default, help_text: str):
    return dataclasses.field(default=default, metadata={"help": help_text})


@dataclasses.dataclass
class D4PGConfig:
    """D4PG on the Control Suite (figure 2, "D4PG, Prioritized, N = 5")."""

    critic: str = _field(
        "categorical",
        "Z_w: categorical (D4PG), scalar (D3PG, DDPG) or mixture, of Gaussians (section 4, "
        "appendix A).",
    )
    n_step: int = _field(5, "N, length of the returns; ablation 1 (section 4).")
    discount: float = _field(0.99, "gamma. Not in the paper; that of DDPG.")
    batch_size: int = _field(256, "M; 512 beyond the control suite (section 4).")
    learning_rate: float = _field(
        1e-4, "alpha_0 = beta_0, both Adam; 5e-5 beyond the control suite (section 4)."
    )
    noise: str = _field(
        "gaussian", "gaussian, or ou: Ornstein-Uhlenbeck, tried and found unnecessary (section 4)."
    )
    noise_sigma: float = _field(
        0.3, "epsilon, std of the noise of a step, in canonical action units (section 4)."
    )
    ou_theta: float = _field(
        0.15, "Part of the OU noise that a step forgets. Not in the paper; DDPG."
    )
    num_atoms: int = _field(51, "l; 101 for humanoid parkour (sections 4, 4.3).")
    v_min: float = _field(
        -150.0, "Vmin. Not in the paper; Acme. Rewards in [0, 1] give returns in [0, 100]."
    )
    v_max: float = _field(150.0, "Vmax. Not in the paper; Acme.")
    num_components: int = _field(5, "Gaussians of a mixture. Not in the paper; Acme.")
    num_target_samples: int = _field(
        128, "Samples z_j of a target mixture (appendix A). Their number is Not in the paper; Acme."
    )
    min_variance: float = _field(
        1e-4, "Added to each sigma_i^2: a Gaussian on a point has no bound. Not in the paper."
    )
    policy_gradient_state: str = _field(
        "first", "The policy gradient is of x_i (first, algorithm 1) or of x_{i+N} (last, Acme)."
    )
    policy_sizes: tuple[int, ...] = _field(
        (300, 200), "Hidden layers of pi. Lost from figure 1; Ape-X appendix D (same authors)."
    )
    critic_sizes: tuple[int, ...] = _field(
        (400, 300), "Hidden layers of Z. Lost from figure 1; Ape-X appendix D."
    )
    layer_norm: bool = _field(
        True, "LayerNorm before the first tanh. Not in the paper; Acme, by the same group."
    )
    target_period: int = _field(100, "t_target, learner steps. Not in the paper; Ape-X appendix D.")
    actor_period: int = _field(
        100, "t_actors, steps of an actor between pulls of (theta, w). Not in the paper; Ape-X 4.1."
    )
    replay_capacity: int = _field(1_000_000, "R, transitions (section 4).")
    min_replay_size: int = _field(
        10_000, "Transitions before the first update. Not in the paper; between Acme and Ape-X."
    )
    priority_exponent: float = _field(
        0.6, "alpha of p^alpha; 0 is uniform. Not in the paper; Ape-X appendix D."
    )
    importance_exponent: float = _field(
        1.0, "beta of (1 / (R p))^beta; algorithm 1 has none, that is 1. 0: no weights."
    )
    removal: str = _field(
        "fifo",
        "What a full memory removes: fifo, the oldest, or priority, by p^removal_exponent. Not in "
        "the paper, which refers to Ape-X, where both occur.",
    )
    removal_exponent: float = _field(
        -0.4, "Of removal by priority. Not in the paper; Ape-X appendix D."
    )
    send_batch: int = _field(50, "Transitions an actor sends at once (Ape-X section 4.1).")
    samples_per_insert: float = _field(
        0.0,
        "Samples per inserted transition that both sides are held to; 0: unlimited, as in the "
        "paper (Ape-X section 3).",
    )
    updates_per_call: int = _field(
        16, "Updates in one graph call, sampled ahead. Not in the paper; Ape-X 4.1 prefetches 16."
    )
    single_process: bool = _field(
        False,
        "Acts and learns in turns in one process, as DDPG does (section 4.1), which is no "
        "distributed agent.",
    )

    def __post_init__(self):
        self.validate()

    def validate(self) -> None:
        """Raises ValueError, in one line that names the flag, on a value that makes no sense."""
        for name in (
            "n_step",
            "batch_size",
            "target_period",
            "actor_period",
            "replay_capacity",
            "min_replay_size",
            "send_batch",
            "updates_per_call",
            "num_components",
            "num_target_samples",
        ):
            _require(getattr(self, name) >= 1, name, "at least 1", self)
        for name, choices in (
            ("critic", CRITICS),
            ("noise", NOISES),
            ("removal", REMOVALS),
            ("policy_gradient_state", STATES),
        ):
            _require(getattr(self, name) in choices, name, " or ".join(choices), self)
        for field in dataclasses.fields(self):
            if isinstance(getattr(self, field.name), float):
                finite = math.isfinite(getattr(self, field.name))
                _require(finite, field.name, "a finite number", self)
        _require(0 <= self.discount <= 1, "discount", "in [0, 1]", self)
        _require(self.learning_rate > 0, "learning_rate", "above 0", self)
        _require(self.noise_sigma >= 0, "noise_sigma", "at least 0", self)
        _require(0 < self.ou_theta <= 1, "ou_theta", "in (0, 1]", self)
        _require(self.min_variance > 0, "min_variance", "above 0", self)
        _require(self.num_atoms >= 2, "num_atoms", "at least 2", self)
        _require(self.v_min < self.v_max, "v_min", f"below v_max ({self.v_max:g})", self)
        spacing = (self.v_max - self.v_min) / (self.num_atoms - 1)
        largest = max(abs(self.v_min), abs(self.v_max))
        _require(
            largest < 1e30 and spacing > 1e-6 * largest,
            "v_max",
            f"so that its atoms, from v_min ({self.v_min:g}) on, differ as float32",
            self,
        )
        _require(0 <= self.priority_exponent <= 7, "priority_exponent", "in [0, 7]", self)
        _require(-7 <= self.removal_exponent <= 0, "removal_exponent", "in [-7, 0]", self)
        _require(self.importance_exponent >= 0, "importance_exponent", "at least 0", self)
        _require(self.samples_per_insert >= 0, "samples_per_insert", "at least 0", self)
        _require(self.replay_capacity <= 2**30, "replay_capacity", "at most 2^30", self)
        for name in ("policy_sizes", "critic_sizes"):
            sizes = getattr(self, name)
            valid = len(sizes) > 0 and all(type(n) is int and n >= 1 for n in sizes)
            _require(valid, name, "one or more whole numbers above 0, as in (300, 200)", self)
        for name in ("batch_size", "min_replay_size", "send_batch"):
            _require(
                getattr(self, name) <= self.replay_capacity,
                name,
                f"at most replay_capacity ({self.replay_capacity})",
                self,
            )
        if self.single_process:
            _require(
                self.samples_per_insert > 0,
                "samples_per_insert",
                "above 0 with single_process, whose turns it sets (batch_size: an update a step)",
                self,
            )


def _require(condition: bool, name: str, wanted: str, config: D4PGConfig) -> None:
    if not condition:
        raise ValueError(f"--config.{name} must be {wanted}, is {getattr(config, name)}")
