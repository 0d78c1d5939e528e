"""Reactor's hyperparameters, settings and declaration.

"Not in the paper" marks a value that the paper leaves open; the reason for our value follows.
The launcher reads this module, which imports neither TensorFlow nor NumPy.
"""

import dataclasses

from common.agents.declaration import AgentDeclaration
from common.config import Config, Settings, field
from common.program.layouts import ONE_PROCESS, WORKERS
from common.replay.footprint import sequence_bytes_per_step

LSTM_SIZE = 128
"""Units of each of the two LSTMs (table 3)."""
NUM_WORKERS = 10
"""Number of workers of the parameter server (section 3.4); 20 in figure 2's fastest runs."""


@dataclasses.dataclass
class ReactorConfig(Config):
    """Reactor on Atari (section 3)."""

    sequence_length: int = field(33, minimum=2, suffix="sequences{}")
    """Frames per sequence: the network is trained on all but the last (32), and the target network
    evaluates all but the first (section 3.4)."""
    batch_size: int = field(4, minimum=1, suffix="batch{}")
    """Sequences per update (section 3.4)."""
    acting_steps_per_update: float = field(5.0, above=0, suffix="acting{:g}")
    """Acting steps per learning step of the same worker, 4 to 6 (section 3.4). Counting per worker
    is Not in the paper, but figure 2's times agree with it."""
    learning_rate: float = field(5e-5, above=0, suffix="lr{:g}")
    """Adam's step size (section 3.4.1); three values were tried (section 6.1)."""
    adam_beta1: float = field(0.0, minimum=0, below=1, suffix="momentum{:g}")
    """Adam's momentum: 0, since asynchronous updates induce momentum (section 3.4.1). Adam's
    default, 0.9, was also tried (section 6.1)."""
    adam_beta2: float = field(0.999, minimum=0, below=1, suffix="decay{:g}")
    """Adam's decay of squares. Not in the paper; Adam's default."""
    adam_epsilon: float = field(1e-8, above=0, suffix="adam{:g}")
    """Adam's epsilon. Not in the paper; Adam's default."""
    target_period: int = field(1000, minimum=1, suffix="target{}")
    """T_update, updates of all workers between copies to the target network (section 4.1). Counting
    all workers' updates is Not in the paper, whose server keeps the target network."""
    discount: float = field(0.99, minimum=0, maximum=1, suffix="gamma{:g}")
    """gamma. Not in the paper; DQN's and A3C's value."""
    reward_clip: float = field(1.0, minimum=0, suffix="clip{:g}")
    """Rewards are clipped to [-reward_clip, reward_clip]; 0: no clipping. Part of DQN's
    preprocessing (section 4.1)."""
    distributional: bool = field(True, suffix="distributional")
    """Distributional Retrace (section 3.2); if false, Retrace (section 2.1.2), which the paper
    calls Reactor ND."""
    num_atoms: int = field(51, minimum=2, suffix="atoms{}")
    """m, atoms per distribution. Not in the paper; C51's."""
    v_min: float = field(-10.0, suffix="vmin{:g}")
    """The first atom. Not in the paper; C51's, for clipped rewards."""
    v_max: float = field(10.0, suffix="vmax{:g}")
    """The last atom. Not in the paper; C51's."""
    trace_lambda: float = field(1.0, minimum=0, maximum=1, suffix="lambda{:g}")
    """lambda of Retrace's coefficients (section 4.1); 0: one-step targets, as in figure 1
    (left)."""
    policy_gradient: str = field(
        "beta_loo", choices=("beta_loo", "one_over_mu", "tislr", "islr"), suffix="{}"
    )
    """Estimator: beta_loo, with beta = min(c, 1 / mu); one_over_mu, beta-LOO with beta = 1 / mu;
    tislr, ACER's, whose ratios are truncated at c; or islr, not truncated (section 3.1)."""
    c: float = field(1.0, minimum=1, suffix="c{:g}")
    """Bound of beta_loo's beta (1: beta is always 1, section 4.1), or of tislr's ratios (10, which
    is Not in the paper; ACER's)."""
    policy_floor: float = field(0.01, above=0, below=1, suffix="floor{:g}")
    """epsilon, the share of the uniform policy in pi (section 6.4)."""
    entropy_cost: float = field(0.01, minimum=0, suffix="entropy{:g}")
    """eta, the weight of the policy's entropy (section 6.5). Its value is Not in the paper; A3C's,
    from which the method is taken."""
    prioritization: str = field(
        "contextual", choices=("contextual", "max", "uniform"), suffix="{}_priorities"
    )
    """contextual, by a priority tree that infers unknown priorities (section 3.3); max, where an
    unknown priority is the largest seen so far, as in Rainbow (section 6.5); or uniform."""
    uniform_mix: float = field(0.1, minimum=0, maximum=1, suffix="mix{:g}")
    """epsilon of section 3.3, the share of draws that are uniform. Its value is Not in the paper;
    importance weights are then at most 10."""
    importance_exponent: float = field(1.0, minimum=0, suffix="beta{:g}")
    """beta of (1 / (N P))^beta on a sequence's whole loss (section 3.3). 0: no weights."""
    stored_state: bool = field(False, suffix="stored_state")
    """Sequences begin with the actor's LSTM states, stored with each frame, instead of zeros. Not
    in the paper, which uses zeros according to R2D2, where states are stored."""
    replay_capacity: int = field(100_000, minimum=2, maximum=2**30, suffix="replay{}")
    """Frames that a worker's memory holds. Not in the paper; with 10 workers DQN's million in
    all."""
    min_replay_size: int = field(10_000, minimum=1)
    """Sequences in a worker's memory before its first update; a sequence begins at each frame. Not
    in the paper; with 10 workers 100,000 in all, twice DQN's."""
    actor_period: int = field(1, minimum=1)
    """Timesteps between an actor's copies of the newest parameters, which its learner downloads for
    each learning step. Not in the paper; both are in one process, so a copy costs an actor almost
    nothing."""
    png_frames: bool = field(False)
    """Stores frames as PNG files, which need less memory but more time than raw ones. Not in the
    paper; a local replay sends no messages, and decoding would take the learner's time."""
    single_process: bool = field(False, suffix="single_process")
    """Acts and learns alternately in one process, without a parameter server, so that a run does
    not depend on the machine's speed; for the scale small. Not in the paper, where a single machine
    runs both as threads (section 3.4)."""
    torso: str = field("atari", choices=("atari", "minatar", "mlp"), suffix="{}")
    """Layers below the LSTMs: atari, table 3's for 84 x 84 (section 6.4); minatar, 8 filters of 3 x
    3 and 64 units, for 10 x 10. Not in the paper; half of Young and Tian's (2019) filters and
    units, since the concatenated ReLU doubles them. mlp, layers of mlp_sizes for flat observations.
    Not in the paper."""
    mlp_sizes: tuple[int, ...] = field((128,), minimum=1)
    """Units of torso=mlp's layers; the last has table 3's concatenated ReLU, the others ReLU. Not
    in the paper; the size of table 3's linear layer."""

    @property
    def samples_per_insert(self) -> float:
        """Sequences drawn per sequence added; each timestep adds one sequence."""
        return self.batch_size / self.acting_steps_per_update

    @property
    def state_size(self) -> int:
        """Length of the LSTMs' states stored with each frame: two vectors per LSTM, or 0."""
        return 2 * 2 * LSTM_SIZE if self.stored_state else 0

    def validate(self) -> None:
        """Adds the conditions on the atoms, the replay's size and PNG files."""
        super().validate()
        self.require_atoms()
        self.require_at_most("replay_capacity", "sequence_length")
        most = self.replay_capacity - self.sequence_length + 1
        for name in ("batch_size", "min_replay_size"):
            self.require(
                getattr(self, name) <= most,
                name,
                f"at most {most}, the sequences that fit replay_capacity ({self.replay_capacity})",
            )
        self.require(
            self.torso == "atari" or not self.png_frames,
            "png_frames",
            f"false with torso={self.torso}, whose observations do not shrink as PNG files",
        )


