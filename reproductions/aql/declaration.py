"""The declaration of AQL. Importing it does not import TensorFlow."""

from common.agents.declaration import AgentDeclaration
from common.program.layouts import ACTORS_WITH_REPLAY, ONE_PROCESS_WITH_REPLAYS
from common.replay.footprint import unroll_bytes_per_step, unroll_queue_bytes
from reproductions.aql.config import NUM_ACTORS
from reproductions.aql.settings import SETTINGS

AGENT = AgentDeclaration(
    name="aql",
    title="AQL",
    paper="aql",
    agent_class="reproductions.aql.agent:AQL",
    settings=SETTINGS,
    num_actors=lambda config, setting: NUM_ACTORS,
    num_actors_help=(
        f"Actors, each with a replay of its own: {NUM_ACTORS} (appendix A1). The first "
        "tenth explores more (appendix A2)."
    ),
    layouts=(ACTORS_WITH_REPLAY, ONE_PROCESS_WITH_REPLAYS),
    require="reproductions.aql.requirements:require",
    bytes_per_step=unroll_bytes_per_step,
    queue_bytes=unroll_queue_bytes,
)
