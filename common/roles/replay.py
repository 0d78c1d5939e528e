"""The replay's process: a service that stores the actors' items for the learner."""

import time

from common.cluster import topology as topology_lib
from common.cluster.processes import Patience, report_ready
from common.remote.inbox import StoreService
from common.roles.run_context import RunContext

_LINGER_SECONDS = 50.0
"""Longest wait for the learner's last request for the numbers of accepted steps."""


def run(context: RunContext) -> None:
    """Serves the store, or a shard of it, until the run is over or a stop is requested.

    Raises:
      PatienceError: nothing was added or sampled for too long.
    """
    topology, job = context.topology, context.layout.store
    server = context.server()
    shard, num_shards = topology.service_index(job), len(topology.service(job))
    store = context.agent.data.make_store(context.step_specs, context.seed + shard, num_shards)
    file = context.store_file(store)
    file.load()
    service = StoreService(server, store)
    server.start()
    report_ready()
    patience, before = Patience("no role has used the replay"), None
    while not service.finished and not context.stop.wait(0.5):
        counters = store.counters()
        if counters != before:
            patience.renew()
        before = counters
        patience.check()
        file.save_if_due()
    # Actors that are ending still send their last transitions, and the learner counts them.
    deadline = time.monotonic() + _LINGER_SECONDS
    while service.learner_present and time.monotonic() < deadline:
        if topology_lib.is_gone(topology.keeper_address):
            break
        time.sleep(0.1)
    time.sleep(0.5)  # the learner still waits for its last reply
    server.close()
    file.close(is_over=service.finished)
