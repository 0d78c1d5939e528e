"""The declaration of Ape-X DPG. Importing it does not import TensorFlow."""

from common.agents.declaration import AgentDeclaration
from common.program.layouts import DISTRIBUTED, ONE_PROCESS
from common.replay.footprint import control_bytes_per_step
from reproductions.apex.dpg.config import NUM_ACTORS
from reproductions.apex.dpg.settings import SETTINGS

AGENT = AgentDeclaration(
    name="apex_dpg",
    title="Ape-X DPG",
    paper="apex",
    agent_class="reproductions.apex.dpg.dpg:ApexDPG",
    settings=SETTINGS,
    num_actors=lambda config, setting: NUM_ACTORS,
    num_actors_help=(f"N, actors: {NUM_ACTORS} (section 4.2), the default; figure 3 varies it."),
    layouts=(DISTRIBUTED, ONE_PROCESS),
    require="common.environments.spec:require_control",
    bytes_per_step=control_bytes_per_step,
)
