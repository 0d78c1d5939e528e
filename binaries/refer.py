"""ReF-ER (Novati and Koumoutsakos 2019): launches a process that acts and learns, an evaluator.

python -m binaries.refer --environment=gym:HalfCheetah-v4 --workdir=runs/half_cheetah
"""

from common.program import layouts, main
from common.replay.footprint import episode_bytes_per_step
from reproductions import AGENTS
from reproductions.refer import settings

PROGRAM = main.AgentProgram(
    paper="refer",
    agent="refer",
    module="binaries.refer",
    agent_class=AGENTS["refer"],
    settings=settings.SETTINGS,
    num_actors=lambda config, setting: 1,
    num_actors_help=(
        "Environments, in which one batch of actions is taken at a time. Default: 1, as in the "
        "paper (appendix C); its flow control has 24 (appendix D)."
    ),
    layouts=(layouts.ONE_PROCESS,),
    layout=lambda config: layouts.ONE_PROCESS,
    require="common.environments.requirements:require_control",
    bytes_per_step=episode_bytes_per_step,
)

if __name__ == "__main__":
    main.start(PROGRAM)
