"""The benchmarks of ReF-ER."""

from common.benchmarks.report import Case

CASES = (
    Case(
        "episodes",
        "run_cases:episodes",
        "ReF-ER's process, which acts and learns",
        dict(capacity=2**13, updates=16, updates_per_call=(4, 1)),
    ),
    Case(
        "update_cost",
        "run_cases:update_cost",
        "updates of ACER and of V-RACER",
        dict(capacity=2**11, length=50, updates=(2, 16)),
        dict(costly="acer_lr1e-05", cheap="vracer_refer"),
    ),
)
