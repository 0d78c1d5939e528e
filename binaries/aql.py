"""AQL (Van de Wiele et al. 2020): launches a learner, actors with a replay each, and an evaluator.

python -m binaries.aql --environment=control:humanoid:stand --workdir=runs/stand
python -m binaries.aql --flagfile=reproductions/aql/two_cores.flags
"""

from common.program import main
from reproductions.aql.config import AGENT

if __name__ == "__main__":
    main.start(AGENT)
