"""Reactor (Gruslys et al. 2018): launches a parameter server, workers and an evaluator.

python -m binaries.reactor --environment=atari:pong --workdir=runs/pong_of_10
python -m binaries.reactor --flagfile=reproductions/reactor/two_cores.flags
"""

from common.program import layouts, main
from common.replay.footprint import sequence_bytes_per_step
from reproductions import AGENTS
from reproductions.reactor import config as config_lib
from reproductions.reactor import settings

PROGRAM = main.AgentProgram(
    paper="reactor",
    agent="reactor",
    module="binaries.reactor",
    agent_class=AGENTS["reactor"],
    settings=settings.SETTINGS,
    num_actors=lambda config, setting: 1 if config.single_process else settings.num_actors(setting),
    num_actors_help=(
        f"Workers, each with one actor and one learner: {config_lib.NUM_WORKERS}, the default, or "
        f"{settings.num_actors('reactor_20_workers')} with --setting=reactor_20_workers (section "
        f"3.4, figure 2), but {settings.num_actors('reactor_two_cores')} with reactor_two_cores."
    ),
    num_actors_flag="num_workers",
    layouts=(layouts.WORKERS, layouts.ONE_PROCESS),
    layout=lambda config: layouts.ONE_PROCESS if config.single_process else layouts.WORKERS,
    require="common.environments.requirements:require_images",
    bytes_per_step=sequence_bytes_per_step,
    num_frames=1,
)

if __name__ == "__main__":
    main.start(PROGRAM)
