"""The paper's statements about its results, each with the test that decides it."""

import math

from common.experiments.claims import Check, Claim, Evidence, measured
from common.experiments.effects import late_magnitude, whole_magnitude, whole_mean
from common.experiments.main_effects import (
    NOT_BEHIND,
    EffectPart,
    MainEffects,
    Over,
    claim_of,
    each,
    grouped,
    mean_of,
)
from reproductions.refer.experiments import with_value

_HIGH = ("gym:Humanoid-v4", "gym:Ant-v4")
_BANG_BANG = ("gym:Swimmer-v4", "gym:HumanoidStandup-v4")
_STABLE, _COMPLEX = "gym:HalfCheetah-v4", "gym:Humanoid-v4"
_MINOR = (-0.1, 0.1)
"""Bounds of minor effects, parts of the larger value."""
_TWICE, _TEN_TIMES = (math.log10(2), math.inf), (1.0, math.inf)
"""Bounds of what is so much larger, in powers of ten."""
_ACTIONS = {"Humanoid": 17, "Walker": 6}
"""Dimensions, of Gym; those of Humanoid are also in appendix E."""


def _largest_divergences(evidence: Evidence) -> tuple[bool, str]:
    """Compares with 2 dA / sigma^2, which has both means at opposite corners of [-1, 1]^dA."""
    sigma = evidence.reported.number(
        "refer", "section 5.1", "DDPG", "standard deviation of the exploration noise"
    )
    found = {
        task: (
            2 * size / sigma**2,
            evidence.reported.number("refer", "section 5.1", task, "greatest D_KL"),
        )
        for task, size in _ACTIONS.items()
    }
    return (
        all(abs(ours - printed) < 0.5 for ours, printed in found.values()),
        "; ".join(
            f"{task}: {ours:.0f}, printed {printed:.0f}" for task, (ours, printed) in found.items()
        )
        + ".",
    )


def _advantage_outputs(evidence: Evidence) -> tuple[bool, str]:
    def number(column):
        return evidence.reported.number("refer", "appendix E", "Humanoid tasks", column)

    size = number("action dimensions")
    found = (
        ((size**2 + size) / 2, number("outputs of the quadratic advantage")),
        (1 + 2 * size, number("outputs of the asymmetric Gaussian advantage")),
    )
    return (
        all(ours == printed for ours, printed in found),
        "; ".join(f"{ours:.0f}, printed {printed:.0f}" for ours, printed in found) + ".",
    )


def _values(
    symbol: str, *pairs: tuple[str, str], is_small: bool = False
) -> tuple[tuple[str, str], ...]:
    """Returns pairs of V-RACER's curves that differ in a hyperparameter of figure 7 or 8."""
    return tuple(
        (with_value(symbol, first, is_small), with_value(symbol, second, is_small))
        for first, second in pairs
    )


def _at_small(*parts: EffectPart) -> dict[str, dict[str, object]]:
    return {"small": {"parts": parts}}


_SENSITIVE_TO_C = _values("C", ("4", "2"), ("4", "8"))


