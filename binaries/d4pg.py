"""D4PG (Barth-Maron et al. 2018): launches learner, replay, actors and evaluator.

python -m binaries.d4pg --environment=control:cartpole:swingup --workdir=runs/cartpole
python -m binaries.d4pg --setting=d3pg_uniform_n1 ...
"""

from common.program import layouts, main
from common.replay.footprint import control_bytes_per_step
from reproductions import AGENTS
from reproductions.d4pg import config as config_lib
from reproductions.d4pg.settings import SETTINGS

PROGRAM = main.AgentProgram(
    paper="d4pg",
    agent="d4pg",
    module="binaries.d4pg",
    agent_class=AGENTS["d4pg"],
    settings=SETTINGS,
    num_actors=lambda config, setting: 1 if config.single_process else config_lib.NUM_ACTORS,
    num_actors_help=(
        f"K, actors: {config_lib.NUM_ACTORS} on the control suite, the default; 64 beyond it "
        "(sections 4.1 to 4.3); 1 in a single process (DDPG)."
    ),
    layouts=(layouts.DISTRIBUTED, layouts.ONE_PROCESS),
    layout=lambda config: layouts.ONE_PROCESS if config.single_process else layouts.DISTRIBUTED,
    require="common.environments.requirements:require_control",
    bytes_per_step=control_bytes_per_step,
)

if __name__ == "__main__":
    main.start(PROGRAM)
