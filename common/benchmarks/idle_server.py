"""A server in a process of its own whose methods do nothing, for benchmarks of transfers."""

from collections.abc import Iterator
import contextlib
import multiprocessing
from multiprocessing.connection import Connection

from common.cluster.topology import free_ports

READ, SEND = "read", "send"
_CLOSE_SECONDS = 5.0


@contextlib.contextmanager
def idle_server(token: str) -> Iterator[str]:
    """Yields the address of a server on the loopback, which ends with the context.

    Its method READ takes a size int64 and returns so many float32; SEND takes float32 [n].

    Raises:
      RuntimeError: the process ended before it served.
    """
    address = f"127.0.0.1:{free_ports(1)[0]}"
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, address, token), daemon=True)
    process.start()
    theirs.close()
    try:
        try:
            pipe.recv()
        except EOFError:
            raise RuntimeError("the idle server did not start, see above") from None
        yield address
    finally:
        pipe.close()
        process.join(_CLOSE_SECONDS)
        process.kill()


def _serve(pipe: Connection, address: str, token: str) -> None:
    """Serves until the other end of the pipe is closed."""
    import tensorflow as tf

    from common.cluster import rpc

    server = rpc.Server(address, token)
    server.register(READ, lambda size: tf.zeros(size[tf.newaxis]), [tf.TensorSpec([], tf.int64)])
    server.register(SEND, lambda values: tf.size(values), [tf.TensorSpec([None])])
    server.start()
    pipe.send("started")
    with contextlib.suppress(EOFError):
        pipe.recv()
    server.close()
