import contextlib
import gc
import hmac
import json
import os
import socket
import threading
import time

from launched import launched, wait_for
import numpy as np
import pytest
import tensorflow as tf

from common.cluster import rpc, rpc_server
from common.cluster.errors import (
    AddressInUseError,
    ClusterError,
    MessageTooLargeError,
    NoServiceError,
    ServiceUnavailableError,
    WrongTokenError,
)
from common.cluster.topology import free_ports, split_address

TOKEN = "a token of the tests"


def free_address():
    return f"127.0.0.1:{free_ports(1)[0]}"


def raw_client(address):
    return tf.distribute.experimental.rpc.Client.create(
        "grpc", address, name=f"raw {time.monotonic_ns()}", timeout_in_ms=5000
    )


def presented_to(address):
    """The proof that a client presents at an address."""
    client = rpc.Client(address, TOKEN)
    client.call("ping")
    return client._presented.numpy()[0].decode()


class Impostor:
    """A server without the token, which keeps what it is told.

    Its answer to a challenge is a function's, given the nonce.
    """

    def __init__(self, answer):
        self.address, self.told = free_address(), []
        self._server = tf.distribute.experimental.rpc.Server.create("grpc", self.address)
        self._functions = []
        for name, function in (("challenge", answer), ("ping", lambda told: "hello")):
            self._register(name, function)
        self._server.start()

    def _register(self, name, function):
        def keep(told):
            self.told.extend(np.ravel(told).tolist())
            return np.array(function(told), object)

        self._functions.append(
            tf.function(
                lambda told: tf.numpy_function(keep, [told], tf.string),
                input_signature=[tf.TensorSpec(None, tf.string)],
                autograph=False,
            ).get_concrete_function()
        )
        self._server.register(name, self._functions[-1])


class Service:
    """Methods that leave a trace, to see whether their bodies ran."""

    def __init__(self, address, advertised_address=None):
        self.count = tf.Variable(0, dtype=tf.int64)
        self.server = rpc_server.Server(address, TOKEN, advertised_address)
        self.server.register("count", self._count, [tf.TensorSpec([], tf.int64)])
        self.server.register(
            "pair",
            lambda x: {"twice": 2 * x, "size": tf.size(x)},
            [tf.TensorSpec([None], tf.float32)],
        )
        self.server.register("echo", lambda x: x, [tf.TensorSpec([None, 2], tf.float32)])
        self.server.register("bytes", lambda x: tf.size(x), [tf.TensorSpec([None], tf.uint8)])
        self.server.register("zeros", lambda n: tf.zeros([n]), [tf.TensorSpec([], tf.int32)])
        self.queue = tf.queue.FIFOQueue(100, [tf.int64], [[]])
        self.server.register("take", self.queue.dequeue, [])
        self.server.register("put", self._put, [tf.TensorSpec([], tf.int64)])
        self.server.start()

    def _count(self, by):
        return self.count.assign_add(by)

    def _put(self, value):
        with tf.control_dependencies([self.queue.enqueue(value)]):
            return tf.identity(value)


@pytest.fixture(scope="module")
def service():
    service = Service(free_address())
    yield service
    service.server.close()


@pytest.fixture(scope="module")
def client(service):
    return rpc.Client(service.server.address, TOKEN, timeout_seconds=10.0)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda proof: TOKEN,
        lambda proof: tf.zeros([0], tf.string),
        lambda proof: ["x", proof],
        lambda proof: [proof[:7], proof[7:]],
    ],
)
def test_a_wrong_proof_changes_nothing_and_learns_nothing(service, wrong):
    before = int(service.count)
    proof = presented_to(service.server.address)
    wrong = tf.convert_to_tensor(wrong(proof))
    status = raw_client(service.server.address).call(
        "count", [wrong, tf.constant(1, tf.int64)], tf.TensorSpec([], tf.int64)
    )
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        status.get_value()
    assert TOKEN not in str(caught.value) and proof not in str(caught.value)
    time.sleep(0.1)  # the body would have had time to run after the refusal
    assert int(service.count) == before


@pytest.mark.parametrize(
    "answer",
    [lambda nonce: ["0" * 32, "1" * 64], lambda nonce: "?", lambda nonce: [b"\xff", nonce]],
)
def test_who_listens_at_a_partners_address_is_told_nothing(answer):
    """A role told its token in clear."""
    impostor = Impostor(answer)
    client = rpc.Client(impostor.address, TOKEN, 10.0)
    with pytest.raises((WrongTokenError, NoServiceError), match=impostor.address) as caught:
        client.call("ping")
    assert "\n" not in str(caught.value)
    (nonce,) = impostor.told
    assert len(nonce) == 32 and nonce != TOKEN.encode()


