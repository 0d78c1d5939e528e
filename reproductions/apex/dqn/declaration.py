"""The declaration of Ape-X DQN. Importing it does not import TensorFlow."""

from common.agents.declaration import AgentDeclaration
from common.program.layouts import DISTRIBUTED, ONE_PROCESS
from common.replay.footprint import image_bytes_per_step
from reproductions.apex.dqn.config import NUM_ACTORS
from reproductions.apex.dqn.settings import SETTINGS, num_actors

AGENT = AgentDeclaration(
    name="apex_dqn",
    title="Ape-X DQN",
    paper="apex",
    agent_class="reproductions.apex.dqn.dqn:ApexDQN",
    settings=SETTINGS,
    num_actors=lambda config, setting: num_actors(setting),
    num_actors_help=(
        f"N, actors: {NUM_ACTORS} (section 4.1), the default, but with the settings for "
        f"two cores {num_actors('dqn_two_cores')}; figures 4 to 6, 13 and 14 vary it."
    ),
    layouts=(DISTRIBUTED, ONE_PROCESS),
    require="common.environments.spec:require_discrete",
    bytes_per_step=image_bytes_per_step,
    num_frames=4,
)
