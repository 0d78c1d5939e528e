"""The README of Reactor says what the code says, beyond what test_readmes.py compares."""

import dataclasses
import re

from reproduction_readme import Readme

from common.environments.spec import EnvironmentSpec
from common.replay.footprint import sequence_bytes_per_step
from reproductions.reactor import config as config_lib
from reproductions.reactor import networks

README = Readme("reactor")


def test_what_differs_on_two_cores_is_in_the_table():
    section = README.section("Run").split("### On two cores\n", 1)[1].split("\n### ", 1)[0]
    rows = re.findall(r"^\| `(\w+)` \| .+ \| ([\de,.-]+) \| .+ \|$", section, re.M)
    given = {name: float(value.replace(",", "")) for name, value in rows}
    assert given == config_lib.SETTINGS.overrides["reactor_two_cores"]
    assert f"| `--num_workers` | 10 | {config_lib.num_actors('reactor_two_cores')} |" in section


def test_the_rates_of_the_papers_run():
    config = config_lib.ReactorConfig()
    section = " ".join(README.section("Layout").split())  # wherever its lines break
    pong = EnvironmentSpec(84 * 84, 18, image_shape=(84, 84, 1), is_discrete=True)
    network = networks.make_network(config, pong)
    size = sum(variable.shape.num_elements() for variable in network.trainable_variables)
    acted = 200e6 / 4 / (2 * 24 * 3600)
    learnt = acted / config.acting_steps_per_update
    stored = dataclasses.replace(config, stored_state=True)
    raw, with_states = (
        each.replay_capacity * sequence_bytes_per_step(each, pong, None) / 1e9
        for each in (config, stored)
    )
    for text in (
        f"200 million frames in two days (figure 2) are {acted:.0f} actor steps "
        f"and {learnt:.0f} updates a second",
        f"{size:,} parameters at 18 actions",
        f"take {learnt * 8 * size / 1e6:.0f} MB/s at the server",
        f"replay takes {raw:.2f} GB, with stored states {with_states:.2f} GB",
    ):
        assert text in section, text
