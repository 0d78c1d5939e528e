"""What soaks judge by: growth, on planted series and a process that grows; their numbers."""

import os

from growth import Growth, excesses, slope, usage
import numpy as np
import pytest
from soak_faults import plan
from soaks import SOAKS, layout_of

from common.cluster.processes import return_free_memory


def life(begin, minutes, value):
    """Samples of a process, every five seconds, of a function of the minutes that it has lived."""
    times = np.arange(0, 60 * minutes, 5.0)
    return [(begin + time, value(time / 60)) for time in times]


def noise(seed, scale):
    random = np.random.default_rng(seed)
    return lambda: random.normal(0, scale)


def test_noise_a_restart_or_a_single_step_is_no_growth():
    grain = noise(0, scale=3.0)
    assert abs(slope([life(0, 4, lambda minute: 700 + grain())])) < 1
    grain = noise(1, scale=0.1)
    restarts = [
        life(300 * number, 3, lambda minute, number=number: 500 + 40 * number + grain())
        for number in range(5)
    ]
    assert abs(slope(restarts)) < 0.1
    for at in (1, 2, 4, 5):
        assert abs(slope([life(0, 6, lambda minute: 500 + 60 * (minute > at) + grain())])) < 0.5


@pytest.mark.parametrize("rate", [0.7, 6.0, -4.0])
def test_a_leak_is_found_through_restarts_and_noise(rate):
    grain = noise(2, scale=1.0)
    lives = [
        life(200 * number, 3, lambda minute: 500 + rate * minute + grain()) for number in range(4)
    ]
    assert slope(lives) == pytest.approx(rate, abs=0.3)


def test_samples_that_lie_close_have_no_slope():
    assert slope([]) is None
    assert slope([[], life(0, 0.4, lambda minute: 500 * minute)]) is None


def test_the_table_leaves_out_what_a_process_needs_at_its_start(monkeypatch, tmp_path):
    held = {}
    monkeypatch.setattr("growth.usage", lambda pid: held[pid])
    growth = Growth("learner", tmp_path, quiet_seconds=30, warm_up_seconds=90)
    for now in range(0, 600, 5):
        minute = now / 60
        # An actor that is restarted after five minutes, and fills its replay anew each time.
        pid, age = divmod(minute, 5)
        actor = {"anonymous_mb": min(age, 1) * 300, "rss_mb": 400, "threads": 9, "descriptors": 20}
        leaking = {
            "anonymous_mb": 3 * minute,
            "rss_mb": 2 * minute,
            "threads": 8 + 30 * (minute > 9),
        }
        held |= {pid: actor, 7: {**leaking, "descriptors": 40 + int(1.5 * minute)}}
        (tmp_path / "log").write_bytes(b"x" * int(minute * 2 * 2**20))
        growth.observe({"actor-1": pid, "learner-0": 7}, 1000 + now)
    held[pid] = {**held[pid], "anonymous_mb": 5000}
    growth.observe({"actor-1": pid, "evaluator-0": 7}, 1600)  # the run is over
    table = growth.table()
    assert set(table) == {"actor", "learner", "run"} and table["actor"]["lives"] == 2
    assert table["actor"]["minutes"] == pytest.approx(7, abs=0.3)
    assert table["actor"]["anonymous_mb"] == {"at_first": 125, "most": 300, "per_minute": 0}
    assert excesses({"actor": table["actor"]}) == []
    assert excesses(table) == [
        "anonymous_mb of the learner grows by 3 a minute, above 2",
        "descriptors of the learner grows by 1.5 a minute, above 1",
        "disk_mb of the run grows by 2 a minute, above 1",
    ]
    table["learner"]["threads"]["most"] = 8 + 33
    assert "threads of the learner grew from 8 to 41" in excesses(table)
    table["learner"]["minutes"] = 1.5
    assert len(excesses(table)) == 2  # too short a time to judge by


def test_usage_is_that_of_a_process():
    return_free_memory()  # what other tests have left would go at any moment
    before = usage(os.getpid())
    kept = np.ones(200 << 17)  # 200 MB
    descriptors = [os.dup(0) for _ in range(5)]
    after = usage(os.getpid())
    for descriptor in descriptors:
        os.close(descriptor)
    assert after["descriptors"] == before["descriptors"] + 5
    assert after["anonymous_mb"] - before["anonymous_mb"] == pytest.approx(200, abs=50)
    assert after["rss_mb"] >= after["anonymous_mb"] and after["threads"] >= 1
    del kept
    with pytest.raises(OSError):
        usage(2**22 + 1)  # beyond the largest identifier


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
