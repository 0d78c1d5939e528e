"""Hyperparameters and declaration of the PPO with which ReF-ER is compared.

"Not in the paper" marks a value that the paper leaves open; the reason for our value follows.
The launcher reads this module, which imports neither TensorFlow nor NumPy.
"""

import dataclasses

from common.agents.declaration import AgentDeclaration
from common.config import Settings, field
from common.data.rollout_config import RolloutConfig
from common.program.layouts import ONE_PROCESS
from common.replay.footprint import rollout_bytes_per_step


@dataclasses.dataclass
class ReferPPOConfig(RolloutConfig):
    """PPO with a clipped objective (appendix A, "PPO")."""

    horizon: int = field(2048, minimum=1, suffix="h{}")
    """Environment steps per rollout, over all actors (appendix A)."""
    num_epochs: int = field(10, minimum=1, suffix="epochs{}")
    """Passes over a rollout (appendix A)."""
    batch_size: int = field(64, minimum=1, suffix="batch{}")
    """B, steps per update (appendix A)."""
    clip: float = field(0.2, above=0, below=1, suffix="clip{:g}")
    """Distance of rho from 1 at which the policy's gradient is clipped (appendix A)."""
    discount: float = field(0.995, minimum=0, maximum=1, suffix="discount{:g}")
    """gamma, per step (appendix A)."""
    trace: float = field(0.97, minimum=0, maximum=1, suffix="trace{:g}")
    """lambda of generalised advantage estimation (appendix A)."""
    policy_learning_rate: float = field(1e-4, above=0, suffix="policy_lr{:g}")
    """Adam's step size for the policy (appendix A)."""
    value_learning_rate: float = field(3e-4, above=0, suffix="value_lr{:g}")
    """Adam's step size for the value (appendix A)."""
    annealing: float = field(5e-7, minimum=0, suffix="A{:g}")
    """A of both learning rates, eta / (1 + A t), with t in environment steps (eq 13; appendix A:
    the same as in the other experiments)."""
    adam_beta1: float = field(0.9, minimum=0, below=1, suffix="momentum{:g}")
    """Adam's momentum. Not in the paper; Adam's default."""
    adam_beta2: float = field(0.999, minimum=0, below=1, suffix="decay{:g}")
    """Adam's decay of squares. Not in the paper; Adam's default."""
    adam_epsilon: float = field(1e-7, above=0, suffix="adam{:g}")
    """Adam's epsilon. Not in the paper; V-RACER's value here."""
    hidden_size: int = field(64, minimum=1, suffix="units{}")
    """Units of each of the two hidden layers (appendix A)."""
    recurrent: bool = field(False, suffix="recurrent")
    """LSTM layers instead of the hidden layers, as in flow control (section 5.4: "each method
    considered so far"; its figure 6 shows no PPO)."""
    lstm_size: int = field(32, minimum=1, suffix="cells{}")
    """Cells of each of the two LSTM layers of recurrent networks (section 5.4)."""
    history: int = field(16, minimum=0, suffix="history{}")
    """Number of earlier states from which recurrent networks act and learn at a step (section 5.4:
    the window of back-propagation). LSTMs start there from zeros."""
    noise_bound: float = field(3.0, above=0, suffix="bound{:g}")
    """Standard deviations at which the policy's noise is truncated (appendix A)."""
    initial_variance: float = field(0.2, above=0, suffix="variance{:g}")
    """Initial diagonal of Sigma. Not in the paper; V-RACER's, as in the authors' program."""

    def validate(self) -> None:
        """Adds the condition that `batch_size` divides `horizon`."""
        super().validate()
        self.require(
            self.horizon % self.batch_size == 0,
            "horizon",
            f"a multiple of batch_size ({self.batch_size})",
        )


SETTINGS = Settings(ReferPPOConfig, {"ppo": {}}, default="ppo")


AGENT = AgentDeclaration(
    name="refer_ppo",
    title="PPO",
    paper="refer",
    agent_class="reproductions.refer.ppo.ppo:ReferPPO",
    settings=SETTINGS,
    num_actors=lambda config, setting: 1,
    num_actors_help=(
        "Environments that step together, with one batch of actions. A rollout has the steps of "
        "all environments. Default: 1, as for the other agents (appendix C)."
    ),
    layouts=(ONE_PROCESS,),
    require="common.environments.spec:require_control",
    bytes_per_step=rollout_bytes_per_step,
)
