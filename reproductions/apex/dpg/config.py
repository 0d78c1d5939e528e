"""Hyperparameters of Ape-X DPG beyond those that it shares with DQN.

"Not in the paper" marks a value that the paper leaves open; the reason for ours stands beside it.
"""

import dataclasses

from common.config import field
from reproductions.apex.config import ApexConfig

NUM_ACTORS = 64
"""N (section 4.2); figure 3 varies it."""


@dataclasses.dataclass
class DPGConfig(ApexConfig):
    """Ape-X DPG on the Control Suite (section 4.2, appendix D)."""

    actor_period: int = field(400, minimum=1)
    """Steps of an actor between pulls of parameters: 400 frames (section 4.1, of DQN, where they
    are 100 steps), each a step here, without action repeats (section 4.2)."""
    n_step: int = field(5, minimum=1, suffix="n{}")
    """n, length of the returns. Not in the paper, whose 3 is said of Atari (appendix C); D4PG,
    which adds a distribution to this agent, found 5 uniformly better than 1."""
    batch_size: int = field(256, minimum=1, suffix="batch{}")
    """Transitions of an update (section 4.2)."""
    learning_rate: float = field(1e-4, above=0, suffix="lr{:g}")
    """Step size of both Adams (appendix D); from 1e-3 to 1e-5 were tried (appendix E)."""
    noise_sigma: float = field(0.3, minimum=0, suffix="sigma{:g}")
    """sigma, std of the noise of each step, in canonical action units (appendix D)."""
    policy_sizes: tuple[int, ...] = field((300, 200), above=0)
    """Hidden layers of pi (appendix D)."""
    critic_sizes: tuple[int, ...] = field((400, 300), above=0)
    """Hidden layers of q (appendix D)."""
    activation: str = field("elu", choices=("elu", "tanh"), suffix="{}")
    """After the second layer: elu or tanh. Not in the paper, which has a tanh after the first layer
    and says nothing of the second (appendix D). Acme's LayerNormMLP, by the same group, is built
    alike and has ELU there; tanh is the other reading."""
    layer_norm: bool = field(False, suffix="layer_norm")
    """LayerNorm before the first tanh. Not in the paper (appendix D names none); Acme has it.
    Without it the policy saturates, as the README shows."""
    dqda_clip: float = field(1.0, minimum=0, suffix="clip{:g}")
    """Clips each element of the policy's gradient, 0: none. "The gradient used to update the actor
    network is clipped, element-wise" (appendix D). That it is dq/da is Not in the paper; Acme. The
    other reading is the gradient of each weight."""
    max_gradient_norm: float = field(40.0, minimum=0, suffix="norm{:g}")
    """Largest norm of the critic's gradient, 0: any (appendix C; D: otherwise as per DQN)."""
    target_period: int = field(100, minimum=1)
    """Learner steps between copies of both targets (appendix D)."""
    replay_capacity: int = field(
        1_000_000,
        minimum=1,
        maximum=2**29,  # up to a removal the memory has room for twice as many
    )
    """Transitions, a soft limit (appendix D)."""
    removal: str = field("priority", choices=("priority", "fifo"), suffix="remove_by_{}")
    """Which transitions leave above the capacity: priority, drawn by p^removal_exponent (appendix
    D), or fifo, the oldest, as in DQN: "it remains to be seen which is superior"."""
    removal_exponent: float = field(-0.4, minimum=-7, maximum=0, suffix="removal{:g}")
    """alpha_evict (appendix D)."""
    updates_per_call: int = field(16, minimum=1)
    """Updates in one graph call, sampled ahead. Not in the paper; as many as prefetch, so that one
    call is drawn ahead while one runs."""
