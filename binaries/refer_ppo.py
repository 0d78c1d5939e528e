"""PPO of ReF-ER's figures (Novati and Koumoutsakos 2019): a learner that also acts, an evaluator.

python -m binaries.refer_ppo --environment=gym:Hopper-v4 --workdir=runs/hopper_ppo
"""

from common.program import main
from reproductions.refer.ppo.config import AGENT

if __name__ == "__main__":
    main.start(AGENT)
