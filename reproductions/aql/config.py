"""Hyperparameters, settings and declaration of AQL and of the methods to which it is compared.

"Not in the paper" marks a value that the paper leaves open and is followed by the reason for the
value chosen. Layer sizes are in figure 1's drawing, which the PDF's text lacks.
The launcher reads this module, which imports neither TensorFlow nor NumPy.
"""

from collections.abc import Mapping
import dataclasses
import itertools
import math
from typing import TYPE_CHECKING

from common.agents.declaration import AgentDeclaration
from common.config import Config, Settings, field
from common.program.layouts import ACTORS_WITH_REPLAY, ONE_PROCESS_WITH_REPLAYS
from common.replay.footprint import unroll_bytes_per_step, unroll_queue_bytes

if TYPE_CHECKING:
    from common.environments.spec import EnvironmentSpec

NUM_ACTORS = 100
"""Number of actors (appendix A1)."""

MAX_CHOICES = 10_000
"""Maximum number of choices per sub-action, each an output of the proposal. Not in the paper."""

MAX_EXACT_ACTIONS = 10_000
"""Maximum number of actions for exact search or a flat policy.

Not in the paper, which has 3,528 (section 5.2).
"""


@dataclasses.dataclass
class AQLConfig(Config):
    """Q-learning with one of five searches for the best action, or IMPALA (sections 4 and 5)."""

    search: str = field(
        "proposal", choices=("proposal", "uniform", "cem", "exact", "policy", "none"), suffix="{}"
    )
    """How an actor finds the best action: proposal, by learned and uniform samples (section 4);
    uniform, by uniform samples; cem, the cross-entropy method of QT-Opt (section 5.1); exact, all
    actions (section 5.2); policy, D3PG's deterministic policy (section 5.1); none, a sample of
    IMPALA's policy (section 5.1)."""
    num_proposal_samples: int = field(100, minimum=0, suffix="N{}")
    """N, samples of the proposal; with search=uniform, additional uniform samples (section 5.1)."""
    num_uniform_samples: int = field(400, minimum=0, suffix="M{}")
    """M, uniform samples (section 5.1); 500 for DeepMind Lab (section 5.2)."""
    action_set: str = field("own", choices=("own", "structured", "curated"), suffix="{}")
    """Actions to choose from: own, the environment's; structured, the 3,528 combinations of
    DeepMind Lab's seven integers; curated, 11 of them (section 5.2). The values and the 11 actions
    are Not in the paper."""
    num_levels: int = field(5, minimum=0, suffix="levels{}")
    """Number of values of a discretised sub-action, from -1 to 1; 0 leaves sub-actions continuous
    (section 5.1). It has no effect if actions are integers."""
    autoregressive: bool = field(True, suffix="autoregressive")
    """Whether a sub-action of the proposal depends on those before it (section 4) or on the state
    alone (appendix A3)."""
    gaussian_variance: float = field(0.25, above=0, suffix="variance{:g}")
    """Variance of a continuous sub-action's proposal (section 5.1); the standard deviation is
    0.5."""
    entropy_cost: float = field(0.1, minimum=0, suffix="entropy{:g}")
    """lambda of eq 3. Its value is Not in the paper; with 0.1 the proposal's probability of a best
    value that never changes tends to 0.9998: REFERENCE.md, "The entropy cost"."""
    impala_reward_scale: float = field(0.01, above=0, suffix="reward_scale{:g}")
    """Factor that multiplies IMPALA's rewards: 1 - gamma, so that values on the Control Suite are
    in [0, 1]. Not in the paper; with values in [0, 100] the baseline lags for hundreds of updates,
    and meanwhile the policy becomes deterministic by chance."""
    impala_entropy_cost: float = field(0.001, minimum=0, suffix="impala_entropy{:g}")
    """Bonus per step of a uniform IMPALA policy for its entropy, in scaled rewards; a nat is worth
    this divided by ln |A|. Not in the paper: a tenth of the best reward of a step, which is 1 on
    the Control Suite, times the scale of rewards; figures.toml has the values for mazes and rover.
    With a larger bonus near-uniform policies are optimal."""
    baseline_cost: float = field(0.5, minimum=0, suffix="baseline{:g}")
    """Weight of IMPALA's baseline loss. Not in the paper; the value of IMPALA's program."""
    cem_samples: int = field(100, minimum=1, suffix="K{}")
    """K, samples per iteration of QT-Opt (section 5.1)."""
    cem_elites: int = field(10, minimum=1, suffix="L{}")
    """L, best samples to which a Gaussian is fitted (section 5.1)."""
    cem_iterations: int = field(3, minimum=1, suffix="iterations{}")
    """Iterations of QT-Opt (section 5.1). That the first draws uniform samples is Not in the
    paper."""
    cem_min_std: float = field(0.01, minimum=0, suffix="floor{:g}")
    """Minimum standard deviation of QT-Opt's Gaussians. Not in the paper; without it the search
    stops where the elites agree."""
    cem_uniform_samples: int = field(
        400, minimum=0, suffix="cem_uniform{}", may_change=lambda of: of["search"] != "cem"
    )
    """Additional uniform candidates of QT-Opt. Section 5.1 says that all methods except D3PG have
    400, but describes QT-Opt without them; 0 is the other reading."""
    ou_theta: float = field(0.15, above=0, maximum=1, suffix="theta{:g}")
    """theta of D3PG's Ornstein-Uhlenbeck noise (section 5.1)."""
    ou_sigma: float = field(0.2, minimum=0, suffix="sigma{:g}")
    """sigma of D3PG's Ornstein-Uhlenbeck noise (section 5.1)."""
    target_period: int = field(100, minimum=1, suffix="target{}")
    """Updates between copies to D3PG's target networks. Not in the paper; as in Acme's D4PG. The
    other methods have no target network (appendix A2)."""
    epsilon: float = field(0.05, minimum=0, maximum=1, suffix="epsilon{:g}")
    """Probability of a uniform action for most actors, 90 of 100 (appendix A2)."""
    high_epsilon: float = field(0.5, minimum=0, maximum=1, suffix="high_epsilon{:g}")
    """Probability of a uniform action for the first tenth of the actors, 10 of 100 (appendix
    A2)."""
    unroll_length: int = field(30, minimum=2, suffix="unrolls{}")
    """T, timesteps per unroll (appendix A2); 100 for DeepMind Lab."""
    batch_size: int = field(32, minimum=1, suffix="batch{}")
    """B, unrolls per update (appendix A2)."""
    replayed_unrolls: int = field(2, minimum=0, suffix="R{}")
    """R, unrolls that an actor draws from its replay for each new unroll (appendix A2)."""
    replay_capacity: int = field(100_000, minimum=1, maximum=2**30, suffix="replay{}")
    """Timesteps that each actor's replay holds (appendix A1, appendix A2)."""
    queue_capacity: int = field(64, minimum=1, may_change=True)
    """Unrolls that the learner's queue holds. Not in the paper; two batches, so that actors fill
    one while the learner uses the other."""
    discount: float = field(0.99, minimum=0, maximum=1, suffix="discount{:g}")
    """gamma (appendix A2)."""
    trace: float = field(0.8, minimum=0, maximum=1, suffix="trace{:g}")
    """lambda of Q(lambda) (appendix A2)."""
    optimizer: str = field("adam", choices=("adam", "rmsprop"), suffix="{}")
    """adam (section 5.1, appendix A2), or rmsprop (appendix A3, figure 11)."""
    learning_rate: float = field(2e-4, above=0, suffix="lr{:g}")
    """Step size of both optimisers (appendix A2)."""
    adam_beta1: float = field(0.9, minimum=0, below=1, suffix="momentum{:g}")
    """Adam's momentum: TensorFlow's default (appendix A2)."""
    adam_beta2: float = field(0.999, minimum=0, below=1, suffix="decay{:g}")
    """Adam's decay of squares: TensorFlow's default (appendix A2)."""
    adam_epsilon: float = field(1e-8, above=0, suffix="adam{:g}")
    """Adam's epsilon: TensorFlow 1's default (appendix A2); Keras's is 1e-7."""
    rmsprop_decay: float = field(0.99, minimum=0, below=1, suffix="rmsprop_decay{:g}")
    """RMSProp's decay. Not in the paper; as in IMPALA's program."""
    rmsprop_epsilon: float = field(0.1, above=0, suffix="rmsprop{:g}")
    """RMSProp's epsilon. Not in the paper; as in IMPALA's program."""
    shared_sizes: tuple[int, ...] = field((), above=0, suffix="shared{}")
    """Units of the hidden layers that Q and the proposal share, trained by Q's loss: none on the
    Control Suite (appendix A1). Figure 11's deeper network (appendix A3) has some; their sizes are
    Not in the paper: 4 layers of 128 units, two of them shared."""
    channels: tuple[int, ...] = field((), above=0, suffix="channels{}")
    """Channels of each section of the residual network for images, which precedes an LSTM: 16, 32
    and 32 in DeepMind Lab (appendix A1). If empty, for flat observations, there is neither."""
    lstm_size: int = field(256, minimum=1, suffix="lstm{}")
    """Units of the LSTM and of the layer before it (appendix A1). It has no effect without
    channels."""
    flat_policy: bool = field(False, suffix="flat_policy")
    """Makes IMPALA's policy one softmax over all actions, for DeepMind Lab, instead of a product
    over sub-actions. Not in the paper, which says that 3,528 actions slow IMPALA down."""
    state_size: int = field(256, minimum=1)
    """Units of Q's state embedding. Not in the paper's text, which lacks figure 1."""
    action_size: int = field(256, minimum=1)
    """Units of Q's action embedding. Not in the paper's text, which lacks figure 1."""
    joint_sizes: tuple[int, ...] = field((256, 256), above=0)
    """Units of Q's layers after both embeddings. Not in the paper's text, which lacks figure 1."""
    proposal_sizes: tuple[int, ...] = field((256, 256), above=0)
    """Units of the hidden layers of the proposal, and of D3PG's and IMPALA's policies. Not in the
    paper's text, which lacks figure 1; wide and shallow, since figure 11's network is "deeper but
    had fewer units"."""
    policy_network: str = field(
        "proposal",
        choices=("proposal", "d4pg"),
        suffix="network_of_{}",
        earlier="d4pg",
        may_change=lambda of: of["search"] != "policy",
    )
    """Hidden layers of D3PG's policy: proposal, ReLU layers like the proposal's, since "all
    architectural details that are not specific to the method" are held fixed (section 5.1); or
    d4pg, layers like D4PG's, with LayerNorm, tanh and ELU."""
    updates_per_call: int = field(1, minimum=1, may_change=True)
    """Updates per graph call. Not in the paper, where each update is a call."""
    single_process: bool = field(False, suffix="single_process")
    """Acts and learns alternately in one process, so that a run does not depend on the machine's
    speed; for the scale small. Not in the paper, which is distributed (appendix A1)."""

    @property
    def actor_period(self) -> int:
        """Timesteps between pulls of parameters: an unroll. Not in the paper; as IMPALA does."""
        return self.unroll_length

    @property
    def min_replay_size(self) -> int:
        """Steps before the first update, in addition to those of a batch: 0 (algorithm 2)."""
        return 0

    @property
    def samples_per_insert(self) -> float:
        """Timesteps learnt from per acting step: a new unroll and the unrolls replayed with it."""
        return 1.0 + self.replayed_unrolls

    def validate(self) -> None:
        """Adds the conditions on samples, levels and the sizes of replay and queue."""
        super().validate()
        self.require(
            self.num_proposal_samples + self.num_uniform_samples > 0,
            "num_uniform_samples",
            "above 0 if num_proposal_samples is 0",
        )
        self.require(self.num_levels != 1, "num_levels", "0 or at least 2")
        if self.search in ("cem", "policy"):
            self.require(self.num_levels == 0, "num_levels", f"0 with search={self.search}")
        if self.search in ("exact", "none"):
            self.require(self.num_levels > 0, "num_levels", f"above 0 with search={self.search}")
        if self.channels:
            self.require(
                self.search not in ("cem", "policy"), "search", "neither cem nor policy for images"
            )
            self.require(not self.shared_sizes, "shared_sizes", "empty for images")
        else:  # flat observations come with integers that count from 0
            self.require(self.action_set == "own", "action_set", "own if channels is empty")
        self.require(
            self.search == "none" or not self.flat_policy,
            "flat_policy",
            "false unless search is none",
        )
        if self.search == "none":
            self.require(self.replayed_unrolls == 0, "replayed_unrolls", "0 with search=none")
        self.require_at_most("cem_samples", "cem_elites")
        self.require_at_most("replay_capacity", "unroll_length")
        self.require_at_most("queue_capacity", "batch_size")
        self.require(
            self.updates_per_call * self.batch_size <= self.queue_capacity,
            "updates_per_call",
            f"at most queue_capacity / batch_size ({self.queue_capacity // self.batch_size})",
        )


