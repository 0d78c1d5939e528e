"""A time limit on each call of an environment's code, which is a user's or a simulator's.

Python cannot interrupt a call that does not return, so the process ends with a line that names the
call. This module does not import NumPy.
"""

from collections.abc import Callable, Iterable, Iterator
import functools
import math
import os
import sys
import threading
import time
from typing import TypeVar

DEFAULT_SECONDS = 60.0
limit_seconds = math.inf
"""Limit in seconds on a call in this process; programs set it to `--environment_seconds`."""
exit_code: int | None = None
"""Exit code with which to end this process if it hangs after its work; None: still at work."""
MAKING = "its creation, first reset or first step"
_MAKE_CALLS = 10
"""Limit on creating an environment, in limits of a call: a flow compiles its solver first."""
_POLL_SECONDS = 0.5

_Item = TypeVar("_Item")


def end_process(message: str, code: int = 1) -> None:
    """Ends this process from any thread, so that a launcher restarts it after a `code` above 0."""
    print(f"error: {message}", file=sys.stderr, flush=True)
    os._exit(code)


class Call:
    """A context for a call of an environment's code, which calls `on_stall` if it takes too long.

    The context may be entered repeatedly, in one thread at a time. If contexts are nested, the
    limit of the innermost applies, and `on_stall` of the outermost is called.

    Args:
      name: name of the environment, for the message.
      doing: the call, for the message, such as "a step".
      on_stall: called once, with the message, from another thread.
      seconds: the limit; None: `limit_seconds`.
      where: returns words to add to the message.
    """

    def __init__(
        self,
        name: str,
        doing: str,
        on_stall: Callable[[str], None] = end_process,
        seconds: float | None = None,
        where: Callable[[], str] = lambda: "",
    ):
        self._what = f"{name} has not returned from {doing}"
        self._on_stall = on_stall
        self._where = where
        self._outer: Call | None = None
        self.seconds = limit_seconds if seconds is None else seconds
        self.begun_at = 0.0

    @classmethod
    def of_making(cls, name: str) -> "Call":
        """Returns the context in which to create an environment, with a longer limit."""
        return cls(name, MAKING, seconds=_MAKE_CALLS * limit_seconds)

    def __enter__(self) -> None:
        _start_watch()
        self._outer = getattr(_thread, "call", None)
        if self._outer is not None:
            _running.discard(self._outer)
        self._begin()

    def __exit__(self, *exception: object) -> None:
        _running.discard(self)
        _thread.call = self._outer
        if self._outer is not None:
            self._outer._begin()

    def stall(self) -> None:
        """Reports that the call takes too long."""
        _running.discard(self)
        outermost = self
        while outermost._outer is not None:
            outermost = outermost._outer
        outermost._on_stall(
            f"{self._what} for {self.seconds:g} s{self._where()}: it hangs, or it is slow and "
            "needs a larger --environment_seconds"
        )

    def _begin(self) -> None:
        self.begun_at = time.monotonic()
        _thread.call = self
        _running.add(self)


_thread = threading.local()
"""Contains `call`, the innermost `Call` of a thread."""
_running: set[Call] = set()


def each(items: Iterable[_Item]) -> Iterator[_Item]:
    """Yields the items; in a `Call`, the limit then applies to the work on each item."""
    call = getattr(_thread, "call", None)
    for item in items:
        if call is not None:
            call.begun_at = time.monotonic()
        yield item


@functools.cache
def _start_watch() -> None:
    """Starts the thread that finds calls that take too long, once a process."""
    threading.Thread(target=_watch, name="watch", daemon=True).start()


def _watch() -> None:
    ended_at = None
    while True:
        time.sleep(_POLL_SECONDS)
        now = time.monotonic()
        for call in tuple(_running):
            if now - call.begun_at > call.seconds:
                call.stall()
        if exit_code is not None and not threading.main_thread().is_alive():  # others may be left
            ended_at = ended_at or now
            if now - ended_at > limit_seconds:
                end_process(_left(), exit_code)


def _left() -> str:
    """Returns the message of a process that does not end."""
    threads = {
        thread.name for thread in threading.enumerate() if not thread.daemon and thread.is_alive()
    }
    what = f"its threads {', '.join(sorted(threads))}" if threads else "an exit handler"
    return (
        f"this process has finished its work, but {what} did not end within {limit_seconds:g} s: "
        "it exits without waiting; an environment that starts a thread must end it in close()"
    )
