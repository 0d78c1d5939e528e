"""The paper's figures and tables as lists of runs, and the scales of these."""

from collections.abc import Iterable, Mapping
import dataclasses
from typing import Any

from common.agents.declaration import AgentDeclaration
from common.config import Config
from common.environments.atari_games import ENVIRONMENTS
from common.environments.minatar_suite import ENVIRONMENTS as MINATAR
from common.experiments.atari_scores import GameScores, GameSummaries
from common.experiments.paper import (
    Experiment,
    OverTasks,
    Paper,
    Part,
    Reference,
    Returns,
    Run,
    Substitute,
    curve,
)
from common.experiments.scales import PAPER as PAPER_SCALE
from common.experiments.scales import Change, Scale, changes
from common.reporting.budget import Budget
from reproductions.apex.curves import (
    CAPACITIES,
    DPG_VARIANTS,
    FIGURE_3_ACTORS,
    FIGURE_3_SMALL,
    FIGURE_4_ACTORS,
    FIGURE_4_SMALL,
    FIGURE_13_TWO_CORES,
    FIGURE_14_TRIED,
    LOOKS,
    OTHER_BATCH_SIZES,
    OTHER_LEARNING_RATES,
)
from reproductions.apex.dpg import config as dpg
from reproductions.apex.dpg.config import AGENT as DPG
from reproductions.apex.dqn import config as dqn
from reproductions.apex.dqn.config import AGENT as DQN
from reproductions.apex.scale_model import DPG_RATES, DQN_RATES, ScaleModel

SIX_GAMES = tuple(
    f"atari:{game}"
    for game in ("breakout", "ms_pacman", "qbert", "seaquest", "space_invaders", "wizard_of_wor")
)
NINE_GAMES = (*SIX_GAMES, "atari:beam_rider", "atari:enduro", "atari:pong")
CONTROL_TASKS = (
    "control:manipulator:bring_ball",
    "control:humanoid:stand",
    "control:humanoid:walk",
    "control:humanoid:run",
)

SMALL_CONTROL_TASKS = tuple(
    f"control:{task}" for task in ("cartpole:swingup", "cheetah:walk", "finger:turn_easy")
)
"""Tasks that are learnt in minutes instead of those of figure 3."""

_SETTINGS = {**dqn.SETTINGS.overrides, **dpg.SETTINGS.overrides}
_CAPACITY = "--config.replay_capacity"
_TWO_CORES, _SMALL = "two_cores", "small"

_DQN_MODEL = ScaleModel(DQN_RATES, batch_size=32)
_DPG_MODEL = ScaleModel(DPG_RATES, batch_size=32)
"""The models of the scale small."""
_SMALL_LEARNING_RATE = 2.5e-4
"""Ape-X DQN's rate at the scale small, for 6.25e-5: MinAtar's of DQN (Young and Tian 2019). Other
learning rates keep their ratio to it."""
_SMALL_ACTORS, _SMALL_DPG_ACTORS = 32, 16
"""Actors in place of 360 and 64, where the paper does not vary them."""
_SMALL_DPG_BUDGET = Budget(learner_steps=64_000)


def _runs(*arguments: Any, **options: Any) -> tuple[Run, ...]:
    """Returns a `curve` of which no scale changes what its setting chooses."""
    return tuple(
        dataclasses.replace(
            run, fixed=(*run.fixed, *(f"--config.{name}" for name in _SETTINGS[run.agent_setting]))
        )
        for run in curve(*arguments, **options)
    )


def _dqn(
    environments: Iterable[str],
    actors: int,
    capacity: str = "1m",
    *,
    uniform: bool = False,
    copies: int = 1,
    small: bool = False,
) -> tuple[Run, ...]:
    """Returns runs with so many actors and so large a replay, as in section 5 and appendix A.

    Args:
      environments: a run each.
      actors: their number.
      capacity: of the replay, one of `CAPACITIES`.
      uniform: uniform replay at its own learning rate, as in figure 14.
      copies: of each transition, 1 or 8, as in figure 6.
      small: whether they are runs of the scale small, in which flags keep the paper's ratios.
    """
    name, setting = f"{actors}_actors", CAPACITIES[capacity]
    if copies > 1:
        name, setting = f"{name}_{copies}_copies", f"{setting}_copies{copies}"
    if uniform:
        name, setting = f"uniform_lr0.00025_{name}", setting.replace("dqn", "dqn_uniform")
    flags = [f"--num_actors={actors}"]
    if small:
        flags += _small_flags(setting, actors * copies)
    name = f"dqn_{name}_replay_{capacity}"
    return _runs(DQN, name, environments, *flags, setting=setting, fixed=(_CAPACITY,))


