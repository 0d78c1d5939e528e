"""The paper's figures and tables as lists of runs."""

from collections.abc import Iterable
import dataclasses

from common.environments.atari_games import ENVIRONMENTS
from common.experiments.atari_scores import GameScores, GameSummaries
from common.experiments.paper import (
    Experiment,
    OverTasks,
    Paper,
    Part,
    Reference,
    Run,
    Substitute,
    curve,
)
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
from reproductions.reactor.config import AGENT

_LOOKS = {
    "reactor": Look("Reactor", Style(BLUE, width=2.0)),
    "reactor_nd": Look("Reactor ND", Style(SKY)),
    "reactor_uniform": Look("minus prioritization", Style(ORANGE)),
    "reactor_tislr": Look("TISLR instead of beta-LOO", Style(VERMILLION)),
    "reactor_500m": Look("Reactor 500m", Style(GREEN)),
    "reactor_20_workers": Look("Reactor, 20 workers", Style(PURPLE)),
    "reactor_max_priority": Look("new ones at the highest priority", Style(ORANGE, "--")),
    "reactor_one_step": Look("one-step targets", Style(BLACK)),
    "reactor_one_over_mu": Look("1/mu-LOO", Style(VERMILLION, ":")),
    "reactor_islr": Look("ISLR", Style(VERMILLION, "--")),
    "reactor_stored_state": Look("stored LSTM states", Style(GREY)),
    "reactor_entropy0.001": Look("entropy cost 0.001", Style(SKY, "--")),
    "reactor_entropy0.003": Look("entropy cost 0.003", Style(SKY, ":")),
}
"""Colours tell what is changed (replay: orange, the policy's gradient: vermillion), dashes how."""
_AGENTS = {"Reactor ND": "reactor_nd", "Reactor": "reactor", "Reactor 500m": "reactor_500m"}
"""Ours by the tables' names."""
_FIELD = ("reactor", "table 5")
_200M_FRAMES = Budget(actor_steps=50_000_000)
_500M_FRAMES = Budget(actor_steps=125_000_000)


def _runs(
    settings: Iterable[str], environments: Iterable[str] = ENVIRONMENTS, *flags: str
) -> tuple[Run, ...]:
    return tuple(run for name in settings for run in curve(AGENT, name, environments, *flags))


_TABLES = (
    *_runs(["reactor_nd", "reactor"]),
    *(
        Run(AGENT, "reactor_500m", environment, ("--setting=reactor",), _500M_FRAMES)
        for environment in ENVIRONMENTS
    ),
)
_PARTS_OF_REACTOR = ("reactor", "reactor_nd", "reactor_uniform", "reactor_tislr")
_EVERY_VARIANT = (
    *_PARTS_OF_REACTOR,
    *("reactor_max_priority", "reactor_one_step", "reactor_one_over_mu", "reactor_islr"),
    "reactor_stored_state",
)
_SMALL_GAMES = ("minatar:breakout", "minatar:asterix")
_CATCH = ("python:reproductions.reactor.catch:make",)
_CATCH_FLAGS = (
    "--config.learning_rate=0.001",
    "--config.target_period=100",
    "--config.v_min=-2",
    "--config.v_max=2",
    "--config.replay_capacity=10000",
    "--config.min_replay_size=1000",
)
"""Returns of Catch are 1 or -1; it is learnt within some 2,000 updates."""


def _entropy_runs(*costs: str) -> tuple[Run, ...]:
    """Returns runs of Catch at the scale small with other entropy costs than 0.01, A3C's."""
    return tuple(
        run
        for cost in costs
        for run in curve(
            AGENT,
            f"reactor_entropy{cost}",
            _CATCH,
            *_CATCH_FLAGS,
            "--evaluation_steps=100",
            f"--config.entropy_cost={cost}",
            setting="reactor",
        )
    )


