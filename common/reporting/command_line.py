"""The command line of programs: arguments, one-line errors and exit codes."""

import argparse
from collections.abc import Callable, Iterator
import contextlib
import errno
import os
import pathlib
import re
import select
import signal
import sys
import tempfile
import threading
from typing import NoReturn

from common.reporting import records
from common.user_error import UserError


class Parser(argparse.ArgumentParser):
    """A parser with one-line errors, which accepts no abbreviated flags.

    Args:
      **texts: texts of the help, to which `as_it_runs` is applied.
    """

    def __init__(self, **texts: str):
        super().__init__(
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            **{name: as_it_runs(text) for name, text in texts.items()},  # type: ignore[arg-type]
        )

    def error(self, message: str) -> NoReturn:
        """Ends the program with the message as one line."""
        fail(f"{message} (see --help)")


def as_it_runs(text: str) -> str:
    """Returns a text in which commands `python -m` name the interpreter of this program."""
    interpreter = records.as_shell_words([sys.executable])
    return re.sub(r"(?<![/\w])python -m ", lambda _: f"{interpreter} -m ", text)


def say(line: str) -> None:
    """Prints a line on standard error."""
    print(line, file=sys.stderr, flush=True)


def fail(message: str, code: int = 2) -> NoReturn:
    """Ends the program with one line on standard error."""
    say(f"error: {message}")
    sys.exit(code)


def exit_with(
    main: Callable[[], int | None], errors: tuple[type[Exception], ...] = (UserError,)
) -> NoReturn:
    """Ends the program with the exit code that `main` returns.

    After an exception of `errors`, or Ctrl-C, it prints one line on standard error. The exit code
    after Ctrl-C is that of a program ended by SIGINT. If nobody reads standard output any more, the
    program ends silently. Its exit code is then that for SIGPIPE if the output is a pipe such as
    `| head`, or for SIGHUP if it is a terminal. Threads that an environment left behind do not keep
    the process alive; see `common.environments.watch`.
    """
    try:
        _exit_with(main, errors)
    except BaseException as error:
        code = error.code if isinstance(error, SystemExit) else 1
        watch = sys.modules.get("common.environments.watch")  # its package imports NumPy
        if watch is not None:
            watch.exit_code = code if isinstance(code, int) else int(code is not None)
        raise


_GONE = {errno.EPIPE: signal.SIGPIPE, errno.EIO: signal.SIGHUP}
"""Errors of writing to a pipe or a terminal that nobody reads any more, and their signals."""


def _exit_with(main: Callable[[], int | None], errors: tuple[type[Exception], ...]) -> NoReturn:
    if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        try:
            code = main()
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt as interrupt:
        fail(str(interrupt) or "interrupted", code=128 + signal.SIGINT)
    except (OSError, *errors) as error:
        number = _GONE.get(getattr(error, "errno", None))
        if number and _is_unread(sys.stdout.fileno()):
            # Python flushes again at exit, where the rest of the output would fail again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(128 + number)
        if not isinstance(error, errors):
            raise
        is_of_a_file = isinstance(error, OSError) and error.filename
        fail(f"{error.filename}: {error.strerror}" if is_of_a_file else str(error))
    sys.exit(code)


def check_writable(flag: str, path: pathlib.Path) -> None:
    """Ends the program unless `path`, the value of `flag`, is a file that can be written."""
    if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        fail(f"{flag}={path} cannot be written: name a file in a directory that you may write to")


def _is_unread(descriptor: int) -> bool:
    """Returns whether the descriptor is a pipe or a terminal that nobody reads any more."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


_HIDING = threading.RLock()
"""Held by the thread that hides output. Another thread would mistake its file for the terminal."""


@contextlib.contextmanager
def native_output_only_on_failure() -> Iterator[None]:
    """Hides what native code prints on standard error, unless the `with` block fails.

    TensorFlow 2.21 prints at import whatever its log level is. Threads enter one at a time.
    """
    with _HIDING, tempfile.TemporaryFile() as kept:
        sys.stderr.flush()
        terminal = os.dup(2)
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
