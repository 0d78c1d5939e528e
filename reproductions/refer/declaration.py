"""The declaration of ReF-ER. Importing it does not import TensorFlow."""

from common.agents.declaration import AgentDeclaration
from common.program.layouts import CENTRAL, ONE_PROCESS
from common.replay.footprint import episode_bytes_per_step
from reproductions.refer.settings import SETTINGS

AGENT = AgentDeclaration(
    name="refer",
    title="ReF-ER",
    paper="refer",
    agent_class="reproductions.refer.agent:Refer",
    settings=SETTINGS,
    num_actors=lambda config, setting: 1,
    num_actors_help=(
        "Environments, in which one batch of actions is taken at a time. Default: 1, as in the "
        "paper (appendix C); its flow control has 24 (appendix D)."
    ),
    layouts=(ONE_PROCESS, CENTRAL),
    require="common.environments.spec:require_control",
    bytes_per_step=episode_bytes_per_step,
)
