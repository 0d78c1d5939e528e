"""The paper's figures as lists of runs; it has no tables."""

from collections.abc import Iterable, Sequence
import dataclasses
import importlib.util

from common.experiments.paper import Band, Experiment, OverTasks, Paper, Part, Run, Substitute
from common.experiments.scales import PAPER as PAPER_SCALE
from common.experiments.scales import Scale, changes
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
from reproductions.aql.config import AGENT
from reproductions.aql.match import uniform_return

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
SMALL_HIGH = tuple(
    f"python:reproductions.aql.redundant:{task}"
    for task in ("cartpole_14", "cartpole_21", "reacher_14", "reacher_20")
)
"""Stand-ins for the tasks of figure 8: easy ones with fourteen or more sub-actions."""
_MATCH_SIZES = (5, 21, 56)
MATCH = tuple(f"python:reproductions.aql.match:make_{size}" for size in _MATCH_SIZES)
ROVER = tuple(f"python:reproductions.aql.rover:{make}" for make in ("make", "make_11"))
"""With all 3,528 actions, and with 11."""
MAZES = ("maze:goal", "maze:objects")
ROOM = ("maze:room",)
"""Stand-ins for the levels of DeepMind Lab, and one that is learnt from in less time."""
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
_SHARED_RMSPROP = tuple(f"{method}_shared_rmsprop" for method in _METHODS)
_MATCH_METHODS = ("aql", "aql_independent", "aql_gaussian", "uniform_q", "qt_opt")
_ACTION_SETS = ("11", "3528")


def _runs(
    settings: Iterable[str],
    environments: Iterable[str],
    flags: tuple[str, ...] = (),
    fixed: tuple[str, ...] = (),
) -> tuple[Run, ...]:
    fixed_of = {
        # At larger rates D3PG's actions become +-1 at every state, and stay there.
        "d3pg": ("--config.learning_rate",),
        # IMPALA replays nothing.
        "impala": ("--config.replayed_unrolls",),
    }
    return tuple(
        Run(
            AGENT,
            setting,
            environment,
            (f"--setting={setting}", *flags),
            fixed=(*fixed, *fixed_of.get(setting.partition("_")[0], ())),
        )
        for setting in settings
        for environment in environments
    )


_EVALUATION_STEPS = 400
"""Updates between two evaluations at the scale small."""


def _evaluated(runs: tuple[Run, ...], period: int = _EVALUATION_STEPS) -> tuple[Run, ...]:
    """Returns runs at the scale small, where IMPALA makes a fifteenth of the others' updates.

    Args:
      runs: of the scale.
      period: updates between two evaluations of the others.
    """

    def evaluated(run: Run) -> Run:
        of_run = round(period / 15) if run.setting.startswith("impala") else period
        own = (f"--evaluation_steps={of_run}",) if of_run != _EVALUATION_STEPS else ()
        return dataclasses.replace(run, flags=(*run.flags, *own))

    return tuple(map(evaluated, runs))


def _small(runs: tuple[Run, ...]) -> dict[str, Substitute]:
    return {"small": Substitute(_evaluated(runs), seeds=3)}


_HALF_WIDTHS = (
    *(f"--config.{size}=64" for size in ("state_size", "action_size")),
    *(f"--config.{sizes}=64,64" for sizes in ("shared_sizes", "proposal_sizes")),
    "--config.joint_sizes=(64,)",
)
"""Figure 11's layers have half of the units of the others, at the scale small as well."""
_WIDTHS = tuple(
    f"--config.{size}" for size in ("state_size", "action_size", "joint_sizes", "proposal_sizes")
)


def _small_ours(runs: Sequence[Run], budget: Budget) -> dict[str, Substitute]:
    """Returns runs on an environment of ours: the paper's batches and layers are soon enough."""
    assert budget.actor_steps is not None
    period = budget.actor_steps // 2000  # some 30 evaluations: 63 steps are one update

    def run_at_small(run: Run) -> Run:
        every, fixed = period, (*run.fixed, "--config.batch_size", *_WIDTHS)
        if run.setting == "impala":  # 240 steps are one update of 8 unrolls, that of the scale
            every, fixed = period // 12, (*run.fixed, *_WIDTHS)
        flags = (*run.flags, "--config.learning_rate=0.001", f"--evaluation_steps={every}")
        return dataclasses.replace(run, flags=flags, fixed=fixed)

    note = "here layers of 256 units, a learning rate of 0.001, batches of 32 unrolls and an "
    note += f"evaluation every {period} updates"
    if any(run.setting == "impala" for run in runs):
        note += f"; IMPALA's of 8, and every {period // 12}"
    return {"small": Substitute(tuple(map(run_at_small, runs)), note, budget, seeds=3)}


_LAB_SETTINGS = tuple(
    f"{method}_{actions}_actions" for method in _LAB_METHODS for actions in _ACTION_SETS
)


