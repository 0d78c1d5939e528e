"""D4PG on Kubernetes, for `make pages`."""

from common.program.kubernetes import Deployment, Pods
from reproductions.d4pg.config import AGENT

DEPLOYMENT = Deployment(
    agent=AGENT,
    title="D4PG with the paper's 32 actors, in 4 pods",
    environment="control:humanoid:run",
    limits=("--max_minutes=720",),
    pods={
        "learner": Pods(cpu=4, memory="1500Mi", limit="2Gi"),
        "replay": Pods(cpu=2, memory="2Gi", limit="2Gi"),
        "actor": Pods(replicas=4),
        "evaluator": Pods(),
    },
)
