"""Ape-X DQN's settings and declaration, and the hyperparameters that it does not share with DPG.

"Not in the paper" marks a value that the paper leaves open; the reason for our value follows.
The launcher reads this module, which imports neither TensorFlow nor NumPy.
"""

from collections.abc import Mapping
import dataclasses

from common.agents.declaration import AgentDeclaration
from common.config import Settings, field
from common.program.layouts import DISTRIBUTED, ONE_PROCESS
from common.replay.footprint import transition_bytes_per_step
from reproductions.apex.config import ApexConfig

NUM_ACTORS = 360
"""N, the number of actors (section 4.1); figures 4 to 6, 13 and 14 use other numbers."""


@dataclasses.dataclass
class DQNConfig(ApexConfig):
    """Ape-X DQN on Atari (section 4.1, appendix C)."""

    n_step: int = field(3, minimum=1, suffix="n{}")
    """n, length of the returns (appendix C; our copy of the text lacks the number, RLlib also uses
    3)."""
    batch_size: int = field(512, minimum=1, suffix="batch{}")
    """Transitions per update (section 4.1); 32 to 1024 were tried (appendix E)."""
    learning_rate: float = field(0.00025 / 4, above=0, suffix="lr{:g}")
    """Step size of centred RMSProp, 0.00025 / 4 (appendix C); 0.00025 for uniform replay (figure
    14)."""
    rmsprop_decay: float = field(0.95, minimum=0, below=1, suffix="decay{:g}")
    """Decay rate of RMSProp's moments; no momentum (appendix C)."""
    rmsprop_epsilon: float = field(1.5e-7, above=0, suffix="rmsprop{:g}")
    """epsilon (appendix C). Its place inside the root is Not in the paper. But 1.5e-7 is 0.01 /
    256^2. This turns DQN's constant, for a loss summed over a batch, into the constant for a mean
    if it is inside the root."""
    max_gradient_norm: float = field(40.0, minimum=0, suffix="norm{:g}")
    """Maximum global norm of the gradient; 0: no limit (appendix C)."""
    target_period: int = field(2500, minimum=1, suffix="target{}")
    """Learner steps between copies of the target (appendix C)."""
    replay_capacity: int = field(
        2_000_000,
        minimum=1,
        maximum=2**29,  # the memory has room for twice the capacity, until the next removal
        suffix="replay{}",
    )
    """Transitions, a soft limit (section 4.1); 1 million in figure 4; figure 5 varies it."""
    reward_clip: float = field(1.0, minimum=0, suffix="clip{:g}")
    """Rewards are clipped to [-reward_clip, reward_clip] before they are summed; 0: no clipping
    (appendix C; our copy of the text lacks the range, which is DQN's)."""
    epsilon: float = field(0.4, minimum=0, maximum=1, suffix="epsilon{:g}")
    """Actor i acts randomly with probability epsilon^(1 + i / (N - 1) * epsilon_alpha) (section
    4.1; our copy of the text lacks the numbers, RLlib also uses 0.4)."""
    epsilon_alpha: float = field(7.0, minimum=0, suffix="ladder{:g}")
    """alpha in actor i's exponent (section 4.1, also missing in our copy; RLlib also uses 7)."""
    epsilons: tuple[float, ...] = field((), minimum=0, maximum=1, suffix="other_epsilons")
    """Fixed values instead of epsilon's formula, such as (0.4,0.1): actor i has the value at index
    i modulo their count (appendix B). Figure 7 has six, stated nowhere; we use 0.4^(1 + 7k/5)."""
    evaluation_epsilon: float = field(0.001, minimum=0, maximum=1, suffix="evaluated{:g}")
    """epsilon of the evaluator's policy; 0: greedy. Not in the paper; Rainbow's value. 0.00164 in
    figure 7."""
    num_copies: int = field(1, minimum=1, suffix="copies{}")
    """k, number of times each transition is added; 8 in figure 6 (appendix A). Each copy is an item
    and counts as one in min_replay_size and replay_capacity."""
    rescale_gradient: bool = field(False, suffix="rescaled")
    """Divides the gradient that enters the convolutions by sqrt(2). Not in the paper, which uses
    "the same network as in the Dueling DDQN agent". That agent (Wang et al. 2016) does so where its
    streams meet."""
    torso: str = field("atari", choices=("atari", "minatar", "mlp"), suffix="{}")
    """The network's sizes. atari: DQN's, for 84 x 84 (appendix C). minatar: a convolution with 16
    filters of 3 x 3 and 128 hidden units, for 10 x 10; these images are stored as they are, not as
    PNG files. Not in the paper; Young and Tian 2019. mlp: layers of mlp_sizes for flat
    observations. Not in the paper, which learns from them with DPG."""
    mlp_sizes: tuple[int, ...] = field((128, 128), minimum=1)
    """Units of the ReLU layers if torso is mlp; the last is the hidden layer of each stream. Not in
    the paper; enough for Gymnasium's classic tasks."""
    precision: str = field("float32", choices=("float32", "bfloat16"), suffix="{}")
    """Dtype in which the learner computes the convolutions and hidden layers; variables, last
    layers, errors and optimiser are float32 in either case. Not in the paper, which uses a GPU."""

    def validate(self) -> None:
        """Adds the condition on the precision of an MLP."""
        super().validate()
        self.require(
            self.precision == "float32" or self.torso != "mlp",
            "precision",
            "float32 with torso=mlp",
        )


