"""The paper's figures and tables as lists of runs, and the scales of these."""

from collections.abc import Iterable
import functools

from common.experiments.paper import Experiment, Paper, Part, Run, Substitute, curve
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
from reproductions.d4pg import config as settings
from reproductions.d4pg.config import AGENT, D4PGConfig
from reproductions.d4pg.ppo.config import AGENT as PPO
from reproductions.d4pg.tables import HandSizes, Sizes

CONTROL_SUITE = tuple(
    f"control:{task}"
    for task in (
        "acrobot:swingup",
        "acrobot:swingup_sparse",
        "cartpole:swingup",
        "cartpole:swingup_sparse",
        "cheetah:walk",
        "finger:turn_easy",
        "finger:turn_hard",
        "fish:swim",
        "fish:upright",
        "hopper:stand",
        "humanoid:run",
        "humanoid:stand",
        "humanoid:walk",
        "manipulator:bring_ball",
        "swimmer:swimmer15",
        "swimmer:swimmer6",
    )
)
"""The 16 tasks of figure 2 (section 4.1), in its order."""

FIGURE_8_TASKS = tuple(
    f"control:{task}"
    for task in (
        "acrobot:swingup",
        "acrobot:swingup_sparse",
        "finger:turn_hard",
        "fish:swim",
        "humanoid:run",
        "manipulator:bring_ball",
        "swimmer:swimmer15",
        "swimmer:swimmer6",
    )
)
"""The eight tasks of figure 8 (appendix C)."""

SMALL_TASKS = tuple(
    f"control:{task}"
    for task in ("cartpole:swingup", "cartpole:swingup_sparse", "cheetah:walk", "finger:turn_easy")
)
"""The tasks of the scale `small`: those of figure 2 that are learnt in minutes on one core."""

SMALL_FIGURE_8_TASKS = tuple(
    f"control:{task}" for task in ("finger:turn_hard", "fish:swim", "swimmer:swimmer6")
)
"""Those of figure 8 at the scale `small`."""

MANIPULATION = ("hand:catch", "hand:rotate_in_hand", "hand:pick_up_and_orient")
"""Figure 3 (section 4.2)."""

SMALL_MANIPULATION = ("hand:catch", "hand:rotate_in_hand")
"""Those of figure 3 at the scale `small`."""


FULL = settings.SETTINGS.default
"""The paper's agent, prioritised with N = 5."""
_SMALL_BATCH, _SMALL_RATE = 64, 3e-4
_BEYOND_SUITE = ("--num_actors=64", "--config.learning_rate=5e-05", "--config.batch_size=512")
"""The changes of sections 4 to 4.3 beyond the Control Suite."""
# The paper does not give Vmin and Vmax. Rewards of the hand are in [0, 1]. Returns of parkour are
# metres, of which gamma leaves 2.5 at 1 m/s.
_HAND_RANGE = ("--config.v_min=0", "--config.v_max=100")
_PARKOUR_RANGE = ("--config.v_min=-1", "--config.v_max=10")
HAND = "_lr5e-05_vmin0_vmax100"
PARKOUR = "_lr5e-05_vmin-1_vmax10"
HUMANOID_PARKOUR = "_lr5e-05_atoms101_vmin-1_vmax10"
"""Ends of the names of settings beyond the Control Suite."""
_NO_DDPG = tuple(name for name in settings.FIGURE_2 if name != "ddpg")
_HAND_N1, _HAND_N5, _PARKOUR_N1, _PARKOUR_N5 = (
    tuple(name + suffix for name in _NO_DDPG if name.endswith(n))
    for suffix in (HAND, PARKOUR)
    for n in ("n1", "n5")
)


_runs = functools.partial(curve, AGENT)


def _joined(parts: Iterable[tuple[Run, ...]]) -> tuple[Run, ...]:
    return tuple(run for part in parts for run in part)


