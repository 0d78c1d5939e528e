"""Hyperparameters and declaration of the distributed PPO with which D4PG is compared (section 4.3).

[H] is Heess et al. 2017 (arXiv 1707.02286), whose settings the paper uses. "Not in the paper" marks
a value that D4PG's paper leaves open; the reason for our value follows.
The launcher reads this module, which imports neither TensorFlow nor NumPy.
"""

import dataclasses

from common.agents.declaration import AgentDeclaration
from common.config import Settings, field
from common.data.rollout_config import RolloutConfig
from common.program.layouts import LEARNER_AND_ACTORS, ONE_PROCESS
from common.replay.footprint import rollout_bytes_per_step
from reproductions.d4pg.config import D4PGConfig

NUM_ACTORS = 64
"""K, the number of actors (section 4.3)."""


@dataclasses.dataclass
class D4PGPPOConfig(RolloutConfig):
    """PPO with a penalty of D_KL whose coefficient adapts (section 4.3, [H])."""

    unroll_length: int = field(50, minimum=1, suffix="unrolls{}")
    """Timesteps of an unroll, after which V replaces the rest of the return (section 4.3)."""
    num_unrolls: int = field(NUM_ACTORS, minimum=1, suffix="of{}")
    """Unrolls of a rollout, over all actors. Not in the paper; one from each of its 64 actors."""
    num_epochs: int = field(20, minimum=1, suffix="epochs{}")
    """Updates per rollout, each on all its steps. Not in the paper; 10 to 30 are common."""
    discount: float = field(0.99, minimum=0, maximum=1, suffix="gamma{:g}")
    """gamma, per step. Not in the paper; as in D4PG here."""
    trace: float = field(1.0, minimum=0, maximum=1, suffix="trace{:g}")
    """lambda of generalised advantage estimation; 1 gives the returns of [H], which extend to the
    end of the unroll."""
    kl_target: float = field(0.01, above=0, suffix="kl{:g}")
    """Desired D_KL from a rollout's policy to the next, in nats. Not in the paper; Schulman's
    program modular_rl."""
    kl_coefficient: float = field(1.0, above=0, suffix="penalty{:g}")
    """Initial coefficient of the penalty on D_KL. Not in the paper; modular_rl."""
    kl_tolerance: float = field(2.0, minimum=1, suffix="tolerance{:g}")
    """The coefficient grows if D_KL is above kl_target times this, and shrinks if it is below
    kl_target divided by this. Not in the paper; 1.5 in PPO, 1.3 and 1.4 in modular_rl."""
    kl_factor: float = field(1.5, above=1, suffix="factor{:g}")
    """Factor by which the coefficient grows or shrinks. Not in the paper; modular_rl. 2 in PPO."""
    kl_hinge: float = field(1000.0, minimum=0, suffix="hinge{:g}")
    """Weight of the squared excess of D_KL over twice its target. [H] gives no value;
    modular_rl."""
    policy_learning_rate: float = field(3e-4, above=0, suffix="policy_lr{:g}")
    """Step size of the policy's Adam. Not in the paper; a common value for PPO."""
    value_learning_rate: float = field(1e-3, above=0, suffix="value_lr{:g}")
    """Step size of the value network's Adam. Not in the paper; modular_rl's."""
    adam_beta1: float = field(0.9, minimum=0, below=1, suffix="momentum{:g}")
    """Adam's momentum. Not in the paper; Adam's default."""
    adam_beta2: float = field(0.999, minimum=0, below=1, suffix="decay{:g}")
    """Adam's decay of squared gradients. Not in the paper; Adam's default."""
    adam_epsilon: float = field(1e-8, above=0, suffix="adam{:g}")
    """Adam's epsilon. Not in the paper; Adam's default."""
    initial_variance: float = field(0.25, above=0, suffix="variance{:g}")
    """Initial variance of each action element, in squared canonical action units. Not in the paper;
    a standard deviation of half the distance from 0 to the bounds."""
    observation_clip: float = field(5.0, above=0, suffix="obs{:g}")
    """Bound on standardised observations. Not in the paper; modular_rl's."""
    policy_sizes: tuple[int, ...] = field(D4PGConfig.policy_sizes, above=0)
    """Units of the policy's hidden layers, as in D4PG (section 4.3)."""
    critic_sizes: tuple[int, ...] = field(D4PGConfig.critic_sizes, above=0)
    """Units of V's hidden layers. Not in the paper; as in D4PG's critic."""
    terrain_sizes: tuple[int, ...] = field(D4PGConfig.terrain_sizes, above=0)
    """Units of each network's layers for the heights of parkour's terrain, as in D4PG (section
    4.3)."""
    layer_norm: bool = field(D4PGConfig.layer_norm, suffix="layer_norm")
    """LayerNorm before the first tanh, as in D4PG here."""
    noisy_evaluation: bool = field(False, suffix="noisy_evaluation", earlier=True)
    """Evaluates the policy with its noise. The paper tests "without exploration noise" (section 4),
    but PPO improves the policy with noise, and its mean alone may be far worse."""
    single_process: bool = field(False, suffix="single_process")
    """Acts and learns in turns in one process, so that a run does not depend on the machine's
    speed. Not in the paper, which is distributed; used by the scale small."""

    @property
    def horizon(self) -> int:
        """Steps of a rollout."""
        return self.unroll_length * self.num_unrolls

    @property
    def batch_size(self) -> int:
        """Steps per update: a whole rollout, since [H] averages gradients of equal workers."""
        return self.horizon


SETTINGS = Settings(D4PGPPOConfig, {"ppo": {}}, default="ppo")


AGENT = AgentDeclaration(
    name="d4pg_ppo",
    title="PPO",
    paper="d4pg",
    agent_class="reproductions.d4pg.ppo.ppo:D4PGPPO",
    settings=SETTINGS,
    num_actors=lambda config, setting: NUM_ACTORS,
    num_actors_help=(
        f"K, actors: {NUM_ACTORS} (section 4.3), the default. Each collects its share of a rollout."
    ),
    layouts=(LEARNER_AND_ACTORS, ONE_PROCESS),
    require="reproductions.d4pg.config:require",
    bytes_per_step=rollout_bytes_per_step,
)
