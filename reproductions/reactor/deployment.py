"""Reactor on Kubernetes, for `make pages`."""

from common.program.kubernetes import Deployment, Pods
from reproductions.reactor.config import AGENT, NUM_WORKERS

DEPLOYMENT = Deployment(
    agent=AGENT,
    title="Reactor at the paper's size",
    environment="atari:pong",
    limits=("# 200 million frames (section 4.1).", "--max_actor_steps=50000000"),
    pods={
        "parameter_server": Pods(cpu=2, memory="1500Mi", limit="2Gi"),
        "worker": Pods(
            replicas=NUM_WORKERS,
            cpu=2,
            memory="2Gi",
            limit="3Gi",
            note="The replay of 100,000 frames among it.",
        ),
        "evaluator": Pods(),
    },
)
