"""The declaration of Reactor. Importing it does not import TensorFlow."""

from common.agents.declaration import AgentDeclaration
from common.program.layouts import ONE_PROCESS, WORKERS
from common.replay.footprint import sequence_bytes_per_step
from reproductions.reactor.config import NUM_WORKERS
from reproductions.reactor.settings import SETTINGS, num_actors

AGENT = AgentDeclaration(
    name="reactor",
    title="Reactor",
    paper="reactor",
    agent_class="reproductions.reactor.reactor:Reactor",
    settings=SETTINGS,
    num_actors=lambda config, setting: 1 if config.single_process else num_actors(setting),
    num_actors_help=(
        f"Workers, each with one actor and one learner: {NUM_WORKERS}, the default, or "
        f"{num_actors('reactor_20_workers')} with --setting=reactor_20_workers (section "
        f"3.4, figure 2), but {num_actors('reactor_two_cores')} with reactor_two_cores."
    ),
    num_actors_flag="num_workers",
    layouts=(WORKERS, ONE_PROCESS),
    require="common.environments.spec:require_discrete",
    bytes_per_step=sequence_bytes_per_step,
    num_frames=1,
)
