"""The paper's figures as lists of runs; it has no tables."""

from collections.abc import Iterable

from common.experiments.registry import Band, Experiment, Paper, Part, Program, Returns, Run
from common.experiments.scales import PAPER as PAPER_SCALE
from common.reporting.budget import Budget

# Humanoid: two networks of 376-128-128 and what follows them, with targets' room to spare.
PROGRAM = Program("ReF-ER", "binaries.refer", parameters=200_000)

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

SENSITIVITY_TASKS = tuple(
    f"gym:{task}-v4" for task in ("Humanoid", "Ant", "Walker2d", "HalfCheetah")
)
FLOW = ("flow:cylinder",)

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
"""What is varied of V-RACER: a flag, and its values, which are not in the paper except its own."""


def _runs(settings: Iterable[str], environments: Iterable[str]) -> tuple[Run, ...]:
    return tuple(
        Run(PROGRAM, setting, environment, (f"--setting={setting}",))
        for setting in settings
        for environment in environments
    )


def _sensitivity(grid: dict[str, tuple[str, tuple[str, ...]]]) -> dict[str, tuple]:
    """The runs, and a row for each hyperparameter."""
    names = {
        symbol: tuple(f"vracer_refer_{symbol}{value}" for value in values)
        for symbol, (_, values) in grid.items()
    }
    runs = tuple(
        Run(PROGRAM, name, environment, ("--setting=vracer_refer", f"--{flag}={value}"))
        for symbol, (flag, values) in grid.items()
        for name, value in zip(names[symbol], values)
        for environment in SENSITIVITY_TASKS
    )
    return {
        "runs": runs,
        "parts": tuple(Part(f"row {symbol}", settings=of_row) for symbol, of_row in names.items()),
    }


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
        "refer",
        "figure 1",
        "Gym: DDPG with five kinds of replay",
        runs=_runs(_DDPG, TASKS),
        **_COMMON,
    ),
    Experiment(
        "refer",
        "figure 2",
        "Gym: divergence of DDPG's policy from what it replays",
        runs=_runs(_DDPG, TASKS),
        **_OF_DIVERGENCE,
    ),
    Experiment(
        "refer",
        "figure 3",
        "Gym: NAF with five kinds of replay",
        runs=_runs(_NAF, TASKS),
        **_COMMON,
    ),
    Experiment(
        "refer",
        "figure 4",
        "Gym: PPO, ACER and V-RACER with ReF-ER and each of its rules",
        runs=_runs(_POLICY_GRADIENTS, TASKS),
        **_COMMON,
    ),
    Experiment(
        "refer",
        "figure 5",
        "Gym: divergence of their policies from what they replay",
        runs=_runs(_POLICY_GRADIENTS, TASKS),
        **_OF_DIVERGENCE,
    ),
    Experiment(
        "refer",
        "figure 6",
        "flow control: V-RACER, ACER and DDPG",
        runs=_runs(["vracer_refer", "acer_lr1e-05", "ddpg_er", "ddpg_refer"], FLOW),
        **{
            **_COMMON,
            "seeds": 3,
            "band": Band.UNSTATED,
            "states_budget": False,
            "note": "10M steps are ours: the text has none; the authors' solver is not public",
        },
    ),
    Experiment(
        "refer",
        "figure 7",
        "Gym: V-RACER's sensitivity to C, D, N, B, F and learning rate",
        **_sensitivity(FIGURE_7),
        **_OF_SENSITIVITY,
    ),
    Experiment(
        "refer",
        "figure 8",
        "Gym: V-RACER's sensitivity to A, width and an advantage",
        **_sensitivity(FIGURE_8),
        **_OF_SENSITIVITY,
    ),
    Experiment(
        "refer",
        "section 5.3",
        "Gym: V-RACER with plain and with prioritised replay",
        runs=_runs(["vracer_er", "vracer_per"], TASKS),
        **_COMMON,
    ),
)


def _labels() -> dict[str, str]:
    labels = {"ppo": "PPO", "acer_lr0.0001": "ACER, 1e-4", "acer_lr1e-05": "ACER, 1e-5"}
    agents = {"ddpg": "DDPG", "naf": "NAF", "vracer": "V-RACER"}
    for agent, name in agents.items():
        labels |= {f"{agent}_{key}": f"{name}, {replay}" for key, replay in _REPLAYS.items()}
    for symbol, (_, values) in (FIGURE_7 | FIGURE_8).items():
        labels |= {f"vracer_refer_{symbol}{value}": f"{symbol} = {value}" for value in values}
    return labels


PAPER = Paper(
    name="refer",
    title="ReF-ER",
    citation="Novati and Koumoutsakos 2019",
    programs=(PROGRAM,),
    experiments=EXPERIMENTS,
    scales=(PAPER_SCALE,),
    labels=_labels(),
)
