"""The paper's statements about its results, each with the test that decides it."""

import pandas

from common.experiments.atari_scores import median_reached
from common.experiments.claims import Check, Claim, Evidence
from common.experiments.effects import whole_mean
from common.experiments.main_effects import LEVEL, EffectPart, MainEffects, claim_of, mean_of
from common.reporting import ranking, scores

_MEDIAN, _RANK, _ELO = "Normalized scores", "Mean rank", "Elo"
_SIGNS = {_MEDIAN: 1, _RANK: -1, _ELO: 1}
"""1 where more is better."""
_HALF_A_DIGIT = 0.05
"""Table 5 has one digit after the point."""
_OURS = ("Reactor ND", "Reactor", "Reactor 500m")


def _derived(evidence: Evidence) -> tuple[pandas.DataFrame, pandas.DataFrame]:
    """Returns table 5's scores, and table 2 for the same agents."""
    table_5 = evidence.reported.table("reactor", "table 5")
    return table_5, evidence.reported.table("reactor", "table 2").loc[table_5.columns]


def _medians(evidence: Evidence) -> tuple[bool, str]:
    table_5, table_2 = _derived(evidence)
    ours = scores.human_normalised(table_5, table_5["Random"], table_5["Human"]).median().round(2)
    wrong = ours.index[(ours - table_2[_MEDIAN]).abs() > 1e-9]
    agents = [name for name in ours.index if name not in ("Random", "Human")]
    return (
        wrong.empty,
        "Table 5 gives "
        + ", ".join(f"{name} {ours[name]:.2f}" for name in agents)
        + _differing(wrong, ours, table_2[_MEDIAN], ".2f"),
    )


def _ranks(evidence: Evidence) -> tuple[bool, str]:
    """Compares ranks; scores that are printed alike may have differed before they were rounded."""
    table_5, table_2 = _derived(evidence)
    ours, printed = ranking.mean_rank(table_5).round(2), table_2[_RANK]
    exact = int(((ours - printed).abs() < 1e-9).sum())
    least, most = {}, {}
    for name in table_5:
        lead = table_5.drop(columns=name).sub(table_5[name], axis="index")
        least[name] = 1 + (lead > 2 * _HALF_A_DIGIT + 1e-9).sum(axis="columns").mean()
        most[name] = 1 + (lead >= -2 * _HALF_A_DIGIT - 1e-9).sum(axis="columns").mean()
    within = [
        name for name in table_5 if least[name] - 0.005 <= printed[name] <= most[name] + 0.005
    ]
    wrong = ours.index[(ours - printed).abs() > 1e-9]
    return (
        len(within) == len(printed),
        f"{exact} of {len(printed)} are exactly those of table 5, {len(within)} within what "
        f"rounding its scores hides{_differing(wrong, ours, printed, '.2f')}",
    )


def _elo(evidence: Evidence) -> tuple[bool, str]:
    table_5, table_2 = _derived(evidence)
    ours, printed = ranking.elo(ranking.wins(table_5), anchor="Human"), table_2[_ELO]
    wrong = ours.index[(ours - printed).abs() > 2]
    return (
        wrong.empty,
        f"{len(ours) - len(wrong)} of {len(ours)} are within 2 of what table 5 gives"
        f"{_differing(wrong, ours, printed, '.0f')}",
    )


def _differing(names, ours, printed, digits: str) -> str:
    """Returns the end of a sentence."""
    listed = [f"{name} {ours[name]:{digits}}, printed {printed[name]:{digits}}" for name in names]
    return f". Differing: {'; '.join(listed)}." if listed else "."


