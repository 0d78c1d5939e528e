"""The actor's process: several of the paper's actors, whose policies run as one batch."""

from absl import logging

from common.cluster.processes import report_ready
from common.remote.outbox import Outbox
from common.remote.parameter_puller import ParameterPuller
from common.remote.parameters import ParameterClient
from common.remote.remote_store import RemoteStore
from common.roles.acting import Acting
from common.roles.run_context import CALL_SECONDS, RunContext

_AWAIT_SECONDS = 0.005
"""Time between requests for parameters for which actors wait."""


def run(context: RunContext) -> None:
    """Acts with the published policy and sends, until the run is over or a stop is requested.

    After a restart, environments and exploration use other random numbers than before.
    """
    stop = context.stop
    acting = Acting(context)
    policy = acting.policy
    outbox = _make_outbox(context, acting)
    puller = ParameterPuller(ParameterClient(context.client(context.topology.keeper_address)))
    acting.begin(outbox.writer, outbox.add, puller)
    if not puller.wait(policy.load, stop) or puller.finished:
        return
    outbox.start()
    file = context.store_file(outbox.writer.replay) if outbox.writer.replay else None
    if file is not None:
        file.load()
    while not stop.requested and not puller.finished:
        if acting.may_load:
            puller.apply(policy.load)  # even without credit, to notice the end of the run
        if not outbox.has_credit():
            continue
        if acting.awaits_parameters:
            puller.request()
            stop.wait(_AWAIT_SECONDS)
            continue
        if acting.pull_is_due:
            puller.request()
        acting.step()
        if outbox.num_accepted:
            report_ready()
        if file is not None:
            file.save_if_due()
    outbox.close()
    puller.close()
    if file is not None:
        file.close(is_over=puller.finished)
    logging.info("acted for %d steps, %d accepted", acting.steps, outbox.num_accepted)


def _make_outbox(context: RunContext, acting: Acting) -> Outbox:
    """Builds the sender to the store, or to the shard of it that these actors add to."""
    agent, topology, job = context.agent, context.topology, context.layout.store
    shard = topology.service_index(job)
    wire = agent.wire(context.spec)
    stores = [
        RemoteStore(context.client(address, CALL_SECONDS if number == shard else 1.0), wire)
        for number, address in enumerate(topology.service(job))
    ]
    return Outbox(
        stores.pop(shard),
        agent.make_writer(
            acting.policy, context.actors, context.spec, acting.seed, shard=shard, in_batches=True
        ),
        agent.rate_limiter(),
        context.stop,
        others=stores if agent.samples_per_insert is not None else (),
        in_lockstep=agent.data.in_lockstep,
        job=job,
    )
