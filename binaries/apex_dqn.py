"""Ape-X DQN (Horgan et al. 2018): launches learner, replay, actors and evaluator.

python -m binaries.apex_dqn --environment=atari:pong --workdir=runs/apex_pong
python -m binaries.apex_dqn --setting=dqn_two_cores --environment=atari:pong ...
"""

from common.program import layouts, main
from common.replay.footprint import image_bytes_per_step
from reproductions import AGENTS
from reproductions.apex.dqn import config as config_lib
from reproductions.apex.dqn import settings

PROGRAM = main.AgentProgram(
    paper="apex",
    agent="apex_dqn",
    module="binaries.apex_dqn",
    agent_class=AGENTS["apex_dqn"],
    settings=settings.SETTINGS,
    num_actors=lambda config, setting: settings.num_actors(setting),
    num_actors_help=(
        f"N, actors: {config_lib.NUM_ACTORS} (section 4.1), the default, but with the settings for "
        f"two cores {settings.num_actors('dqn_two_cores')}; figures 4 to 6, 13 and 14 vary it."
    ),
    layouts=(layouts.DISTRIBUTED, layouts.ONE_PROCESS),
    layout=lambda config: layouts.ONE_PROCESS if config.single_process else layouts.DISTRIBUTED,
    require="common.environments.requirements:require_images",
    bytes_per_step=image_bytes_per_step,
    num_frames=4,
)

if __name__ == "__main__":
    main.start(PROGRAM)
