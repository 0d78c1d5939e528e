"""Reactor (Gruslys et al. 2018): launches a parameter server, workers and an evaluator.

python -m binaries.reactor --environment=atari:pong --workdir=runs/pong_of_10
python -m binaries.reactor --flagfile=reproductions/reactor/two_cores.flags
"""

from common.program import main
from reproductions.reactor.config import AGENT

if __name__ == "__main__":
    main.start(AGENT)