def _suite_runs(
    names: Iterable[str], environments: Iterable[str], batch_size: int = D4PGConfig.batch_size
) -> tuple[Run, ...]:
    # DDPG has one actor with the newest parameters, and an update of a batch for each of its steps,
    # whatever the scale.
    of_ddpg = ("--num_actors=1", f"--config.samples_per_insert={batch_size}")
    return _joined(
        _runs(name, environments, *of_ddpg, fixed=("--config.actor_period",))
        if name == "ddpg"
        else _runs(name, environments)
        for name in names
    )


def _runs_beyond_suite(
    names: Iterable[str], environments: Iterable[str], suffix: str, *flags: str
) -> tuple[Run, ...]:
    return _joined(
        _runs(name + suffix, environments, *_BEYOND_SUITE, *flags, setting=name) for name in names
    )


def _noise_runs(environments: Iterable[str]) -> tuple[Run, ...]:
    return (
        *_runs(FULL, environments),
        *_runs(f"{FULL}_ou", environments, "--config.noise=ou", setting=FULL),
    )


def _small_figure_3(setting: str) -> tuple[Run, ...]:
    """Returns runs with a learning rate in the paper's ratio to that on the Control Suite."""
    flags = (f"--config.learning_rate={_SMALL_RATE / 2:g}", *_HAND_RANGE)
    return _runs(setting + HAND, SMALL_MANIPULATION, *flags, setting=setting)


def _small_figure_8(setting: str) -> tuple[Run, ...]:
    """Returns runs with a learning rate in the paper's ratio to that of the others."""
    rate = settings.SETTINGS.configuration(setting).learning_rate / D4PGConfig.learning_rate
    return _runs(setting, SMALL_FIGURE_8_TASKS, f"--config.learning_rate={_SMALL_RATE * rate:g}")


def _small(
    runs: tuple[Run, ...], note: str = "", parts: tuple[Part, ...] = ()
) -> dict[str, Substitute]:
    overrides = {"x": "learner_steps"} | ({"parts": parts} if parts else {})
    return {"small": Substitute(runs, note, seeds=5, overrides=overrides)}


_CARTPOLE = ("control:cartpole:swingup",)
_IMPORTANCE_RUNS = (
    *_suite_runs([FULL, "d4pg_uniform_n5"], _CARTPOLE),
    *_runs(f"{FULL}_beta0", _CARTPOLE, "--config.importance_exponent=0", setting=FULL),
)


def _ppo(environment: str) -> tuple[Run, ...]:
    return (Run(PPO, "ppo", environment, ("--setting=ppo",)),)


def _small_figure_5(name: str) -> tuple[Run, ...]:
    """Returns runs with a learning rate in the paper's ratio to that on the Control Suite."""
    flags = (f"--config.learning_rate={_SMALL_RATE / 2:g}", *_PARKOUR_RANGE)
    return _runs(name + PARKOUR, ("parkour:planar",), *flags, setting=name)


_HALF_A_DAY = Budget(minutes=12 * 60)
_A_DAY = Budget(minutes=24 * 60)
_NAMES_OF_RATES = (
    "names have the paper's learning rates, of which the model has three times as much"
)
_COURSES = "the courses are stand-ins for the paper's, which are not public"
_DRAWING = "a drawing, nothing to run"

