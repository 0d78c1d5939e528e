"""Calls of a memory from many threads."""

import threading
import time

_PATIENCE_SECONDS = 60.0


def run_threads(functions, seconds, least_turns=6):
    """Calls each function(turn) repeatedly in a thread; raises the first error.

    Args:
      functions: with a count of their calls, from 0, as argument.
      seconds: for which they are called at least.
      least_turns: how often each has to be called; a busy machine gets a minute more for it.
    """
    errors, turns, stop = [], [0] * len(functions), threading.Event()

    def repeat(index):
        try:
            while not stop.is_set():
                functions[index](turns[index])
                turns[index] += 1
        except BaseException as error:  # pylint: disable=broad-except
            errors.append(error)
            stop.set()

    threads = [threading.Thread(target=repeat, args=[index]) for index in range(len(functions))]
    for thread in threads:
        thread.start()
    stop.wait(seconds)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while min(turns) < least_turns and time.monotonic() < deadline and not stop.wait(0.1):
        pass
    stop.set()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]
    assert min(turns) >= least_turns
