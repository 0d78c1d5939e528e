"""The paper's figures as lists of runs; it has no tables."""

from collections.abc import Iterable
import dataclasses

from common.experiments.paper import (
    Band,
    Experiment,
    OverTasks,
    Paper,
    Part,
    Program,
    Run,
    Substitute,
)
from common.experiments.scales import PAPER as PAPER_SCALE
from common.experiments.scales import Scale
from common.figures.palette import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    Look,
    Style,
)
from common.reporting.budget import Budget

PROGRAM = Program("AQL", "binaries.aql")

LOW = tuple(
    f"control:{task}"
    for task in (
        "acrobot:swingup",
        "acrobot:swingup_sparse",
        "cartpole:balance",
        "cartpole:balance_sparse",
        "cartpole:swingup",
        "cartpole:swingup_sparse",
        "cartpole:two_poles",
        "cartpole:three_poles",
        "pendulum:swingup",
        "ball_in_cup:catch",
        "finger:spin",
        "finger:turn_easy",
        "finger:turn_hard",
        "point_mass:easy",
        "point_mass:hard",
        "reacher:easy",
        "reacher:hard",
    )
)
"""Figure 6: tasks of one or two sub-actions."""

MEDIUM = tuple(
    f"control:{task}"
    for task in (
        "hopper:stand",
        "hopper:hop",
        "fish:upright",
        "fish:swim",
        "manipulator:bring_ball",
        "manipulator:bring_peg",
        "manipulator:insert_ball",
        "manipulator:insert_peg",
        "stacker:stack_2",
        "stacker:stack_4",
        "swimmer:swimmer6",
        "cheetah:run",
        "walker:stand",
        "walker:walk",
        "walker:run",
    )
)
"""Figure 7: four to six."""

HIGH = tuple(
    f"control:{task}"
    for task in (
        "swimmer:swimmer15",
        "humanoid:stand",
        "humanoid:walk",
        "humanoid:run",
        "humanoid:run_pure_state",
        "humanoid_CMU:stand",
        "humanoid_CMU:run",
    )
)
"""Figure 8: fourteen or more."""

ALL = (*LOW, *MEDIUM, *HIGH)
SMALL_LOW = tuple(
    f"control:{task}"
    for task in (
        "cartpole:swingup",
        "pendulum:swingup",
        "ball_in_cup:catch",
        "finger:spin",
        "reacher:easy",
    )
)
SMALL_MEDIUM = ("control:fish:upright", "control:cheetah:run", "control:walker:walk")
"""Tasks that are learnt in minutes on one core."""
LAB = ("dmlab:explore_goal_locations_small", "dmlab:explore_object_locations_small")

_LOOKS = {
    "aql": Look("AQL", Style(BLUE, width=2.0)),
    "aql_gaussian": Look("AQL, continuous", Style(SKY)),
    "uniform_q": Look("Uniform Q-learning", Style(ORANGE)),
    "qt_opt": Look("QT-Opt", Style(GREEN)),
    "d3pg": Look("D3PG", Style(VERMILLION)),
    "impala": Look("IMPALA", Style(PURPLE)),
    "aql_independent": Look("AQL, independent", Style(GREY)),
    "exact_q": Look("Q-learning, exact", Style(BLACK)),
}
_METHODS = ("aql", "aql_gaussian", "uniform_q", "qt_opt", "d3pg", "impala")
_LAB_METHODS = ("aql", "exact_q", "impala")
_ACTION_SETS = ("11", "3528")


def _runs(settings: Iterable[str], environments: Iterable[str]) -> tuple[Run, ...]:
    return tuple(
        Run(PROGRAM, setting, environment, (f"--setting={setting}",))
        for setting in settings
        for environment in environments
    )


def _small(settings: Iterable[str], environments: Iterable[str]) -> dict[str, Substitute]:
    return {"small": Substitute(_runs(settings, environments), seeds=3)}


_TASKS_OPEN = "39 tasks of 16 domains are those of dm_control at the paper's time, without lqr"
_200M_STEPS = Budget(actor_steps=200_000_000)
_COMMON = {
    "budget": _200M_STEPS,
    "x": "actor_steps",
    "band": Band.STANDARD_ERROR,
    "seeds": 3,
    "note": _TASKS_OPEN,
}
_FINAL = {**_COMMON, "x": ""}

