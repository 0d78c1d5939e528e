"""Ape-X DQN (Horgan et al. 2018): launches learner, replay, actors and evaluator.

python -m binaries.apex_dqn --environment=atari:pong --workdir=runs/apex_pong
python -m binaries.apex_dqn --setting=dqn_two_cores --environment=atari:pong ...
"""

from common.program import main
from reproductions.apex.dqn.config import AGENT

if __name__ == "__main__":
    main.start(AGENT)
