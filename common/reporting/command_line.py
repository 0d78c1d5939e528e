"""How programs end: one line for what is wrong, silence for a reader that leaves; arguments."""

import argparse
from collections.abc import Callable, Iterator
import contextlib
import os
import pathlib
import select
import signal
import sys
import tempfile
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, and takes no abbreviations."""

    def __init__(self, **kwargs):
        super().__init__(
            allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **kwargs
        )

    def error(self, message: str) -> NoReturn:
        fail(f"{message} (see --help)")


def fail(message: str, code: int = 2) -> NoReturn:
    """Ends the program with one line on standard error."""
    print(f"error: {message}", file=sys.stderr, flush=True)
    sys.exit(code)


def exit_with(main: Callable[[], int | None]) -> NoReturn:
    """Ends the program with what `main` returns, and in silence once nobody reads what it prints.

    `| head` leaves when it has its lines. The exit code is then that of a program which the signal
    ends, as it is with other tools.
    """
    try:
        try:
            code = main()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        if not _is_unread(sys.stdout.fileno()):
            raise
        # Python flushes once more at its end, and what is left would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    sys.exit(code)


def check_writable(flag: str, path: pathlib.Path) -> None:
    """Ends the program if `path`, the value of `flag`, is no file that can be written."""
    if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        fail(f"{flag}={path} cannot be written: name a file in a directory that you may write to")


def _is_unread(descriptor: int) -> bool:
    """Whether it is a pipe whose reader has gone."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


@contextlib.contextmanager
def native_output_only_on_failure() -> Iterator[None]:
    """Keeps what libraries print past Python off standard error, unless the `with` fails.

    TensorFlow 2.21 announces itself at its import whatever its log level is.
    """
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as kept:
        os.dup2(kept.fileno(), 2)
        try:
            yield
        except BaseException:
            kept.seek(0)
            os.write(terminal, kept.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(terminal, 2)
            os.close(terminal)
