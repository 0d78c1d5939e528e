"""AQL on Kubernetes, for `make pages`."""

from common.program.kubernetes import Deployment, Pods
from reproductions.aql.config import AGENT, NUM_ACTORS

DEPLOYMENT = Deployment(
    agent=AGENT,
    title="AQL at the paper's size: each actor in a pod, with its replay",
    environment="control:humanoid:stand",
    limits=("# 200 million actor steps (section 5.1).", "--max_actor_steps=200000000"),
    pods={
        "learner": Pods(cpu=4, memory="1500Mi", limit="2Gi"),
        "actor": Pods(replicas=NUM_ACTORS, note="The replay of 100,000 steps among it."),
        "evaluator": Pods(),
    },
)
