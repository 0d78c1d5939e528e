"""The benchmarks of D4PG."""

from common.benchmarks.report import Case

CASES = (
    Case(
        "replay",
        "replay_cases:replay",
        "the memory of transitions: loops, bytes, latency, service",
        dict(capacity=20_000, loops=100, samples=200),
        peer="cpprb",
    ),
    Case(
        "learner",
        "learner_cases:learner",
        "D4PG's updates, also next to actors",
        dict(items=20_000, updates=32, actor_seconds=1.0),
        peer="learners",
        uses_gpu=True,
    ),
    Case(
        "actor",
        "actor_cases:actor",
        "D4PG's actor with humanoids",
        dict(actors=4, batch_steps=50, turns=1),
        one_thread=True,
    ),
)