def test_a_proof_is_of_its_address_and_a_nonce_is_never_repeated(service):
    """Somebody who asks another service of the cluster for the answer is no better off."""

    def answer_of(address, nonce):
        facts = json.dumps(["server", address, "an identity", nonce.decode()])
        return ["an identity", hmac.new(TOKEN.encode(), facts.encode(), "sha256").hexdigest()]

    own = Impostor(lambda nonce: answer_of(own.address, nonce))
    assert rpc.Client(own.address, TOKEN).call("ping") == b"hello"  # since it knows the token
    assert len(own.told) == 3 and TOKEN.encode() not in own.told
    impostor = Impostor(lambda nonce: answer_of(service.server.address, nonce))
    for _ in range(2):
        with pytest.raises(WrongTokenError, match="another address in its TF_CONFIG"):
            rpc.Client(impostor.address, TOKEN).call("ping")
    assert len(set(impostor.told)) == 2
    assert len({presented_to(service.server.address) for _ in range(2)}) == 1
    other = Service(free_address())
    assert presented_to(other.server.address) != presented_to(service.server.address)
    other.server.close()


@pytest.mark.parametrize("nonce", ["", "x" * 33, b"\xff" * 32])
def test_a_server_answers_nonces_only(service, nonce):
    client = raw_client(service.server.address)
    with pytest.raises(tf.errors.OpError):
        client.call("challenge", [tf.constant(nonce)], tf.TensorSpec(None, tf.string)).get_value()


def test_a_client_with_a_wrong_token_gets_a_readable_error(service):
    stranger = rpc.Client(service.server.address, "another token")
    with pytest.raises(WrongTokenError, match="REPLAY_RL_TOKEN") as caught:
        stranger.call("count", [tf.constant(1, tf.int64)])
    assert "\n" not in str(caught.value)
    with pytest.raises(WrongTokenError):
        stranger.wait_until_available(5.0)


@pytest.mark.parametrize(
    "method, arguments",
    [
        ("count", [1.5]),
        ("count", []),
        ("count", [np.int64(1)] * 2),
        ("echo", [np.zeros([3, 4], np.float32)]),
    ],
)
def test_wrong_arguments_are_typed_errors_and_change_nothing(service, client, method, arguments):
    before = int(service.count)
    with pytest.raises(tf.errors.InvalidArgumentError):
        client.call(method, arguments)
    assert int(service.count) == before


def test_an_unknown_method_is_named(client):
    with pytest.raises(ClusterError, match="no method 'absent', only .*count"):
        client.call("absent")


def test_blocked_calls_do_not_stop_others(client):
    futures = [client.call_async("take") for _ in range(50)]
    reply = client.call("pair", [np.array([1.0, 2.0], np.float32)])
    assert reply["twice"].numpy().tolist() == [2.0, 4.0] and reply["size"] == 2
    for value in range(50):
        client.call("put", [np.int64(value)])
    assert sorted(int(future.result()) for future in futures) == list(range(50))


def test_a_late_reply_is_unavailable(service, client):
    with pytest.raises(ServiceUnavailableError, match=service.server.address):
        client.call("take", timeout_seconds=0.1)
    client.call("put", [np.int64(7)])  # for the call that was given up, which still waits


def test_graphs_and_data_pipelines_can_call(service):
    client = rpc.Client(service.server.address, TOKEN)  # connects while the graph is traced

    @tf.function(autograph=False)
    def twice(x):
        reply = client.call("echo", [x])
        assert reply.shape.as_list() == [None, 2]
        return reply * 2

    @tf.autograph.experimental.do_not_convert
    def echo(i):
        return client.call("echo", [tf.cast([[i, i]], tf.float32)])

    np.testing.assert_array_equal(twice(tf.ones([3, 2])), np.full([3, 2], 2.0))
    data = tf.data.Dataset.range(8).map(echo, num_parallel_calls=4)
    assert [int(x[0, 0]) for x in data] == list(range(8))


def test_errors_in_graphs_can_be_made_readable(service):
    stranger = rpc.Client(service.server.address, "another token")
    call = tf.function(lambda: stranger.call("zeros", [1]), autograph=False)
    with pytest.raises(WrongTokenError), stranger.readable_errors():
        call()


