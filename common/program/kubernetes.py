"""Kubernetes files of agents: a StatefulSet for each role of a layout. It imports no TensorFlow."""

from collections.abc import Mapping
import dataclasses
import itertools
import json
import pathlib
import re
import string
import textwrap

from common.agents.declaration import AgentDeclaration
from common.cluster.layout import Layout, Role


@dataclasses.dataclass(frozen=True)
class Pods:
    """The pods of a role.

    Attributes:
      replicas: their number.
      cpu: cores that each requests.
      memory: that each requests, in Kubernetes' notation.
      limit: memory at which a pod is ended.
      gpus: of each.
      note: comment on these values.
    """

    replicas: int = 1
    cpu: int = 1
    memory: str = "1Gi"
    limit: str = "1500Mi"
    gpus: int = 0
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Deployment:
    """A run of an agent on Kubernetes.

    Attributes:
      agent: the one that is run.
      title: of the run.
      environment: its name.
      limits: lines of the flag file that end the run, with comments.
      pods: of each role of the layout.
    """

    agent: AgentDeclaration
    title: str
    environment: str
    limits: tuple[str, ...]
    pods: Mapping[str, Pods]


class _Template(string.Template):
    """A text with @NAME, because "$" belongs to the shell."""

    delimiter = "@"


def manifest(deployment: Deployment) -> str:
    """Returns the text of a kubernetes.yaml for the agent's default setting.

    The setting's layout has a flag for the number of acting tasks.

    Raises:
      LayoutError: the layout cannot have these numbers of pods.
    """
    agent = deployment.agent
    config = agent.settings.configuration(agent.settings.default)
    layout = agent.layout(config)
    pods = {role: deployment.pods[role.name] for role in layout.roles}
    layout.check({role.name: each.replicas for role, each in pods.items()})
    hosts = {
        role.name: [f"{_pod(role)}-{index}.{agent.paper}" for index in range(each.replicas)]
        for role, each in pods.items()
        if role.is_called
    }
    actors = f"--{agent.num_actors_flag}={agent.num_actors(config, agent.settings.default)}"
    values = {
        "title": deployment.title,
        "summary": ", ".join(f"{each.replicas} x {_pod(role)}" for role, each in pods.items()),
        "name": agent.paper,
        "module": agent.module,
        "environment": deployment.environment,
        "run": deployment.environment.partition(":")[2].replace(":", "_"),
        "limits": f"\n{6 * ' '}".join(deployment.limits),
        "actors": actors if agent.num_actors_flag != layout.acting_flag else "",
        "acting_flag": layout.acting_flag,
        "acting_tasks": pods[layout.acting_role].replicas,
        "acting": _pod(layout.acting_role),
        "cluster": json.dumps({job: [f"{h}:7000" for h in found] for job, found in hosts.items()}),
        "hosts": " ".join(itertools.chain(*hosts.values())),
    }
    text = pathlib.Path(__file__).with_name("kubernetes.yaml.template").read_text()
    head, blank, stateful_set = text.rpartition("\n\n")
    text = _Template(head).substitute(values)
    for role, each in pods.items():
        item = _Template(stateful_set).substitute(values, **_of_role(role, each, layout))
        if role is not layout.keeper:  # the keeper's item has named what is the same in all
            item = re.sub(r"&(\w+)(?: .+|(?:\n +- .+)+)", r"*\1", item)
        text += blank + item.rstrip()
    return re.sub(r"\n +(?=\n)", "", text) + "\n"


def _of_role(role: Role, pods: Pods, layout: Layout) -> dict[str, object]:
    """Returns what differs between the StatefulSets; "" for a line that is left out."""
    purpose = ""
    if role is layout.keeper:
        purpose = "a last checkpoint"
    elif role.is_called:
        purpose = f"the {layout.keeper.name} reads its counters a last time"
    return {
        **dataclasses.asdict(pods),
        "role": _pod(role),
        "parallel": "podManagementPolicy: Parallel" if role.acts else "",
        "grace": f"terminationGracePeriodSeconds: 60  # {purpose}" if purpose else "",
        "ports": "ports: &ports [{name: grpc, containerPort: 7000}]" if role.is_called else "",
        "note": f"\n{10 * ' '}".join(f"# {line}" for line in textwrap.wrap(pods.note, 88)),
        "gpus": f", nvidia.com/gpu: {pods.gpus}" if pods.gpus else "",
    }


def _pod(role: Role) -> str:
    """Returns the name of a role's pods, in which Kubernetes allows no "_"."""
    return role.name.replace("_", "-")