_DRAWING = "a drawing, nothing to run"
_AS_MANY_WORKERS = (
    "it is about 10 and 20 workers, which are as many at this scale: use the scale workstation"
)
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
        substitutes=dict.fromkeys(
            ("two_cores", "small", "smoke"), Substitute.none(_AS_MANY_WORKERS)
        ),
        note="its left half is a drawing",
    ),
    Experiment(
        "figure 3",
        "Atari: Reactor without each of its parts, and the time",
        runs=_runs(_PARTS_OF_REACTOR),
        budget=_200M_FRAMES,
        substitutes={
            "small": Substitute(
                _runs(
                    _PARTS_OF_REACTOR, _SMALL_GAMES, "--config.torso=minatar", "--num_workers=10"
                ),
                "two of MinAtar's games instead of 57 of Atari's, 10 environments in one process "
                "instead of 10 workers",
                seeds=5,
                overrides={"x": "actor_steps", "over_tasks": OverTasks.APART, "parts": ()},
            ),
            "two_cores": Substitute(
                _runs(_PARTS_OF_REACTOR, ("atari:road_runner",)),
                "one game of 57, as many steps as two quiet cores make in some ten minutes",
                seeds=2,
                budget=Budget(actor_steps=50_000),
                overrides={"over_tasks": OverTasks.APART, "parts": ()},
                is_evidence=False,
            ),
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
        runs=_runs(["reactor", "reactor_max_priority"]),
        budget=_200M_FRAMES,
        states_budget=False,
        x="environment_frames",
        over_tasks=OverTasks.MEDIAN_NORMALISED,
        seeds=1,
        note="told in a sentence, without games or numbers: here the games and the frames of "
        "figure 3",
    ),
    Experiment(
        "section catch",
        "not in the paper: Catch with a ball that is hidden, every variant",
        runs=_runs(_EVERY_VARIANT, _CATCH, *_CATCH_FLAGS),
        budget=Budget(learner_steps=3_000),
        states_budget=False,
        x="learner_steps",
        seeds=5,
        substitutes={
            "small": Substitute(
                _runs(_EVERY_VARIANT, _CATCH, *_CATCH_FLAGS, "--evaluation_steps=100")
                + _entropy_runs("0.001", "0.003"),
                budget=Budget(learner_steps=3_000),
            ),
            "two_cores": Substitute(
                _runs(_EVERY_VARIANT, _CATCH, *_CATCH_FLAGS, "--evaluation_seconds=10"),
                budget=Budget(minutes=2),
                seeds=3,
                overrides={"x": "wall_seconds"},
            ),
        },
        note="an environment of ours, which decides nothing about Atari",
    ),
)

_EVALUATION = ("--final_episodes=200",)
"""Section 4.1."""
SCALES = (
    dataclasses.replace(PAPER_SCALE, flags=_EVALUATION),
    Scale(
        "workstation",
        "four hours a run, for some 16 cores",
        Budget(minutes=4 * 60),
        changes("--evaluation_seconds=300"),
        _EVALUATION,
    ),
    Scale(
        "two_cores",
        "ten minutes a run, for two cores",
        Budget(minutes=10),
        changes(
            "--num_workers=2",
            "--config.learning_rate=0.0002",
            "--config.target_period=200",
            "--config.replay_capacity=50000",
            "--config.min_replay_size=2500",
            "--evaluation_seconds=120",
            "--evaluation_episodes=5",
        ),
    ),
    Scale(
        "small",
        "small games, minutes a run on one core: a single process, so that no gradient is stale",
        Budget(actor_steps=300_000),
        changes(
            "--config.single_process=true",
            "--config.learning_rate=0.0005",
            "--config.target_period=100",
            "--config.replay_capacity=20000",
            "--config.min_replay_size=2000",
            "--learner_threads=1",
            "--evaluation_steps=2000",
            "--evaluation_episodes=5",
        ),
        is_compact=True,
    ),
    Scale(
        "smoke",
        "a minute a run, to see that it works: its returns say nothing",
        Budget(minutes=1),
        changes(
            "--num_workers=2",
            "--config.replay_capacity=5000",
            "--config.min_replay_size=500",
            "--evaluation_seconds=15",
            "--evaluation_episodes=1",
        ),
    ),
)

PAPER = Paper(
    name="reactor",
    title="Reactor",
    citation="Gruslys et al. 2018",
    agents=(AGENT,),
    experiments=EXPERIMENTS,
    scales=SCALES,
    looks=_LOOKS,
)