def test_messages_up_to_the_limit_pass_and_larger_ones_name_it(client):
    rows = rpc.MAX_ARGUMENT_BYTES // 8
    assert client.call("echo", [tf.zeros([rows - 8, 2])]).shape == [rows - 8, 2]
    with pytest.raises(MessageTooLargeError, match="exceeds 4 MiB"):
        client.call("echo", [tf.zeros([rows + 2**14, 2])])
    assert client.call("bytes", [tf.fill([4_000_000], tf.constant(127, tf.uint8))]) == 4_000_000
    with pytest.raises(MessageTooLargeError, match="split it into several calls"):
        client.call("bytes", [tf.fill([4_000_000], tf.constant(128, tf.uint8))])
    with pytest.raises(MessageTooLargeError, match="split it into several calls"):
        client.call("zeros", [2**20 + 1])


@pytest.mark.parametrize(
    "values, size",
    [
        (np.array([0, 127, 128, 2**62, -1]), 50),
        (np.array([255, 1], np.uint8), 20),
        (np.array([1.0, -1.5], np.float16), 20),
        (np.zeros([3], np.float64), 24),
        (np.array([b"", b"abcd"]), 16),
    ],
)
def test_bounds_of_sizes_on_the_wire(values, size):
    assert rpc.most_bytes([tf.constant(values), tf.zeros([2])]) == size + 8


def test_dropped_futures_do_no_harm(service, client):
    before = int(service.count)
    for _ in range(100):
        client.call_async("count", [tf.constant(1, tf.int64)])
    wait_for(lambda: int(service.count) == before + 100)


def test_futures_that_die_while_a_graph_is_traced_leave_no_trace_in_it(client):
    future = client.call_async("zeros", [1])
    cycle = [future]
    cycle.append(cycle)
    del future, cycle

    @tf.function(autograph=False)
    def traced(x):
        gc.collect()
        return x + 1

    operations = traced.get_concrete_function(tf.constant(1)).graph.get_operations()
    assert {op.type for op in operations} <= {"Placeholder", "Const", "AddV2", "Identity"}


def test_replies_are_freed(client):
    def resident_bytes():
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * 4096

    graph_call = tf.function(lambda: client.call("zeros", [500_000]), autograph=False)
    before = resident_bytes()
    for _ in range(30):  # of 2 MB each, three ways
        client.call("zeros", [500_000])
        graph_call()
        client.call_async("zeros", [500_000])
    assert resident_bytes() - before < 90e6


def test_roles_start_in_any_order_and_survive_a_restart():
    address = free_address()
    client = rpc.Client(address, TOKEN, timeout_seconds=0.3)
    with pytest.raises(ServiceUnavailableError, match=address):
        client.call("count", [tf.constant(1, tf.int64)])
    with pytest.raises(ServiceUnavailableError, match="did not answer for 0.5 s"):
        client.wait_until_available(0.5)
    waiting = threading.Thread(target=client.wait_until_available, args=[30.0])
    waiting.start()
    service = Service(address)
    waiting.join()
    assert client.call("count", [tf.constant(1, tf.int64)], 10.0) == 1

    service.server.close()
    with pytest.raises(ServiceUnavailableError):
        client.call("count", [tf.constant(1, tf.int64)])
    service = Service(address)  # the port is free again
    client.wait_until_available(30.0)
    assert client.call("count", [tf.constant(5, tf.int64)], 10.0) == 5
    service.server.close()


def test_a_client_greets_a_server_that_restarted_between_two_calls():
    """Its connection lasts, and the proof is of the start before."""
    service = Service(free_address())
    client = rpc.Client(service.server.address, TOKEN, timeout_seconds=10.0)
    number = [tf.constant(1, tf.int64)]
    call = tf.function(lambda: client.call("count", number), autograph=False)
    assert call() == 1
    former = presented_to(service.server.address)
    service.server.close()
    service = Service(service.server.address)
    assert presented_to(service.server.address) != former

    def is_counted():
        with contextlib.suppress(ServiceUnavailableError), client.readable_errors():
            return call() == 1

    wait_for(is_counted)
    service.server.close()
    service = Service(service.server.address)
    client.wait_until_available(30.0)  # the connection; the proof is of the former start until then
    assert client.call("count", [tf.constant(1, tf.int64)]) == 1
    client._presented = tf.constant([former, ""])
    futures = [client.call_async("count", [tf.constant(1, tf.int64)]) for _ in range(3)]
    assert sorted(int(future.result()) for future in futures) == [2, 3, 4]
    service.server.close()


def num_threads():
    """The threads of this process, also those of TensorFlow and gRPC."""
    return len(os.listdir("/proc/self/task"))


def test_waiting_for_a_service_that_is_away_takes_no_threads(service, tmp_path):
    """TensorFlow's own client keeps six threads for each try, for good."""
    rpc.Client(service.server.address, TOKEN).call("pair", [[1.0]])  # starts the lasting ones
    before = num_threads()
    for address in (free_address(), f"unix:{tmp_path}/replay-0"):
        kept, clients = rpc.Client(address, TOKEN), []
        for _ in range(8):
            clients.append(rpc.Client(address, TOKEN))
            for client in (kept, clients[-1]):
                with pytest.raises(ServiceUnavailableError):
                    client.call("count", [tf.constant(1, tf.int64)], 0.3)
    assert num_threads() <= before


