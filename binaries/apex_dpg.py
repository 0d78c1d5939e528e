"""Ape-X DPG (Horgan et al. 2018): launches learner, replay, actors and evaluator.

python -m binaries.apex_dpg --environment=control:humanoid:stand --workdir=runs/humanoid_stand
python -m binaries.apex_dpg --setting=dpg_uniform ...
"""

from common.program import layouts, main
from common.replay.footprint import control_bytes_per_step
from reproductions import AGENTS
from reproductions.apex.dpg import config as config_lib
from reproductions.apex.dpg.settings import SETTINGS

PROGRAM = main.AgentProgram(
    paper="apex",
    agent="apex_dpg",
    module="binaries.apex_dpg",
    agent_class=AGENTS["apex_dpg"],
    settings=SETTINGS,
    num_actors=lambda config, setting: config_lib.NUM_ACTORS,
    num_actors_help=(
        f"N, actors: {config_lib.NUM_ACTORS} (section 4.2), the default; figure 3 varies it."
    ),
    layouts=(layouts.DISTRIBUTED, layouts.ONE_PROCESS),
    layout=lambda config: layouts.ONE_PROCESS if config.single_process else layouts.DISTRIBUTED,
    require="common.environments.requirements:require_control",
    bytes_per_step=control_bytes_per_step,
)

if __name__ == "__main__":
    main.start(PROGRAM)