_METHODS: Mapping[str, Mapping[str, object]] = {
    "aql": {},
    "aql_independent": {"autoregressive": False},
    "aql_gaussian": {"num_levels": 0},
    "uniform_q": {"search": "uniform"},
    "qt_opt": {"search": "cem", "num_levels": 0},
    "exact_q": {"search": "exact"},
    "d3pg": {"search": "policy", "num_levels": 0},
    "d3pg_network_of_d4pg": {"search": "policy", "num_levels": 0, "policy_network": "d4pg"},
    "impala": {"search": "none", "replayed_unrolls": 0},
}
"""The methods of sections 5.1 and 5.2 and appendix A3."""

_SHARED_RMSPROP: Mapping[str, object] = {
    "optimizer": "rmsprop",
    "shared_sizes": (128, 128),
    "state_size": 128,
    "action_size": 128,
    "joint_sizes": (128,),
    "proposal_sizes": (128, 128),
}
"""Figure 11 (appendix A3): RMSProp, and a deeper network with fewer units, half of it shared."""

_LAB: Mapping[str, object] = {
    "channels": (16, 32, 32),
    "unroll_length": 100,
    "num_uniform_samples": 500,
    "proposal_sizes": (256,),
}
"""DeepMind Lab (section 5.2, appendices A1 and A2). That the proposal has one hidden layer of its
own above the LSTM is not in the paper."""