EXPERIMENTS = (
    Experiment("figure 1", "the networks", unavailable=_DRAWING),
    Experiment(
        "figure 2",
        "Control Suite: D4PG, its ablations and DDPG",
        runs=_suite_runs(settings.FIGURE_2, CONTROL_SUITE),
        budget=_HALF_A_DAY,
        substitutes=_small(
            _suite_runs(settings.FIGURE_2, SMALL_TASKS, _SMALL_BATCH),
            parts=(
                *(
                    Part(f"row {agent}", tuple(one for one in _NO_DDPG if agent in one))
                    for agent in ("d3pg", "d4pg")
                ),
                Part("row ddpg", (FULL, "ddpg")),
            ),
        ),
        note="cheetah walk is not in dm_control: its target speed, 1 m/s, is ours",
    ),
    Experiment(
        "figure 3",
        "manipulation: D4PG and its ablations",
        runs=_runs_beyond_suite(_NO_DDPG, MANIPULATION, HAND, *_HAND_RANGE),
        budget=_A_DAY,
        parts=(Part("row N = 1", settings=_HAND_N1), Part("row N = 5", settings=_HAND_N5)),
        substitutes=_small(_joined(map(_small_figure_3, _NO_DDPG)), _NAMES_OF_RATES),
        note="the tasks are stand-ins for the paper's, which are not public",
    ),
    Experiment("figure 4", "frames of the parkour domains", unavailable="pictures only"),
    Experiment(
        "figure 5",
        "planar parkour: D4PG, its ablations and PPO, by time and actor steps",
        runs=(
            *_runs_beyond_suite(_NO_DDPG, ("parkour:planar",), PARKOUR, *_PARKOUR_RANGE),
            *_ppo("parkour:planar"),
        ),
        budget=Budget(minutes=22 * 60),
        parts=tuple(
            Part(f"{row} {column}", settings=(*names, "ppo"), overrides={"x": x})
            for row, x in (("top", "wall_seconds"), ("bottom", "actor_steps"))
            for column, names in (("left", _PARKOUR_N1), ("right", _PARKOUR_N5))
        ),
        substitutes={
            "small": Substitute(
                (*_joined(map(_small_figure_5, _NO_DDPG)), *_ppo("parkour:planar")),
                f"{_NAMES_OF_RATES}; 240,000 actor steps are 60,000 updates of D4PG",
                budget=Budget(actor_steps=240_000),
                seeds=5,
            )
        },
        note=_COURSES,
    ),
    Experiment(
        "figure 6",
        "humanoid parkour: D4PG, its ablations and PPO, N = 5",
        runs=(
            *_runs_beyond_suite(
                [name for name in _NO_DDPG if name.endswith("n5")],
                ("parkour:humanoid",),
                HUMANOID_PARKOUR,
                *_PARKOUR_RANGE,
                "--config.num_atoms=101",
            ),
            *_ppo("parkour:humanoid"),
        ),
        budget=_A_DAY,
        substitutes={"small": Substitute.none("hours a run: use the scale two_cores")},
        note=_COURSES,
    ),
    Experiment("figure 7", "the output layers", unavailable=_DRAWING),
    Experiment(
        "figure 8",
        "Control Suite: mixtures of Gaussians beside the categorical",
        runs=_suite_runs(settings.FIGURE_8, FIGURE_8_TASKS),
        budget=_HALF_A_DAY,
        substitutes=_small(_joined(map(_small_figure_8, settings.FIGURE_8)), _NAMES_OF_RATES),
        note="that its curves are prioritised with N = 5 is not in the paper",
    ),
    Experiment("figure 9", "the Control Suite's domains", unavailable="pictures only"),
    Experiment("figure 10", "the manipulation tasks", unavailable="pictures only"),
    Experiment(
        "table 1",
        "dimensions of the Control Suite's domains",
        ours=Sizes(CONTROL_SUITE),
        unavailable="sizes of environments, nothing to run",
    ),
    Experiment(
        "table 2",
        "observations of the manipulation tasks",
        ours=HandSizes(),
        unavailable="sizes of environments, nothing to run",
    ),
    Experiment(
        "section 3",
        "prioritised replay with and without importance weights, and uniform replay",
        runs=_IMPORTANCE_RUNS,
        budget=_HALF_A_DAY,
        states_budget=False,
        substitutes=_small(_IMPORTANCE_RUNS),
        note="the paper has no run without the weights of algorithm 1",
    ),
    Experiment(
        "section 4",
        "Ornstein-Uhlenbeck beside Gaussian noise",
        runs=_noise_runs(CONTROL_SUITE),
        budget=_HALF_A_DAY,
        substitutes=_small(_noise_runs(SMALL_TASKS)),
        note="the paper says that it tried this, not where: here on the tasks of figure 2",
    ),
)