_UNIFORM = {"priority_exponent": 0.0, "learning_rate": 0.00025}
_MILLION = {"replay_capacity": 1_000_000}
_GREEDIER = {"evaluation_epsilon": 0.4**7}  # 0.00164; the ladder ends at 0.4^8
_TWO_CORES = {
    "batch_size": 64,
    "learning_rate": 1e-4,
    "target_period": 1000,
    "replay_capacity": 200_000,
    "min_replay_size": 10_000,
    "samples_per_insert": 8.0,
    "prefetch": 4,
}

TWO_CORES: Mapping[str, Mapping[str, object]] = {
    "dqn_two_cores": _TWO_CORES,
    "dqn_two_cores_uniform": {**_TWO_CORES, "priority_exponent": 0.0},
    "dqn_ten_minutes": {
        **_TWO_CORES,
        "learning_rate": 2e-4,
        "target_period": 200,
        "min_replay_size": 2_500,
        "replay_capacity": 100_000,
    },
}
"""Sizes for two cores without a GPU. Not in the paper; the README explains each value."""

SETTINGS = Settings(
    DQNConfig,
    {
        "dqn": {},
        "dqn_uniform": _UNIFORM,
        "dqn_bfloat16": {"precision": "bfloat16"},
        # Figure 5: capacities up to the default, 2 million; only "250K" is in the paper's text.
        "dqn_replay_250k": {"replay_capacity": 250_000},
        "dqn_replay_500k": {"replay_capacity": 500_000},
        "dqn_replay_1m": _MILLION,
        # Figure 6: recency. The capacity is not in the paper; figure 4, which it explains, has it.
        "dqn_replay_1m_copies8": {**_MILLION, "num_copies": 8},
        # Figure 7: pools of policies, measured by an actor that adds nothing to the replay: here
        # the evaluator, with epsilon 0.00164. The six values are not in the paper; these are
        # spaced evenly on the ladder.
        "dqn_full_range": _GREEDIER,
        "dqn_six_epsilons": {
            **_GREEDIER,
            "epsilons": tuple(0.4 ** (1 + 7 * k / 5) for k in range(6)),
        },
        # Figure 14: prioritised ("dqn_replay_1m") and uniform replay, first with the better of the
        # two learning rates, then with the other.
        "dqn_uniform_replay_1m": {**_MILLION, **_UNIFORM},
        "dqn_replay_1m_lr0.00025": {**_MILLION, "learning_rate": 0.00025},
        "dqn_uniform_replay_1m_lr6.25e-05": {**_MILLION, **_UNIFORM, "learning_rate": 0.00025 / 4},
        # Appendix E: batch sizes and learning rates that the authors tried.
        **{f"dqn_batch{size}": {"batch_size": size} for size in (32, 128, 256, 1024)},
        "dqn_lr0.00025": {"learning_rate": 0.00025},
        "dqn_lr3.125e-05": {"learning_rate": 0.00025 / 8},
        **TWO_CORES,
    },
    default="dqn",
)
"""The agent and its studies by name, each with the values in which it differs from the default."""


def num_actors(setting: str) -> int:
    """Returns the default N of a setting: the paper's, or 8 with the settings for two cores."""
    return 8 if setting in TWO_CORES else NUM_ACTORS


AGENT = AgentDeclaration(
    name="apex_dqn",
    title="Ape-X DQN",
    paper="apex",
    agent_class="reproductions.apex.dqn.dqn:ApexDQN",
    settings=SETTINGS,
    num_actors=lambda config, setting: num_actors(setting),
    num_actors_help=(
        f"N, actors. Default: {NUM_ACTORS} (section 4.1), but "
        f"{num_actors('dqn_two_cores')} with the settings for two cores; figures 4 to 6, 13 and 14 "
        "have other numbers."
    ),
    layouts=(DISTRIBUTED, ONE_PROCESS),
    require="common.environments.spec:require_discrete",
    bytes_per_step=transition_bytes_per_step,
    num_frames=4,
)
