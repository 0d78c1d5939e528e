"""The paper's statements about its results, each with the test that decides it."""

import math

from common.experiments.claims import Check, Claim, Evidence, measured
from common.experiments.comparison import Comparison, Expected
from common.experiments.main_effects import EffectPart, MainEffects, mean_of
from common.experiments.shares import EACH, MOST
from reproductions.aql.experiments import HIGH, LOW, MATCH, MEDIUM

_HUMANOID = tuple(task for task in HIGH if ":humanoid:" in task)
_BEST = tuple(("aql", name) for name in ("aql_gaussian", "uniform_q", "qt_opt", "d3pg", "impala"))
_LOW = tuple(pair for pair in _BEST if pair[1] != "aql_gaussian")


def _without_impala(pairs: tuple[tuple[str, str], ...]) -> dict[str, dict[str, object]]:
    """Returns the fields to replace at the scale small, which has no runs of IMPALA."""
    return {"small": {"pairs": tuple(pair for pair in pairs if "impala" not in pair)}}


def _large_action_set(evidence: Evidence) -> tuple[bool, str]:
    def lab(row, column):
        return int(evidence.reported.number("aql", "section 5.2", row, column))

    turns, ternary, binary = (
        lab("large action set", "actions of a rotational axis"),
        lab("DeepMind Lab", "ternary sub-actions"),
        lab("DeepMind Lab", "binary sub-actions"),
    )
    axes, printed = (
        lab("DeepMind Lab", "sub-actions of the viewport"),
        lab("large action set", "actions"),
    )
    ours = math.prod((turns**axes, 3**ternary, 2**binary))
    return (
        ours == printed,
        f"{turns}^{axes} * 3^{ternary} * 2^{binary} = {ours:,}, printed {printed:,}.",
    )


def _replay_size(evidence: Evidence) -> tuple[bool, str]:
    def number(column):
        return evidence.reported.number("aql", "appendix A2", "all", column)

    ours, printed = (
        number("actors") * number("replay size of an actor"),
        number("replay size of all actors"),
    )
    return ours == printed, f"{ours:,.0f}, printed {printed:,.0f}."


CLAIMS = (
    Claim(
        "action_set",
        "The large action set of DeepMind Lab has 3528 actions.",
        "section 5.2",
        "figure 3",
        Check(_large_action_set, "the product of the sub-actions' sizes is the number"),
    ),
    Claim(
        "replay",
        "100 local memories of 1e5 steps make a replay of 1e7.",
        "appendix A2",
        "",
        Check(_replay_size, "the product is the number"),
    ),
    Claim(
        "best",
        "Discretised AQL performs best on average.",
        "section 5.1, figure 1",
        "figure 1",
        Comparison(_BEST, at=_without_impala(_BEST)),
    ),
    Claim(
        "learned_search",
        "With many action dimensions a learned proposal (AQL) or policy (D3PG) "
        "clearly outperforms Uniform Q-learning and QT-Opt.",
        "section 5.1, figure 2",
        "figure 8",
        Comparison(
            tuple((ours, theirs) for ours in ("aql", "d3pg") for theirs in ("uniform_q", "qt_opt")),
            Expected.CLEARLY_AHEAD,
        ),
    ),
    Claim(
        "learned_search_match",
        "On Match with 21 and 56 sub-actions, a stand-in of ours: a learned proposal (AQL) "
        "outperforms Uniform Q-learning and QT-Opt.",
        "section 5.1, figure 2",
        "section match",
        MainEffects(
            tuple(EffectPart(name, mean_of([("aql", name)])) for name in ("uniform_q", "qt_opt")),
            MATCH[1:],
            ranges=dict.fromkeys(MATCH, 100.0),
        ),
    ),
    Claim(
        "humanoid",
        "On the humanoid tasks AQL is competitive with D3PG.",
        "section 5.1, figure 8",
        "figure 8",
        Comparison((("aql", "d3pg"),), Expected.NOT_BEHIND, _HUMANOID),
    ),
    Claim(
        "impala",
        "IMPALA performs worse than the other methods on most tasks.",
        "section 5.1, figure 1",
        "figure 1",
        Comparison(
            tuple(
                (name, "impala") for name in ("aql", "aql_gaussian", "uniform_q", "qt_opt", "d3pg")
            ),
            share=MOST,
        ),
    ),
    Claim(
        "gaussian_low",
        "On low- and medium-dimensional tasks continuous AQL performs like the discretised one.",
        "section 5.1, figures 6 and 7",
        "figure 1",
        Comparison((("aql", "aql_gaussian"),), Expected.LEVEL, (*LOW, *MEDIUM)),
    ),
    Claim(
        "gaussian_high",
        "On high-dimensional tasks continuous AQL fails to learn: it is clearly "
        "behind the discretised one.",
        "section 5.1, figure 8",
        "figure 8",
        Comparison((("aql", "aql_gaussian"),), Expected.CLEARLY_AHEAD),
    ),
    Claim(
        "low",
        "On low-dimensional tasks AQL is competitive with the other methods.",
        "section 6, figure 6",
        "figure 6",
        Comparison(_LOW, Expected.NOT_BEHIND, at=_without_impala(_LOW)),
    ),
    Claim(
        "independent",
        "Independent proposals are slightly worse than autoregressive ones.",
        "appendix A3, figure 5",
        "figure 5",
        Comparison((("aql", "aql_independent"),), Expected.SLIGHTLY_AHEAD),
    ),
    Claim(
        "lab_curated",
        "With 11 actions AQL, exact Q-learning and IMPALA perform comparably.",
        "section 5.2, figure 3",
        "figure 3",
        Comparison(
            (("aql_11_actions", "exact_q_11_actions"), ("aql_11_actions", "impala_11_actions")),
            Expected.LEVEL,
        ),
    ),
    Claim(
        "lab_large",
        "With 3528 actions AQL achieves the best final score on both tasks.",
        "section 5.2, figure 3",
        "figure 3",
        Comparison(
            tuple(
                ("aql_3528_actions", name)
                for name in (
                    "exact_q_3528_actions",
                    "impala_3528_actions",
                    "exact_q_11_actions",
                    "aql_11_actions",
                    "impala_11_actions",
                )
            ),
            share=EACH,
        ),
    ),
    Claim(
        "rmsprop",
        "With RMSProp and shared layers all are significantly worse on average, except "
        "for IMPALA and continuous AQL.",
        "appendix A3, figure 11",
        "figure 11",
        Comparison(
            tuple(
                (name, f"{name}_shared_rmsprop") for name in ("aql", "uniform_q", "qt_opt", "d3pg")
            ),
            Expected.CLEARLY_AHEAD,
        ),
    ),
    Claim(
        "exact_cost",
        "Exact Q-learning over all 3528 actions takes about 10 times longer in wall-clock time.",
        "section 5.2",
        "figure 3",
        # About 10: by half as much, up or down. Of the search alone, which dominates.
        measured("aql", "search/exact_q_3528_time_over_aql", 6.7, 15),
    ),
)
