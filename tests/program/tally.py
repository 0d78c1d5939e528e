"""A program whose layout no paper has: clickers call a tally, which keeps the run.

It has neither replay nor evaluator, and its run directory has no CSV files.
"""

import dataclasses

from absl import flags

from common.agents.declaration import AgentDeclaration
from common.cluster.layout import Layout, Role
from common.config import Config, Settings, field
from common.program import main

flags.DEFINE_integer("clickers", None, "Processes that share the actors.", lower_bound=1)


@dataclasses.dataclass
class TallyConfig(Config):
    """Hyperparameters of the tally."""

    clicks: int = field(5, minimum=1)
    """Clicks of an actor from each of its starts on."""


LAYOUT = Layout(
    "tally and clickers",
    (
        Role("tally", is_called=True, max_tasks=1, run="tally_roles:run_tally"),
        Role(
            "clicker",
            calls=("tally",),
            run="tally_roles:run_clicker",
            local_tasks=lambda values: values["clickers"],
            acts=True,
        ),
    ),
    flags=("clickers",),
    acting_flag="clickers",
    local_values=lambda values, actors, cores: {"clickers": values["clickers"] or actors},
)

AGENT = AgentDeclaration(
    name="tally",
    title="Tally",
    paper="no_paper",
    agent_class="tally_roles:TallyAgent",
    settings=Settings(TallyConfig, {"tally": {}}, default="tally"),
    num_actors=lambda config, setting: 2,
    num_actors_help="Actors.",
    layouts=(LAYOUT,),
    require="operator:is_",  # raises nothing: any environment will do
    bytes_per_step=lambda config, spec, environment: 0,
    program="tally",
)

if __name__ == "__main__":
    main.start(AGENT)
