import dataclasses
import json
import os
import pathlib
import socket
import tempfile

import pytest

from common.cluster.errors import ClusterError
from common.cluster.topology import Job, Topology, free_ports, is_loopback, split_address, unix_path

JOBS = (
    Job("learner", calls=("replay",), is_called=True, max_tasks=1),
    Job("replay", is_called=True, host="learner", max_tasks=3),
    Job("actor", calls=("learner", "replay")),
    Job("evaluator", calls=("learner",), max_tasks=1),
)
CLUSTER = {
    "learner": ["host-a:4000"],
    "replay": ["host-b:4001", "[2001:db8::1]:4002"],
    "actor": ["host-c:4003"],
}


def read(config, **variables):
    text = config if isinstance(config, str) else json.dumps(config)
    return Topology.from_environment(JOBS, {"TF_CONFIG": text, **variables})


def task(job, index=0, **counts):
    topology = Topology.local(JOBS, counts)
    return dataclasses.replace(topology, job=job, index=index)


def test_reads_tf_config():
    topology = read({"cluster": CLUSTER, "task": {"type": "replay", "index": 1}})
    assert (topology.job, topology.index) == ("replay", 1)
    assert topology.own_address == topology.bind_address == "[2001:db8::1]:4002"
    assert topology.service("replay") == ("host-b:4001", "[2001:db8::1]:4002")
    assert topology.keeper_address == topology.address("learner") == "host-a:4000"


def test_tf_config_round_trips_for_every_task():
    topology = read({"cluster": CLUSTER, "task": {"type": "learner", "index": 0}})
    for job, addresses in CLUSTER.items():
        for index in range(len(addresses)):
            again = read(topology.to_tf_config(job, index))
            assert again.cluster == topology.cluster
            assert (again.job, again.index) == (job, index)


def test_the_host_of_a_job_offers_its_service_where_the_cluster_lists_no_task_of_it():
    learner, actor = task("learner", learner=1), task("actor", learner=1)
    assert learner.hosts("replay") and not actor.hosts("replay")
    assert actor.service("replay") == actor.addresses("learner") == actor.partners
    assert learner.partners == ()
    assert not task("learner", learner=1, replay=1).hosts("replay")


def test_a_task_calls_every_address_of_the_jobs_that_it_calls():
    cluster = {"learner": 1, "replay": 2}
    actor = task("actor", 7, **cluster)
    assert actor.partners == actor.addresses("learner") + actor.addresses("replay")
    learner = task("learner", **cluster)
    assert learner.partners == learner.addresses("replay")
    with pytest.raises(ClusterError, match="no learner 0: add its host:port"):
        _ = read({"cluster": {"replay": ["a:1"]}, "task": {"type": "actor"}}).partners


def test_tasks_use_those_of_a_service_in_turns():
    def shares(job, replays, tasks):
        cluster = {"learner": 1, "replay": replays, "actor": 8}
        return [task(job, index, **cluster).service_index("replay") for index in range(tasks)]

    assert shares("actor", 3, 8) == [0, 1, 2, 0, 1, 2, 0, 1]
    assert shares("replay", 3, 3) == [0, 1, 2]
    assert shares("actor", 0, 8) == [0] * 8  # it is in the learner


def test_bind_host_is_apart_from_the_advertised_one():
    own = {"type": "learner", "index": 0}
    remote = read({"cluster": CLUSTER, "task": own}, REPLAY_RL_BIND_HOST="0.0.0.0")
    assert remote.own_address == "host-a:4000"
    assert remote.bind_address == "0.0.0.0:4000"
    six = read({"cluster": CLUSTER, "task": own}, REPLAY_RL_BIND_HOST="::")
    assert six.bind_address == "[::]:4000"
    loopback = read(
        {"cluster": {"learner": ["localhost:4000"]}, "task": own}, REPLAY_RL_BIND_HOST="0.0.0.0"
    )
    assert loopback.bind_address == "localhost:4000"


@pytest.mark.parametrize(
    "config",
    [
        "",
        "{",
        "[]",
        {"cluster": {}},
        {"cluster": CLUSTER},
        {"cluster": CLUSTER, "task": {"index": 0}},
        {"cluster": CLUSTER, "task": {"type": "chief", "index": 0}},
        {"cluster": CLUSTER, "task": {"type": "learner", "index": 1}},
        {"cluster": CLUSTER, "task": {"type": "learner", "index": -1}},
        {"cluster": CLUSTER, "task": {"type": "evaluator", "index": 1}},
        {"cluster": CLUSTER, "task": {"type": "learner", "index": 0.5}},
        {"cluster": CLUSTER, "task": {"type": "learner", "index": True}},
        {"cluster": {"ps": ["a:1"]}, "task": {"type": "actor", "index": 0}},
        {"cluster": {"learner": ["a:1", "b:1"]}, "task": {"type": "learner", "index": 0}},
        {"cluster": {"learner": ["a:1"]}, "task": {"type": "replay", "index": 0}},
        {"cluster": {"learner": "a:1"}, "task": {"type": "learner", "index": 0}},
        {"cluster": {"learner": []}, "task": {"type": "actor", "index": 0}},
        {"cluster": {"learner": [7]}, "task": {"type": "learner", "index": 0}},
        {"cluster": {"learner": ["a:1"], "replay": ["a:1"]}, "task": {"type": "learner"}},
    ],
)
def test_malformed_tf_config_is_one_line_that_names_it(config):
    with pytest.raises(ClusterError, match="TF_CONFIG") as caught:
        read(config)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    ["host", ":1", "host:", "host:0", "host:65536", "::1:80", "a b:1", "http://a:1", "host:1²"],
)
def test_refuses_what_is_no_address(address):
    with pytest.raises(ClusterError, match="host:port"):
        split_address(address)


def test_local_cluster_has_distinct_free_loopback_ports():
    topology = task("learner", learner=1, replay=2, actor=3, evaluator=0)
    addresses = [address for job in topology.cluster for address in topology.addresses(job)]
    assert len(set(addresses)) == 6
    assert topology.addresses("evaluator") == ()
    for address in addresses:
        host, port = split_address(address)
        assert is_loopback(host)
        with socket.socket() as probe:
            probe.bind((host, port))
    assert len(set(free_ports(50))) == 50


def test_a_path_that_is_too_long_for_a_socket_is_told_with_the_folder_to_change(tmp_path):
    free = 107 - len(os.fsencode(f"{tmp_path}//evaluator-0"))
    fits = tmp_path / ("\N{LATIN SMALL LETTER O WITH DIAERESIS}" * (free // 2) + "o" * (free % 2))
    fits.mkdir()
    counts = {"learner": 1, "evaluator": 1}
    path = unix_path(Topology.local(JOBS, counts, fits).address("evaluator"))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
    with pytest.raises(ClusterError, match="108 bytes, .* at most 107: set TMPDIR") as caught:
        Topology.local(JOBS, counts, pathlib.Path(f"{fits}o"))
    assert tempfile.gettempdir() in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("character", ["%", ",", "?", "#", "\n", "\u2028"])
def test_a_path_at_which_grpc_would_not_listen_is_told_too(character):
    with pytest.raises(ClusterError, match="set TMPDIR to another path") as caught:
        Topology.local(JOBS, {"learner": 1}, pathlib.Path(f"/tmp/a{character}b"))
    assert "\n" not in str(caught.value)
