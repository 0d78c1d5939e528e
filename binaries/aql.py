"""AQL (Van de Wiele et al. 2020): launches a learner, actors with a replay each, an evaluator.

python -m binaries.aql --environment=control:humanoid:stand --workdir=runs/stand
python -m binaries.aql --flagfile=reproductions/aql/two_cores.flags
"""

from common.program import layouts, main
from common.replay.footprint import unroll_bytes_per_step
from reproductions import AGENTS
from reproductions.aql import config as config_lib
from reproductions.aql import settings

PROGRAM = main.AgentProgram(
    paper="aql",
    agent="aql",
    module="binaries.aql",
    agent_class=AGENTS["aql"],
    settings=settings.SETTINGS,
    num_actors=lambda config, setting: config_lib.NUM_ACTORS,
    num_actors_help=(
        f"Actors, each with a replay of its own: {config_lib.NUM_ACTORS} (appendix A1). The first "
        "tenth explores more (appendix A2)."
    ),
    layouts=(layouts.ACTORS_WITH_REPLAY, layouts.ONE_PROCESS_WITH_REPLAYS),
    layout=lambda config: (
        layouts.ONE_PROCESS_WITH_REPLAYS if config.single_process else layouts.ACTORS_WITH_REPLAY
    ),
    require="reproductions.aql.requirements:require",
    bytes_per_step=unroll_bytes_per_step,
)

if __name__ == "__main__":
    main.start(PROGRAM)
