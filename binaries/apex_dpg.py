"""Ape-X DPG (Horgan et al. 2018): launches learner, replay, actors and evaluator.

python -m binaries.apex_dpg --environment=control:humanoid:stand --workdir=runs/humanoid_stand
python -m binaries.apex_dpg --setting=dpg_uniform ...
"""

from common.program import main
from reproductions.apex.dpg.config import AGENT

if __name__ == "__main__":
    main.start(AGENT)
