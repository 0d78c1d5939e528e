"""The paper's figures and tables as lists of runs."""

from collections.abc import Iterable

from common.environments.atari_games import ENVIRONMENTS
from common.environments.minatar_suite import ENVIRONMENTS as MINATAR
from common.experiments.atari_scores import GameScores, GameSummaries
from common.experiments.paper import (
    Experiment,
    OverTasks,
    Paper,
    Part,
    Program,
    Reference,
    Run,
    Substitute,
)
from common.experiments.scales import PAPER as PAPER_SCALE
from common.experiments.scales import Scale
from common.figures.palette import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION, Look, Style
from common.reporting.budget import Budget

PROGRAM = Program("Reactor", "binaries.reactor")

_LOOKS = {
    "reactor": Look("Reactor", Style(BLUE, width=2.0)),
    "reactor_nd": Look("Reactor ND", Style(SKY)),
    "reactor_uniform": Look("minus prioritization", Style(ORANGE)),
    "reactor_tislr": Look("TISLR instead of beta-LOO", Style(VERMILLION)),
    "reactor_500m": Look("Reactor 500m", Style(GREEN)),
    "reactor_20_workers": Look("Reactor, 20 workers", Style(PURPLE)),
}
_AGENTS = {"Reactor ND": "reactor_nd", "Reactor": "reactor", "Reactor 500m": "reactor_500m"}
"""Ours by the tables' names."""
_FIELD = ("reactor", "table 5")
_200M_FRAMES = Budget(actor_steps=50_000_000)
_500M_FRAMES = Budget(actor_steps=125_000_000)


def _runs(settings: Iterable[str], environments: Iterable[str] = ENVIRONMENTS) -> tuple[Run, ...]:
    return tuple(
        Run(PROGRAM, setting, environment, (f"--setting={setting}",))
        for setting in settings
        for environment in environments
    )


_TABLES = (
    *_runs(["reactor_nd", "reactor"]),
    *(
        Run(PROGRAM, "reactor_500m", environment, ("--setting=reactor",), _500M_FRAMES)
        for environment in ENVIRONMENTS
    ),
)
_PARTS_OF_REACTOR = ("reactor", "reactor_nd", "reactor_uniform", "reactor_tislr")
_DRAWING = "a drawing, nothing to run"
_OTHERS = ("DQN", "DDQN", "Duel", "Prior", "Prior. Duel.", "Rainbow")
_NO_HUMAN_STARTS = "the human starts were never published"

EXPERIMENTS = (
    Experiment("figure 1", "distributional bootstrapping", unavailable=_DRAWING),
    Experiment(
        "figure 2",
        "training times and resources",
        runs=_runs(["reactor", "reactor_20_workers"]),
        budget=_200M_FRAMES,
        x="",
        y="wall_seconds",
        note="its left half is a drawing",
    ),
    Experiment(
        "figure 3",
        "57 Atari games: Reactor without each of its parts, and the time",
        runs=_runs(_PARTS_OF_REACTOR),
        budget=_200M_FRAMES,
        substitutes={
            "small": Substitute(
                _runs(_PARTS_OF_REACTOR, MINATAR),
                seeds=5,
                overrides={"x": "actor_steps", "over_tasks": OverTasks.APART, "parts": ()},
            )
        },
        x="environment_frames",
        over_tasks=OverTasks.MEDIAN_NORMALISED,
        seeds=1,
        parts=(Part("left"), Part("right", settings=("reactor",), overrides={"x": "wall_seconds"})),
        note="whether its right half has more than Reactor's own curve is in the picture only; "
        "others' curves are in no text",
    ),
    Experiment("figure 4", "lazy prioritisation", unavailable=_DRAWING),
    Experiment("figure 5", "rules of the priority tree", unavailable=_DRAWING),
    Experiment("figure 6", "an example of the priority tree", unavailable=_DRAWING),
    Experiment("figure 7", "the network", unavailable=_DRAWING),
    Experiment(
        "table 1",
        "57 Atari games, human starts: median, mean rank, Elo",
        runs=_TABLES,
        budget=_200M_FRAMES,
        x="",
        over_tasks=OverTasks.MEDIAN_NORMALISED,
        seeds=1,
        unavailable=_NO_HUMAN_STARTS,
    ),
    Experiment(
        "table 2",
        "57 Atari games, no-op starts: median, mean rank, Elo",
        runs=_TABLES,
        budget=_200M_FRAMES,
        x="",
        over_tasks=OverTasks.MEDIAN_NORMALISED,
        seeds=1,
        ours=GameSummaries(_AGENTS, {"Normalized scores": 1}, _FIELD, ranks="Mean rank", elo="Elo"),
        references=tuple(Reference("table 2", name, "Normalized scores", name) for name in _OTHERS),
    ),
    Experiment("table 3", "sizes of the network", unavailable="sizes, nothing to run"),
    Experiment(
        "table 4",
        "57 Atari games, human starts: scores",
        runs=_TABLES,
        budget=_200M_FRAMES,
        x="",
        seeds=1,
        unavailable=_NO_HUMAN_STARTS,
    ),
    Experiment(
        "table 5",
        "57 Atari games, no-op starts: scores",
        runs=_TABLES,
        budget=_200M_FRAMES,
        x="",
        seeds=1,
        ours=GameScores(_AGENTS, _FIELD),
    ),
    Experiment(
        "section 6.1",
        "learning rates, momenta and target periods",
        unavailable="its seven games and most of its values are not in the paper",
    ),
    Experiment(
        "section 6.5",
        "priority tree beside insertion at the highest priority",
        unavailable="told in a sentence, without games or numbers",
    ),
)

PAPER = Paper(
    name="reactor",
    title="Reactor",
    citation="Gruslys et al. 2018",
    programs=(PROGRAM,),
    experiments=EXPERIMENTS,
    scales=(
        PAPER_SCALE,
        Scale(
            "small",
            "five small games, minutes a run on one core",
            Budget(actor_steps=300_000),
            is_compact=True,
        ),
    ),
    looks=_LOOKS,
)
