"""PPO of D4PG's figures (Barth-Maron et al. 2018): launches learner, actors and evaluator.

python -m binaries.d4pg_ppo --environment=parkour:planar --workdir=runs/planar_ppo
"""

from common.program import main
from reproductions.d4pg.ppo.config import AGENT

if __name__ == "__main__":
    main.start(AGENT)