def _mazes() -> dict[str, Substitute]:
    """Returns what stands in for DeepMind Lab's levels, by scale."""
    note = "mazes of ViZDoom stand in for the levels, so returns are not those of the Lab"
    small = ("--config.channels=8,16", "--config.lstm_size=64", "--config.unroll_length=20")
    at_small = _evaluated(_runs(_LAB_SETTINGS, ROOM, small), 150)
    small_note = (
        f"{note}: here a room without walls inside, two sections of 8 and 16 channels, an LSTM of "
        "64 units, proposals of two layers of 128 instead of one of 256, unrolls of 20 timesteps "
        "and an evaluation every 150 updates, of IMPALA every 10"
    )
    substitutes = {
        "workstation": Substitute(_runs(_LAB_SETTINGS, MAZES), note),
        "two_cores": Substitute.none("ten minutes on two cores are a dozen updates from images"),
        "small": Substitute(at_small, small_note, Budget(actor_steps=50_000), seeds=3),
        "smoke": Substitute(_runs(_LAB_SETTINGS, ROOM, small), small_note),
    }
    if importlib.util.find_spec("deepmind_lab") is None:
        substitutes[PAPER_SCALE.name] = Substitute(
            _runs(_LAB_SETTINGS, LAB),
            overrides={"unavailable": "deepmind_lab is not installed, which no registry has"},
        )
    return substitutes


_HIGH_NOTE = "cartpole swingup and reacher easy with many redundant sub-actions, whose mean acts"
_TASKS_OPEN = "the paper's 39 tasks of 16 domains are dm_control's of its time, without lqr"
_200M_STEPS = Budget(actor_steps=200_000_000)
_COMMON = {
    "budget": _200M_STEPS,
    "x": "actor_steps",
    "band": Band.STANDARD_ERROR,
    "seeds": 3,
    "note": _TASKS_OPEN,
}
_FINAL = {**_COMMON, "x": ""}
_OURS = {**_COMMON, "states_budget": False, "band": Band.UNSTATED}
_MATCH_BUDGET = Budget(actor_steps=50_000)
_ROVER_RUNS = (
    *_runs(_LAB_METHODS[:2], ROVER),
    # 500 samples have all of 11 actions.
    *_runs(["uniform_q"], ROVER[:1]),
    # One softmax over all actions, as in the Lab.
    *_runs(["impala"], ROVER, ("--config.flat_policy=True",)),
)

