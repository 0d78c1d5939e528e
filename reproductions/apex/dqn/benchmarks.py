"""The benchmarks of Ape-X DQN."""

from common.benchmarks.report import Case

CASES = (
    Case(
        "image_replay",
        "replay_cases:image_replay",
        "the memory of transitions, with images of Pong",
        dict(capacity=1000, loops=10, service_loops=16, transitions=1000, games=4),
        peer="cpprb",
    ),
    Case(
        "image_learner",
        "learner_cases:item_learner",
        "Ape-X DQN's updates",
        dict(items=1000, games=8, updates=2),
        uses_gpu=True,
    ),
    Case(
        "image_actor",
        "actor_cases:actor",
        "Ape-X DQN's actor in Pong",
        dict(actors=4, batch_steps=20, turns=1),
        dict(environment="atari:pong", batch_steps=40),
        one_thread=True,
    ),
)
