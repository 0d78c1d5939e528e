"""The benchmarks of ReF-ER."""

from common.benchmarks.cases import Case

CASES = (
    Case(
        "episodes",
        "learner_cases:episodes",
        "ReF-ER's process, which acts and learns",
        dict(capacity=2**13, updates=16, updates_per_call=(4, 1)),
    ),
    Case(
        "episode_memory",
        "memory_cases:episode_memory",
        "the memory of episodes",
        dict(capacity=2**13, length=100, calls=20),
    ),
)
