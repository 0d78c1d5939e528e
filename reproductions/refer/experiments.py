"""The paper's figures as lists of runs; it has no tables."""

from collections.abc import Iterable, Mapping
import dataclasses

from common.agents.declaration import AgentDeclaration
from common.experiments.paper import Band, Experiment, Paper, Part, Returns, Run, Substitute, curve
from common.experiments.scales import PAPER as PAPER_SCALE
from common.experiments.scales import Scale, changes
from common.figures.palette import BLACK, BLUE, GREEN, PURPLE, VERMILLION, Look, Style
from common.reporting.budget import Budget
from reproductions.refer.config import AGENT
from reproductions.refer.ppo.config import AGENT as PPO

TASKS = tuple(
    f"gym:{task}-v4"
    for task in (
        "HumanoidStandup",
        "Humanoid",
        "Ant",
        "Walker2d",
        "HalfCheetah",
        "Reacher",
        "Swimmer",
        "Hopper",
        "InvertedPendulum",
        "InvertedDoublePendulum",
    )
)
"""Figures 1 to 5: the ten tasks of the authors' scripts, in the version next to the paper's v2."""

SMALL_TASKS = tuple(
    f"gym:{task}-v4"
    for task in (
        "Walker2d",
        "HalfCheetah",
        "Reacher",
        "Swimmer",
        "InvertedPendulum",
        "InvertedDoublePendulum",
    )
)
"""Those of the ten that are learnt in minutes on one core; the last two are the easiest."""

SENSITIVITY_TASKS = tuple(
    f"gym:{task}-v4" for task in ("Humanoid", "Ant", "Walker2d", "HalfCheetah")
)
FLOW = "flow:cylinder"
SMALL_FLOW = "flow:cylinder_16"
"""Figure 6: D/32, and D/16, where an action takes a tenth of the time."""

_REPLAYS = {"er": "ER", "per": "PER", "refer": "ReF-ER", "refer1": "ReF-ER-1", "refer2": "ReF-ER-2"}
_RULES = ("refer", "refer1", "refer2")

FIGURE_7 = {
    "C": ("config.penalty_c", ("2", "4", "8")),
    "D": ("config.penalty_d", ("0.05", "0.1", "0.15", "0.2")),
    "N": ("config.replay_capacity", ("131072", "262144", "524288")),
    "B": ("config.batch_size", ("64", "128", "256", "512")),
    "F": ("config.steps_per_update", ("0.2", "0.5", "1", "2", "4")),
    "lr": ("config.learning_rate", ("3e-05", "0.0001", "0.0003")),
}
FIGURE_8 = {
    "A": ("config.annealing", ("0", "2.5e-07", "5e-07", "1e-06")),
    "S": ("config.hidden_size", ("92", "128", "180")),
    "advantage": ("config.advantage", ("none", "quadratic", "gaussian")),
}
"""Studies of V-RACER: a flag, and its values, which are not in the paper except its own."""
FIGURE_7_SMALL = FIGURE_7 | {
    "N": ("config.replay_capacity", ("16384", "32768", "65536")),
    "lr": ("config.learning_rate", ("0.0003", "0.001", "0.003")),
}
"""Figure 7's values in the same ratios to those of the scale small."""
_OWN = {
    "C": "4",
    "D": "0.1",
    "N": "262144",
    "B": "256",
    "F": "1",
    "lr": "0.0001",
    "A": "5e-07",
    "S": "128",
    "advantage": "none",
}
"""The agent's own values."""
_OWN_SMALL = _OWN | {"N": "32768", "lr": "0.001"}
_EVALUATED = {"returns": Returns.EVALUATOR, "band": Band.UNSTATED}
"""Fields of figures at the scale small, where evaluations judge runs."""
_SLOW_FLOW = "a core makes 3 actions/s at D/32, and 28 at D/16: use the scale small"
_NO_ANNEALING = "200,000 steps anneal next to nothing: use the scale workstation"


