"""The benchmarks of AQL."""

from common.benchmarks.report import Case

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
    Case(
        "maze_actor",
        "actor_cases:maze_actor",
        "AQL and exact Q-learning in a maze, with 3,528 actions",
        dict(actors=2, batch_steps=2),
        sizes=dict(settings=("aql_3528_actions", "exact_q_3528_actions")),
        one_thread=True,
        by_name_only=True,  # needs an extra
    ),
    Case(
        "maze_learner",
        "learner_cases:unroll_learner",
        "AQL's updates from unrolls of a maze",
        dict(updates=1, batch_size=1),
        sizes=dict(environment="maze:goal", setting="aql_3528_actions", updates=3, batch_size=2),
        uses_gpu=True,
        by_name_only=True,  # needs an extra
    ),
)
