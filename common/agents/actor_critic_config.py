"""Hyperparameters of agents with a deterministic policy and a critic that their papers leave out.

All are off by default, and in runs that are older than a field. This module imports neither
TensorFlow nor NumPy.
"""

from collections.abc import Mapping
import dataclasses

from common.config import Config, field


@dataclasses.dataclass
class ActorCriticConfig(Config):
    """Remedies for saturated policies, what the DDPG of Lillicrap et al. (2016) has, and torsos."""

    unit_norm: bool = field(False, suffix="unit_norm")
    """Divides the last features of pi by their Euclidean norm. Not in the paper; Bjorck et al.
    2022, against policies that saturate."""
    dqda_norm: float = field(0.0, minimum=0, suffix="dqda{:g}")
    """Largest norm of each state's dq/da, 0: any. Not in the paper; 1 in Acme's D4PG."""
    critic_learning_rate: float = field(0.0, minimum=0, suffix="critic_lr{:g}")
    """Step size of the critic's Adam, 0: learning_rate. Not in the paper; 1e-3 in DDPG, and 1e-4
    for the policy."""
    critic_decay: float = field(0.0, minimum=0, suffix="decay{:g}")
    """L2 weight decay of the critic: part of each weight that its gradient has in addition. Not in
    the paper; 0.01 in DDPG."""
    target_rate: float = field(1.0, above=0, maximum=1, suffix="tau{:g}")
    """Below 1, each update moves the targets this much towards the online networks, and
    target_period has no effect. Not in the paper, whose targets are copies; 0.001 in DDPG."""
    normalize_observations: bool = field(False, suffix="normalized")
    """Standardises flat observations by mean and standard deviation of all that the learner drew so
    far. Not in the paper; ReF-ER, for observations of unknown scales."""
    torso: str = field("mlp", choices=("mlp", "atari", "minatar"), suffix="{}")
    """Layers below both networks: mlp, none, for flat observations; for images the convolutions of
    DQN (atari, 36 x 36 or larger) or of MinAtar (minatar) and a layer, which the critic's loss
    alone trains. Not in the paper; SAC-AE, Yarats et al. 2021."""
    image_features: int = field(50, minimum=1, suffix="features{}")
    """Units of the layer above the convolutions, with LayerNorm and tanh. Not in the paper;
    SAC-AE."""

    def validate(self) -> None:
        """Adds that images are not normalised."""
        super().validate()
        self.require(
            self.torso == "mlp" or not self.normalize_observations,
            "torso",
            "mlp with normalize_observations, which is for flat observations",
        )


LILLICRAP: Mapping[str, object] = {
    "n_step": 1,
    "priority_exponent": 0.0,
    "batch_size": 64,
    "learning_rate": 1e-4,
    "critic_learning_rate": 1e-3,
    "critic_decay": 0.01,
    "target_rate": 0.001,
    "noise": "ou",
    "noise_sigma": 0.2,
    "policy_sizes": (400, 300),
    "critic_sizes": (400, 300),
    "layer_norm": True,
    # One actor, and an update after each of its steps, always with the newest parameters.
    "single_process": True,
    "actor_period": 1,
    "updates_per_call": 1,
    "samples_per_insert": 64.0,
}
"""The DDPG of Lillicrap et al. (2016, section 7), as both papers could have had it.

LayerNorm is in the place of its batch normalisation, of which the papers say nothing. Activations,
initialisers and the place where the action enters the critic stay those of the paper's own agent.
"""
