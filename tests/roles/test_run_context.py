"""Tests of common.roles.run_context."""

import numpy as np
from run_contexts import TOKEN, make_context

from common.cluster import rpc
from common.cluster.topology import Topology, free_ports
from common.program import layouts
from common.remote.parameters import ONLINE, TARGET
from common.reporting.run_directory import RunDirectory


def test_each_start_publishes_newer_versions_of_all_networks(tmp_path, monkeypatch):
    directory = RunDirectory(tmp_path / "run")
    directory.open({})
    topology = Topology.local(layouts.WORKERS.roles, {"parameter_server": 1})
    versions = {ONLINE: [], TARGET: []}
    for start in range(1, 4):
        monkeypatch.setattr("time.time_ns", lambda start=start: 10**18 - start * 10**15)  # back
        directory.write_run_record(seed=0, scale="laptop")
        context = make_context(None, None, layouts.WORKERS, topology, directory)
        server = rpc.Server(f"127.0.0.1:{free_ports(1)[0]}", TOKEN)
        for name, published in versions.items():
            service = context.parameter_service(server, 1, name=name)
            published += [service.publish(np.zeros(1, np.float32), 0, 0, 0.0) for _ in range(5)]
        server.close()
    for published in versions.values():
        assert published == sorted(set(published)) and len(published) == 15
