"""Calls of a memory from many threads."""

import threading


def run_threads(functions, seconds, least_turns=6):
    """Calls each function(turn) repeatedly in a thread; raises the first error.

    Args:
      functions: with a count of their calls, from 0, as argument.
      seconds: in which they are called.
      least_turns: how often each has to be called.
    """
    errors, turns, stop = [], [], threading.Event()

    def repeat(function):
        turn = 0
        try:
            while not stop.is_set():
                function(turn)
                turn += 1
            turns.append(turn)
        except BaseException as error:  # pylint: disable=broad-except
            errors.append(error)
            stop.set()

    threads = [threading.Thread(target=repeat, args=[function]) for function in functions]
    for thread in threads:
        thread.start()
    stop.wait(seconds)
    stop.set()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]
    assert min(turns) >= least_turns
