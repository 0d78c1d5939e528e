"""A line that is redrawn in place on a terminal."""

import abc
import sys
from typing import Self, TextIO

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text


class LiveLine(abc.ABC):
    """A line that `refresh` redraws in place; on a stream that is no terminal it is not drawn.

    Args:
      stream: where to print; standard error by default.
    """

    def __init__(self, stream: TextIO | None = None):
        self._stream = sys.stderr if stream is None else stream
        self._live: Live | None = None
        console = Console(file=self._stream)
        if self._stream.isatty() and not console.is_dumb_terminal:
            self._live = Live(self, console=console, auto_refresh=False)
            self._live.start()

    @abc.abstractmethod
    def line(self, width: int | None) -> str:
        """Returns the fullest form of the line that fits `width`; None is without limit."""

    @property
    def is_live(self) -> bool:
        """True on a terminal."""
        return self._live is not None

    def refresh(self) -> None:
        """Redraws the line, on a terminal."""
        if self._live is not None:
            self._live.refresh()

    def print(self, text: str) -> None:
        """Prints a line of its own, on a terminal above the live one."""
        if self._live is not None:
            self._live.console.print(Text(text))
        else:
            print(_encodable(text, self._stream.encoding), file=self._stream, flush=True)

    def close(self) -> None:
        """Stops redrawing; the line stays."""
        if self._live is not None:
            self._live.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # Some terminals wrap when their last column is written.
        line = self.line(options.max_width - 1)
        yield Text(_encodable(line, options.encoding), no_wrap=True, overflow="crop", end="")


def shortened(text: str, width: int) -> str:
    """Returns a text of at most `width` characters."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def _encodable(text: str, encoding: str | None) -> str:
    """Returns the text, in plain characters if the stream cannot show others."""
    encoding = encoding or "utf-8"
    plain = text.translate(str.maketrans("━╌·±–…", "#.|~-~"))
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return plain.encode(encoding, "replace").decode(encoding)
    return text
