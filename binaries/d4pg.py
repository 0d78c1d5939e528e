"""D4PG (Barth-Maron et al. 2018): launches learner, replay, actors and evaluator.

python -m binaries.d4pg --environment=control:cartpole:swingup --workdir=runs/cartpole
python -m binaries.d4pg --setting=d3pg_uniform_n1 ...
"""

from common.program import main
from reproductions.d4pg.config import AGENT

if __name__ == "__main__":
    main.start(AGENT)
