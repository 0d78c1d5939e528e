"""The paper's figures and tables as lists of runs."""

from collections.abc import Iterable

from common.environments.atari_games import ENVIRONMENTS
from common.experiments.registry import Experiment, OverTasks, Paper, Part, Program, Reference, Run
from common.experiments.scales import PAPER as PAPER_SCALE
from common.reporting.budget import Budget

PROGRAM = Program("Reactor", "binaries.reactor", parameters=908_235)  # 18 actions

_LABELS = {
    "reactor": "Reactor",
    "reactor_nd": "Reactor ND",
    "reactor_uniform": "minus prioritization",
    "reactor_tislr": "TISLR instead of beta-LOO",
    "reactor_500m": "Reactor 500m",
    "reactor_20_workers": "Reactor, 20 workers",
}


_200M_FRAMES = Budget(actor_steps=50_000_000)
_500M_FRAMES = Budget(actor_steps=125_000_000)


def _runs(settings: Iterable[str]) -> tuple[Run, ...]:
    return tuple(
        Run(PROGRAM, setting, environment, (f"--setting={setting}",))
        for setting in settings
        for environment in ENVIRONMENTS
    )


_TABLES = (
    *_runs(["reactor_nd", "reactor"]),
    *(
        Run(PROGRAM, "reactor_500m", environment, ("--setting=reactor",), _500M_FRAMES)
        for environment in ENVIRONMENTS
    ),
)
_DRAWING = "a drawing, nothing to run"
_OTHERS = ("DQN", "DDQN", "Duel", "Prior", "Prior. Duel.", "Rainbow")
_NO_HUMAN_STARTS = "the human starts were never published"

EXPERIMENTS = (
    Experiment("reactor", "figure 1", "distributional bootstrapping", unavailable=_DRAWING),
    Experiment(
        "reactor",
        "figure 2",
        "training times and resources",
        runs=_runs(["reactor", "reactor_20_workers"]),
        budget=_200M_FRAMES,
        x="",
        y="wall_seconds",
        note="its left half is a drawing",
    ),
    Experiment(
        "reactor",
        "figure 3",
        "57 Atari games: Reactor without each of its parts, and the time",
        runs=_runs(["reactor", "reactor_nd", "reactor_uniform", "reactor_tislr"]),
        budget=_200M_FRAMES,
        x="environment_frames",
        over_tasks=OverTasks.MEDIAN_NORMALISED,
        seeds=1,
        parts=(Part("left"), Part("right", settings=("reactor",), others={"x": "wall_seconds"})),
        note="whether its right half has more than Reactor's own curve is in the picture only; "
        "others' curves are in no text",
    ),
    Experiment("reactor", "figure 4", "lazy prioritisation", unavailable=_DRAWING),
    Experiment("reactor", "figure 5", "rules of the priority tree", unavailable=_DRAWING),
    Experiment("reactor", "figure 6", "an example of the priority tree", unavailable=_DRAWING),
    Experiment("reactor", "figure 7", "the network", unavailable=_DRAWING),
    Experiment(
        "reactor",
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
        "reactor",
        "table 2",
        "57 Atari games, no-op starts: median, mean rank, Elo",
        runs=_TABLES,
        budget=_200M_FRAMES,
        x="",
        over_tasks=OverTasks.MEDIAN_NORMALISED,
        seeds=1,
        references=tuple(Reference("table 2", name, "Normalized scores", name) for name in _OTHERS),
    ),
    Experiment("reactor", "table 3", "sizes of the network", unavailable="sizes, nothing to run"),
    Experiment(
        "reactor",
        "table 4",
        "57 Atari games, human starts: scores",
        runs=_TABLES,
        budget=_200M_FRAMES,
        x="",
        seeds=1,
        unavailable=_NO_HUMAN_STARTS,
    ),
    Experiment(
        "reactor",
        "table 5",
        "57 Atari games, no-op starts: scores",
        runs=_TABLES,
        budget=_200M_FRAMES,
        x="",
        seeds=1,
    ),
    Experiment(
        "reactor",
        "section 6.1",
        "learning rates, momenta and target periods",
        unavailable="its seven games and most of its values are not in the paper",
    ),
    Experiment(
        "reactor",
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
    scales=(PAPER_SCALE,),
    labels=_LABELS,
)
