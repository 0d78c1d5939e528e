"""The paper's figures and tables as lists of runs, and the sizes that these can have."""

from collections.abc import Iterable

from common.environments.atari_games import ENVIRONMENTS
from common.experiments.registry import (
    Experiment,
    OverTasks,
    Paper,
    Part,
    Program,
    Reference,
    Returns,
    Run,
    Substitute,
)
from common.experiments.scales import PAPER as PAPER_SCALE
from common.experiments.scales import Change, Scale
from common.reporting.budget import Budget
from reproductions.apex.dpg import settings as dpg
from reproductions.apex.dqn import settings as dqn

DQN = Program("Ape-X DQN", "binaries.apex_dqn", parameters=3_300_019)  # 18 actions
DPG = Program("Ape-X DPG", "binaries.apex_dpg", parameters=241_022)  # humanoid's

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

FIGURE_3_ACTORS = (8, 16, 32, 64)
FIGURE_4_ACTORS = (8, 16, 32, 64, 128, 256)
FIGURE_13_TWO_CORES = (2, 4, 8, 16, 32)
FIGURE_14_TRIED = {
    "dqn_lr0.00025": "dqn_replay_1m_lr0.00025",
    "dqn_uniform_lr6.25e-05": "dqn_uniform_replay_1m_lr6.25e-05",
}
"""What the caption says was tried and not kept: how names begin, each with its setting."""
CAPACITIES = {
    "250k": "dqn_replay_250k",
    "500k": "dqn_replay_500k",
    "1m": "dqn_replay_1m",
    "2m": "dqn",
}
"""Figure 5, each with its setting."""
OTHER_BATCH_SIZES = (32, 128, 256, 1024)
OTHER_LEARNING_RATES = ("0.00025", "3.125e-05")
"""Appendix E; Ape-X DQN has 512 and 6.25e-05."""
DPG_VARIANTS = (
    "dpg_uniform",
    *(f"dpg_alpha{alpha}" for alpha in (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.8, 0.9, 1)),
    "dpg_lr0.001",
    "dpg_lr0.0003",
    "dpg_lr3e-05",
    "dpg_lr1e-05",
    "dpg_batch32",
    "dpg_batch128",
    "dpg_batch512",
    "dpg_batch1024",
)
"""Appendix E; Ape-X DPG has an exponent of 0.6, 1e-4 and 256."""


_SETTINGS = {**dqn.SETTINGS.overrides, **dpg.SETTINGS.overrides}
_CAPACITY = "--config.replay_capacity"
_TWO_CORES = "two_cores"


def _runs(
    program: Program,
    name: str,
    environments: Iterable[str],
    *flags: str,
    setting: str = "",
    fixed: tuple[str, ...] = (),
) -> tuple[Run, ...]:
    own = (f"--setting={setting or name}", *flags)
    fixed = (*fixed, *(f"--config.{choice}" for choice in _SETTINGS[setting or name]))
    return tuple(Run(program, name, environment, own, fixed=fixed) for environment in environments)


def _dqn(environments: Iterable[str], actors: int, capacity: str = "1m") -> tuple[Run, ...]:
    """Ape-X DQN with so many actors and so large a replay, as in section 5 and appendix A."""
    return _runs(
        DQN,
        f"dqn_{actors}_actors_replay_{capacity}",
        environments,
        f"--num_actors={actors}",
        setting=CAPACITIES[capacity],
        fixed=(_CAPACITY,),
    )


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
_NO_OP_MEDIAN = "Median (no-op starts)"
_OTHERS = ("Rainbow", "Distributional (C51)", "Prioritized Dueling", "DQN", "Gorila DQN")

