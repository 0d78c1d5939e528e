"""ReF-ER (Novati and Koumoutsakos 2019): launches a learner that also acts, and an evaluator.

python -m binaries.refer --environment=gym:HalfCheetah-v4 --workdir=runs/half_cheetah
"""

from common.program import main
from reproductions.refer.config import AGENT

if __name__ == "__main__":
    main.start(AGENT)