def _best(evidence: Evidence, source: str, agent: str, others) -> tuple[bool, str]:
    """Returns whether an agent is ahead of others by all three metrics of table 1 or 2."""
    table, words = evidence.reported.table("reactor", source), []
    own = {metric: evidence.reported.number("reactor", source, agent, metric) for metric in _SIGNS}
    for metric, sign in _SIGNS.items():
        ahead = table.loc[others, metric].dropna()
        better = ahead.index[sign * ahead >= sign * own[metric]]
        if len(better):
            words.append(
                f"{metric}: {agent} {own[metric]:g}, "
                + ", ".join(f"{name} {ahead[name]:g}" for name in better)
            )
    if words:
        return False, f"{source.capitalize()}: {'; '.join(words)}."
    values = ", ".join(f"{metric} {number:g}" for metric, number in own.items())
    beaten = f"{others[0]}'s" if len(others) == 1 else "the others'"
    return True, f"{source.capitalize()}: {agent} has {values}, all better than {beaten}."


def _others(evidence: Evidence, source: str) -> list[str]:
    """Returns the agents of other papers."""
    return [
        name
        for name in evidence.reported.table("reactor", source).index
        if name not in (*_OURS, "Human")
    ]


def _all_metrics(evidence: Evidence) -> tuple[bool, str]:
    return _best(evidence, "table 1", "Reactor", _others(evidence, "table 1"))


def _all_metrics_500m(evidence: Evidence) -> tuple[bool, str]:
    return _best(evidence, "table 1", "Reactor 500m", _others(evidence, "table 1"))


def _no_op(evidence: Evidence) -> tuple[bool, str]:
    apart = ("Rainbow", "ACER 500m")
    others = [name for name in _others(evidence, "table 2") if name not in apart]
    return _best(evidence, "table 2", "Reactor", others)


def _acer(evidence: Evidence) -> tuple[None, str]:
    table = evidence.reported.table("reactor", "table 2")[_MEDIAN]
    best = evidence.reported.number(
        "reactor", "section 4.1", "ACER", "best reported median (no-op starts)"
    )
    return None, (
        f"Figure 3's curves are in no text, and table 2 has other medians: Reactor ND "
        f"{table['Reactor ND']:g} and Reactor {table['Reactor']:g} after 200M frames, ACER "
        f"{best:g} after 500M as the largest of each curve."
    )


def _more_sample_efficient(evidence: Evidence) -> tuple[bool, str]:
    medians = {
        name: evidence.reported.number("reactor", "table 2", name, _MEDIAN)
        for name in ("Reactor", "Prior. Duel.")
    }
    c51 = evidence.reported.number(
        "apex", "table 1", "Distributional (C51)", "Median (no-op starts)"
    )
    medians["C51 (Ape-X, table 1)"] = c51 / 100
    own = medians["Reactor"]
    return (
        all(own > value for name, value in medians.items() if name != "Reactor"),
        "After 200M frames: "
        + ", ".join(f"{name} {value:.2f}" for name, value in medians.items())
        + ".",
    )


def _days(evidence: Evidence, name: str) -> float:
    """Returns a training time of figure 2, of "< 2" the 2."""
    printed = evidence.reported.table("reactor", "figure 2", "value").at[name, "Training time"]
    return float(printed.removeprefix("<"))


def _faster(evidence: Evidence) -> tuple[bool, str]:
    ours, theirs = _days(evidence, "Reactor"), _days(evidence, "A3C")
    return ours < theirs, f"Figure 2: Reactor less than {ours:g} days, A3C {theirs:g}."


def _less_than_a_day(evidence: Evidence) -> tuple[None, str]:
    days = [_days(evidence, name) for name in ("Reactor*", "Reactor")]
    median = evidence.reported.number("reactor", "table 1", "Reactor", _MEDIAN)
    return None, (
        f"Figure 2: with 20 workers less than {days[0]:g} day, with 10 less than {days[1]:g}; "
        f"table 1: with 10 a median of {median:g}. No score of 20 workers is printed."
    )


def _longer(evidence: Evidence) -> tuple[bool, str]:
    found = [
        _best(evidence, source, "Reactor 500m", ["Reactor"]) for source in ("table 1", "table 2")
    ]
    return all(holds for holds, _ in found), " ".join(words for _, words in found)


