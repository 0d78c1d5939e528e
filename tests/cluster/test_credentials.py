"""Tests of common.cluster.credentials."""

import http.server
import json
import os
import socket
import threading

import pytest
import tensorflow as tf

from common.cluster import credentials, rpc, rpc_server, topology
from common.cluster.credentials import Credentials
from common.cluster.errors import (
    AddressInUseError,
    ClusterError,
    NoServiceError,
    OtherRunError,
    ServiceUnavailableError,
    UnknownHostError,
    WrongTokenError,
)
from common.cluster.topology import free_ports


def test_reads_a_file_but_not_one_that_is_open_to_all(tmp_path):
    path = tmp_path / "token"
    path.write_text("0123456789abcdef\n")
    path.chmod(0o600)
    assert credentials.load_token({"REPLAY_RL_TOKEN_FILE": str(path)}) == "0123456789abcdef"
    for mode in (0o604, 0o602):
        path.chmod(mode)
        with pytest.raises(ClusterError, match="chmod 600"):
            credentials.load_token({"REPLAY_RL_TOKEN_FILE": str(path)})


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"REPLAY_RL_TOKEN": ""},
        {"REPLAY_RL_TOKEN": "short"},
        {"REPLAY_RL_TOKEN_FILE": os.path.join(os.sep, "no", "such", "file")},
    ],
)
def test_errors_are_one_line_and_name_the_variable(environment):
    with pytest.raises(ClusterError, match="REPLAY_RL_TOKEN") as caught:
        credentials.load_token(environment)
    assert "\n" not in str(caught.value)
    assert "short" not in str(caught.value)


def test_new_tokens_are_long_and_differ_and_none_is_made_where_one_is_set():
    first, second = (credentials.load_or_create_token({}) for _ in range(2))
    assert first != second and len(first) >= 40
    assert credentials.load_or_create_token({"REPLAY_RL_TOKEN": f" {first}\n"}) == first
    with pytest.raises(ClusterError):
        credentials.load_or_create_token({"REPLAY_RL_TOKEN": "short"})


TOKEN = "a token for this test"
RUN = {"paper": "d4pg", "config": {"n_step": 5, "sizes": (300, 200)}, "action_size": 1}
SAME = {"action_size": 1, "config": {"sizes": [300, 200], "n_step": 5}, "paper": "d4pg"}
"""The values of `RUN` in another order and another type of sequence."""


def address_of(port):
    return f"127.0.0.1:{port}"


@pytest.fixture(scope="module")
def served():
    """(address, a variable that the method `count` raises) of a learner of RUN."""
    server = rpc_server.Server(address_of(free_ports(1)[0]), Credentials(TOKEN, "learner", RUN))
    count = tf.Variable(0)
    server.register("count", lambda: count.assign_add(1).read_value(), [])
    server.start()
    yield server.address, count
    server.close()


@pytest.fixture
def listening():
    """Starts plain TCP servers that do what a function does with each connection."""
    opened = []

    def start(handle):
        opened.append(socket.create_server(("127.0.0.1", 0)))

        def accept(server=opened[-1]):
            while True:
                try:
                    handle(server.accept()[0])
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        return address_of(opened[-1].getsockname()[1])

    yield start
    for server in opened:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


def test_roles_of_one_run_and_tools_with_the_token_are_admitted(served):
    address, count = served
    for admitted in (Credentials(TOKEN, "actor", SAME), TOKEN):
        before = int(count)
        assert int(rpc.Client(address, admitted).call("count")) == before + 1


def test_a_role_of_another_run_is_refused_at_every_call(served):
    address, count = served
    before = int(count)
    other = {**RUN, "action_size": 2, "config": {"n_step": 1, "sizes": (300, 200)}}
    client = rpc.Client(address, Credentials(TOKEN, "actor", other))
    for call in (
        lambda: client.call("count"),
        lambda: client.call("ping"),
        lambda: client.wait_until_available(5.0),
        lambda: client.call("absent"),
        lambda: client.call_async("count").result(),
    ):
        with pytest.raises(OtherRunError) as caught:
            call()
        message = str(caught.value)
        assert f"this actor and the learner at {address} belong to different runs" in message
        assert "action_size is 2 here and 1 there" in message
        assert "config.n_step is 1 here and 5 there" in message
        assert "sizes" not in message and "paper" not in message and "\n" not in message
    assert int(count) == before


def test_the_run_is_told_to_holders_of_the_token_only(served):
    address, _ = served
    described = json.loads(rpc.Client(address, TOKEN).call("describe").numpy())
    assert described["run"]["config"] == {"n_step": 5, "sizes": [300, 200]}
    with pytest.raises(WrongTokenError):
        rpc.Client(address, Credentials("another token for it", "actor", RUN)).call("describe")


def test_a_service_that_comes_back_with_another_run_refuses_its_old_clients():
    address = address_of(free_ports(1)[0])
    client = rpc.Client(address, Credentials(TOKEN, "actor", {"seed": 0}), 20.0)
    for seed in (0, 1):
        server = rpc_server.Server(address, Credentials(TOKEN, "learner", {"seed": seed}))
        server.start()
        if seed == 0:
            client.wait_until_available(20.0)
        else:
            with pytest.raises(OtherRunError, match="seed is 0 here and 1 there"):
                client.wait_until_available(20.0)
        server.close()


def test_a_server_that_another_run_answers_for_says_that_the_address_is_in_use(served):
    address, _ = served
    elsewhere = rpc_server.Server(
        address_of(free_ports(1)[0]), Credentials(TOKEN, "learner", {}), advertised_address=address
    )
    with pytest.raises(AddressInUseError, match=address):
        elsewhere.start()


def check(address):
    topology.check_service(address, patience_seconds=0.0)


def test_a_probe_knows_a_service_and_that_nobody_listens(served):
    address, _ = served
    topology.probe(address), check(address)
    free = address_of(free_ports(1)[0])
    with pytest.raises(ServiceUnavailableError, match=f"nothing answers at {free}.*refused"):
        topology.probe(free)
    check(free)  # its role may start later


def test_a_probe_knows_a_host_that_does_not_resolve():
    with pytest.raises(UnknownHostError, match="no-such-host.invalid:4000.*TF_CONFIG"):
        check("no-such-host.invalid:4000")


def test_a_web_server_is_no_service():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    server.RequestHandlerClass.log_message = lambda *_: None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = address_of(server.server_address[1])
    for look in (topology.probe, check, lambda at: rpc.Client(at, TOKEN, 0.5).call("ping")):
        with pytest.raises(NoServiceError, match=f"{address} is not a service of a cluster"):
            look(address)
    server.shutdown()
    server.server_close()


def test_another_protocol_is_no_service(listening):
    def greet(connection):
        connection.sendall(b"hi")
        connection.recv(1000)
        connection.shutdown(socket.SHUT_RDWR)
        connection.close()

    with pytest.raises(NoServiceError, match="not a service of a cluster"):
        topology.probe(listening(greet))


def test_who_says_nothing_may_be_a_role_that_is_starting_or_ending(listening):
    silent = []  # keeps the connections open
    for address in (listening(silent.append), listening(lambda connection: connection.close())):
        with pytest.raises(ServiceUnavailableError) as caught:
            topology.probe(address, timeout_seconds=0.3)
        assert address in str(caught.value)
        assert isinstance(caught.value, ClusterError) and caught.value.is_transient
