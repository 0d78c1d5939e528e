"""One live line that says how a run is doing."""

from collections.abc import Iterator, Mapping
import sys
from typing import Any, TextIO

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

_SECONDS_BETWEEN_LINES = 15.0
_BAR_WIDTHS = (24, 16, 10)


class ProgressLine:
    """Time or steps left, speeds and the last evaluation, redrawn in place.

    Where the stream is no terminal, a whole line is printed every 15 s instead. Of the limits
    given, the one that is nearest to its end is shown.

    Args:
      max_seconds: when the run ends, on the clock of `elapsed_seconds`.
      max_learner_steps: after which learner step it ends.
      max_actor_steps: after which environment step, over all actors, it ends.
      min_replay_size: how many items the memory needs before learning starts.
      stream: where to; standard error if not given.
    """

    def __init__(
        self,
        max_seconds: float | None,
        *,
        max_learner_steps: int | None = None,
        max_actor_steps: int | None = None,
        min_replay_size: int = 0,
        stream: TextIO | None = None,
    ):
        self._limits = (max_seconds, max_learner_steps, max_actor_steps)
        self._min_replay_size = min_replay_size
        self._stream = sys.stderr if stream is None else stream
        self._state: tuple[dict, dict, float, str] = ({}, {}, 0.0, "")
        self._printed_at: float | None = None
        self._live: Live | None = None
        console = Console(file=self._stream)
        if self._stream.isatty() and not console.is_dumb_terminal:
            self._live = Live(self, console=console, auto_refresh=False)
            self._live.start()

    def update(
        self,
        learner_row: Mapping[str, Any] | None,
        evaluator_row: Mapping[str, Any] | None,
        elapsed_seconds: float,
        note: str = "",
    ) -> None:
        """Shows a new state.

        Args:
          learner_row: the last row of learner.csv (`csv_rows.last_row`), None before the first.
          evaluator_row: the last row of evaluator.csv, likewise.
          elapsed_seconds: now, on the clock of the rows' wall_seconds.
          note: a few words to add, e.g. "actor 1 restarted".
        """
        self._state = (dict(learner_row or {}), dict(evaluator_row or {}), elapsed_seconds, note)
        if self._live is not None:
            self._live.refresh()
        elif (
            self._printed_at is None or elapsed_seconds - self._printed_at >= _SECONDS_BETWEEN_LINES
        ):
            self._printed_at = elapsed_seconds
            self.print(self.line(None))

    def print(self, text: str) -> None:
        """Prints a line of its own; on a terminal, above the live one."""
        if self._live is not None:
            self._live.console.print(Text(text))
        else:
            print(_encodable(text, self._stream.encoding), file=self._stream, flush=True)

    def close(self) -> None:
        """Leaves the line as it is and gives the terminal back."""
        if self._live is not None:
            self._live.stop()

    def __enter__(self) -> "ProgressLine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def line(self, width: int | None) -> str:
        """The fullest form of the line that fits `width` characters; without a bar if None."""
        forms = list(self._forms())
        if width is None:
            return forms[0]
        fraction = self._left()[0]
        for form in forms:
            for bar_width in _BAR_WIDTHS if fraction is not None else ():
                if bar_width + 2 + len(form) <= width:
                    return f"{_bar(fraction, bar_width)}  {form}"
            if len(form) <= width:
                return form
        return forms[-1][: max(0, width - 1)] + "…"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # Some terminals wrap when their last column is written.
        line = self.line(options.max_width - 1)
        yield Text(_encodable(line, options.encoding), no_wrap=True, overflow="crop", end="")

    def _forms(self) -> Iterator[str]:
        """The line without its bar, the longest wording first, then with ever less in it."""
        note = [self._state[3]] if self._state[3] else []
        for long in (True, False):
            yield _join([self._left()[1], *self._speeds(long), *self._evaluation(long), *note])
        yield _join([self._left()[1], *self._speeds(False)[:2], *self._evaluation(False), *note])
        yield _join([self._left()[1], *self._evaluation(False), *note])
        yield _join([self._left()[1], *note])

    def _left(self) -> tuple[float | None, str]:
        """The fraction done (None without limits), and what is left as text."""
        learner, _, elapsed, _ = self._state
        done = (elapsed, learner.get("learner_steps") or 0, learner.get("actor_steps") or 0)
        nearest: tuple[float | None, str] = (None, f"{_clock(elapsed)} elapsed")
        for at, limit, unit in zip(done, self._limits, ("", "learner steps", "actor steps")):
            if limit is None:
                continue
            fraction = min(1.0, at / limit) if limit > 0 else 1.0
            if nearest[0] is None or fraction > nearest[0]:
                left = max(0, limit - at)
                text = f"{left:,.0f} {unit} left" if unit else f"{_clock(left)} left"
                nearest = (fraction, text)
        return nearest

    def _speeds(self, long: bool) -> list[str]:
        learner = self._state[0]
        if not learner:
            return ["starting"]
        acting = learner.get("actor_steps_per_second")
        words = "{} actor steps/s" if long else "act {}/s"
        speeds = [words.format(_count(acting, long))]
        size = learner.get("replay_size") or 0
        if not learner.get("learner_steps") or size < self._min_replay_size:
            filled = f"{size:,}/{self._min_replay_size:,}" if self._min_replay_size else f"{size:,}"
            return [f"filling replay {filled}", *speeds]
        words = "{} learner steps/s" if long else "learn {}/s"
        speeds.append(words.format(_count(learner.get("learner_steps_per_second"), long)))
        ratio = learner.get("samples_per_insert")
        if ratio is not None:
            speeds.append(f"{_short(ratio)} {'samples per insert' if long else 'smp/ins'}")
        return speeds

    def _evaluation(self, long: bool) -> list[str]:
        _, evaluator, elapsed, _ = self._state
        mean = evaluator.get("episode_return_mean")
        if mean is None:
            return []
        value = _short(mean)
        if not long:
            return [f"return {value} {_age(elapsed - evaluator['wall_seconds'])} ago"]
        std = evaluator.get("episode_return_std")
        spread = "" if std is None else f" ± {_short(std)}"
        age = _age(elapsed - evaluator["wall_seconds"])
        return [f"evaluation {value}{spread}, {age} ago"]


def _join(parts: list[str]) -> str:
    return " · ".join(parts)


def _bar(fraction: float, width: int) -> str:
    full = int(fraction * width)
    return "━" * full + "╌" * (width - full)


def _clock(seconds: float) -> str:
    """1:23:45, or 23:45 within the hour."""
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def _age(seconds: float) -> str:
    """A length of time to one unit: 42s, 7m, 3h."""
    seconds = max(0, int(seconds))
    if seconds < 60:
        return f"{seconds}s"
    return f"{seconds // 60}m" if seconds < 3600 else f"{seconds // 3600}h"


def _count(number: float | None, long: bool) -> str:
    if number is None:
        return "–"
    if long or number < 1000:
        return f"{number:,.0f}" if number >= 10 else f"{number:.1f}"
    return f"{number / 1000:.3g}k" if number < 1e6 else f"{number / 1e6:.3g}M"


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _encodable(text: str, encoding: str | None) -> str:
    """The text with plain letters where the stream cannot show the others."""
    encoding = encoding or "utf-8"
    plain = text.translate(str.maketrans("━╌·±–…", "#.|~-~"))
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return plain.encode(encoding, "replace").decode(encoding)
    return text