def _human_starts(evidence: Evidence) -> tuple[bool, str]:
    return _best(evidence, "table 1", "Reactor", ["Reactor ND"])


def _time_of_rainbow(evidence: Evidence) -> tuple[bool, str]:
    ours, theirs = _days(evidence, "Reactor"), _days(evidence, "Rainbow")
    return ours < theirs, f"Figure 2: Reactor less than {ours:g} days, Rainbow {theirs:g}."


def _drop(evidence: Evidence) -> tuple[bool, str]:
    """Compares the medians from human starts with those from no-op starts."""
    no_op, human = (
        evidence.reported.table("reactor", source)[_MEDIAN] for source in ("table 2", "table 1")
    )
    lost = {name: 1 - human[name] / no_op[name] for name in ("Rainbow", "Reactor")}
    return bool(lost["Rainbow"] > lost["Reactor"]), (
        "; ".join(
            f"{name}: {no_op[name]:g} from no-op, {human[name]:g} from human starts, "
            f"{part:.0%} less"
            for name, part in lost.items()
        )
        + "."
    )


_CONTRIBUTIONS = tuple(
    EffectPart(name, mean_of([("reactor", f"reactor_{name}")]))
    for name in ("nd", "tislr", "uniform")
)
_PRIORITIZATION = tuple(
    EffectPart(f"beyond {name}'s", mean_of([(f"reactor_{name}", "reactor_uniform")]))
    for name in ("nd", "tislr")
)
_TISLR = [("reactor", "reactor_tislr")]
_TREE = [("reactor", "reactor_max_priority")]
_RANGE_OF_CATCH = 2.0
"""Returns are 1 or -1."""