EXPERIMENTS = (
    Experiment("apex", "figure 1", "the architecture", unavailable=_DRAWING),
    Experiment(
        "apex",
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
                others={
                    "returns": Returns.GREEDIEST_ACTOR,
                    "over_tasks": OverTasks.APART,
                    "references": (),
                },
            ),
        ),
        note=f"{_GAMES_OPEN}; the baselines' curves are in no text",
    ),
    Experiment(
        "apex",
        "figure 3",
        "Control Suite: Ape-X DPG with 8 to 64 actors",
        runs=_joined(
            _runs(
                DPG, f"dpg_{actors}_actors", CONTROL_TASKS, f"--num_actors={actors}", setting="dpg"
            )
            for actors in FIGURE_3_ACTORS
        ),
        budget=_HALF_A_DAY,
        states_budget=False,
        note="actors and hours are in the picture only: up to section 4.2's 64, and a tenth of the "
        "5 days that the text gives DDPG. DDPG itself: figure 2 of D4PG",
    ),
    Experiment(
        "apex",
        "figure 4",
        "Atari: 8 to 256 actors, a replay of 1M",
        runs=_joined(_dqn(SIX_GAMES, actors) for actors in FIGURE_4_ACTORS),
        budget=_35_HOURS,
        returns=Returns.GREEDIEST_ACTOR,
        note=_GAMES_OPEN,
    ),
    Experiment(
        "apex",
        "figure 5",
        "Atari: replays of 250K to 2M, 256 actors",
        runs=_joined(_dqn(SIX_GAMES, 256, capacity) for capacity in CAPACITIES),
        budget=_35_HOURS,
        states_budget=False,
        returns=Returns.GREEDIEST_ACTOR,
        seeds=1,
        note=f"{_GAMES_OPEN} (Wizard of Wor is named), and so are capacities between 250K and 2M; "
        "hours are those of figure 4",
    ),
    Experiment(
        "apex",
        "figure 6",
        "Atari: few actors whose transitions are added several times",
        runs=(
            *_dqn(SIX_GAMES, 32),
            *_runs(
                DQN,
                "dqn_32_actors_8_copies_replay_1m",
                SIX_GAMES,
                "--num_actors=32",
                setting="dqn_replay_1m_copies8",
            ),
            *_dqn(SIX_GAMES, 256),
        ),
        budget=_35_HOURS,
        states_budget=False,
        returns=Returns.GREEDIEST_ACTOR,
        note=f"{_GAMES_OPEN}; hours are those of figure 4",
    ),
    Experiment(
        "apex",
        "figure 7",
        "Atari: six values of epsilon beside the full range",
        runs=(*_runs(DQN, "dqn_full_range", SIX_GAMES), *_runs(DQN, "dqn_six_epsilons", SIX_GAMES)),
        budget=_35_HOURS,
        states_budget=False,
        note=f"{_GAMES_OPEN}, and so are the six values; hours are those of figure 4",
    ),
    Experiment("apex", "figure 8", "the humanoid", unavailable="a picture"),
    Experiment("apex", "figure 9", "the manipulator", unavailable="a picture"),
    Experiment("apex", "figure 10", "both domains", unavailable="a picture"),
    Experiment(
        "apex",
        "figure 11",
        "57 Atari games: learning curves against time",
        runs=_runs(DQN, "dqn", ENVIRONMENTS),
        budget=_FIVE_DAYS,
        returns=Returns.GREEDIEST_ACTOR,
    ),
    Experiment(
        "apex",
        "figure 12",
        "57 Atari games: the first billion frames",
        runs=_runs(DQN, "dqn", ENVIRONMENTS),
        budget=Budget(actor_steps=250_000_000),
        returns=Returns.GREEDIEST_ACTOR,
        x="environment_frames",
    ),
    Experiment(
        "apex",
        "figure 13",
        "speed of data generation against the number of actors",
        runs=_joined(_dqn(["atari:pong"], actors) for actors in FIGURE_4_ACTORS),
        budget=_35_HOURS,
        states_budget=False,
        x="",
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
        "apex",
        "figure 14",
        "Atari: prioritised and uniform replay with 8 to 256 actors",
        runs=(
            *_joined(_dqn(NINE_GAMES, actors) for actors in FIGURE_4_ACTORS),
            *_joined(
                _runs(
                    DQN,
                    f"dqn_uniform_lr0.00025_{actors}_actors_replay_1m",
                    NINE_GAMES,
                    f"--num_actors={actors}",
                    setting="dqn_uniform_replay_1m",
                )
                for actors in FIGURE_4_ACTORS
            ),
        ),
        budget=_35_HOURS,
        states_budget=False,
        returns=Returns.GREEDIEST_ACTOR,
        substitutes={
            _TWO_CORES: Substitute(
                (
                    *_runs(DQN, "dqn_two_cores", NINE_GAMES),
                    *_runs(DQN, "dqn_two_cores_uniform", NINE_GAMES),
                ),
                "on two cores both with 8 actors and one learning rate",
            )
        },
        note=f"{_GAMES_OPEN}; the better of two learning rates was kept, here the one it names for "
        "each; the others are in section E",
    ),
    Experiment(
        "apex",
        "table 1",
        "57 Atari games: median scores, time, frames and hardware",
        runs=_runs(DQN, "dqn", ENVIRONMENTS),
        budget=_FIVE_DAYS,
        x="",
        over_tasks=OverTasks.MEDIAN_NORMALISED,
        note="no-op starts only: the human starts were never published",
    ),
    Experiment(
        "apex",
        "table 2",
        "57 Atari games: scores of the final evaluation",
        runs=_runs(DQN, "dqn", ENVIRONMENTS),
        budget=_FIVE_DAYS,
        x="",
        note="no-op starts only: the human starts were never published",
    ),
    Experiment(
        "apex",
        "section D",
        "Control Suite: removal by priority beside first in, first out",
        runs=(*_runs(DPG, "dpg", CONTROL_TASKS), *_runs(DPG, "dpg_remove_by_fifo", CONTROL_TASKS)),
        budget=_HALF_A_DAY,
        states_budget=False,
        note="the paper leaves open which is better; tasks and hours are those of figure 3",
    ),
    Experiment(
        "apex",
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
        substitutes={
            _TWO_CORES: Substitute(
                _OF_DPG,
                "on two cores only Ape-X DPG: the setting of DQN has a batch size and a "
                "learning rate of its own there",
            )
        },
        note=f"{_GAMES_OPEN}; hours are those of figure 4, and what lies between the ends of "
        "DPG's ranges is ours",
    ),
)