def test_a_port_in_use_is_one_line(service):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for address in (service.server.address, f"127.0.0.1:{taken.getsockname()[1]}"):
            with pytest.raises(AddressInUseError, match="another port") as caught:
                rpc_server.Server(address, TOKEN)
            assert "\n" not in str(caught.value)


def test_a_server_that_cannot_be_reached_says_so():
    hidden = rpc_server.Server(free_address(), TOKEN, advertised_address=free_address())
    with pytest.raises(ServiceUnavailableError, match="cannot reach itself"):
        hidden.start(timeout_seconds=0.5)


@pytest.mark.parametrize(
    "address, token, words",
    [
        ("no-such-host.invalid:4000", TOKEN, "cannot resolve"),
        ("192.0.2.1:4000", TOKEN, "REPLAY_RL_BIND_HOST"),  # for documentation, nobody's
        ("127.0.0.1:4000", "", "token of this server is empty"),
    ],
)
def test_a_server_that_cannot_be_is_one_line(address, token, words):
    with pytest.raises(ClusterError, match=words) as caught:
        rpc_server.Server(address, token)
    assert "\n" not in str(caught.value)


def test_a_method_is_registered_once_and_before_the_start(service):
    with pytest.raises(tf.errors.OpError, match="before starting the server"):
        service.server.register("late", lambda: tf.constant(1), [])
    server = rpc_server.Server(free_address(), TOKEN)
    server.register("one", lambda: tf.constant(1), [])
    with pytest.raises(tf.errors.OpError, match="one"):
        server.register("one", lambda: tf.constant(1), [])


def test_a_server_that_dies_under_its_client_is_unavailable():
    """The client's connection goes through a proxy, which ends as the server's system would."""
    proxy, pipes = socket.create_server(("127.0.0.1", 0)), []
    address = f"127.0.0.1:{proxy.getsockname()[1]}"
    behind = free_address()
    server = split_address(behind)

    def copy(source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)

    def serve():
        with contextlib.suppress(OSError):
            while True:
                accepted = proxy.accept()[0]
                try:
                    pipes.extend([accepted, socket.create_connection(server)])
                except OSError:  # the server has not started
                    accepted.close()
                    continue
                for pair in (pipes[-2:], pipes[:-3:-1]):
                    threading.Thread(target=copy, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    service = Service(behind, address)
    client = rpc.Client(address, TOKEN, timeout_seconds=60.0)
    future = client.call_async("take")
    time.sleep(0.1)
    for each in (proxy, *pipes):
        with contextlib.suppress(OSError):  # the client's probe has left
            each.shutdown(socket.SHUT_RDWR)
        each.close()
    begin = time.monotonic()
    with pytest.raises(ServiceUnavailableError, match=address):
        future.result()
    assert time.monotonic() - begin < 30.0
    service.queue.enqueue(7)  # for the call that waits


def test_a_process_that_ends_by_an_error_while_it_is_called_does_end():
    """It hung: TensorFlow waits for a call's Python, which waits for the interpreter to end.

    A fork of the tests would end without what Python does at its end.
    """
    address = free_address()
    client = rpc.Client(address, TOKEN, timeout_seconds=5.0)

    def call():
        with contextlib.suppress(ServiceUnavailableError):
            while True:
                client.call("slow")

    with launched() as start:
        process = start("-c", _ENDS_WHILE_CALLED, address, TOKEN)
        client.wait_until_available(60.0)
        callers = [threading.Thread(target=call) for _ in range(4)]
        for caller in callers:
            caller.start()
        _, output = process.communicate(timeout=60.0)
        assert process.returncode == 1
        assert "ValueError: the end" in output and "RuntimeError" not in output
        for caller in callers:
            caller.join()


_ENDS_WHILE_CALLED = """
import atexit, sys, threading, time
import tensorflow as tf
from common.cluster import rpc_server
def start_none(thread):
    raise RuntimeError("can't create new thread at interpreter shutdown")
def run():
    server = rpc_server.Server(*sys.argv[1:])
    called = []
    def slow():
        called.append(time.sleep(0.05))
        return 0.0
    server.register("slow", lambda: tf.numpy_function(slow, [], tf.float64), [])
    server.start()
    while len(called) < 8:
        time.sleep(0.01)
    atexit.register(setattr, threading.Thread, "start", start_none)  # as in Python 3.12
    raise ValueError("the end")
run()
"""