def _small_flags(setting: str, actors: int) -> tuple[str, ...]:
    """Returns the flags by which a curve of Ape-X DQN keeps the paper's ratios at the scale small.

    Args:
      setting: the paper's.
      actors: their number, times the copies that are added of a transition.
    """
    config = dqn.SETTINGS.configuration(setting)
    return (
        f"--config.samples_per_insert={_DQN_MODEL.samples_per_insert(actors)}",
        f"{_CAPACITY}={_DQN_MODEL.size(config.replay_capacity)}",
        _small_learning_rate(config.learning_rate),
    )


def _small_learning_rate(paper: float) -> str:
    """Returns the flag for Ape-X DQN's learning rate at the scale small, given the paper's."""
    default = dqn.SETTINGS.configuration("dqn").learning_rate
    return f"--config.learning_rate={_SMALL_LEARNING_RATE * paper / default:g}"


def _dpg(environments: Iterable[str], actors: int, small: bool = False) -> tuple[Run, ...]:
    """Returns runs of Ape-X DPG with so many actors; see `_dqn`."""
    flags = [f"--num_actors={actors}"]
    if small:
        flags.append(f"--config.samples_per_insert={_DPG_MODEL.samples_per_insert(actors)}")
    return _runs(DPG, f"dpg_{actors}_actors", environments, *flags, setting="dpg")


def _joined(parts: Iterable[tuple[Run, ...]]) -> tuple[Run, ...]:
    return tuple(run for part in parts for run in part)


_OF_DPG = _joined(_runs(DPG, name, CONTROL_TASKS) for name in ("dpg", *DPG_VARIANTS))
"""Appendix E."""
_FIVE_DAYS = Budget(minutes=5 * 24 * 60)
_HALF_A_DAY = Budget(minutes=12 * 60)
_35_HOURS = Budget(minutes=35 * 60)
_GAMES_OPEN = "the games are named in the paper's pictures only: these are ours"
_DRAWING = "a drawing, nothing to run"
_TABLE_1 = "table 1"
_FIELD = ("reactor", "table 5")
"""The scores of other agents, which this paper's text has not."""
_NO_OP_MEDIAN = "Median (no-op starts)"
_ON_TWO_CORES = {"dqn_two_cores": (), "dqn_two_cores_bfloat16": ("--config.precision=bfloat16",)}
"""Ape-X DQN in tables at the scale two_cores: flags beside the setting `dqn_two_cores`."""
_OTHERS = ("Rainbow", "Distributional (C51)", "Prioritized Dueling", "DQN", "Gorila DQN")

_LEVEL_EXPONENTS = tuple(f"dpg_alpha{alpha}" for alpha in (0.3, 0.4, 0.5, 0.7))
"""Those that the paper found to be as good as 0.6."""
_WHY_NOT_TWO_CORES = (
    "at the scale two_cores its curves would not differ as the paper's do, since the ratio of "
    "samples to inserts is one for all: use the scale small"
)


def _small(runs: tuple[Run, ...], note: str = "", budget: Budget | None = None) -> Substitute:
    """Returns runs of the scale small, five seeds each, compared by learner steps."""
    overrides = {"x": "learner_steps", "returns": Returns.EVALUATOR}
    return Substitute(runs, note, budget, seeds=5, overrides=overrides)


def _only_small(*arguments: Any, **options: Any) -> dict[str, Substitute]:
    """Returns `_small` as the only substitute, of an experiment that is none on two cores."""
    none = Substitute.none(_WHY_NOT_TWO_CORES)
    return {_TWO_CORES: none, _SMALL: _small(*arguments, **options)}


def _small_batches(size: int) -> tuple[Run, ...]:
    """Returns runs of many actors with a batch in the paper's ratio, given the paper's size."""
    batch, actors = _DQN_MODEL.size(size), max(FIGURE_4_SMALL)
    ratio = _DQN_MODEL.samples_per_insert(actors, batch)
    flags = (
        f"--num_actors={actors}",
        f"--config.batch_size={batch}",
        f"--config.samples_per_insert={ratio}",
    )
    return _runs(DQN, f"dqn_batch{size}", MINATAR, *flags)


