"""The declaration of D4PG's PPO. Importing it does not import TensorFlow."""

from common.agents.declaration import AgentDeclaration
from common.program.layouts import LEARNER_AND_ACTORS, ONE_PROCESS
from common.replay.footprint import rollout_bytes_per_step
from reproductions.d4pg.ppo.config import NUM_ACTORS
from reproductions.d4pg.ppo.settings import SETTINGS

AGENT = AgentDeclaration(
    name="d4pg_ppo",
    title="PPO",
    paper="d4pg",
    agent_class="reproductions.d4pg.ppo.ppo:D4PGPPO",
    settings=SETTINGS,
    num_actors=lambda config, setting: NUM_ACTORS,
    num_actors_help=(
        f"K, actors: {NUM_ACTORS} (section 4.3), the default. Each makes its share of a rollout."
    ),
    layouts=(LEARNER_AND_ACTORS, ONE_PROCESS),
    require="reproductions.d4pg.requirements:require",
    bytes_per_step=rollout_bytes_per_step,
)
