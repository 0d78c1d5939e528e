"""The benchmarks of AQL."""

from common.benchmarks.cases import Case

CASES = (
    Case(
        "unroll_actor",
        "actor_cases:unroll_actor",
        "AQL's search for actions, and actors that search",
        dict(actors=2, searches=2, batch_steps=35),
        one_thread=True,
    ),
    Case(
        "unroll_learner",
        "learner_cases:unroll_learner",
        "AQL's updates",
        dict(updates=4),
        uses_gpu=True,
    ),
)
