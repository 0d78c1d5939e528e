"""The declaration of ReF-ER's PPO. Importing it does not import TensorFlow."""

from common.agents.declaration import AgentDeclaration
from common.program.layouts import ONE_PROCESS
from common.replay.footprint import rollout_bytes_per_step
from reproductions.refer.ppo.settings import SETTINGS

AGENT = AgentDeclaration(
    name="refer_ppo",
    title="PPO",
    paper="refer",
    agent_class="reproductions.refer.ppo.ppo:ReferPPO",
    settings=SETTINGS,
    num_actors=lambda config, setting: 1,
    num_actors_help=(
        "Environments, in which one batch of actions is taken at a time. A rollout has the steps "
        "of all. Default: 1, as for the other agents (appendix C)."
    ),
    layouts=(ONE_PROCESS,),
    require="common.environments.spec:require_control",
    bytes_per_step=rollout_bytes_per_step,
)
