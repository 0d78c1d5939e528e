"""The process of environments for which the learner chooses the actions."""

from common.acting import actor_start
from common.cluster.processes import report_ready
from common.environments.watched import WatchedBatch
from common.remote.environment_service import EnvironmentService
from common.roles.run_context import RunContext


def run(context: RunContext) -> None:
    """Steps the environments of this process's actors until the run is over or a stop is requested.

    Raises:
      PatienceError: the learner has not called for too long.
    """
    name, num_frames = context.environment, context.agent.num_frames

    def make(session: int) -> WatchedBatch:
        return context.watch(
            lambda: actor_start.make_environments(
                name, context.actors, context.seed, session, num_frames
            )
        )

    server = context.server()
    specs = actor_start.environment_specs(name, context.seed, num_frames)
    service = EnvironmentService(server, len(context.actors), *specs, make)
    server.start()
    report_ready()
    service.serve(context.stop)
    server.close()