CLAIMS = (
    Claim(
        "medians",
        "Table 2's normalised scores: the median over 57 games, no-op starts.",
        "table 2",
        "table 2",
        Check(_medians, "table 5's scores give all of them"),
    ),
    Claim(
        "ranks",
        "Table 2's mean ranks over 57 games.",
        "table 2, section 6.2",
        "table 2",
        Check(_ranks, "table 5's scores give all of them, within what rounding them hides"),
    ),
    Claim(
        "elo",
        "Table 2's Elo scores.",
        "table 2, section 6.2",
        "table 2",
        Check(_elo, "a logistic fit to table 5's wins gives all of them within 2"),
    ),
    Claim(
        "median_reached",
        "Reactor reaches a median of 1.87 in 200M frames.",
        "table 2",
        "table 2",
        median_reached("reactor", "reactor", "table 2", "Reactor", _MEDIAN, 100.0),
    ),
    Claim(
        "all_metrics",
        "From human starts Reactor exceeds all algorithms across all metrics.",
        "section 4.1, table 1",
        "table 1",
        Check(_all_metrics, "table 1 has it ahead of all others by each metric"),
    ),
    Claim(
        "all_metrics_500m",
        "With 500M frames it does.",
        "section 4.1, table 1",
        "table 1",
        Check(_all_metrics_500m, "table 1 has it ahead of all others by each metric"),
    ),
    Claim(
        "no_op",
        "From no-op starts Reactor outperforms all methods except Rainbow.",
        "section 4.1, table 2, footnote 6",
        "table 2",
        Check(
            _no_op,
            "table 2 has it ahead of all others but Rainbow by each metric; ACER, after 500M "
            "frames and as the largest of each curve, is not comparable by footnote 6",
        ),
    ),
    Claim(
        "acer",
        "Classical and distributional Reactor exceed ACER's best reported median of 1.9.",
        "section 4.1, figure 3, footnote 6",
        "figure 3",
        Check(_acer, "figure 3 has both above 1.9"),
    ),
    Claim(
        "sample_efficient",
        "Reactor is more sample-efficient than Prioritized Dueling DQN and Categorical DQN.",
        "abstract",
        "table 2",
        Check(_more_sample_efficient, "after 200M frames its median from no-op starts is above"),
    ),
    Claim(
        "faster",
        "Reactor gives better run-time performance than A3C.",
        "abstract, figure 2",
        "figure 2",
        Check(_faster, "figure 2 has a shorter training time for it"),
    ),
    Claim(
        "less_than_a_day",
        "Reactor reaches state-of-the-art performance after 200M frames and less than a day.",
        "abstract, figure 2, table 1",
        "figure 2",
        Check(_less_than_a_day, "runs with a time of less than a day have their scores in a table"),
    ),
    Claim(
        "longer",
        "With 500M frames its performance continues to improve significantly.",
        "section 4.1, tables 1 and 2",
        "table 2",
        Check(_longer, "both tables have it ahead of Reactor by each metric"),
    ),
    Claim(
        "human_starts",
        "The distributional version generalises better to human starts.",
        "section 4, table 1",
        "table 1",
        Check(_human_starts, "table 1 has it ahead of Reactor ND by each metric"),
    ),
    Claim(
        "contributions",
        "Distributional Retrace, beta-LOO and prioritised replay each contribute.",
        "section 4, figure 3",
        "figure 3",
        MainEffects(_CONTRIBUTIONS),
    ),
    Claim(
        "contributions_efficiency",
        "Each of these innovations contributes to sample efficiency, too.",
        "abstract, figure 3",
        "figure 3",
        MainEffects(_CONTRIBUTIONS, measure=whole_mean),
    ),
    Claim(
        "contributions_catch",
        "On Catch, a stand-in of ours: distributional Retrace, beta-LOO and prioritised replay "
        "each contribute.",
        "section 4, figure 3",
        "section catch",
        MainEffects(_CONTRIBUTIONS, unit=_RANGE_OF_CATCH),
    ),
    Claim(
        "prioritization_catch",
        "On Catch, a stand-in of ours: prioritisation is the most important component.",
        "section 4, figure 3",
        "section catch",
        MainEffects(_PRIORITIZATION, unit=_RANGE_OF_CATCH),
    ),
    Claim(
        "prioritization",
        "Prioritisation is the most important component.",
        "section 4, figure 3",
        "figure 3",
        MainEffects(_PRIORITIZATION),
    ),
    Claim(
        "leave_one_out",
        "beta-LOO clearly outperforms TISLR.",
        "section 4, figure 3",
        "figure 3",
        claim_of(_TISLR),
    ),
    Claim(
        "distributional",
        "Distributional and non-distributional versions perform similarly from no-op starts.",
        "section 4, figure 3",
        "figure 3",
        claim_of([("reactor", "reactor_nd")], LEVEL),
    ),
    Claim(
        "leave_one_out_catch",
        "On Catch, a stand-in of ours: beta-LOO clearly outperforms TISLR.",
        "section 4, figure 3",
        "section catch",
        claim_of(_TISLR, unit=_RANGE_OF_CATCH),
    ),
    Claim(
        "tree",
        "The priority tree performs better than insertion at the maximum priority.",
        "section 6.5",
        "section 6.5",
        claim_of(_TREE),
    ),
    Claim(
        "tree_catch",
        "On Catch, a stand-in of ours: the priority tree performs better than insertion at the "
        "maximum priority.",
        "section 6.5",
        "section catch",
        claim_of(_TREE, unit=_RANGE_OF_CATCH),
    ),
    Claim(
        "rainbow_time",
        "Reactor is trained in less time than Rainbow.",
        "section 4.1, figures 2 and 3",
        "figure 2",
        Check(_time_of_rainbow, "figure 2 has a shorter training time for it"),
    ),
    Claim(
        "rainbow_drop",
        "Rainbow's performance drops significantly from no-op to human starts.",
        "section 4.1, tables 1 and 2",
        "table 2",
        Check(_drop, "its median loses a larger part than Reactor's"),
    ),
)
