"""The paper's statements about its results, each with the test that decides it."""

import math

from common.experiments.claims import Basis, Check, Claim, Evidence, measured
from common.experiments.effects import early_mean, late_magnitude, whole_mean
from common.experiments.main_effects import (
    LEVEL,
    NOT_BEHIND,
    EffectPart,
    MainEffects,
    Over,
    claim_of,
    each,
    grouped,
    mean_of,
)
from reproductions.aql.experiments import HIGH, LOW, MATCH, MEDIUM

_HUMANOID = tuple(task for task in HIGH if ":humanoid:" in task)
_OTHERS = ("aql_gaussian", "uniform_q", "qt_opt", "d3pg", "impala")
_BEST = [("aql", name) for name in _OTHERS]
_LOW = [pair for pair in _BEST if pair[1] != "aql_gaussian"]
_WEAK = [
    (ours, theirs)
    for ours in ("aql", "aql_gaussian", "uniform_q", "qt_opt")
    for theirs in ("d3pg", "impala")
]
_LEARNED_SEARCH = [(ours, theirs) for ours in ("aql", "d3pg") for theirs in ("uniform_q", "qt_opt")]
_HIGH = [
    (ours, theirs)
    for ours in ("aql", "aql_gaussian", "d3pg")
    for theirs in ("qt_opt", "impala", "uniform_q")
]
_RMSPROP = [(name, f"{name}_shared_rmsprop") for name in ("aql", "uniform_q", "qt_opt", "d3pg")]
_LAB = ("aql", "exact_q", "impala")
_TWICE = (math.log10(2), math.inf)
"""Bounds in powers of ten."""


