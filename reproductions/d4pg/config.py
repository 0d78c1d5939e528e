"""D4PG's hyperparameters, settings and declaration.

"Not in the paper" marks a value that the paper leaves open; the reason for our value follows.
The launcher reads this module, which imports neither TensorFlow nor NumPy.
"""

from collections.abc import Mapping
import dataclasses
from typing import TYPE_CHECKING

from common.agents.actor_critic_config import LILLICRAP, ActorCriticConfig
from common.agents.declaration import AgentDeclaration
from common.config import Settings, field
from common.program.layouts import DISTRIBUTED, ONE_PROCESS
from common.replay.footprint import transition_bytes_per_step

if TYPE_CHECKING:
    from common.environments.spec import EnvironmentSpec

NUM_ACTORS = 32
"""K, actors on the Control Suite (section 4.1); 64 for hand and parkour (4.2, 4.3), 1 for DDPG."""


@dataclasses.dataclass
class D4PGConfig(ActorCriticConfig):
    """D4PG on the Control Suite (figure 2, "D4PG, Prioritized, N = 5")."""

    critic: str = field("categorical", choices=("categorical", "scalar", "mixture"), suffix="{}")
    """Output of Z_w: categorical (D4PG), scalar (D3PG, DDPG) or mixture of Gaussians (section 4,
    appendix A, figure 8)."""
    n_step: int = field(5, minimum=1, suffix="n{}")
    """N, length of the returns (section 4); 1 in the ablations."""
    discount: float = field(0.99, minimum=0, maximum=1, suffix="gamma{:g}")
    """gamma, per step. Not in the paper; DDPG's value, on which D4PG builds."""
    batch_size: int = field(256, minimum=1)
    """M; 512 beyond the Control Suite (section 4)."""
    learning_rate: float = field(1e-4, above=0, suffix="lr{:g}")
    """alpha_0 = beta_0, both Adams' step size (section 4); 5e-5 beyond the Control Suite and in
    figure 8's legend."""
    noise: str = field("gaussian", choices=("gaussian", "ou"), suffix="{}")
    """gaussian, or ou: Ornstein-Uhlenbeck, tried and found unnecessary (section 4)."""
    noise_sigma: float = field(0.3, minimum=0, suffix="sigma{:g}")
    """epsilon, std of the noise added per step, in canonical action units (section 4)."""
    ou_theta: float = field(0.15, above=0, maximum=1, suffix="theta{:g}")
    """theta, fraction of the OU noise lost per step. Not in the paper; DDPG, whose sigma is 0.2.
    With noise_sigma 0.3 the noise tends to a std of 0.57."""
    num_atoms: int = field(51, minimum=2, suffix="atoms{}")
    """l; 101 for humanoid parkour (sections 4, 4.3)."""
    v_min: float = field(-150.0, suffix="vmin{:g}")
    """Vmin. Not in the paper; Acme. Rewards in [0, 1] give returns in [0, 100], a third of the
    range; an ablation uses 0 to 100."""
    v_max: float = field(150.0, suffix="vmax{:g}")
    """Vmax. Not in the paper; Acme."""
    num_components: int = field(5, minimum=1)
    """l, number of Gaussians in a mixture. Not in the paper; Acme."""
    num_target_samples: int = field(128, minimum=1)
    """J, samples z_j drawn from a target mixture (appendix A). Their number is Not in the paper;
    Acme."""
    min_variance: float = field(1e-4, above=0)
    """Added to each sigma_i^2. Not in the paper; a Gaussian that shrinks to a point has an
    unbounded likelihood."""
    policy_gradient_state: str = field("first", choices=("first", "last"), suffix="gradient_at_{}")
    """State of the policy gradient: first, x_i (algorithm 1), or last, x_{i+N} (Acme)."""
    policy_sizes: tuple[int, ...] = field((300, 200), above=0)
    """Units of pi's hidden layers. Figure 1 shows them, but our copy of the text lacks the numbers;
    Ape-X appendix D (the same authors)."""
    critic_sizes: tuple[int, ...] = field((400, 300), above=0)
    """Units of Z's hidden layers. Our copy of the text lacks them as well; Ape-X appendix D."""
    terrain_sizes: tuple[int, ...] = field((200, 100), above=0)
    """Units of each network's layers for the heights of parkour's terrain, before they join the
    other inputs (section 4.3). Sizes are Not in the paper; two layers like the policy's, but
    narrower."""
    layer_norm: bool = field(True, suffix="layer_norm")
    """LayerNorm before the first tanh. Not in the paper; Acme, by the same group."""
    max_gradient_norm: float = field(0.0, minimum=0, suffix="norm{:g}")
    """Maximum gradient norm of each network; 0: no limit. Not in the paper; 40 in Acme."""
    target_period: int = field(100, minimum=1)
    """t_target, in learner steps. Not in the paper; Ape-X appendix D."""
    actor_period: int = field(400, minimum=1)
    """t_actors, steps of an actor between pulls of (theta, w). Not in the paper; Ape-X section 4.1
    (400 frames). As in our Ape-X DPG, a frame is a step, without action repeats."""
    replay_capacity: int = field(1_000_000, minimum=1, maximum=2**30)
    """R, transitions (section 4)."""
    min_replay_size: int = field(10_000, minimum=1)
    """Transitions before the first update. Not in the paper; Acme waits for 1,000, Ape-X for
    50,000."""
    priority_exponent: float = field(0.6, minimum=0, maximum=7, suffix="alpha{:g}")
    """alpha in p^alpha; 0: uniform. Not in the paper; Ape-X appendix D. Algorithm 1 has no
    exponent, which means 1."""
    importance_exponent: float = field(1.0, minimum=0, suffix="beta{:g}")
    """beta in (1 / (R p_i))^beta; 0: no weights. Algorithm 1 has no exponent, which taken literally
    means 1. Ape-X's 0.4 would contradict it."""
    removal: str = field("fifo", choices=("fifo", "priority"), suffix="remove_by_{}")
    """Which transitions a full replay removes: the oldest (fifo), or drawn by p^removal_exponent
    (priority). Not in the paper, which refers to Ape-X, whose DQN uses fifo and whose DPG uses
    priority."""
    removal_exponent: float = field(-0.4, minimum=-7, maximum=0, suffix="removal{:g}")
    """Exponent of p if removal is priority. Not in the paper; Ape-X appendix D."""
    send_batch: int = field(50, minimum=1, may_change=True)
    """Transitions an actor process sends at once (Ape-X section 4.1, to which the paper refers)."""
    send_buffer: int = field(100, minimum=1, earlier=200, may_change=True)
    """Maximum number of transitions waiting to be sent; then acting waits (Ape-X section 4.1). They
    are sent in whole batches, and the batch being sent does not count."""
    samples_per_insert: float = field(0.0, minimum=0)
    """Samples per inserted transition; learner or actors wait to keep it. 0: unlimited, as in the
    paper (Ape-X section 3). A limit makes machines comparable."""
    updates_per_call: int = field(16, minimum=1, may_change=True)
    """Updates per graph call, sampled beforehand. Not in the paper; Ape-X section 4.1 prefetches 16
    batches."""
    single_process: bool = field(False, suffix="single_process")
    """Acts and learns in turns in one process, as only DDPG does in the paper: "canonical
    (non-distributed)" (section 4.1)."""

    def validate(self) -> None:
        """Adds the conditions on the atoms, on the replay's size and on a single process."""
        super().validate()
        self.require_atoms()
        self.require_at_most("replay_capacity", "batch_size", "min_replay_size", "send_batch")
        self.require(
            self.samples_per_insert > 0 or not self.single_process,
            "samples_per_insert",
            "above 0 with single_process, where it paces the updates (batch_size: one per step)",
        )


