"""Tests of common.roles.run_context, and of common.roles.replay: how it ends, what it keeps."""

import dataclasses
import socket
import threading
import time

from launched import wait_for
import numpy as np
import pytest
from run_contexts import TOKEN, make_context

from common.cluster import rpc, rpc_server
from common.cluster.processes import Patience, PatienceError
from common.cluster.topology import Topology, free_ports, split_address
from common.environments.spec import EnvironmentSpec
from common.program import layouts
from common.program.layouts import DISTRIBUTED
from common.remote.outbox import RemoteStore
from common.remote.parameters import ONLINE, TARGET
from common.remote.shards import ShardedStore
from common.replay.memory import Items
from common.reporting.run_directory import RunDirectory
from common.roles import keeper, replay
from common.user_error import UserError
from reproductions.d4pg.config import D4PGConfig
from reproductions.d4pg.d4pg import D4PG


def test_each_start_publishes_newer_versions_of_all_networks(tmp_path, monkeypatch):
    context = make_context(None, None, layouts.WORKERS, tmp_path)
    versions = {ONLINE: [], TARGET: []}
    for start in range(1, 4):
        monkeypatch.setattr("time.time_ns", lambda start=start: 10**18 - start * 10**15)  # back
        context.directory.write_run_record(seed=0, scale="laptop")
        server = rpc_server.Server(f"127.0.0.1:{free_ports(1)[0]}", TOKEN)
        for name, published in versions.items():
            service = context.parameter_service(server, 1, name=name)
            published += [service.publish(np.zeros(1, np.float32), 0, 0, 0.0) for _ in range(5)]
        server.close()
    for published in versions.values():
        assert published == sorted(set(published)) and len(published) == 15


SPEC = EnvironmentSpec(3, 2)


def test_a_role_that_has_waited_too_long_saves_what_it_stores(tmp_path, monkeypatch):
    monkeypatch.setattr(Patience, "default_seconds", -1.0)
    options = {"saves_replay": True, "actors": range(2)}
    agent = D4PG(D4PGConfig(replay_capacity=100, min_replay_size=10, batch_size=4))
    context = make_context(agent, SPEC, layouts.ONE_PROCESS, tmp_path, **options)

    def wait(context):
        context.store_file(agent.data.make_store(context.step_specs, 0))
        Patience("no answer from the learner").check()

    with pytest.raises(PatienceError, match="no answer from the learner"):
        context.run(wait)
    assert [file.name for file in context.directory.replay.iterdir()] == ["learner_0.replay"]


def test_one_process_without_turns_is_refused(tmp_path):
    """It would learn, and never act again."""
    agent = D4PG(D4PGConfig(samples_per_insert=0.0))
    context = make_context(agent, SPEC, layouts.ONE_PROCESS, tmp_path)
    words = "--config.samples_per_insert is 0 .no limit., .*such as 256"
    with pytest.raises(UserError, match=words):
        keeper.make_keeper(context, None, None)


def replay_of(num_shards):
    """The place of the first shard."""
    topology = Topology.local(DISTRIBUTED.roles, {"learner": 1, "replay": num_shards})
    return dataclasses.replace(topology, job="replay")


class Running:
    """A replay's main function in a thread, a client of it, and a socket in a learner's place."""

    def __init__(self, path, topology=None, **others):
        agent = D4PG(D4PGConfig(replay_capacity=100, min_replay_size=10, batch_size=4))
        topology = topology or replay_of(1)
        context = make_context(agent, SPEC, DISTRIBUTED, path, topology, **others)
        self.stop = context.stop
        host, port = split_address(topology.keeper_address)
        self.learner = socket.create_server((host, port), reuse_port=True)
        self.thread = threading.Thread(target=replay.run, args=[context], daemon=True)
        self.thread.start()
        client = rpc.Client(topology.own_address, TOKEN)
        client.wait_until_available(300)
        self._specs = agent.step_specs(SPEC)
        self.store = RemoteStore(client, agent.data.wire(agent.step_specs(SPEC)))

    def insert(self, begin):
        """Adds ten transitions."""
        steps = self._specs._make(np.zeros([10, *spec.shape], np.float32) for spec in self._specs)
        rows = Items(np.arange(begin, begin + 10), steps, np.ones(10, np.float32))
        assert self.store.put(rows, 10)

    def ends_within(self, seconds):
        """Whether it has come to its end."""
        self.thread.join(seconds)
        return not self.thread.is_alive()

    def close(self):
        """Ends it, if the test has not."""
        self.stop.request()
        self.learner.close()
        self.thread.join(30)


@pytest.fixture
def running(tmp_path):
    running = Running(tmp_path)
    yield running
    running.close()


def test_stays_for_the_learners_last_look(running):
    incarnation = running.store.join()
    running.insert(0)
    assert running.store.accepted() == {incarnation: 10}
    running.stop.request()
    time.sleep(1.0)
    running.insert(10)  # of an actor that ends
    assert running.store.accepted() == {incarnation: 20}
    running.store.disconnect(finished=False)
    assert running.ends_within(60)


def test_does_not_wait_for_a_learner_that_has_died(running):
    running.store.accepted()
    running.stop.request()
    assert not running.ends_within(1.5)
    running.learner.close()
    assert running.ends_within(replay._LINGER_SECONDS / 2)


def test_does_not_wait_for_a_learner_that_is_not_there(running, monkeypatch):
    monkeypatch.setattr(replay, "_LINGER_SECONDS", 600.0)
    running.store.join()
    running.insert(0)
    running.stop.request()
    assert running.ends_within(60)


def test_a_learner_that_leaves_ends_it_only_with_the_run(running):
    running.store.accepted()
    running.store.disconnect(finished=False)
    assert not running.ends_within(1.5)
    running.store.disconnect(finished=True)
    assert running.ends_within(60)


def test_each_shard_keeps_its_part_and_all_end_with_the_run(tmp_path):
    first = replay_of(2)
    shards = [
        Running(tmp_path, context) for context in (first, dataclasses.replace(first, index=1))
    ]
    store = ShardedStore([shard.store for shard in shards])
    for shard in shards:
        for begin in range(0, 60, 10):
            shard.insert(begin)
    assert [shard.store.counters().items for shard in shards] == [50, 50]
    store.accepted()
    store.disconnect(finished=True)
    assert all(shard.ends_within(60) for shard in shards)
    for shard in shards:
        shard.close()


@pytest.mark.parametrize("period", [0.0, 1000.0])
def test_what_it_held_at_its_end_is_there_at_its_next_start(tmp_path, period):
    file = RunDirectory(tmp_path).replay / "replay_0.replay"
    options = {"saves_replay": True, "checkpoint_seconds": period}
    running = Running(tmp_path, **options)
    running.insert(0)
    if not period:  # so that a replay that is killed has a file, too
        wait_for(file.exists)
    running.insert(10)
    running.stop.request()
    assert running.ends_within(60)
    running.close()

    running = Running(tmp_path, **options)
    assert running.store.counters().items == running.store.counters().inserted == 20
    running.insert(15)  # five of these are there
    assert running.store.counters().items == 25
    running.store.disconnect(finished=True)
    assert running.ends_within(60) and not file.exists()
    running.close()
