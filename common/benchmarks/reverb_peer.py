"""Reverb's side of the loop through a replay service, run in the environment of `make peers`.

    .venv-peers/bin/python -I common/benchmarks/reverb_peer.py JSON

The server is in a process of its own, as our replay role. Fills its table, answers "filled" to the
first line of standard input, and then to each number N with the loops a second of N loops. A loop
is what Reverb's own examples make of it: a writer that sends in the background, a data set that
draws ahead, and one call that sets the priorities of a batch.
"""

import json
import multiprocessing
import sys
import time

import numpy as np
import reverb
import tensorflow as tf

_TABLE = "replay"


def serve(pipe, capacity: int, exponent: float) -> None:
    """Serves an empty table until the other end of the pipe is closed."""
    table = reverb.Table(
        _TABLE,
        sampler=reverb.selectors.Prioritized(exponent),
        remover=reverb.selectors.Fifo(),
        max_size=capacity,
        rate_limiter=reverb.rate_limiters.MinSize(1),
    )
    server = reverb.Server([table])
    pipe.send(server.port)
    try:
        pipe.recv()
    except EOFError:
        server.stop()


class ReverbLoop:
    """The loop, with a client of the server.

    Args:
      address: of the server.
      shapes: of the float32 columns of a transition.
      inserted: transitions inserted in a loop.
      sampled: transitions sampled in a loop, whose priorities are set.
    """

    def __init__(self, address: str, shapes: list, inserted: int, sampled: int):
        rng = np.random.default_rng(0)
        self._steps = [[rng.random(shape, np.float32) for shape in shapes] for _ in range(inserted)]
        self._inserted_priorities = rng.uniform(0.1, 1.0, inserted)
        self._priorities = rng.uniform(0.1, 1.0, sampled).tolist()
        self._client = reverb.Client(address)
        self._writer = self._client.writer(max_sequence_length=1)
        dataset = reverb.TimestepDataset(
            address,
            _TABLE,
            dtypes=[tf.float32] * len(shapes),
            shapes=[tf.TensorShape(shape) for shape in shapes],
            max_in_flight_samples_per_worker=2 * sampled,
        )
        self._samples = dataset.batch(sampled, drop_remainder=True).prefetch(2)
        self._batches = None

    def insert(self) -> None:
        """Adds transitions, each as an item."""
        for step, priority in zip(self._steps, self._inserted_priorities):
            self._writer.append(step)
            self._writer.create_item(_TABLE, num_timesteps=1, priority=priority)

    def run(self) -> None:
        """Makes a loop."""
        self.insert()
        if self._batches is None:
            self._batches = iter(self._samples)
        keys = next(self._batches).info.key.numpy().tolist()
        self._client.mutate_priorities(_TABLE, dict(zip(keys, self._priorities)))

    def flush(self) -> None:
        """Returns when the server has all that was inserted."""
        self._writer.flush()

    def close(self) -> None:
        """Ends the writer."""
        self._writer.close()


def main() -> None:
    """Fills and answers."""
    options = json.loads(sys.argv[1])
    capacity, exponent = options.pop("capacity"), options.pop("exponent")
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe()
    server = context.Process(target=serve, args=(theirs, capacity, exponent), daemon=True)
    server.start()
    theirs.close()
    loop = ReverbLoop(f"127.0.0.1:{pipe.recv()}", **options)
    for _ in range(capacity // options["inserted"] + 1):
        loop.insert()
    loop.flush()
    answer: object = "filled"
    for question in sys.stdin:
        if question.strip():
            begin = time.perf_counter()
            for _ in range(int(question)):
                loop.run()
            loop.flush()
            answer = int(question) / (time.perf_counter() - begin)
        print(answer, flush=True)
    loop.close()
    pipe.close()
    server.join()


if __name__ == "__main__":
    main()