def _preset() -> tuple[Change, ...]:
    """What the setting for two cores changes of Ape-X DQN."""

    def text(name: str, value: float) -> str:
        number = f"{value:,}" if isinstance(value, int) else f"{value:g}"
        return "no limit" if name == "samples_per_insert" and not value else number

    default, ours = dqn.SETTINGS.configuration("dqn"), dqn.TWO_CORES["dqn_two_cores"]
    return tuple(
        Change(
            f"--config.{name}={value}",
            f"{name.replace('_', ' ')} {text(name, value)} instead of "
            f"{text(name, getattr(default, name))}",
            DQN.module,
        )
        for name, value in ours.items()
    )


SCALES = (
    PAPER_SCALE,
    Scale(
        "workstation",
        "four hours a run, for some 16 cores",
        Budget(minutes=4 * 60),
        (
            Change("--num_actors=64", "64 actors instead of 360", DQN.module),
            Change("--config.replay_capacity=1000000", "a replay of 1M instead of 2M", DQN.module),
        ),
    ),
    Scale(
        _TWO_CORES,
        "ten minutes a run, for two cores and no GPU",
        Budget(minutes=10),
        (
            Change("--num_actors=8", "8 actors instead of 360", DQN.module),
            Change("--num_actors=8", "8 actors instead of 64", DPG.module),
            *_preset(),
            Change(
                "--config.samples_per_insert=64",
                "64 samples per insert instead of no limit",
                DPG.module,
            ),
            Change(
                "--config.min_replay_size=2000",
                "2,000 transitions before the first update instead of 50,000",
                DPG.module,
            ),
            Change("--learner_threads=2", "2 CPU threads instead of a GPU"),
            Change(
                "--evaluation_seconds=120",
                "an evaluation every 2 minutes instead of our 60 s",
                DQN.module,
            ),
            Change("--evaluation_episodes=5", "of 5 episodes instead of our 10", DQN.module),
        ),
    ),
    Scale(
        "smoke",
        "a minute a run, to see that it works: its returns say nothing",
        Budget(minutes=1),
        (
            Change("--num_actors=4", "4 actors instead of 360", DQN.module),
            Change("--num_actors=4", "4 actors instead of 64", DPG.module),
            Change(
                "--config.replay_capacity=20000", "a replay of 20,000 instead of 2M", DQN.module
            ),
            Change(
                "--config.min_replay_size=1000",
                "1,000 transitions before the first update instead of 50,000",
            ),
            Change("--evaluation_seconds=15", "an evaluation every 15 s instead of our 60"),
            Change("--evaluation_episodes=2", "of 2 episodes instead of our 10"),
        ),
    ),
)


