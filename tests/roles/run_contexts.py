"""Contexts of roles that run in a thread of a test."""

from common.cluster.credentials import Credentials
from common.cluster.processes import StopRequest
from common.cluster.topology import Topology
from common.reporting.budget import Budget
from common.reporting.run_directory import RunDirectory
from common.roles.run_context import RunContext

TOKEN = "a token of the tests"


def make_context(agent, spec, layout, path, topology=None, **others):
    """Returns the context of `topology`'s task in a run without limits.

    Args:
      agent: the agent.
      spec: the environment's spec.
      layout: the layout of the processes.
      path: the run directory.
      topology: the cluster; None: the keeper alone.
      **others: other values of fields.
    """
    topology = topology or Topology.local(layout.roles, {layout.keeper.name: 1})
    directory = RunDirectory(path)
    directory.open({})
    fields = {
        "environment": "control:cartpole:swingup",
        "credentials": Credentials(TOKEN, topology.job),
        "seed": 0,
        "actors": range(0),
        "num_actors": 2,
        "limits": Budget(),
        "checkpoint_seconds": 60.0,
        "evaluation_episodes": 3,
        "final_episodes": 3,
        "evaluation_seconds": 0.0,
        "episode_steps": 10**9,
        "saves_replay": False,
        "values": {"evaluation_steps": None},
        "stop": StopRequest(),
    }
    return RunContext(
        agent=agent,
        spec=spec,
        layout=layout,
        topology=topology,
        directory=directory,
        **fields | others,
    )
