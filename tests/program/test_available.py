import pathlib
import sys

import pytest

from common.program import local

MEMINFO = """MemTotal:       16000000 kB
MemFree:         1000000 kB
MemAvailable:    8000000 kB
"""


@pytest.fixture
def machine(tmp_path):
    """Returns a function that writes a machine's files, {path: text}, and returns their root."""

    def make(files):
        for path, text in {"proc/meminfo": MEMINFO, **files}.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
        return tmp_path

    return make


def group(folder, limit, usage, cache):
    """Returns the files of a control group of version 2."""
    return {
        f"{folder}/memory.max": f"{limit}\n",
        f"{folder}/memory.current": f"{usage}\n",
        f"{folder}/memory.stat": f"anon 5\ninactive_file {cache}\nactive_file 7\n",
    }


def old_group(folder, limit, usage, cache):
    """Returns the files of a control group of version 1."""
    return {
        f"{folder}/memory.limit_in_bytes": f"{limit}\n",
        f"{folder}/memory.usage_in_bytes": f"{usage}\n",
        f"{folder}/memory.stat": f"inactive_file 1\ntotal_inactive_file {cache}\n",
    }


def test_without_a_control_group_it_is_what_the_machine_has(machine):
    assert local.available_memory(machine({})) == 8_000_000 * 1024


def test_version_2_each_level_counts(machine):
    files = {
        "proc/self/cgroup": "0::/user.slice/job_7/step\n",
        **group("sys/fs/cgroup/user.slice/job_7/step", "max", 9_000, 0),
        **group("sys/fs/cgroup/user.slice/job_7", 4_000_000, 1_500_000, 500_000),
        **group("sys/fs/cgroup/user.slice", 9_000_000, 1_000_000, 0),
    }
    assert local.available_memory(machine(files)) == 3_000_000


def test_version_2_in_a_container_the_group_is_at_the_top(machine):
    files = {
        "proc/self/cgroup": "0::/../../kubepods/pod1/abc\n",
        **group("sys/fs/cgroup", 2_000_000, 400_000, 100_000),
    }
    assert local.available_memory(machine(files)) == 1_700_000


def test_version_1(machine):
    files = {
        "proc/self/cgroup": "12:cpu,cpuacct:/docker/abc\n7:hugetlb,memory:/docker/abc\n0::/\n",
        **old_group("sys/fs/cgroup/memory", 3_000_000, 1_000_000, 250_000),
    }
    assert local.available_memory(machine(files)) == 2_250_000


def test_version_1_without_a_limit(machine):
    files = {
        "proc/self/cgroup": "7:memory:/\n",
        **old_group("sys/fs/cgroup/memory", 2**63 - 4096, 1_000_000, 0),
    }
    assert local.available_memory(machine(files)) == 8_000_000 * 1024


def test_a_group_that_is_over_its_limit_has_nothing_left(machine):
    files = {"proc/self/cgroup": "0::/a\n", **group("sys/fs/cgroup/a", 1_000, 2_000, 0)}
    assert local.available_memory(machine(files)) == 0


def test_where_nothing_is_said_nothing_is_known(tmp_path):
    assert local.available_memory(tmp_path) is None


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_this_machine():
    total = int(pathlib.Path("/proc/meminfo").read_text().split()[1]) * 1024
    assert 0 < local.available_memory() <= total


def test_the_disk_of_a_directory_that_is_not_there_yet(tmp_path):
    assert local.available_disk(tmp_path / "not" / "yet") == pytest.approx(
        local.available_disk(tmp_path), rel=0.1
    )
    assert local.available_disk(tmp_path) > 0
