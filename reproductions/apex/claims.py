"""The paper's statements about its results, each with the test that decides it."""

from collections.abc import Callable, Iterable

from common.environments.minatar_suite import ENVIRONMENTS as MINATAR
from common.experiments.atari_scores import median_reached
from common.experiments.claims import Basis, Check, Claim, Evidence
from common.experiments.effects import largest_fall, late_magnitude
from common.experiments.main_effects import (
    LEVEL,
    NOT_BEHIND,
    EffectPart,
    MainEffects,
    Over,
    claim_of,
    grouped,
    mean_of,
    slope,
    trend,
)
from common.reporting import scores
from reproductions.apex.curves import (
    FIGURE_3_ACTORS,
    FIGURE_3_SMALL,
    FIGURE_4_ACTORS,
    FIGURE_4_SMALL,
)
from reproductions.apex.experiments import CONTROL_TASKS, SIX_GAMES, SMALL_CONTROL_TASKS
from reproductions.apex.failure_claims import FAILURE_CLAIMS

_NO_OP, _HUMAN = "Median (no-op starts)", "Median (human starts)"
_AGENT = "Ape-X DQN"


def _dqn(actors: int, capacity: str = "1m") -> str:
    return f"dqn_{actors}_actors_replay_{capacity}"


def _uniform(actors: int) -> str:
    return f"dqn_uniform_lr0.00025_{actors}_actors_replay_1m"


def _uniform_tried(actors: int) -> tuple[str, str]:
    """Returns uniform replay with both learning rates that were tried."""
    return _uniform(actors), f"dqn_uniform_lr6.25e-05_{actors}_actors_replay_1m"


def _dpg(actors: int) -> str:
    return f"dpg_{actors}_actors"


def _of(name: Callable[[int], str], numbers: Iterable[int]) -> dict[str, float]:
    """Returns the numbers of actors by setting."""
    return {name(number): number for number in numbers}


def _at_small(**fields: object) -> dict[str, dict[str, object]]:
    return {"small": fields}


def _gain(
    name: Callable[[int], str], numbers: Iterable[int], over: Over = Over.MEAN
) -> tuple[EffectPart, ...]:
    """Returns the gain from the smallest to the largest number of actors."""
    return (EffectPart("", trend(_of(name, numbers)), over=over),)


def _gain_by_priorities(numbers: Iterable[int]) -> tuple[EffectPart, ...]:
    """Returns the gain with prioritised replay, less that with uniform replay."""
    numbers = tuple(numbers)
    return (EffectPart("", trend(_of(_dqn, numbers), less=_of(_uniform, numbers))),)


def _gain_by_batch(of_512: str) -> tuple[EffectPart, ...]:
    """Returns the gain from batches of 32 to those of 512, given the setting that has these."""
    sizes = {f"dqn_batch{size}": size for size in (32, 128, 256)}
    return (EffectPart("", trend(sizes | {of_512: 512})),)


def _better(first: str, second: str) -> tuple[EffectPart, ...]:
    return (EffectPart("", mean_of([(first, second)])),)


_SMALL_GAMES = _at_small(environments=MINATAR)
_LINEAR = (0.9, 1.1)
"""Bounds of the slope of log speed over log actors."""


def _longer_ddpg(evidence: Evidence) -> tuple[None, str]:
    times = evidence.reported.number(
        "apex", "section 4.2", "DDPG baseline", "training time, over that of Ape-X DPG (more than)"
    )
    return None, f"No experiment has runs of a DDPG baseline of {times:.0f} times the time."


def _median_434(evidence: Evidence) -> tuple[bool, str]:
    printed = evidence.reported.number("apex", "table 1", _AGENT, _NO_OP)
    table = evidence.reported.table("apex", "table 2")[["No-op starts"]]
    known = evidence.reported.atari_scores()
    normalised = scores.human_normalised(table, known["random"], known["human"])
    median = 100 * normalised["No-op starts"].median()
    return (
        round(median) == printed,
        f"Table 2's {len(table)} scores give {median:.2f} %, table 1 prints {printed:.0f} %.",
    )


def _above_baselines(evidence: Evidence) -> tuple[bool, str]:
    table = evidence.reported.table("apex", "table 1")
    others, words, holds = table.drop(index=_AGENT), [], True
    for column in (_NO_OP, _HUMAN):
        best = others[column].idxmax()
        own = evidence.reported.number("apex", "table 1", _AGENT, column)
        holds &= own > others.at[best, column]
        words.append(
            f"{column}: {own:.0f} %, the best other, {best}, {others.at[best, column]:.0f} %"
        )
    return bool(holds), f"{'; '.join(words)}."


