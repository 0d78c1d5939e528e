"""The replay's process: a service that stores the actors' items for the learner."""

import time

from common.agents.item_agent import ItemAgent
from common.cluster import probe
from common.cluster.processes import Patience, report_ready
from common.replay.service import ReplayService
from common.roles.run_context import RunContext

JOB = "replay"
_LINGER_SECONDS = 50.0
"""Longest wait for the learner's last request for the numbers of accepted items."""


def run(context: RunContext) -> None:
    """Serves the memory, or a shard of it, until the run is over or a stop is requested.

    Raises:
      PatienceError: nothing was added or sampled for too long.
    """
    agent, topology = context.agent, context.topology
    assert isinstance(agent, ItemAgent)
    server = context.server()
    shard, num_shards = topology.service_index(JOB), len(topology.service(JOB))
    memory = agent.make_memory(context.spec, context.seed + shard, num_shards)
    service = ReplayService(server, memory)
    server.start()
    report_ready()
    patience, before = Patience("nobody has used the replay"), None
    while not service.finished and not context.stop.wait(0.5):
        statistics = memory.statistics()
        if statistics != before:
            patience.renew()
        before = statistics
        patience.check()
    # The ending actors send their last transitions, and the learner counts them.
    deadline = time.monotonic() + _LINGER_SECONDS
    while service.learner_present and time.monotonic() < deadline:
        if probe.is_gone(topology.keeper_address):
            break
        time.sleep(0.1)
    time.sleep(0.5)  # the learner still waits for its last reply
    server.close()
