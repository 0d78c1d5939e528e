"""The declaration of D4PG. Importing it does not import TensorFlow."""

from common.agents.declaration import AgentDeclaration
from common.program.layouts import DISTRIBUTED, ONE_PROCESS
from common.replay.footprint import control_bytes_per_step
from reproductions.d4pg.config import NUM_ACTORS
from reproductions.d4pg.settings import SETTINGS

AGENT = AgentDeclaration(
    name="d4pg",
    title="D4PG",
    paper="d4pg",
    agent_class="reproductions.d4pg.d4pg:D4PG",
    settings=SETTINGS,
    num_actors=lambda config, setting: 1 if config.single_process else NUM_ACTORS,
    num_actors_help=(
        f"K, actors: {NUM_ACTORS} on the control suite, the default; 64 beyond it "
        "(sections 4.1 to 4.3); 1 in a single process (DDPG)."
    ),
    layouts=(DISTRIBUTED, ONE_PROCESS),
    require="reproductions.d4pg.requirements:require",
    bytes_per_step=control_bytes_per_step,
)