def with_value(symbol: str, value: str, is_small: bool = False) -> str:
    """Returns V-RACER's curve with a value of figure 7 or 8, which may be its own.

    Args:
      symbol: of the hyperparameter.
      value: as in `FIGURE_7`, `FIGURE_7_SMALL` or `FIGURE_8`.
      is_small: whether it is for the scale small.
    """
    own = (_OWN_SMALL if is_small else _OWN)[symbol]
    return "vracer_refer" if value == own else f"vracer_refer_{symbol}{value}"


def _runs(settings: Iterable[str], environments: Iterable[str]) -> tuple[Run, ...]:
    return tuple(run for name in settings for run in curve(_agent(name), name, environments))


def _agent(setting: str) -> AgentDeclaration:
    return PPO if setting == "ppo" else AGENT


def _small(
    settings: Iterable[str], environments: Iterable[str], note: str = ""
) -> dict[str, Substitute]:
    """Returns the runs at the scale small."""
    runs = _runs(settings, environments)
    return {"small": Substitute(runs, note, seeds=5, overrides=_EVALUATED)}


def _without_acer(environments: Iterable[str]) -> dict[str, Substitute]:
    """Returns the runs of figures 4 and 5 at the scales of minutes; `environments` are small's."""
    settings = [name for name in _POLICY_GRADIENTS if not name.startswith("acer")]
    note = "ACER is left out: an update costs a hundred of V-RACER's, so a run would take hours"
    two_cores = Substitute(_runs(settings, TASKS), note)
    return {"two_cores": two_cores, **_small(settings, environments, note)}


def _sensitivity(
    grid: Mapping[str, tuple[str, tuple[str, ...]]],
    environments: Iterable[str] = SENSITIVITY_TASKS,
    is_small: bool = False,
) -> dict[str, tuple]:
    """Returns the runs, and a row for each hyperparameter."""
    own = _OWN_SMALL if is_small else _OWN
    rows = {
        symbol: {with_value(symbol, value, is_small): f"--{flag}={value}" for value in values}
        for symbol, (flag, values) in grid.items()
    }
    others = tuple(
        Run(AGENT, name, environment, ("--setting=vracer_refer", flag))
        for row in rows.values()
        for name, flag in row.items()
        if name != "vracer_refer"
        for environment in environments
    )
    return {
        "runs": _runs(["vracer_refer"], environments) + others,
        "parts": tuple(
            Part(f"row {symbol}, its own {own[symbol]}", settings=tuple(row))
            for symbol, row in rows.items()
        ),
    }


def _filled(run: Run) -> Run:
    """Returns a run of another N with as many steps before its first update."""
    prefills = tuple(
        f"--config.min_replay_size={flag.partition('=')[2]}"
        for flag in run.flags
        if flag.startswith("--config.replay_capacity=")
    )
    return dataclasses.replace(run, flags=run.flags + prefills)


def _small_sensitivity() -> Substitute:
    """Returns figure 7 at the scale small, on those of its tasks that are learnt there."""
    found = _sensitivity(FIGURE_7_SMALL, SMALL_TASKS[:2], is_small=True)
    return Substitute(found["runs"], seeds=5, overrides=_EVALUATED | {"parts": found["parts"]})


def _flow_runs(
    settings: Iterable[str], environment: str = FLOW, flags: tuple[str, ...] = ()
) -> tuple[Run, ...]:
    """Returns the runs of flow control, with 24 environments and, but for ACER, LSTM layers."""
    return tuple(
        Run(
            AGENT,
            setting,
            environment,
            (
                f"--setting={setting}",
                *(("--config.recurrent=true",) if not setting.startswith("acer") else ()),
                "--num_actors=24",
                *flags,
            ),
        )
        for setting in settings
    )