SCALES = (
    PAPER_SCALE,
    Scale("workstation", "an hour a run, for some 16 cores and no GPU", Budget(minutes=60)),
    Scale(
        "two_cores",
        "five minutes a run, for two cores",
        Budget(minutes=5),
        (
            *changes("--num_actors=8"),
            *changes(
                "--config.samples_per_insert=64", "--config.min_replay_size=2000", agent=AGENT
            ),
            *changes("--evaluation_seconds=30", "--learner_threads=2"),
        ),
    ),
    Scale(
        "small",
        "a scale model for one core: four tasks, and smaller networks, batches and replay",
        Budget(learner_steps=60_000),
        (
            *changes("--config.single_process=true", "--num_actors=8"),
            *changes("--config.num_unrolls=16", "--evaluation_steps=200", agent=PPO),
            *changes(
                "--config.samples_per_insert=16",
                f"--config.learning_rate={_SMALL_RATE:g}",
                f"--config.batch_size={_SMALL_BATCH}",
                "--config.target_period=400",  # as many samples as 100 updates at the paper's scale
                "--config.actor_period=20",  # 40 updates, about as many at the rates of Ape-X DPG
                "--config.min_replay_size=1000",
                "--evaluation_steps=2000",
                agent=AGENT,
            ),
            *changes("--config.policy_sizes=128,128", "--config.critic_sizes=128,128"),
            *changes("--evaluation_episodes=5", "--learner_threads=1"),
        ),
        is_compact=True,
    ),
    Scale(
        "smoke",
        "a minute a run, to see that it works: its returns say nothing",
        Budget(minutes=1),
        (
            *changes("--num_actors=4"),
            *changes(
                "--config.samples_per_insert=64", "--config.min_replay_size=1000", agent=AGENT
            ),
            *changes("--evaluation_seconds=15", "--evaluation_episodes=2"),
        ),
    ),
)


def _looks() -> dict[str, Look]:
    """Returns the looks, labelled as in the legends of figures 2, 3, 5, 6 and 8.

    Colours tell critic and replay; dashes are N = 1 and dots DDPG, as in the paper.
    """
    looks = {}
    for agent, replay, color in (
        ("d3pg", "uniform", ORANGE),
        ("d3pg", "prioritized", VERMILLION),
        ("d4pg", "uniform", SKY),
        ("d4pg", "prioritized", BLUE),
    ):
        words = "Prioritized" if replay == "prioritized" else "Non-Prioritized"
        for n, line in ((1, "--"), (5, "-")):
            name, width = f"{agent}_{replay}_n{n}", 1.3
            if name == FULL:
                width = 2.0
            look = Look(f"{agent.upper()}, {words}, N = {n}", Style(color, line, width))
            looks |= dict.fromkeys(
                (name, name + HAND, name + PARKOUR, name + HUMANOID_PARKOUR), look
            )
    full, style = FULL, looks[FULL].style
    return looks | {
        "ddpg": Look("DDPG", Style(BLACK, ":", 1.6)),
        "ppo": Look("PPO", Style(GREEN)),
        f"{full}_lr5e-05": Look("Categorical, 5e-5", style),
        "d4pg_mixture_prioritized_n5_lr5e-05": Look(
            "Mixture of Gaussians, 5e-5", Style(GREEN, "--")
        ),
        "d4pg_mixture_prioritized_n5": Look("Mixture of Gaussians, 1e-4", Style(GREEN)),
        f"{full}_ou": Look("Ornstein-Uhlenbeck noise", Style(PURPLE)),
        f"{full}_beta0": Look(f"{looks[full].label}, beta = 0", Style(GREY)),
    }


PAPER = Paper(
    name="d4pg",
    title="D4PG",
    citation="Barth-Maron et al. 2018",
    agents=(AGENT, PPO),
    experiments=EXPERIMENTS,
    scales=SCALES,
    looks=_looks(),
)