_ACTION_SETS = {"11": "curated", "3528": "structured"}

SETTINGS = Settings(
    AQLConfig,
    {
        **_METHODS,
        **{
            f"{name}_shared_rmsprop": {**_METHODS[name], **_SHARED_RMSPROP}
            for name in ("aql", "aql_gaussian", "uniform_q", "qt_opt", "d3pg", "impala")
        },
        **{
            f"{name}_{number}_actions": {
                **_METHODS[name],
                **_LAB,
                "action_set": action_set,
                **({"flat_policy": True} if name == "impala" else {}),
            }
            for name in ("aql", "exact_q", "impala")
            for number, action_set in _ACTION_SETS.items()
        },
    },
    default="aql",
)
"""The methods by name, each with the values in which it differs from the default."""


def require(config: AQLConfig, spec: "EnvironmentSpec") -> None:
    """Raises ValueError, of one line, unless the configured search can act in an environment."""
    from common.environments import lab_actions
    from common.environments.spec import MAX_PNG_CHANNELS, actions_of
    from reproductions.aql.actions import ActionSpace, own_choices

    found = "flat observations"
    if spec.image_shape is not None:
        found = f"images of {list(spec.picture_shape)}"
    if spec.image_shape is not None and not config.channels:
        raise ValueError(
            f"--environment has {found}, but this setting needs flat observations: name another "
            "environment, for example control:cartpole:swingup, or --setting=aql_3528_actions"
        )
    if config.channels and (spec.image_shape is None or spec.image_shape[2] > MAX_PNG_CHANNELS):
        raise ValueError(
            f"--environment has {found}, but this setting needs images of at most "
            f"{MAX_PNG_CHANNELS} channels: name another environment, for example maze:goal, or "
            "--setting=aql"
        )
    lab = tuple(high - low + 1 for low, high in zip(lab_actions.MINIMUM, lab_actions.MAXIMUM))
    if config.channels and config.action_set == "own" and spec.action_choices == lab:
        raise ValueError(
            "--environment has DeepMind Lab's seven integers, but this setting selects no set of "
            "actions: use --config.action_set=structured or curated"
        )
    if config.action_set != "own" and spec.action_choices != lab:
        raise ValueError(
            f"--environment has {actions_of(spec)}, but action_set={config.action_set} selects "
            "actions of DeepMind Lab's seven integers: name another environment, such as maze:goal"
        )
    most = max(own_choices(spec, config.num_levels))
    if config.action_set == "own" and most > MAX_CHOICES:
        raise ValueError(
            f"--environment has a sub-action of {most:,} choices, but this agent takes at most "
            f"{MAX_CHOICES:,}: narrow the integer's bounds, or lower num_levels"
        )
    space = ActionSpace.of(spec, config.num_levels, config.action_set)
    takes_finite = spec.is_hybrid and config.search not in ("cem", "policy")
    if config.num_levels == 0 and max(space.choices) and not takes_finite:
        numbered = f"actions of {_number(space.choices)} choices"
        raise ValueError(
            f"--environment has {actions_of(spec) if spec.is_hybrid else numbered}, but this "
            "setting needs continuous actions (num_levels 0): name another environment, or "
            "--setting=aql"
        )
    for is_chosen, part, other in (
        (config.search == "exact", "search=exact", "--setting=aql"),
        (config.flat_policy, "flat_policy=True", "--config.flat_policy=False"),
    ):
        if is_chosen and space.num_actions > MAX_EXACT_ACTIONS:
            raise ValueError(
                f"--environment has {_number(space.choices)} actions, but {part} evaluates each of "
                f"them and takes at most {MAX_EXACT_ACTIONS:,}: use {other}"
            )


def _number(choices: tuple[int, ...]) -> str:
    """Returns the number of actions as text, such as "7^2 * 3 = 147"."""
    runs = [(k, len(list(run))) for k, run in itertools.groupby(choices)]
    factors = " * ".join(f"{k}^{count}" if count > 1 else f"{k}" for k, count in runs)
    return f"{factors} = {math.prod(choices):,}" if len(choices) > 1 else factors


AGENT = AgentDeclaration(
    name="aql",
    title="AQL",
    paper="aql",
    agent_class="reproductions.aql.agent:AQL",
    settings=SETTINGS,
    num_actors=lambda config, setting: NUM_ACTORS,
    num_actors_help=(
        f"Actors, each with a replay of its own: {NUM_ACTORS} (appendix A1). The first "
        "tenth explores more (appendix A2)."
    ),
    layouts=(ACTORS_WITH_REPLAY, ONE_PROCESS_WITH_REPLAYS),
    require="reproductions.aql.config:require",
    bytes_per_step=unroll_bytes_per_step,
    queue_bytes=unroll_queue_bytes,
)