EXPERIMENTS = (
    Experiment("figure 1", "the architecture", unavailable=_DRAWING),
    Experiment(
        "figure 2",
        "57 Atari games: median score from no-op starts, and six games' curves",
        runs=_runs(DQN, "dqn", ENVIRONMENTS),
        budget=_FIVE_DAYS,
        over_tasks=OverTasks.MEDIAN_NORMALISED,
        references=tuple(
            Reference(_TABLE_1, name, _NO_OP_MEDIAN, name) for name in ("Ape-X DQN", *_OTHERS)
        ),
        parts=(
            Part("left"),
            Part(
                "right",
                environments=SIX_GAMES,
                overrides={
                    "returns": Returns.GREEDIEST_ACTOR,
                    "over_tasks": OverTasks.APART,
                    "references": (),
                },
            ),
        ),
        note=f"{_GAMES_OPEN}; the baselines' curves are in no text",
    ),
    Experiment(
        "figure 3",
        "Control Suite: Ape-X DPG with 8 to 64 actors",
        runs=_joined(_dpg(CONTROL_TASKS, actors) for actors in FIGURE_3_ACTORS),
        budget=_HALF_A_DAY,
        states_budget=False,
        substitutes=_only_small(
            _joined(_dpg(SMALL_CONTROL_TASKS, actors, small=True) for actors in FIGURE_3_SMALL),
            budget=_SMALL_DPG_BUDGET,
        ),
        note="actors and hours are in the picture only: up to section 4.2's 64, and a tenth of the "
        "5 days that the text gives DDPG. DDPG itself: figure 2 of D4PG",
    ),
    Experiment(
        "figure 4",
        "Atari: 8 to 256 actors, a replay of 1M",
        runs=_joined(_dqn(SIX_GAMES, actors) for actors in FIGURE_4_ACTORS),
        budget=_35_HOURS,
        returns=Returns.GREEDIEST_ACTOR,
        substitutes=_only_small(
            _joined(_dqn(MINATAR, actors, small=True) for actors in FIGURE_4_SMALL)
        ),
        note=_GAMES_OPEN,
    ),
    Experiment(
        "figure 5",
        "Atari: replays of 250K to 2M, 256 actors",
        runs=_joined(_dqn(SIX_GAMES, 256, capacity) for capacity in CAPACITIES),
        budget=_35_HOURS,
        states_budget=False,
        returns=Returns.GREEDIEST_ACTOR,
        seeds=1,
        substitutes=_only_small(
            _joined(_dqn(MINATAR, 128, one, small=True) for one in ("250k", "1m", "2m")),
            "128 actors; names have the paper's capacities, of which the model has a sixteenth",
        ),
        note=f"{_GAMES_OPEN} (Wizard of Wor is named), and so are capacities between 250K and 2M; "
        "hours are those of figure 4",
    ),
    Experiment(
        "figure 6",
        "Atari: few actors whose transitions are added several times",
        runs=(*_dqn(SIX_GAMES, 32), *_dqn(SIX_GAMES, 32, copies=8), *_dqn(SIX_GAMES, 256)),
        budget=_35_HOURS,
        states_budget=False,
        returns=Returns.GREEDIEST_ACTOR,
        substitutes=_only_small(
            (*_dqn(MINATAR, 16, copies=8, small=True), *_dqn(MINATAR, 128, small=True)),
            "16 actors whose transitions are added 8 times beside 128",
        ),
        note=f"{_GAMES_OPEN}; hours are those of figure 4",
    ),
    Experiment(
        "figure 7",
        "Atari: six values of epsilon beside the full range",
        runs=(*_runs(DQN, "dqn_full_range", SIX_GAMES), *_runs(DQN, "dqn_six_epsilons", SIX_GAMES)),
        budget=_35_HOURS,
        states_budget=False,
        substitutes={
            _SMALL: _small(
                (*_runs(DQN, "dqn_full_range", MINATAR), *_runs(DQN, "dqn_six_epsilons", MINATAR))
            )
        },
        note=f"{_GAMES_OPEN}, and so are the six values; hours are those of figure 4",
    ),
    Experiment("figure 8", "the humanoid", unavailable="a picture"),
    Experiment("figure 9", "the manipulator", unavailable="a picture"),
    Experiment("figure 10", "both domains", unavailable="a picture"),
    Experiment(
        "figure 11",
        "57 Atari games: learning curves against time",
        runs=_runs(DQN, "dqn", ENVIRONMENTS),
        budget=_FIVE_DAYS,
        returns=Returns.GREEDIEST_ACTOR,
    ),
    Experiment(
        "figure 12",
        "57 Atari games: the first billion frames",
        runs=_runs(DQN, "dqn", ENVIRONMENTS),
        budget=Budget(actor_steps=250_000_000),
        returns=Returns.GREEDIEST_ACTOR,
        x="environment_frames",
    ),
    Experiment(
        "figure 13",
        "speed of data generation against the number of actors",
        runs=_joined(_dqn(["atari:pong"], actors) for actors in FIGURE_4_ACTORS),
        budget=_35_HOURS,
        states_budget=False,
        x="",
        sizes={f"dqn_{actors}_actors_replay_1m": actors for actors in FIGURE_4_ACTORS}
        | {f"dqn_two_cores_{actors}_actors": actors for actors in FIGURE_13_TWO_CORES},
        size_name="actors",
        y="actor_steps_per_second",
        substitutes={
            _TWO_CORES: Substitute(
                _joined(
                    _runs(
                        DQN,
                        f"dqn_two_cores_{actors}_actors",
                        ["atari:pong"],
                        f"--num_actors={actors}",
                        "--config.samples_per_insert=0",
                        setting="dqn_two_cores",
                    )
                    for actors in FIGURE_13_TWO_CORES
                ),
                "on two cores 2 to 32 actors, which nothing holds to the learner's speed",
                Budget(minutes=1),
                seeds=1,
            )
        },
        note="the numbers of actors are in the picture only: at the paper's scale those of figure "
        "4, on one game",
    ),
    Experiment(
        "figure 14",
        "Atari: prioritised and uniform replay with 8 to 256 actors",
        runs=(
            *_joined(_dqn(NINE_GAMES, actors) for actors in FIGURE_4_ACTORS),
            *_joined(_dqn(NINE_GAMES, actors, uniform=True) for actors in FIGURE_4_ACTORS),
        ),
        budget=_35_HOURS,
        states_budget=False,
        returns=Returns.GREEDIEST_ACTOR,
        substitutes=_only_small(
            _joined(
                _dqn(MINATAR, actors, uniform=uniform, small=True)
                for uniform in (False, True)
                for actors in FIGURE_4_SMALL
            )
        ),
        note=f"{_GAMES_OPEN}; the better of two learning rates was kept, here the one it names for "
        "each; the others are in section E",
    ),
    Experiment(
        "table 1",
        "57 Atari games: median scores, time, frames and hardware",
        runs=_runs(DQN, "dqn", ENVIRONMENTS),
        budget=_FIVE_DAYS,
        x="",
        over_tasks=OverTasks.MEDIAN_NORMALISED,
        ours=GameSummaries({"Ape-X DQN": "dqn"}, {_NO_OP_MEDIAN: 100}, _FIELD),
        note="no-op starts only: the human starts were never published",
    ),
    Experiment(
        "table 2",
        "57 Atari games: scores of the final evaluation",
        runs=_runs(DQN, "dqn", ENVIRONMENTS),
        budget=_FIVE_DAYS,
        x="",
        ours=GameScores({"No-op starts": "dqn"}, _FIELD, tuple(_ON_TWO_CORES)),
        substitutes={
            _TWO_CORES: Substitute(
                _joined(
                    _runs(DQN, name, ENVIRONMENTS, *flags, setting="dqn_two_cores")
                    for name, flags in _ON_TWO_CORES.items()
                )
            )
        },
        note="no-op starts only: the human starts were never published",
    ),
    Experiment(
        "section D",
        "Control Suite: removal by priority beside first in, first out",
        runs=(*_runs(DPG, "dpg", CONTROL_TASKS), *_runs(DPG, "dpg_remove_by_fifo", CONTROL_TASKS)),
        budget=_HALF_A_DAY,
        states_budget=False,
        note="the paper leaves open which is better; tasks and hours are those of figure 3",
    ),
    Experiment(
        "section E",
        "batch sizes, learning rates, exponents; figure 14's other rates",
        runs=(
            *_runs(DQN, "dqn", SIX_GAMES),
            *_joined(_runs(DQN, f"dqn_batch{size}", SIX_GAMES) for size in OTHER_BATCH_SIZES),
            *_joined(_runs(DQN, f"dqn_lr{rate}", SIX_GAMES) for rate in OTHER_LEARNING_RATES),
            *_OF_DPG,
            *_joined(
                _runs(
                    DQN,
                    f"{name}_{actors}_actors_replay_1m",
                    NINE_GAMES,
                    f"--num_actors={actors}",
                    setting=setting,
                    fixed=(_CAPACITY,),
                )
                for name, setting in FIGURE_14_TRIED.items()
                for actors in FIGURE_4_ACTORS
            ),
        ),
        budget=_35_HOURS,
        states_budget=False,
        substitutes=_only_small(
            (
                *_runs(DQN, "dqn", MINATAR),
                *_dqn(MINATAR, max(FIGURE_4_SMALL), small=True),
                *_joined(_small_batches(size) for size in OTHER_BATCH_SIZES),
                *_joined(
                    _runs(DQN, f"dqn_lr{rate}", MINATAR, _small_learning_rate(float(rate)))
                    for rate in OTHER_LEARNING_RATES
                ),
                *_joined(
                    _runs(
                        DQN,
                        f"{name}_128_actors_replay_1m",
                        MINATAR,
                        "--num_actors=128",
                        *_small_flags(setting, 128),
                        setting=setting,
                    )
                    for name, setting in FIGURE_14_TRIED.items()
                ),
                *_joined(
                    _runs(DPG, name, SMALL_CONTROL_TASKS) for name in ("dpg", *_LEVEL_EXPONENTS)
                ),
            ),
            "names have the paper's batch sizes and learning rates, of which the model has a "
            "sixteenth and four times as much; an update of any batch has as many inserts, of 128 "
            "actors where batches vary",
        ),
        note=f"{_GAMES_OPEN}; hours are those of figure 4, and what lies between the ends of "
        "DPG's ranges is ours",
    ),
)


