"""The soaks' numbers fit together: a soak is run by hand, and takes too long to fail late."""

import pytest
from soak_faults import plan
from soaks import SOAKS, layout_of


@pytest.mark.parametrize("name", SOAKS)
def test_the_faults_fit_the_time_and_the_roles(name):
    soak = SOAKS[name]
    layout = layout_of(soak)
    faults = plan(soak, layout, seed=3)
    assert all(30 <= fault.at <= 60 * soak.minutes - soak.quiet_seconds for fault in faults)
    roles = {role.name for role in layout.roles}
    assert {fault.role for fault in faults} <= roles | {"launcher", "disk"}
    saves = [fault for fault in faults if fault.kind == "kill_in_save"]
    assert len(saves) == soak.save_kills
    kills = [fault.role for fault in faults if fault.kind == "kill"]
    assert kills.count(layout.keeper.name) == soak.learner_kills
    if layout.acting_role != layout.keeper:
        assert kills.count(layout.acting_role.name) == soak.actor_kills