EXPERIMENTS = (
    Experiment(
        "figure 1",
        "Control Suite: six methods, mean over 39 tasks",
        runs=_runs(_METHODS, ALL),
        substitutes=_small(_METHODS, (*SMALL_LOW, *SMALL_MEDIUM)),
        over_tasks=OverTasks.MEAN,
        **{**_COMMON, "note": f"its left half is a drawing; {_TASKS_OPEN}"},
    ),
    Experiment(
        "figure 2",
        "Control Suite: final means of medium and high dimensions",
        runs=_runs(_METHODS, (*MEDIUM, *HIGH)),
        over_tasks=OverTasks.MEAN,
        parts=(Part("medium", environments=MEDIUM), Part("high", environments=HIGH)),
        **_FINAL,
    ),
    Experiment(
        "figure 3",
        "DeepMind Lab: AQL, exact Q-learning and IMPALA, 11 and 3528 actions",
        runs=tuple(
            Run(
                PROGRAM,
                f"{method}_{actions}_actions",
                environment,
                (f"--setting={method}_{actions}_actions",),
            )
            for method in _LAB_METHODS
            for actions in _ACTION_SETS
            for environment in LAB
        ),
        parts=(Part("top"), Part("bottom", overrides={"x": "wall_seconds"})),
        **{
            **_COMMON,
            "budget": Budget(actor_steps=50_000_000),
            "seeds": 5,
            "note": "the levels are named in the picture only: two of DMLab-30",
        },
        unavailable="DeepMind Lab is in no package registry",
    ),
    Experiment(
        "figure 4",
        "pendulum swingup: proposals and Q-values as pictures",
        runs=_runs(["aql"], ["control:pendulum:swingup"]),
        **_FINAL,
    ),
    Experiment(
        "figure 5",
        "Control Suite: independent beside autoregressive proposals",
        runs=_runs(["aql", "aql_independent"], ALL),
        substitutes=_small(["aql", "aql_independent"], (*SMALL_LOW, *SMALL_MEDIUM)),
        over_tasks=OverTasks.MEAN,
        **_COMMON,
    ),
    Experiment(
        "figure 6",
        "Control Suite: final means of low dimensions, by task",
        runs=_runs(_METHODS, LOW),
        substitutes=_small(_METHODS, SMALL_LOW),
        **_FINAL,
    ),
    Experiment(
        "figure 7",
        "Control Suite: final means of medium dimensions, by task",
        runs=_runs(_METHODS, MEDIUM),
        substitutes=_small(_METHODS, SMALL_MEDIUM),
        **_FINAL,
    ),
    Experiment(
        "figure 8",
        "Control Suite: final means of high dimensions, by task",
        runs=_runs(_METHODS, HIGH),
        **_FINAL,
    ),
    Experiment(
        "figure 9",
        "Control Suite: learning curves of low and some medium tasks",
        runs=_runs(_METHODS, ALL[:21]),
        **_COMMON,
    ),
    Experiment(
        "figure 10",
        "Control Suite: learning curves of the other tasks",
        runs=_runs(_METHODS, ALL[21:]),
        **_COMMON,
    ),
    Experiment(
        "figure 11",
        "Control Suite: RMSProp, and a deeper network that shares layers",
        runs=tuple(
            Run(
                PROGRAM,
                f"{method}_shared_rmsprop",
                environment,
                (f"--setting={method}_shared_rmsprop",),
            )
            for method in _METHODS
            for environment in ALL
        ),
        over_tasks=OverTasks.MEAN,
        **_COMMON,
    ),
)


def _looks() -> dict[str, Look]:
    """Returns the looks, with dashes for DeepMind Lab's 11 actions and full lines for its 3528."""
    looks = dict(_LOOKS)
    for method in _LAB_METHODS:
        look = _LOOKS[method]
        for actions, line in zip(_ACTION_SETS, ("--", "-")):
            looks[f"{method}_{actions}_actions"] = Look(
                f"{look.label}, {actions} actions", dataclasses.replace(look.style, line=line)
            )
    return looks | {f"{method}_shared_rmsprop": _LOOKS[method] for method in _METHODS}


PAPER = Paper(
    name="aql",
    title="AQL",
    citation="Van de Wiele et al. 2020",
    programs=(PROGRAM,),
    experiments=EXPERIMENTS,
    scales=(
        PAPER_SCALE,
        Scale(
            "small",
            "easy tasks of low and medium dimensions, minutes a run on one core",
            Budget(actor_steps=100_000),
            is_compact=True,
        ),
    ),
    looks=_looks(),
)
