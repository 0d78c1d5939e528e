"""Ape-X DPG's settings and declaration, and the hyperparameters that it does not share with DQN.

"Not in the paper" marks a value that the paper leaves open; the reason for our value follows.
The launcher reads this module, which imports neither TensorFlow nor NumPy.
"""

import dataclasses

from common.agents.actor_critic_config import LILLICRAP, ActorCriticConfig
from common.agents.declaration import AgentDeclaration
from common.config import Settings, field
from common.program.layouts import DISTRIBUTED, ONE_PROCESS
from common.replay.footprint import transition_bytes_per_step
from reproductions.apex.config import ApexConfig

NUM_ACTORS = 64
"""N, the number of actors (section 4.2); figure 3 varies it."""


@dataclasses.dataclass
class DPGConfig(ApexConfig, ActorCriticConfig):
    """Ape-X DPG on the Control Suite (section 4.2, appendix D)."""

    actor_period: int = field(400, minimum=1)
    """Steps of an actor between pulls of parameters: 400 frames (section 4.1, for DQN, where they
    are 100 steps). Here a frame is a step, without action repeats (section 4.2)."""
    n_step: int = field(3, minimum=1, suffix="n{}")
    """n, length of the returns: 3 for DQN (appendix C), and hyperparameters are "otherwise as per
    DQN" (appendix D). D4PG, which adds a distribution to this agent, uses 5."""
    batch_size: int = field(256, minimum=1, suffix="batch{}")
    """Transitions per update (section 4.2)."""
    learning_rate: float = field(1e-4, above=0, suffix="lr{:g}")
    """Step size of both Adams (appendix D); values from 1e-3 to 1e-5 were tried (appendix E)."""
    noise_sigma: float = field(0.3, minimum=0, suffix="sigma{:g}")
    """sigma, std of the noise added per step, in canonical action units (appendix D)."""
    noise: str = field("gaussian", choices=("gaussian", "ou"), suffix="{}")
    """gaussian (appendix D), or ou: Ornstein-Uhlenbeck, as in DDPG. Not in the paper."""
    ou_theta: float = field(0.15, above=0, maximum=1, suffix="theta{:g}")
    """theta, fraction of the OU noise lost per step. Not in the paper; DDPG."""
    policy_sizes: tuple[int, ...] = field((300, 200), above=0)
    """Units of pi's hidden layers (appendix D)."""
    critic_sizes: tuple[int, ...] = field((400, 300), above=0)
    """Units of q's hidden layers (appendix D)."""
    activation: str = field("elu", choices=("elu", "tanh"), suffix="{}")
    """Activation after the second layer. Not in the paper, which has a tanh after the first layer
    and mentions none after the second (appendix D). Acme's LayerNormMLP, by the same group, has the
    same structure with ELU there; tanh is the other reading."""
    layer_norm: bool = field(False, suffix="layer_norm")
    """LayerNorm before the first tanh. Not in the paper (appendix D mentions none); Acme uses it.
    Without it the policy saturates, as the README shows."""
    dqda_clip: float = field(1.0, minimum=0, suffix="clip{:g}")
    """Bound on each element of the policy's gradient; 0: none. "The gradient used to update the
    actor network is clipped, element-wise" (appendix D). That this means dq/da is Not in the paper;
    Acme."""
    weight_clip: float = field(0.0, minimum=0, suffix="weight_clip{:g}")
    """Bound on each element of the gradient of the policy's weights; 0: none. With dqda_clip=0, the
    other reading of appendix D."""
    max_gradient_norm: float = field(40.0, minimum=0, suffix="norm{:g}")
    """Maximum norm of the critic's gradient; 0: no limit (appendix C; D: "otherwise as per
    DQN")."""
    target_period: int = field(100, minimum=1)
    """Learner steps between copies of both targets (appendix D)."""
    replay_capacity: int = field(
        1_000_000,
        minimum=1,
        maximum=2**29,  # the memory has room for twice the capacity, until the next removal
    )
    """Transitions, a soft limit (appendix D)."""
    removal: str = field("priority", choices=("priority", "fifo"), suffix="remove_by_{}")
    """Which transitions above the capacity are removed: drawn by p^removal_exponent (priority,
    appendix D), or the oldest (fifo), as in DQN; "it remains to be seen which is superior"."""
    removal_exponent: float = field(-0.4, minimum=-7, maximum=0, suffix="removal{:g}")
    """alpha_evict (appendix D)."""
    updates_per_call: int = field(16, minimum=1, may_change=True)
    """Updates per graph call, sampled beforehand. Not in the paper; the same as prefetch, so that
    one call is drawn ahead while one runs."""


SETTINGS = Settings(
    DPGConfig,
    {
        "dpg": {},
        # Appendix E: exponents from 0 to 1, of which 0.6 is the default, and learning rates from
        # 1e-3 to 1e-5. The values in between are not in the paper.
        "dpg_uniform": {"priority_exponent": 0.0},
        **{
            f"dpg_alpha{alpha:g}": {"priority_exponent": alpha}
            for alpha in (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.8, 0.9, 1.0)
        },
        **{f"dpg_lr{rate:g}": {"learning_rate": rate} for rate in (1e-3, 3e-4, 3e-5, 1e-5)},
        # Appendix E: batch sizes.
        **{f"dpg_batch{size}": {"batch_size": size} for size in (32, 128, 512, 1024)},
        "dpg_remove_by_fifo": {"removal": "fifo"},  # appendix D: "it remains to be seen"
        # Figure 3's "standard DDPG baseline". Its values are not in the paper; these are DDPG's.
        "ddpg": {
            **LILLICRAP,
            "removal": "fifo",
            "dqda_clip": 0.0,
            "max_gradient_norm": 0.0,
            "prefetch": 1,
        },
    },
    default="dpg",
)
"""The agent and its studies by name, each with the values in which it differs from the default."""


AGENT = AgentDeclaration(
    name="apex_dpg",
    title="Ape-X DPG",
    paper="apex",
    agent_class="reproductions.apex.dpg.dpg:ApexDPG",
    settings=SETTINGS,
    num_actors=lambda config, setting: 1 if setting == "ddpg" else NUM_ACTORS,
    num_actors_help=f"N, actors: {NUM_ACTORS} (section 4.2), or 1 for DDPG; figure 3 varies it.",
    layouts=(DISTRIBUTED, ONE_PROCESS),
    require="common.environments.spec:require_control",
    bytes_per_step=transition_bytes_per_step,
)