SETTINGS = Settings(
    ReactorConfig,
    {
        "reactor": {},
        # Figure 3. TISLR's c is not in the paper; ours is from ACER, the source of TISLR.
        "reactor_nd": {"distributional": False},
        "reactor_uniform": {"prioritization": "uniform"},
        "reactor_tislr": {"policy_gradient": "tislr", "c": 10.0},
        "reactor_20_workers": {},  # figure 2, by `num_actors`
        # Section 6.5, figure 1 (left), and the estimators of section 3.1 that have no curves.
        "reactor_max_priority": {"prioritization": "max"},
        "reactor_one_step": {"trace_lambda": 0.0},
        "reactor_one_over_mu": {"policy_gradient": "one_over_mu"},
        "reactor_islr": {"policy_gradient": "islr"},
        # Not in the paper: sequences that start from stored states, and sizes for two cores without
        # a GPU. There all workers together run about 20 updates a second. With the paper's values
        # the target network would first be copied after a minute, and a run would hardly learn
        # anything in its first hour.
        "reactor_stored_state": {"stored_state": True},
        "reactor_two_cores": {
            "learning_rate": 2e-4,
            "target_period": 200,
            "replay_capacity": 50_000,
            "min_replay_size": 2_500,
        },
    },
    default="reactor",
)
"""The agent and its variants by name, each with the values in which it differs from the default."""


def num_actors(setting: str) -> int:
    """Returns the default number of workers of a setting."""
    return {"reactor_20_workers": 2 * NUM_WORKERS, "reactor_two_cores": 2}.get(setting, NUM_WORKERS)


AGENT = AgentDeclaration(
    name="reactor",
    title="Reactor",
    paper="reactor",
    agent_class="reproductions.reactor.reactor:Reactor",
    settings=SETTINGS,
    num_actors=lambda config, setting: 1 if config.single_process else num_actors(setting),
    num_actors_help=(
        f"Workers, each with one actor and one learner: {NUM_WORKERS}, the default, or "
        f"{num_actors('reactor_20_workers')} with --setting=reactor_20_workers (section "
        f"3.4, figure 2), but {num_actors('reactor_two_cores')} with reactor_two_cores."
    ),
    num_actors_flag="num_workers",
    layouts=(WORKERS, ONE_PROCESS),
    require="common.environments.spec:require_discrete",
    bytes_per_step=sequence_bytes_per_step,
    num_frames=1,
)
