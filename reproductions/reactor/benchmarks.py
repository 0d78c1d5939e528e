"""The benchmarks of Reactor."""

from common.benchmarks.report import Case

CASES = (
    Case(
        "sequence_learner",
        "learner_cases:item_learner",
        "Reactor's updates",
        dict(items=200, games=2, updates=4),
        dict(games=8, updates=40, precisions=("float32",)),
        uses_gpu=True,
    ),
    Case(
        "priority_tree",
        "replay_cases:priority_tree",
        "the tree that infers Reactor's priorities",
        dict(items=(1000,), calls=20),
    ),
    Case(
        "sequence_actor",
        "actor_cases:actor",
        "the actor of Reactor's worker in Pong",
        dict(batch_steps=100, turns=1),
        dict(environment="atari:pong", actors=1, batch_steps=400, in_worker=True),
        one_thread=True,
    ),
    Case(
        "parameter_server",
        "run_cases:parameter_server",
        "Reactor's parameter server under ten simulated workers",
        dict(workers=2, rounds=5),
    ),
    Case(
        "workers",
        "run_cases:workers",
        "whole runs of Reactor with two workers and with one: takes minutes, runs only if named",
        dict(seconds=30.0, min_replay_size=100),
        uses_gpu=True,
        by_name_only=True,
    ),
)
