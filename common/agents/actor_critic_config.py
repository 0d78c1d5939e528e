"""Hyperparameters of agents with a deterministic policy and a critic that their papers leave out.

All are off by default, and also in runs that were started before the field existed. This module
imports neither TensorFlow nor NumPy.
"""

from collections.abc import Mapping
import dataclasses

from common.config import Config, field


@dataclasses.dataclass
class ActorCriticConfig(Config):
    """Remedies for saturated policies, options of Lillicrap et al.'s DDPG (2016), and torsos."""

    unit_norm: bool = field(False, suffix="unit_norm")
    """Divides the output of pi's last hidden layer by its Euclidean norm. Not in the paper; Bjorck
    et al. 2022, against policies that saturate."""
    dqda_norm: float = field(0.0, minimum=0, suffix="dqda{:g}")
    """Maximum norm of each state's dq/da; 0: no limit. Not in the paper; 1 in Acme's D4PG."""
    critic_learning_rate: float = field(0.0, minimum=0, suffix="critic_lr{:g}")
    """Step size of the critic's Adam; 0: learning_rate. Not in the paper; DDPG has 1e-3, and 1e-4
    for the policy."""
    critic_decay: float = field(0.0, minimum=0, suffix="decay{:g}")
    """L2 weight decay: this multiple of each critic weight, except biases, is added to its
    gradient. Not in the paper; 0.01 in DDPG."""
    target_rate: float = field(1.0, above=0, maximum=1, suffix="tau{:g}")
    """If below 1, each update moves the targets by this fraction towards the online networks, and
    target_period has no effect. Not in the paper, whose targets are copies; 0.001 in DDPG."""
    normalize_observations: bool = field(False, suffix="normalized")
    """Standardises flat observations by the mean and standard deviation of all that the learner has
    drawn so far. Not in the paper; ReF-ER, for observations of unknown scales."""
    torso: str = field("mlp", choices=("mlp", "atari", "minatar"), suffix="{}")
    """Layers below both networks: for flat observations none (mlp); for images the convolutions of
    DQN (atari, at least 36 x 36) or of MinAtar (minatar), then one layer, all trained by the
    critic's loss alone. Not in the paper; SAC-AE, Yarats et al. 2021."""
    image_features: int = field(50, minimum=1, suffix="features{}")
    """Units of the layer after the convolutions, which has LayerNorm and tanh. Not in the paper;
    SAC-AE."""

    def validate(self) -> None:
        """Adds the condition that images are not normalised; see base class."""
        super().validate()
        self.require(
            self.torso == "mlp" or not self.normalize_observations,
            "torso",
            "mlp with normalize_observations, which is for flat observations",
        )


LILLICRAP: Mapping[str, object] = {
    "n_step": 1,  # algorithm 1: y_i = r_i + gamma Q'(s_{i+1}, mu'(s_{i+1}))
    "priority_exponent": 0.0,  # section 3: "sampling a minibatch uniformly from the buffer"
    "batch_size": 64,  # section 7, "for the low dimensional problems"
    "learning_rate": 1e-4,  # section 7, Adam of the actor
    "critic_learning_rate": 1e-3,  # section 7, Adam of the critic
    "critic_decay": 0.01,  # section 7: "For Q we included L2 weight decay"
    "target_rate": 0.001,  # section 7, tau "for the soft target updates"
    "noise": "ou",  # sections 3 and 7
    "noise_sigma": 0.2,  # section 7
    "policy_sizes": (400, 300),  # section 7, "the low-dimensional networks"
    "critic_sizes": (400, 300),  # section 7
    "layer_norm": True,  # not in the paper: section 3 has batch normalisation
    # Algorithm 1: one actor, and an update after each of its steps, with the newest parameters.
    "single_process": True,
    "actor_period": 1,
    "updates_per_call": 1,
    "samples_per_insert": 64.0,
}
"""Values for the DDPG of Lillicrap et al. (2016, arXiv 1509.02971), a baseline of both papers.

Its theta of 0.15, discount of 0.99 and replay of 10^6 (section 7) are defaults of both agents.
LayerNorm replaces its batch normalisation, which the papers do not mention. The rest is as in each
paper's own agent: the activations, which are ReLU in DDPG (section 7); the initialisers, in DDPG
uniform in +-1/sqrt(inputs), and +-0.003 for the last layers; and the layer where the action enters
the critic, in DDPG the second.
"""
