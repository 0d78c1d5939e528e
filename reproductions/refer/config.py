"""Hyperparameters, settings and declaration of V-RACER, NAF, DDPG and ACER.

"Not in the paper" marks a value that the paper leaves open; the reason for our value follows.
"The authors' program" is smarties at the beginning of 2019, the time of the experiments.
The launcher reads this module, which imports neither TensorFlow nor NumPy.
"""

from collections.abc import Mapping
import dataclasses

from common.agents.declaration import AgentDeclaration
from common.config import Config, Settings, field
from common.program.layouts import CENTRAL, ONE_PROCESS
from common.replay.footprint import episode_bytes_per_step


@dataclasses.dataclass
class ReferConfig(Config):
    """V-RACER, NAF or DDPG with one kind of replay, or ACER (sections 2 to 5, appendix A)."""

    agent: str = field("vracer", choices=("vracer", "naf", "ddpg", "acer"), suffix="{}")
    """vracer (section 4), naf or ddpg (section 2), or acer (section 5.3, appendix A)."""
    sampling: str = field("uniform", choices=("uniform", "rank", "proportional"), suffix="{}")
    """uniform; rank: rank-based prioritised replay, the better of the two kinds in the paper
    (section 5.1); or proportional: by a power of the error itself."""
    clipping: bool = field(True, suffix="clipping")
    """Rule 1: steps far from the policy have no gradient (section 3)."""
    penalty: bool = field(True, suffix="penalty")
    """Rule 2: the gradient is beta times the agent's own plus 1 - beta times that of D_KL; without
    the rule beta is 1 (section 3)."""
    penalty_c: float = field(4.0, above=0, suffix="C{:g}")
    """C of c_max = 1 + C / (1 + A t) (eq 13, section 3)."""
    penalty_d: float = field(0.1, above=0, below=1, suffix="D{:g}")
    """D, the fraction of the memory that may be far from the policy (eq 12, section 3)."""
    annealing: float = field(5e-7, minimum=0, suffix="A{:g}")
    """A, which anneals c_max and all learning rates (eq 13, section 3). 0 for DDPG with plain or
    prioritised replay (section 5.1)."""
    annealed_by: str = field(
        "steps",
        choices=("steps", "updates"),
        suffix="annealed_by_{}",
        earlier=lambda of: "steps" if of.get("steps_per_update", 1) == 1 else "updates",
    )
    """The t in A t: steps, the environment steps after the first N_start, F per update (eq 13); or
    updates, as in the authors' program. With F = 1 both are the same."""
    initial_beta: float = field(0.2, minimum=0, maximum=1, suffix="beta{:g}")
    """beta before the first update. Not in the paper; the value of the authors' first release.
    After 30,000 updates a twentieth of it remains."""
    advantage: str = field("none", choices=("none", "quadratic", "gaussian"), suffix="{}_advantage")
    """V-RACER's advantage in closed form: none; quadratic, with (dA^2 + dA) / 2 more outputs; or
    gaussian, an asymmetric bell with 1 + 2 dA more outputs (appendix E)."""
    advantage_scale_bias: float = field(-1.0, suffix="height{:g}")
    """Added to the output whose softplus is the height K of the gaussian advantage. Not in the
    paper; the authors' program begins with this bias."""
    advantage_width_bias: float = field(1.0, suffix="width{:g}")
    """Added to the outputs whose softplus are the bell's squared widths L. Not in the paper; the
    authors' program begins with this bias."""
    divergence: str = field(
        "behavior_to_policy", choices=("behavior_to_policy", "policy_to_behavior"), suffix="{}"
    )
    """behavior_to_policy, D_KL(mu || pi), as in the paper (section 3), or policy_to_behavior,
    D_KL(pi || mu), as in the authors' program. They differ for V-RACER and ACER only."""
    value_target: str = field("current", choices=("current", "stored"), suffix="{}_target")
    """V_tbc, the target of V-RACER's V: current, from the V and rho of the update and the stored
    Q_ret, as in the authors' program; or stored, from V and rho stored before (algorithm 3)."""
    naf_beta: str = field("mean", choices=("mean", "all"), suffix="beta_of_{}")
    """The outputs of NAF whose own gradient rule 2 multiplies by beta: the mean, as in the authors'
    program, or all (eq 10). The paper does not say which applies to NAF."""
    max_importance_weight: float = field(1000.0, above=1, suffix="rho{:g}")
    """Upper bound of rho and 1 / rho (section 5.3, for ReF-ER-2); in the authors' program e^7, for
    all methods."""
    steps_per_update: float = field(1.0, above=0, suffix="F{:g}")
    """F, environment steps per update (appendix A), of all actors together."""
    batch_size: int = field(256, minimum=1, suffix="batch{}")
    """B, steps per update: 256 for V-RACER and NAF, 128 for DDPG; for ACER 24 episodes (appendix
    A)."""
    discount: float = field(0.995, minimum=0, maximum=1, suffix="discount{:g}")
    """gamma, per step (appendix A)."""
    learning_rate: float = field(1e-4, above=0, suffix="lr{:g}")
    """eta, step size of Adam; for DDPG's critic, and for ACER's value and advantage (appendix
    A)."""
    policy_learning_rate: float = field(1e-5, above=0, suffix="policy_lr{:g}")
    """Adam's step size for the policies of DDPG and ACER (appendix A); figure 4 also has 1e-4 for
    ACER."""
    adam_beta1: float = field(0.9, minimum=0, below=1, suffix="momentum{:g}")
    """Adam's momentum. Not in the paper; Adam's default."""
    adam_beta2: float = field(0.999, minimum=0, below=1, suffix="decay{:g}")
    """Adam's decay of squares. Not in the paper; Adam's default."""
    adam_epsilon: float = field(1e-7, above=0, suffix="adam{:g}")
    """Adam's epsilon. Not in the paper; the authors' program uses the resolution of single
    precision, 1.2e-7."""
    hidden_size: int = field(128, minimum=1, suffix="units{}")
    """S, units of each of the two hidden layers (appendix A)."""
    recurrent: bool = field(False, suffix="recurrent")
    """LSTM layers instead of the hidden layers of MLPs, as in flow control (section 5.4)."""
    lstm_size: int = field(32, minimum=1, suffix="cells{}")
    """Cells of each of the two LSTM layers of recurrent networks (section 5.4)."""
    history: int = field(16, minimum=0, suffix="history{}")
    """Number of earlier states from which recurrent networks act and learn at a step (section 5.4:
    the window of back-propagation). LSTMs start there from zeros. ACER's act from the whole episode
    and start where ACER's window begins (in the authors' program up to 16 states earlier)."""
    initial_variance: float = field(0.2, above=0, suffix="variance{:g}")
    """Initial diagonal of V-RACER's Sigma (appendix A). ACER has the same value here; the paper
    gives none."""
    sigma: float = field(0.2, above=0, suffix="sigma{:g}")
    """Standard deviation of the policies of NAF and DDPG (section 2, appendix A)."""
    noise_bound: float = field(3.0, above=0, suffix="bound{:g}")
    """Standard deviations at which Gaussian noise is truncated (appendix A)."""
    noise: str = field("gaussian", choices=("gaussian", "ou"), suffix="{}_noise")
    """Exploration of NAF and DDPG: gaussian; or ou, Ornstein-Uhlenbeck, for DDPG with plain or
    prioritised replay (appendix A). The authors' program uses ou for NAF as well."""
    ou_theta: float = field(0.15, above=0, maximum=1, suffix="theta{:g}")
    """theta of Ornstein-Uhlenbeck noise (appendix A)."""
    ou_sigma: float = field(0.2, minimum=0, suffix="ou{:g}")
    """sigma of Ornstein-Uhlenbeck noise (appendix A)."""
    target_rate: float = field(0.01, above=0, maximum=1, suffix="target{:g}")
    """Step size towards the online networks: 0.01 for the target networks of NAF and DDPG, 0.001
    for ACER's average policy (appendix A)."""
    critic_decay: float = field(1e-4, minimum=0, suffix="l2_{:g}")
    """Coefficient of half the squared weights and biases in the loss of DDPG's critic (appendix A;
    biases as in the authors' program): the gradient contains it times the variable."""
    priority_exponent: float = field(0.5, minimum=0, maximum=7, suffix="alpha{:g}")
    """alpha of priorities, rank^-alpha or |error|^alpha. Not in the paper; as in the authors'
    program."""
    priority_mix: float = field(0.001, above=0, maximum=1, suffix="mix{:g}")
    """Share of proportional draws that are uniform, so that steps with an error of 0 are drawn as
    well. Not in the paper; the authors' program adds a small number to errors."""
    rank_period: int = field(10, minimum=1, suffix="ranks{}")
    """Updates between rankings of all errors. Not in the paper; as in the authors' program."""
    importance_exponent: float = field(0.5, minimum=0, maximum=1, suffix="weights{:g}")
    """Initial exponent of prioritised replay's importance weights; with annealing it rises to 1,
    reached at A t = 1. Not in the paper; as in the authors' program."""
    truncation: float = field(5.0, above=0, suffix="c{:g}")
    """c of ACER, at which the policy's importance weights are truncated (appendix A)."""
    trust_region: float = field(1.0, above=0, suffix="delta{:g}")
    """ACER's delta, bound of k . z: the first-order growth of D_KL from the average policy (eq 43,
    appendix A)."""
    advantage_samples: int = field(5, minimum=1, suffix="samples{}")
    """Actions of the policy whose mean advantage centres ACER's advantage (appendix A)."""
    trace_exponent: float = field(1.0, minimum=0, suffix="trace{:g}")
    """p of ACER's traces min(1, rho)^(dA^-p): 1 in the paper (section 4), 0.5 in the authors'
    program."""
    window: int = field(200, minimum=0, suffix="window{}")
    """Maximum number of consecutive steps of an episode in an ACER update; 0: whole episodes, as in
    the paper (appendix A). 200 is the authors' program's, at a fraction of the cost."""
    replay_capacity: int = field(2**18, minimum=2, maximum=2**29, suffix="replay{}")
    """N, capacity in steps: 2^18 (section 3); 1e5 for ACER (appendix A)."""
    min_replay_size: int = field(2**18, minimum=1, suffix="start{}")
    """N_start, steps before the first update, which also give the scale of observations (appendix
    B). Not in the paper; N, as in the authors' scripts for V-RACER and NAF. Their script for ACER
    has 2^17, above the paper's N for ACER; here it is N."""
    removal: str = field(
        "oldest", choices=("oldest", "far_policy", "divergence"), suffix="remove_{}"
    )
    """The episode that a full memory removes: oldest (algorithm 1); far_policy, the episode with
    the largest share of steps far from the policy, as in the authors' program for DDPG and NAF with
    ReF-ER; or divergence, the episode with the largest mean D_KL."""
    reward_scale_period: int = field(1000, minimum=1, suffix="rescaled{}")
    """Updates between estimates of sigma_r (appendix B)."""
    updates_per_call: int = field(16, minimum=1, suffix="calls{}")
    """Updates whose steps are drawn together. The policy that acts, Q_ret, the far part of the
    memory and the errors to rank are then up to one call old. Not in the paper, which has 1; 16 is
    two to four times as fast. For ACER 1, since its updates take long."""

    @property
    def annealing_per_update(self) -> float:
        """Growth of A t per update."""
        return self.annealing * (self.steps_per_update if self.annealed_by == "steps" else 1)

    @property
    def samples_per_insert(self) -> float:
        """Steps drawn per environment step."""
        return self.batch_size / self.steps_per_update

    @property
    def actor_period(self) -> int:
        """Timesteps between pulls of parameters: 1, the newest for each action (appendix C)."""
        return 1

    def validate(self) -> None:
        """Adds the conditions on the sizes of batch and memory."""
        super().validate()
        self.require_at_most("min_replay_size", "batch_size")
        self.require_at_most("replay_capacity", "min_replay_size")
        if self.agent == "acer":
            for name in ("clipping", "penalty"):
                self.require(
                    not getattr(self, name),
                    name,
                    "False for ACER, which does not use ReF-ER's rules",
                )
            self.require(self.sampling == "uniform", "sampling", "uniform for ACER")
        if self.recurrent:
            self.require_at_most("replay_capacity", "history")
        if self.agent != "vracer":
            self.require(self.advantage == "none", "advantage", f"none with the agent {self.agent}")