def _small_flow(scale: str) -> Substitute:
    """Returns figure 6 at the scale small or smoke."""
    flags = () if scale == "smoke" else ("--config.min_replay_size=2048", "--evaluation_steps=3000")
    return Substitute(
        _flow_runs(("vracer_refer", "ddpg_refer"), SMALL_FLOW, flags),
        "D/16, and of the four settings those with ReF-ER: half an hour of a core a run",
        Budget(actor_steps=20_000) if scale == "small" else None,
        seeds=3,
        overrides=_EVALUATED,
    )


_DDPG = tuple(f"ddpg_{replay}" for replay in _REPLAYS)
_NAF = tuple(f"naf_{replay}" for replay in _REPLAYS)
_POLICY_GRADIENTS = ("ppo", "acer_lr0.0001", "acer_lr1e-05", *(f"vracer_{rule}" for rule in _RULES))
_BUDGET = Budget(actor_steps=10_000_000)
_STEPS = "10M steps and the list of tasks are those of the authors' scripts, not of the text"
_COMMON = {
    "budget": _BUDGET,
    "returns": Returns.ALL_ACTORS,
    "x": "actor_steps",
    "band": Band.PERCENTILES_20_80_OF_EPISODES,
    "seeds": 5,
    "note": _STEPS,
}
_OF_DIVERGENCE = {**_COMMON, "y": "kl_divergence", "band": Band.UNSTATED}
_OF_SENSITIVITY = {
    **_COMMON,
    "band": Band.PERCENTILES_20_80,
    "note": f"{_STEPS}; tasks and values: the authors' scripts, or ours",
}

EXPERIMENTS = (
    Experiment(
        "figure 1",
        "Gym: DDPG with five kinds of replay",
        runs=_runs(_DDPG, TASKS),
        substitutes=_small(_DDPG, SMALL_TASKS),
        **_COMMON,
    ),
    Experiment(
        "figure 2",
        "Gym: divergence of DDPG's policy from what it replays",
        runs=_runs(_DDPG, TASKS),
        substitutes=_small(_DDPG, SMALL_TASKS),
        **_OF_DIVERGENCE,
    ),
    Experiment(
        "figure 3",
        "Gym: NAF with five kinds of replay",
        runs=_runs(_NAF, TASKS),
        substitutes=_small(_NAF, SMALL_TASKS[:4]),
        **_COMMON,
    ),
    Experiment(
        "figure 4",
        "Gym: PPO, ACER and V-RACER with ReF-ER and each of its rules",
        runs=_runs(_POLICY_GRADIENTS, TASKS),
        substitutes=_without_acer(SMALL_TASKS[:4]),
        **_COMMON,
    ),
    Experiment(
        "figure 5",
        "Gym: divergence of their policies from what they replay",
        runs=_runs(_POLICY_GRADIENTS, TASKS),
        substitutes=_without_acer(SMALL_TASKS[:4]),
        **_OF_DIVERGENCE,
    ),
    Experiment(
        "figure 6",
        "flow control: V-RACER, ACER and DDPG",
        runs=_flow_runs(("vracer_refer", "acer_lr1e-05", "ddpg_er", "ddpg_refer")),
        substitutes={
            **dict.fromkeys(("workstation", "two_cores"), Substitute.none(_SLOW_FLOW)),
            **{scale: _small_flow(scale) for scale in ("small", "smoke")},
        },
        **{
            **_COMMON,
            "seeds": 3,
            "band": Band.UNSTATED,
            "states_budget": False,
            "note": "10M steps are ours: the text has none; the authors' solver is not public; "
            "ACER has no LSTM layers here",
        },
    ),
    Experiment(
        "figure 7",
        "Gym: V-RACER's sensitivity to C, D, N, B, F and learning rate",
        **_sensitivity(FIGURE_7),
        substitutes={
            "paper": Substitute(tuple(map(_filled, _sensitivity(FIGURE_7)["runs"]))),
            "two_cores": Substitute.none("200,000 steps fill no memory: use the scale small"),
            "small": _small_sensitivity(),
        },
        **_OF_SENSITIVITY,
    ),
    Experiment(
        "figure 8",
        "Gym: V-RACER's sensitivity to A, width and an advantage",
        **_sensitivity(FIGURE_8),
        substitutes=dict.fromkeys(("two_cores", "small"), Substitute.none(_NO_ANNEALING)),
        **_OF_SENSITIVITY,
    ),
    Experiment(
        "section 5.3",
        "Gym: V-RACER with plain and with prioritised replay",
        runs=_runs(["vracer_er", "vracer_per"], TASKS),
        substitutes=_small(["vracer_er", "vracer_per"], SMALL_TASKS[:4]),
        **_COMMON,
    ),
)