EXPERIMENTS = (
    Experiment(
        "figure 1",
        "Control Suite: six methods, mean over tasks",
        runs=_runs(_METHODS, ALL),
        substitutes=_small(_runs(_METHODS, (*SMALL_LOW, *SMALL_MEDIUM))),
        over_tasks=OverTasks.MEAN,
        **{**_COMMON, "note": f"its left half is a drawing; {_TASKS_OPEN}"},
    ),
    Experiment(
        "figure 2",
        "Control Suite: final means of medium and high dimensions",
        runs=_runs(_METHODS, (*MEDIUM, *HIGH)),
        substitutes={
            "small": Substitute(
                _evaluated(_runs(_METHODS, (*SMALL_MEDIUM, *SMALL_HIGH))),
                _HIGH_NOTE,
                seeds=3,
                overrides={
                    "parts": (
                        Part("medium", environments=SMALL_MEDIUM),
                        Part("high", environments=SMALL_HIGH),
                    )
                },
            )
        },
        over_tasks=OverTasks.MEAN,
        parts=(Part("medium", environments=MEDIUM), Part("high", environments=HIGH)),
        **_FINAL,
    ),
    Experiment(
        "figure 3",
        "DeepMind Lab: AQL, exact Q-learning and IMPALA, 11 and 3528 actions",
        runs=_runs(_LAB_SETTINGS, LAB),
        substitutes=_mazes(),
        parts=(Part("top"), Part("bottom", overrides={"x": "wall_seconds"})),
        **{
            **_COMMON,
            "budget": Budget(actor_steps=50_000_000),
            "seeds": 5,
            "note": "the levels are named in the picture only: two of DMLab-30",
        },
    ),
    Experiment(
        "figure 4",
        "pendulum swingup: proposals and Q-values as pictures",
        runs=_runs(["aql"], ["control:pendulum:swingup"]),
        **{
            **_FINAL,
            "note": "the pictures are those of `python -m binaries.evaluate --proposals`; here are "
            "returns. While balancing, the proposal is near-uniform by the caption, and of low "
            "entropy by appendix A3's text",
        },
    ),
    Experiment(
        "figure 5",
        "Control Suite: independent beside autoregressive proposals",
        runs=_runs(["aql", "aql_independent"], ALL),
        substitutes=_small(_runs(["aql", "aql_independent"], (*SMALL_LOW, *SMALL_MEDIUM))),
        over_tasks=OverTasks.MEAN,
        **_COMMON,
    ),
    Experiment(
        "figure 6",
        "Control Suite: final means of low dimensions, by task",
        runs=_runs(_METHODS, LOW),
        substitutes=_small(_runs(_METHODS, SMALL_LOW)),
        **_FINAL,
    ),
    Experiment(
        "figure 7",
        "Control Suite: final means of medium dimensions, by task",
        runs=_runs(_METHODS, MEDIUM),
        substitutes=_small(_runs(_METHODS, SMALL_MEDIUM)),
        **_FINAL,
    ),
    Experiment(
        "figure 8",
        "Control Suite: final means of high dimensions, by task",
        runs=_runs(_METHODS, HIGH),
        substitutes={
            "small": Substitute(_evaluated(_runs(_METHODS, SMALL_HIGH)), _HIGH_NOTE, seeds=5)
        },
        **_FINAL,
    ),
    Experiment(
        "figure 9",
        "Control Suite: learning curves of low and some medium tasks",
        runs=_runs(_METHODS, ALL[:21]),
        substitutes=_small(_runs(_METHODS, SMALL_LOW)),
        **_COMMON,
    ),
    Experiment(
        "figure 10",
        "Control Suite: learning curves of the other tasks",
        runs=_runs(_METHODS, ALL[21:]),
        substitutes=_small(_runs(_METHODS, SMALL_MEDIUM)),
        **_COMMON,
    ),
    Experiment(
        "figure 11",
        "Control Suite: RMSProp, and a deeper network that shares layers",
        runs=_runs(_SHARED_RMSPROP, ALL),
        substitutes=_small(_runs(_SHARED_RMSPROP, (*SMALL_LOW, *SMALL_MEDIUM), _HALF_WIDTHS)),
        over_tasks=OverTasks.MEAN,
        **_COMMON,
    ),
    Experiment(
        "section match",
        "not in the paper: signs to be matched by many sub-actions",
        runs=_runs(_MATCH_METHODS, MATCH),
        substitutes=_small_ours(_runs(_MATCH_METHODS, MATCH), _MATCH_BUDGET),
        **{
            **_OURS,
            "budget": _MATCH_BUDGET,
            "levels": {
                environment: ((uniform_return(size, 500), "a perfect Q, 500 uniform samples"),)
                for environment, size in zip(MATCH, _MATCH_SIZES)
            },
            "note": "an environment of ours",
        },
    ),
    Experiment(
        "section rover",
        "not in the paper: 3,528 structured actions, or 11",
        runs=_ROVER_RUNS,
        substitutes=_small_ours(_ROVER_RUNS, Budget(actor_steps=100_000)),
        parts=(Part("top"), Part("bottom", overrides={"x": "wall_seconds"})),
        **{
            **_OURS,
            "budget": Budget(actor_steps=1_000_000),
            "note": "an environment of ours, with the sub-actions of figure 3's large set, or 11",
        },
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
    for name, method in zip(_SHARED_RMSPROP, _METHODS):
        look = _LOOKS[method]
        looks[name] = Look(f"{look.label}, shared layers", look.style)
    return looks


_ACTORS = changes("--num_actors=10")  # one of them with epsilon = 0.5
_RATIO = changes("--config.replayed_unrolls=14")  # 5 times as many updates a step
SCALES = (
    PAPER_SCALE,
    Scale(
        "workstation",
        "four hours a run, for some 16 cores",
        Budget(minutes=4 * 60),
        changes("--evaluation_seconds=300"),
    ),
    Scale(
        "two_cores",
        "ten minutes a run, for two cores",
        Budget(minutes=10),
        (
            *_ACTORS,
            *_RATIO,
            *changes("--config.learning_rate=0.001"),
            *changes("--evaluation_seconds=120", "--evaluation_episodes=5"),
        ),
    ),
    Scale(
        "small",
        "a scale model for one core: easy tasks of low and medium dimensions, stand-ins for high "
        "ones, and smaller networks and batches",
        Budget(actor_steps=200_000),
        (
            *changes("--config.single_process=true"),
            *_ACTORS,
            *_RATIO,
            *changes(
                "--config.learning_rate=0.0005",
                "--config.batch_size=8",
                "--config.state_size=128",
                "--config.action_size=128",
                "--config.joint_sizes=128,128",
                "--config.proposal_sizes=128,128",
                "--learner_threads=1",
                f"--evaluation_steps={_EVALUATION_STEPS}",
                "--evaluation_episodes=5",
            ),
        ),
        is_compact=True,
    ),
    Scale(
        "smoke",
        "a minute a run, to see that it works: its returns say nothing",
        Budget(minutes=1),
        (*_ACTORS, *changes("--evaluation_seconds=15", "--evaluation_episodes=1")),
    ),
)

PAPER = Paper(
    name="aql",
    title="AQL",
    citation="Van de Wiele et al. 2020",
    agents=(AGENT,),
    experiments=EXPERIMENTS,
    scales=SCALES,
    looks=_looks(),
)