def _fraction_of_time(evidence: Evidence) -> tuple[bool, str]:
    """Compares Ape-X with the best baseline whose training time table 1 has."""
    columns = ["Training time", _NO_OP]
    others = evidence.reported.table("apex", "table 1")[columns].drop(index=_AGENT).dropna()
    best = others[_NO_OP].idxmax()
    ours = {
        column: evidence.reported.number("apex", "table 1", _AGENT, column) for column in columns
    }
    theirs = others.loc[best]
    return (
        bool(ours["Training time"] < theirs["Training time"] and ours[_NO_OP] > theirs[_NO_OP]),
        f"{ours[_NO_OP]:.0f} % after {ours['Training time']:g} days, {best} "
        f"{theirs[_NO_OP]:.0f} % after {theirs['Training time']:g}.",
    )


def _rates(evidence: Evidence) -> tuple[bool, str]:
    """Compares section 4's rates with each other's products."""

    def dqn(column):
        return evidence.reported.number("apex", "section 4.1", _AGENT, column)

    def dpg(column):
        return evidence.reported.number("apex", "section 4.2", "Ape-X DPG", column)

    products = (
        (
            dqn("actors") * dqn("frames per second of an actor"),
            dqn("frames per second of all actors"),
            "frames/s",
        ),
        (
            dqn("frames per second of all actors") / dqn("action repeat"),
            dqn("transitions per second of all actors"),
            "transitions/s",
        ),
        (
            dqn("batches per second") * dqn("batch size"),
            dqn("transitions learned from per second"),
            "transitions learned/s",
        ),
        (
            dpg("batches per second") * dpg("batch size"),
            dpg("transitions learned from per second"),
            "transitions learned/s (DPG)",
        ),
    )
    return (
        all(abs(ours / printed - 1) < 0.01 for ours, printed, _ in products),
        "; ".join(f"{ours:,.0f} {unit}, printed {printed:,.0f}" for ours, printed, unit in products)
        + ".",
    )


def _replay_size(evidence: Evidence) -> tuple[bool, str]:
    """Compares the size with the limit plus half of the items that arrive between removals."""

    def number(column):
        return evidence.reported.number("apex", "section 4.1", _AGENT, column)

    capacity, median = number("replay capacity (soft)"), number("median size of the replay")
    cycle = number("period of removals") / number("batches per second")
    expected = number("transitions per second of all actors") * cycle / 2
    return (
        bool(abs((median - capacity) / expected - 1) < 0.1),
        f"The rates give {capacity + expected:,.0f}, the paper says {median:,.0f}.",
    )


