"""Ape-X DQN on Kubernetes, for `make pages`."""

from common.program.kubernetes import Deployment, Pods
from reproductions.apex.dqn.config import AGENT

DEPLOYMENT = Deployment(
    agent=AGENT,
    title="Ape-X DQN at the paper's size: 360 actors in 45 pods",
    environment="atari:pong",
    limits=("# Five days (table 1).", "--max_minutes=7200"),
    pods={
        "learner": Pods(
            cpu=8,
            memory="2Gi",
            limit="4Gi",
            gpus=1,
            note="Without nvidia.com/gpu it learns on the CPU. The image then needs no CUDA.",
        ),
        "replay": Pods(
            replicas=2,
            cpu=4,
            memory="6Gi",
            limit="10Gi",
            note=(
                "Of a million transitions of Pong each; up to twice as many while the learner is "
                "away. Other games have larger images: README.md, \"Arithmetic of the paper's "
                'size".'
            ),
        ),
        "actor": Pods(replicas=45),
        "evaluator": Pods(),
    },
)