CLAIMS = (
    Claim(
        "divergence_bound",
        "With sigma = 0.2 the largest D_KL of DDPG is 850 for Humanoid and 300 for Walker.",
        "section 5.1",
        "figure 2",
        Check(_largest_divergences, "2 dA / sigma^2 gives both"),
    ),
    Claim(
        "advantage_outputs",
        "For Humanoid the quadratic advantage has 153 outputs, the asymmetric Gaussian 35.",
        "appendix E",
        "figure 8",
        Check(_advantage_outputs, "(dA^2 + dA) / 2 and 1 + 2 dA give them"),
    ),
    Claim(
        "ddpg",
        "Replacing ER with ReF-ER greatly improves DDPG.",
        "section 5.1, figure 1",
        "figure 1",
        claim_of([("ddpg_refer", "ddpg_er")]),
    ),
    Claim(
        "ddpg_complex",
        "It does so on tasks with complex dynamics, Humanoid and Ant.",
        "section 5.1, figure 1",
        "figure 1",
        claim_of([("ddpg_refer", "ddpg_er")], environments=_HIGH),
    ),
    Claim(
        "rule_1_alone",
        "Clipping gradients alone (ReF-ER-1) does not produce good results, beside ReF-ER.",
        "section 5.1, figure 1",
        "figure 1",
        claim_of([("ddpg_refer", "ddpg_refer1")]),
    ),
    Claim(
        "both_rules",
        "On high-dimensional tasks both rules together improve over ReF-ER-2.",
        "section 5.1, figure 1",
        "figure 1",
        claim_of([("ddpg_refer", "ddpg_refer2")], environments=_HIGH),
    ),
    Claim(
        "per",
        "PER generally obtains worse outcomes than regular ER.",
        "section 5.1, figure 1",
        "figure 1",
        claim_of([("ddpg_er", "ddpg_per")]),
    ),
    Claim(
        "bang_bang",
        "On Swimmer and HumanoidStandup ER is faster than ReF-ER.",
        "section 5.1, figure 1",
        "figure 1",
        claim_of([("ddpg_er", "ddpg_refer")], environments=_BANG_BANG, measure=whole_mean),
    ),
    Claim(
        "divergence",
        "With regular ER the D_KL of DDPG stays far above that with ReF-ER.",
        "section 5.1, figure 2",
        "figure 2",
        claim_of([("ddpg_er", "ddpg_refer")], _TWICE, measure=whole_magnitude, unit=1.0),
    ),
    Claim(
        "naf",
        "NAF benefits from both rules: ReF-ER improves it over each of them alone and over ER.",
        "section 5.2, figure 3",
        "figure 3",
        MainEffects(
            grouped([("naf_refer", f"naf_{one}") for one in ("refer1", "refer2", "er")], 1)
        ),
    ),
    Claim(
        "naf_per",
        "Rank-based PER often worsens the performance of NAF.",
        "section 5.2, figure 3",
        "figure 3",
        claim_of([("naf_er", "naf_per")]),
    ),
    Claim(
        "acer_ppo",
        "With a learning rate of 1e-4 ACER is often outperformed by PPO.",
        "section 5.3, figure 4",
        "figure 4",
        claim_of([("ppo", "acer_lr0.0001")]),
    ),
    Claim(
        "acer_divergence",
        "A tenth of ACER's learning rate reduces its D_KL by orders of magnitude: by one at least.",
        "section 5.3, figure 5",
        "figure 5",
        claim_of([("acer_lr0.0001", "acer_lr1e-05")], _TEN_TIMES, measure=late_magnitude, unit=1.0),
    ),
    Claim(
        "refer_2_acer",
        "ReF-ER-2 alone often matches or surpasses ACER.",
        "section 5.3, figure 4",
        "figure 4",
        claim_of([("vracer_refer2", "acer_lr1e-05")], NOT_BEHIND),
    ),
    Claim(
        "vracer",
        "V-RACER with ReF-ER outperforms PPO and ACER on many tasks.",
        "section 5.3, figure 4",
        "figure 4",
        MainEffects(
            each([("vracer_refer", name) for name in ("ppo", "acer_lr0.0001", "acer_lr1e-05")])
        ),
    ),
    Claim(
        "vracer_er",
        "ReF-ER yields better performance than conventional ER for V-RACER as well.",
        "abstract, section 5.3",
        "section 5.3",
        claim_of([("vracer_refer", "vracer_er")]),
    ),
    Claim(
        "vracer_plain",
        "V-RACER with ER or PER is generally similar to or worse than with ReF-ER-1.",
        "section 5.3",
        "section 5.3",
        claim_of([("vracer_refer1", "vracer_er"), ("vracer_refer1", "vracer_per")], NOT_BEHIND),
    ),
    Claim(
        "flow",
        "In flow control V-RACER with ReF-ER eventually performs best.",
        "section 5.4, figure 6",
        "figure 6",
        MainEffects(
            each([("vracer_refer", name) for name in ("acer_lr1e-05", "ddpg_er", "ddpg_refer")]),
            at={"small": None},  # nothing has learnt there
        ),
    ),
    Claim(
        "vracer_best",
        "For many tasks V-RACER with ReF-ER outperforms the best result from DDPG and NAF.",
        "section 5.3, figures 1, 3 and 4",
        "figure 4",
        MainEffects(
            each(
                [
                    ("vracer_refer", f"{agent}_{replay}")
                    for agent in ("ddpg", "naf")
                    for replay in ("er", "per", "refer", "refer1", "refer2")
                ]
            )
        ),
    ),
    Claim(
        "vracer_cost",
        "V-RACER's computational complexity is about two orders of magnitude below ACER's.",
        "section 4",
        "",
        measured("refer", "learner/acer_cost_over_vracer", 30, 300),
    ),
    Claim(
        "sensitivity_c_n",
        "Both a low and a high C, and a small and a large replay, are worse than the values "
        "between.",
        "appendix E, figure 7",
        "figure 7",
        MainEffects(
            grouped(
                (*_SENSITIVE_TO_C, *_values("N", ("262144", "131072"), ("262144", "524288"))), 1
            ),
            at=_at_small(
                *grouped(_SENSITIVE_TO_C, 1),
                *grouped(_values("N", ("32768", "16384"), ("32768", "65536"), is_small=True), 1),
            ),
        ),
    ),
    Claim(
        "sensitivity_stable",
        "Stable tasks such as HalfCheetah are tolerant to high values of C.",
        "appendix E, figure 7",
        "figure 7",
        claim_of(_values("C", ("8", "4")), NOT_BEHIND, environments=(_STABLE,)),
    ),
    Claim(
        "sensitivity_d",
        "Low values of D tend to delay learning.",
        "appendix E, figure 7",
        "figure 7",
        claim_of(_values("D", ("0.1", "0.05")), measure=whole_mean),
    ),
    Claim(
        "sensitivity_b",
        "Performance can benefit from minor improvements by larger batches.",
        "appendix E, figure 7",
        "figure 7",
        claim_of(_values("B", ("512", "64"))),
    ),
    Claim(
        "sensitivity_lr_low",
        "The optimal learning rate is task-specific: some tasks have it low.",
        "appendix E, figure 7",
        "figure 7",
        claim_of(
            _values("lr", ("3e-05", "0.0003")),
            over=Over.SOME,
            at=_at_small(
                EffectPart(
                    "", mean_of(_values("lr", ("0.0003", "0.003"), is_small=True)), over=Over.SOME
                )
            ),
        ),
    ),
    Claim(
        "sensitivity_lr_high",
        "The optimal learning rate is task-specific: some tasks have it high.",
        "appendix E, figure 7",
        "figure 7",
        claim_of(
            _values("lr", ("0.0003", "3e-05")),
            over=Over.SOME,
            at=_at_small(
                EffectPart(
                    "", mean_of(_values("lr", ("0.003", "0.0003"), is_small=True)), over=Over.SOME
                )
            ),
        ),
    ),
    Claim(
        "sensitivity_f",
        "Humanoid benefits from more time steps per gradient step (F).",
        "appendix E, figure 7",
        "figure 7",
        claim_of(_values("F", ("4", "0.5")), environments=(_COMPLEX,)),
    ),
    Claim(
        "sensitivity_f_simple",
        "Simpler tasks can be learned faster by more gradient steps per time step: HalfCheetah.",
        "appendix E, figure 7",
        "figure 7",
        claim_of(_values("F", ("0.5", "4")), environments=(_STABLE,), measure=whole_mean),
    ),
    Claim(
        "sensitivity_a_s",
        "The annealing parameter A and the number S of units have minor effects.",
        "appendix E, figure 8",
        "figure 8",
        MainEffects(
            grouped(
                (
                    *_values("A", ("5e-07", "0"), ("5e-07", "1e-06")),
                    *_values("S", ("128", "92"), ("128", "180")),
                ),
                1,
                _MINOR,
            )
        ),
    ),
    Claim(
        "sensitivity_advantage",
        "The benefits of a parameterised advantage are negligible.",
        "appendix E, figure 8",
        "figure 8",
        claim_of(_values("advantage", ("none", "quadratic"), ("none", "gaussian")), NOT_BEHIND),
    ),
)