def _a3c(evidence: Evidence) -> tuple[None, str]:
    return None, "The results of A3C (Tassa et al. 2018) are in no text of this paper."


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
        MainEffects(each(_BEST)),
    ),
    Claim(
        "learned_search",
        "With many action dimensions a learned proposal (AQL) or policy (D3PG) "
        "clearly outperforms Uniform Q-learning and QT-Opt.",
        "section 5.1, figure 2",
        "figure 8",
        MainEffects(grouped(_LEARNED_SEARCH, 0)),
    ),
    Claim(
        "learned_search_match",
        "On Match with 21 and 56 sub-actions, a stand-in of ours: a learned proposal (AQL) "
        "outperforms Uniform Q-learning and QT-Opt.",
        "section 5.1, figure 2",
        "section match",
        MainEffects(grouped(_LEARNED_SEARCH[:2], 1), MATCH[1:], unit=100.0),
    ),
    Claim(
        "outperforms",
        "AQL outperforms D3PG and QT-Opt on tasks of medium and high dimensions.",
        "abstract, section 6, figure 2",
        "figure 2",
        MainEffects(grouped([("aql", "d3pg"), ("aql", "qt_opt")], 1)),
    ),
    Claim(
        "humanoid",
        "On the humanoid tasks AQL is competitive with D3PG.",
        "section 5.1, figure 8",
        "figure 8",
        claim_of([("aql", "d3pg")], NOT_BEHIND, environments=_HUMANOID),
    ),
    Claim(
        "impala",
        "IMPALA performs worse than the other methods on most tasks.",
        "section 5.1, figure 1",
        "figure 1",
        MainEffects(each([(name, "impala") for name in ("aql", *_OTHERS[:-1])])),
    ),
    Claim(
        "gaussian_low",
        "On low- and medium-dimensional tasks continuous AQL performs like the discretised one.",
        "section 5.1, figures 6 and 7",
        "figure 1",
        claim_of([("aql", "aql_gaussian")], LEVEL, environments=(*LOW, *MEDIUM)),
    ),
    Claim(
        "gaussian_high",
        "On high-dimensional tasks continuous AQL fails to learn: it is clearly "
        "behind the discretised one.",
        "section 5.1, figure 8",
        "figure 8",
        claim_of([("aql", "aql_gaussian")]),
    ),
    Claim(
        "low",
        "On low-dimensional tasks AQL is competitive with the other methods.",
        "section 6, figure 6",
        "figure 6",
        MainEffects(each(_LOW, NOT_BEHIND)),
    ),
    Claim(
        "independent",
        "Independent proposals are slightly worse than autoregressive ones.",
        "appendix A3, figure 5",
        "figure 5",
        claim_of([("aql", "aql_independent")]),
    ),
    Claim(
        "lab_curated",
        "With 11 actions AQL, exact Q-learning and IMPALA perform comparably.",
        "section 5.2, figure 3",
        "figure 3",
        MainEffects(
            grouped(
                [("aql_11_actions", f"{name}_11_actions") for name in _LAB[1:]],
                1,
                LEVEL,
                suffix="_11_actions",
            )
        ),
    ),
    Claim(
        "lab_large",
        "With 3528 actions AQL achieves the best final score on both tasks.",
        "section 5.2, figure 3",
        "figure 3",
        MainEffects(
            each(
                [
                    ("aql_3528_actions", name)
                    for name in (
                        "exact_q_3528_actions",
                        "impala_3528_actions",
                        "exact_q_11_actions",
                        "aql_11_actions",
                        "impala_11_actions",
                    )
                ],
                over=Over.UNIFORM,
            )
        ),
    ),
    Claim(
        "rmsprop",
        "With RMSProp and shared layers all are significantly worse on average, except "
        "for IMPALA and continuous AQL.",
        "appendix A3, figure 11",
        "figure 11",
        MainEffects(grouped(_RMSPROP, 0)),
    ),
    Claim(
        "rmsprop_gaussian",
        "With RMSProp and shared layers continuous AQL is competitive with AQL's best.",
        "appendix A3, figure 11",
        "figure 11",
        claim_of([("aql_gaussian_shared_rmsprop", "aql")], NOT_BEHIND),
    ),
    Claim(
        "rmsprop_impala",
        "With RMSProp and shared layers IMPALA is as good as without.",
        "appendix A3, figure 11",
        "figure 11",
        claim_of([("impala_shared_rmsprop", "impala")], LEVEL),
    ),
    Claim(
        "rmsprop_d3pg",
        "RMSProp and shared layers affect D3PG most.",
        "appendix A3, figure 11",
        "figure 11",
        MainEffects(
            (
                EffectPart("mean", mean_of(_RMSPROP[-1:], less=_RMSPROP[:-1])),
                *(
                    EffectPart(pair[0], mean_of(_RMSPROP[-1:], less=[pair]), NOT_BEHIND)
                    for pair in _RMSPROP[:-1]
                ),
            )
        ),
    ),
    Claim(
        "weak_low",
        "On low-dimensional tasks D3PG and IMPALA are the weakest.",
        "appendix A3, figure 6",
        "figure 6",
        MainEffects(grouped(_WEAK, 1)),
    ),
    Claim(
        "weak_medium",
        "On medium-dimensional tasks D3PG and IMPALA are worse than the others on average.",
        "appendix A3, figure 7",
        "figure 7",
        MainEffects(grouped(_WEAK, 1)),
    ),
    Claim(
        "high",
        "On high-dimensional tasks D3PG and the AQL methods outperform QT-Opt, IMPALA and Uniform "
        "Q-learning.",
        "appendix A3, figure 8",
        "figure 8",
        MainEffects(grouped(_HIGH, 0)),
    ),
    Claim(
        "humanoid_fixed_search",
        "On the humanoid tasks Uniform Q-learning and QT-Opt largely fail to learn, beside AQL and "
        "D3PG.",
        "section 5.1, figure 8",
        "figure 8",
        MainEffects(grouped(_LEARNED_SEARCH, 1), _HUMANOID),
    ),
    Claim(
        "a3c",
        "All methods but IMPALA substantially outperform A3C, and IMPALA does marginally.",
        "section 5.1",
        "figure 1",
        Check(_a3c, "their means over tasks are above A3C's", Basis.RUNS),
    ),
    Claim(
        "lab_slow_start",
        "With 3528 actions the initial performance of all methods is worse than with 11.",
        "section 5.2, figure 3",
        "figure 3",
        MainEffects(
            grouped(
                [(f"{name}_11_actions", f"{name}_3528_actions") for name in _LAB],
                0,
                suffix="_11_actions",
            ),
            measure=early_mean,
        ),
    ),
    Claim(
        "lab_efficiency",
        "With 3528 actions AQL has a better data efficiency than exact Q-learning.",
        "section 5.2, figure 3",
        "figure 3",
        claim_of([("aql_3528_actions", "exact_q_3528_actions")], measure=whole_mean),
    ),
    Claim(
        "impala_cost",
        "IMPALA is slowed down drastically by 3528 actions: to half its speed at least.",
        "section 5.2",
        "figure 3",
        claim_of(
            [("impala_11_actions", "impala_3528_actions")],
            _TWICE,
            measure=late_magnitude,
            unit=1.0,
            quantity="actor_steps_per_second",
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