_UNIFORM = {"priority_exponent": 0.0}
_SCALAR = {"critic": "scalar"}

FIGURE_2: Mapping[str, Mapping[str, object]] = {
    "d3pg_uniform_n1": {**_SCALAR, **_UNIFORM, "n_step": 1},
    "d3pg_uniform_n5": {**_SCALAR, **_UNIFORM},
    "d3pg_prioritized_n1": {**_SCALAR, "n_step": 1},
    "d3pg_prioritized_n5": _SCALAR,
    "d4pg_uniform_n1": {**_UNIFORM, "n_step": 1},
    "d4pg_uniform_n5": _UNIFORM,
    "d4pg_prioritized_n1": {"n_step": 1},
    "d4pg_prioritized_n5": {},
    # "The canonical (non-distributed) DDPG": one actor, and an update after each of its steps,
    # always with the newest parameters.
    "ddpg": {
        **_SCALAR,
        **_UNIFORM,
        "n_step": 1,
        "single_process": True,
        "actor_period": 1,
        "updates_per_call": 1,
        "samples_per_insert": 256.0,
    },
}
"""Figure 2's nine curves, in the order of its legend."""

SETTINGS = Settings(
    D4PGConfig,
    {
        **FIGURE_2,
        # The other reading of "canonical DDPG": with the values of the paper that it cites.
        "ddpg_lillicrap": {**LILLICRAP, **_SCALAR},
        # Figure 8's three curves. Prioritised replay and N = 5 are not in the paper.
        "d4pg_prioritized_n5_lr5e-05": {"learning_rate": 5e-5},
        "d4pg_mixture_prioritized_n5_lr5e-05": {"critic": "mixture", "learning_rate": 5e-5},
        "d4pg_mixture_prioritized_n5": {"critic": "mixture"},
    },
    default="d4pg_prioritized_n5",
)
"""The paper's variants by name, each with the values in which it differs from the default."""


def require(config: D4PGConfig, spec: "EnvironmentSpec") -> None:
    """Raises a one-line ValueError unless this configuration can act in an environment."""
    from common.environments.spec import require_control

    require_control(config, spec)
    if not spec.terrain_size and config.terrain_sizes != D4PGConfig().terrain_sizes:
        raise ValueError(
            f"--config.terrain_sizes is {config.terrain_sizes}, but --environment has no terrain "
            "heights: omit the flag, or name an environment that has them, such as parkour:planar"
        )


AGENT = AgentDeclaration(
    name="d4pg",
    title="D4PG",
    paper="d4pg",
    agent_class="reproductions.d4pg.d4pg:D4PG",
    settings=SETTINGS,
    num_actors=lambda config, setting: 1 if config.single_process else NUM_ACTORS,
    num_actors_help=(
        f"K, actors: {NUM_ACTORS} on the Control Suite, the default; 64 elsewhere "
        "(sections 4.1 to 4.3); 1 in a single process (DDPG)."
    ),
    layouts=(DISTRIBUTED, ONE_PROCESS),
    require="reproductions.d4pg.config:require",
    bytes_per_step=transition_bytes_per_step,
)