def _labels() -> dict[str, str]:
    labels = {
        "dqn": "Ape-X DQN",
        "dqn_full_range": "full range of epsilon",
        "dqn_six_epsilons": "six values of epsilon",
        "dpg": "Ape-X DPG",
        "dqn_32_actors_8_copies_replay_1m": "32 actors, 8 copies",
        "dpg_remove_by_fifo": "first in, first out",
        "dpg_uniform": "exponent 0",
        "dqn_uniform": "Ape-X DQN, uniform",
        "dqn_two_cores": "Ape-X DQN on two cores",
        "dqn_two_cores_uniform": "Ape-X DQN on two cores, uniform",
        "dqn_two_cores_bfloat16": "Ape-X DQN on two cores, bfloat16",
        "dqn_ten_minutes": "Ape-X DQN, ten minutes",
        "dqn_ten_minutes_alpha0": "Ape-X DQN, ten minutes, uniform",
        "dqn_ten_minutes_bfloat16": "Ape-X DQN, ten minutes, bfloat16",
    }
    for actors in FIGURE_4_ACTORS:
        labels[f"dqn_{actors}_actors_replay_1m"] = f"{actors} actors"
        labels[f"dqn_uniform_lr0.00025_{actors}_actors_replay_1m"] = f"{actors} actors, uniform"
        labels[f"dqn_lr0.00025_{actors}_actors_replay_1m"] = f"{actors} actors, rate 0.00025"
        labels[f"dqn_uniform_lr6.25e-05_{actors}_actors_replay_1m"] = (
            f"{actors} actors, uniform, rate 6.25e-05"
        )
    labels |= {
        f"dqn_two_cores_{actors}_actors": f"{actors} actors" for actors in FIGURE_13_TWO_CORES
    }
    for capacity in ("250k", "500k", "2m"):
        labels[f"dqn_256_actors_replay_{capacity}"] = f"256 actors, {capacity.upper()}"
    labels |= {f"dpg_{actors}_actors": f"{actors} actors" for actors in FIGURE_3_ACTORS}
    words = {"batch": "batches of ", "lr": "learning rate ", "alpha": "exponent "}
    varied = [f"dqn_batch{size}" for size in OTHER_BATCH_SIZES]
    varied += [f"dqn_lr{rate}" for rate in OTHER_LEARNING_RATES]
    for setting in (*varied, *DPG_VARIANTS[1:]):
        choice = setting.partition("_")[2]
        start = next(start for start in words if choice.startswith(start))
        labels[setting] = words[start] + choice.removeprefix(start)
    return labels


PAPER = Paper(
    name="apex",
    title="Ape-X",
    citation="Horgan et al. 2018",
    programs=(DQN, DPG),
    experiments=EXPERIMENTS,
    scales=SCALES,
    labels=_labels(),
)