def _with(agent: AgentDeclaration, values: Mapping[str, Any]) -> tuple[Change, ...]:
    """Returns a change for each hyperparameter in `values`."""
    return changes(
        *(f"--config.{name}={value}".replace(" ", "") for name, value in values.items()),
        agent=agent,
    )


_DQN_DEFAULT, _DPG_DEFAULT = dqn.SETTINGS.configuration("dqn"), dpg.SETTINGS.configuration("dpg")


def _sizes(model: ScaleModel, default: Config, actors: int) -> dict[str, Any]:
    """Returns the hyperparameters of a scale model at the paper's ratios."""
    names = ("replay_capacity", "min_replay_size", "actor_period")
    return {
        "single_process": True,
        "batch_size": model.batch_size,
        "samples_per_insert": model.samples_per_insert(actors),
        **{name: model.size(getattr(default, name)) for name in names},
    }


SCALES = (
    PAPER_SCALE,
    Scale(
        "workstation",
        "four hours a run, for some 16 cores",
        Budget(minutes=4 * 60),
        changes("--num_actors=64", "--config.replay_capacity=1000000", agent=DQN),
    ),
    Scale(
        _TWO_CORES,
        "ten minutes a run, for two cores and no GPU",
        Budget(minutes=10),
        (
            *changes("--num_actors=8"),
            *_with(DQN, dqn.TWO_CORES["dqn_two_cores"]),
            *_with(DPG, {"samples_per_insert": 64, "layer_norm": True, "min_replay_size": 2000}),
            *changes("--learner_threads=2"),
            *changes("--evaluation_seconds=120", "--evaluation_episodes=5", agent=DQN),
        ),
    ),
    Scale(
        _SMALL,
        "a scale model on small tasks, minutes a run on one core",
        Budget(learner_steps=96_000),
        (
            *changes(f"--num_actors={_SMALL_ACTORS}", agent=DQN),
            *changes(f"--num_actors={_SMALL_DPG_ACTORS}", agent=DPG),
            *_with(
                DQN,
                {
                    **_sizes(_DQN_MODEL, _DQN_DEFAULT, _SMALL_ACTORS),
                    "learning_rate": _SMALL_LEARNING_RATE,
                    "torso": "minatar",
                },
            ),
            *_with(
                DPG,
                {
                    **_sizes(_DPG_MODEL, _DPG_DEFAULT, _SMALL_DPG_ACTORS),
                    "learning_rate": 3e-4,
                    "policy_sizes": (128, 128),
                    "critic_sizes": (128, 128),
                    "layer_norm": True,
                },
            ),
            *changes("--learner_threads=1", "--evaluation_steps=3200", "--evaluation_episodes=5"),
        ),
        tried_minutes=6,
        is_compact=True,
    ),
    Scale(
        "smoke",
        "a minute a run, to see that it works: its returns say nothing",
        Budget(minutes=1),
        (
            *changes("--num_actors=4"),
            *changes("--config.replay_capacity=20000", agent=DQN),
            *changes("--config.min_replay_size=1000"),
            *changes("--evaluation_seconds=15", "--evaluation_episodes=2"),
        ),
    ),
)


PAPER = Paper(
    name="apex",
    title="Ape-X",
    citation="Horgan et al. 2018",
    agents=(DQN, DPG),
    experiments=EXPERIMENTS,
    scales=SCALES,
    looks=LOOKS,
)