CLAIMS = (
    Claim(
        "median",
        "The median human-normalised score over 57 games, no-op starts, is 434 %.",
        "table 1",
        "table 1",
        Check(_median_434, "table 2's scores give it to the printed digit"),
    ),
    Claim(
        "median_reached",
        "Ape-X DQN reaches that median.",
        "table 1",
        "table 1",
        median_reached("apex", "dqn", "table 1", _AGENT, _NO_OP),
    ),
    Claim(
        "above_baselines",
        "Ape-X's performance is higher than that of any baseline according to both metrics.",
        "section 4.1, table 1",
        "table 1",
        Check(_above_baselines, "in table 1 both medians are above every other"),
    ),
    Claim(
        "fraction_of_time",
        "Better final performance in a fraction of the wall-clock time of the state of the art, "
        "Rainbow.",
        "abstract, table 1",
        "table 1",
        Check(
            _fraction_of_time,
            "in table 1 it is above the best baseline with a stated time, in less time",
        ),
    ),
    Claim(
        "rates",
        "360 actors at 139 frames/s make 50K frames/s, 12.5K transitions/s; 19 batches/s "
        "of 512 are 9.7K transitions/s, 86 of 256 are 22K.",
        "sections 4.1, 4.2",
        "",
        Check(_rates, "products agree within 1 %"),
    ),
    Claim(
        "replay_size",
        "With a soft limit of 2M, enforced every 100 learner steps, the median size "
        "of the replay is 2,035,050.",
        "section 4.1",
        "",
        Check(
            _replay_size,
            "half of what comes in between removals, by the paper's rates, is the "
            "excess within 10 %",
        ),
    ),
    Claim(
        "dpg_actors",
        "With more actors Ape-X DPG becomes increasingly effective.",
        "section 4.2, figure 3",
        "figure 3",
        MainEffects(_gain(_dpg, FIGURE_3_ACTORS), at=_at_small(parts=_gain(_dpg, FIGURE_3_SMALL))),
    ),
    Claim(
        "dpg_ddpg",
        "Ape-X DPG outperforms a DDPG baseline trained for over 10 times longer.",
        "section 4.2, figure 3",
        "figure 3",
        Check(
            _longer_ddpg,
            "runs of 64 actors end above those of a DDPG baseline of ten times their time",
            Basis.RUNS,
        ),
    ),
    Claim(
        "actors",
        "Performance consistently improves from 8 to 256 actors.",
        "section 5, figure 4",
        "figure 4",
        MainEffects(
            _gain(_dqn, FIGURE_4_ACTORS, Over.UNIFORM),
            at=_at_small(parts=_gain(_dqn, FIGURE_4_SMALL, Over.UNIFORM)),
        ),
    ),
    Claim(
        "capacity",
        "There is a small benefit to using a larger replay capacity: 2M beside 250K.",
        "section 5, figure 5",
        "figure 5",
        MainEffects(
            _better(_dqn(256, "2m"), _dqn(256, "250k")),
            at=_at_small(parts=_better(_dqn(128, "2m"), _dqn(128, "250k"))),
        ),
    ),
    Claim(
        "capacity_diverges",
        "On Wizard of Wor training diverged with a replay of 250K, not with other sizes.",
        "figure 5",
        "figure 5",
        claim_of(
            [(_dqn(256, "250k"), _dqn(256, capacity)) for capacity in ("500k", "1m", "2m")],
            environments=("atari:wizard_of_wor",),
            measure=largest_fall,
        ),
    ),
    Claim(
        "recency",
        "Recency alone does not explain the gain: 32 actors whose transitions are added "
        "8 times do not perform as well as 256.",
        "appendix A, figure 6",
        "figure 6",
        MainEffects(
            _better(_dqn(256), "dqn_32_actors_8_copies_replay_1m"),
            at=_at_small(parts=_better(_dqn(128), "dqn_16_actors_8_copies_replay_1m")),
        ),
    ),
    Claim(
        "epsilons",
        "The full range of epsilon is overall slightly better than six values.",
        "appendix B, figure 7",
        "figure 7",
        claim_of([("dqn_full_range", "dqn_six_epsilons")]),
    ),
    Claim(
        "linear",
        "The speed of data generation scales linearly with the number of actors.",
        "figure 13",
        "figure 13",
        MainEffects(
            (EffectPart("power", slope(_of(_dqn, FIGURE_4_ACTORS)), _LINEAR),),
            measure=late_magnitude,
            unit=1.0,
        ),
    ),
    Claim(
        "prioritized",
        "With 256 actors prioritised replay is equal or better in 7 of 9 games, here in the mean, "
        "than uniform replay with either learning rate.",
        "figure 14",
        "figure 14",
        MainEffects(
            grouped([(_dqn(256), name) for name in _uniform_tried(256)], 1, NOT_BEHIND),
            at=_at_small(
                parts=grouped([(_dqn(128), name) for name in _uniform_tried(128)], 1, NOT_BEHIND)
            ),
        ),
    ),
    Claim(
        "uniform_actors",
        "Uniform replay benefits from more actors, too.",
        "appendix, figure 14",
        "figure 14",
        MainEffects(
            _gain(_uniform, FIGURE_4_ACTORS), at=_at_small(parts=_gain(_uniform, FIGURE_4_SMALL))
        ),
    ),
    Claim(
        "prioritized_actors",
        "Prioritised replay can better take advantage of more actors than uniform replay.",
        "figure 14",
        "figure 14",
        MainEffects(
            _gain_by_priorities(FIGURE_4_ACTORS),
            at=_at_small(parts=_gain_by_priorities(FIGURE_4_SMALL)),
        ),
    ),
    Claim(
        "batch_size",
        "With many actors larger batches give clear benefits up to 512.",
        "appendix E",
        "section E",
        MainEffects(
            _gain_by_batch("dqn"),
            SIX_GAMES,
            at=_at_small(environments=MINATAR, parts=_gain_by_batch(_dqn(128))),
        ),
    ),
    Claim(
        "high_learning_rate",
        "A learning rate of 0.00025 destabilises training on some games.",
        "appendix E",
        "section E",
        claim_of(
            [("dqn_lr0.00025", "dqn")],
            over=Over.SOME,
            environments=SIX_GAMES,
            measure=largest_fall,
            at=_SMALL_GAMES,
        ),
    ),
    Claim(
        "learning_rate",
        "A learning rate of half the size does not reliably improve results.",
        "appendix E",
        "section E",
        claim_of([("dqn", "dqn_lr3.125e-05")], NOT_BEHIND, environments=SIX_GAMES, at=_SMALL_GAMES),
    ),
    Claim(
        "exponents",
        "Results of Ape-X DPG are essentially consistent for prioritisation exponents "
        "from 0.3 to 0.7.",
        "appendix E",
        "section E",
        MainEffects(
            (
                EffectPart(
                    "",
                    trend(
                        {f"dpg_alpha{alpha}": alpha for alpha in (0.3, 0.4, 0.5, 0.7)}
                        | {"dpg": 0.6}
                    ),
                    LEVEL,
                ),
            ),
            CONTROL_TASKS,
            at=_at_small(environments=SMALL_CONTROL_TASKS),
        ),
    ),
    *FAILURE_CLAIMS,
)