def _looks() -> dict[str, Look]:
    """Returns a colour for each kind of replay, whatever the agent, as in figures 1 to 4.

    In figures 7 and 8 the agent itself has its own value.
    """
    colors = {"er": BLACK, "per": PURPLE, "refer": BLUE, "refer1": VERMILLION, "refer2": GREEN}
    styles = {
        replay: Style(color, width=2.0 if replay == "refer" else 1.3)
        for replay, color in colors.items()
    }
    looks = {
        "ppo": Look("PPO", Style(BLACK)),
        "acer_lr0.0001": Look("ACER, 1e-4", Style(PURPLE, "--")),
        "acer_lr1e-05": Look("ACER, 1e-5", Style(PURPLE)),
    }
    for agent, name in (("ddpg", "DDPG"), ("naf", "NAF"), ("vracer", "V-RACER")):
        for key, replay in _REPLAYS.items():
            looks[f"{agent}_{key}"] = Look(f"{name}, {replay}", styles[key])
    for is_small, grid in ((False, FIGURE_7 | FIGURE_8), (True, FIGURE_7_SMALL)):
        for symbol, (_, values) in grid.items():
            for value in values:
                name = with_value(symbol, value, is_small)
                looks.setdefault(name, Look(f"{symbol} = {value}"))
    return looks


_PREFILL = changes("--config.min_replay_size=16384", agent=AGENT)
SCALES = (
    PAPER_SCALE,
    Scale("workstation", "an hour or two a run", Budget(actor_steps=3_000_000), _PREFILL),
    Scale(
        "two_cores",
        "minutes a run, for two cores",
        Budget(actor_steps=200_000),
        (
            *_PREFILL,
            *changes("--learner_threads=1"),
            *changes("--evaluation_steps=20000", agent=AGENT),
            *changes("--evaluation_steps=3200", agent=PPO),
        ),
    ),
    Scale(
        "small",
        "easy tasks, minutes a run on one core: a fiftieth of the steps, at ten times the rate "
        "but for PPO's policy",
        Budget(actor_steps=200_000),
        (
            *changes(
                "--config.learning_rate=0.001",
                "--config.policy_learning_rate=0.0001",
                "--config.replay_capacity=32768",  # its oldest are as many steps of the policy old
                "--config.min_replay_size=8192",
                "--evaluation_steps=6000",
                agent=AGENT,
            ),
            *changes(
                "--config.value_learning_rate=0.003",  # of the policy ten times are too much
                "--evaluation_steps=960",
                agent=PPO,
            ),
            *changes("--learner_threads=1", "--evaluation_episodes=5"),
        ),
        is_compact=True,
    ),
    Scale(
        "smoke",
        "a minute a run, to see that it works: its returns say nothing",
        Budget(minutes=1),
        (
            *changes("--config.min_replay_size=2048", agent=AGENT),
            *changes("--evaluation_seconds=15", "--evaluation_episodes=1"),
        ),
    ),
)

PAPER = Paper(
    name="refer",
    title="ReF-ER",
    citation="Novati and Koumoutsakos 2019",
    agents=(AGENT, PPO),
    experiments=EXPERIMENTS,
    scales=SCALES,
    looks=_looks(),
)