_AGENTS: Mapping[str, Mapping[str, object]] = {
    "vracer": {},
    "ddpg": {"agent": "ddpg", "batch_size": 128},
    "naf": {"agent": "naf"},
}
"""The agents' values that differ from the defaults (appendix A)."""

_NO_RULES: Mapping[str, object] = {"clipping": False, "penalty": False}
_REPLAYS: Mapping[str, Mapping[str, object]] = {
    "er": _NO_RULES,
    "per": {**_NO_RULES, "sampling": "rank"},
    "refer": {},
    "refer1": {"penalty": False},
    "refer2": {"clipping": False},
}
"""Section 5: plain replay, rank-based prioritised replay, both rules, each rule alone."""

_DDPG_NO_RULES: Mapping[str, object] = {"noise": "ou", "annealing": 0.0}
"""DDPG without the rules: Ornstein-Uhlenbeck noise and constant learning rates (section 5.1)."""


_ACER: Mapping[str, object] = {
    **_NO_RULES,
    "agent": "acer",
    "batch_size": 24,
    "replay_capacity": 100_000,
    "min_replay_size": 100_000,
    "target_rate": 0.001,
    "updates_per_call": 1,
}
"""Appendix A's values, except for min_replay_size and updates_per_call."""


def _setting(agent: str, replay: str) -> Mapping[str, object]:
    exploration = _DDPG_NO_RULES if agent == "ddpg" and replay in ("er", "per") else {}
    return {**_AGENTS[agent], **_REPLAYS[replay], **exploration}


SETTINGS = Settings(
    ReferConfig,
    {
        **{
            f"{agent}_{replay}": _setting(agent, replay) for agent in _AGENTS for replay in _REPLAYS
        },
        # ACER with two learning rates of its policy (figures 4 and 5), and from whole episodes.
        **{
            f"acer{kind}_lr{rate}": {**_ACER, **window, "policy_learning_rate": rate}
            for kind, window in (("", {}), ("_episodes", {"window": 0}))
            for rate in (1e-4, 1e-5)
        },
    },
    default="vracer_refer",
)
"""The agents with each kind of replay, and ACER, by name: values that differ from the default."""


AGENT = AgentDeclaration(
    name="refer",
    title="ReF-ER",
    paper="refer",
    agent_class="reproductions.refer.agent:Refer",
    settings=SETTINGS,
    num_actors=lambda config, setting: 1,
    num_actors_help=(
        "Environments that step together, with one batch of actions. Default: 1, as in the "
        "paper (appendix C); its flow control has 24 (appendix D)."
    ),
    layouts=(ONE_PROCESS, CENTRAL),
    require="common.environments.spec:require_control",
    bytes_per_step=episode_bytes_per_step,
)
