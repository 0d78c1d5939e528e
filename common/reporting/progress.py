"""The progress line of a run, redrawn in place on a terminal, and the run's result.

The result is the last evaluation and the learning curve.
"""

import abc
from collections.abc import Callable, Mapping
import contextlib
import math
import os
import sys
import time
from typing import Any, Self, TextIO

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from common.reporting import csv_rows
from common.reporting.budget import Budget
from common.reporting.csv_rows import CsvError
from common.reporting.run_directory import RunDirectory
from common.user_error import UserError


class LiveLine(abc.ABC):
    """A line that `refresh` redraws in place; on a stream that is not a terminal it is not drawn.

    A line that cannot be printed is left out, so that the work itself continues.

    Args:
      stream: where to print; standard error by default.
      may_redraw: whether nothing else draws on the terminal.
    """

    def __init__(self, stream: TextIO | None = None, may_redraw: bool = True):
        self._stream = sys.stderr if stream is None else stream
        self._live: Live | None = None
        console = Console(file=self._stream)
        if may_redraw and self._stream.isatty() and not console.is_dumb_terminal:
            self._live = Live(self, console=console, auto_refresh=False)
            self._live.start()

    @abc.abstractmethod
    def line(self, width: int | None) -> str:
        """Returns the fullest form of the line that fits `width`; None means no limit."""

    @property
    def is_live(self) -> bool:
        """True if the line is redrawn on a terminal."""
        return self._live is not None

    def refresh(self) -> None:
        """Redraws the line if it is live."""
        self._draw(Live.refresh)

    def print(self, text: str) -> None:
        """Prints a separate line, above the live one if there is one."""
        if self.is_live:
            self._draw(lambda live: live.console.print(Text(text)))
        else:
            with contextlib.suppress(OSError):  # a full disk, or a pipe that nobody reads any more
                print(text, file=self._stream, flush=True)

    def close(self) -> None:
        """Stops redrawing; the line stays."""
        self._draw(Live.stop)

    def _draw(self, draw: Callable[[Live], object]) -> None:
        """Draws on the terminal. Once that is closed, all lines go to the null device."""
        live = self._live
        if live is None:
            return
        try:
            draw(live)
        except OSError:
            with contextlib.suppress(OSError):
                live.stop()
            self._live, self._stream = None, open(os.devnull, "w", encoding="utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # Some terminals wrap when their last column is written.
        line = self.line(options.max_width - 1)
        yield Text(line, no_wrap=True, overflow="crop", end="")


def shortened(text: str, width: int) -> str:
    """Returns a text of at most `width` characters."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


_SECONDS_BETWEEN_LINES = 15.0
_SHORTEST_BAR, _LONGEST_BAR = 10, 24


class ProgressLine(LiveLine):
    """The rest of a run, its speeds and its last evaluation, on one line redrawn in place.

    A stream that is not a terminal receives a whole line every 15 s instead. The line shows the
    limit of the budget that the run is closest to.

    Args:
      budget: the limits of the run.
      min_replay_size: number of items in the replay at which learning starts.
      stream: where to print; standard error by default.
    """

    def __init__(self, budget: Budget, min_replay_size: int = 0, stream: TextIO | None = None):
        self._budget = budget
        self._min_replay_size = min_replay_size
        self._state: tuple[dict, dict, float, str] = ({}, {}, 0.0, "")
        self._printed_at = -math.inf
        super().__init__(stream)

    def update(
        self,
        learner_row: Mapping[str, Any] | None,
        evaluator_row: Mapping[str, Any] | None,
        elapsed_seconds: float,
        note: str = "",
    ) -> None:
        """Shows a new state.

        Args:
          learner_row: the last row of learner.csv (`csv_rows.last_row`), without a replay size that
            is out of date; None before the first.
          evaluator_row: the last row of evaluator.csv; None before the first.
          elapsed_seconds: the run's time so far, on the clock of the rows' wall_seconds.
          note: words to add, such as "actor 1 restarted".
        """
        self._state = (dict(learner_row or {}), dict(evaluator_row or {}), elapsed_seconds, note)
        if self.is_live:
            self.refresh()
        elif time.monotonic() - self._printed_at >= _SECONDS_BETWEEN_LINES:
            self._printed_at = time.monotonic()
            self.print(self.line(None))

    def line(self, width: int | None) -> str:
        """Returns the parts of the line that fit `width`; None returns all of it, without a bar."""
        fraction, left = self._left()
        speeds, ratio = self._speeds()
        parts = {
            "left": left,
            "speeds": speeds,
            "ratio": ratio,
            "evaluation": self._evaluation(),
            "note": self._state[3],
        }
        text = " · ".join(filter(None, parts.values()))
        if width is None:
            return text
        for least in ("ratio", "speeds", "evaluation", "note"):
            if len(text) > width:
                del parts[least]
                text = " · ".join(filter(None, parts.values()))
        room = min(_LONGEST_BAR, width - 2 - len(text))
        if fraction is None or room < _SHORTEST_BAR:
            return shortened(text, width)
        full = int(fraction * room)
        return f"{'━' * full}{'╌' * (room - full)}  {text}"

    def _left(self) -> tuple[float | None, str]:
        """Returns the fraction done, None without limits, and the text of what is left."""
        learner, _, elapsed, _ = self._state
        seconds = None if self._budget.minutes is None else 60 * self._budget.minutes
        limits = (
            (elapsed, seconds, ""),
            (learner.get("learner_steps") or 0, self._budget.learner_steps, "learner steps"),
            (learner.get("actor_steps") or 0, self._budget.actor_steps, "actor steps"),
        )
        parts = [
            (min(1.0, at / limit) if limit > 0 else 1.0, max(0, limit - at), unit)
            for at, limit, unit in limits
            if limit is not None
        ]
        if not parts:
            return None, f"{_clock(elapsed)} elapsed"
        fraction, left, unit = max(parts, key=lambda part: part[0])
        return fraction, f"{left:,.0f} {unit} left" if unit else f"{_clock(left)} left"

    def _speeds(self) -> tuple[str, str]:
        """Returns two texts: speeds, or what the learner waits for, and samples per insert."""
        learner = self._state[0]
        if not learner:
            return "", ""
        acting, learning = (
            _count(learner.get(f"{side}_steps_per_second")) for side in ("actor", "learner")
        )
        size = learner.get("replay_size", self._min_replay_size) or 0
        if size < self._min_replay_size:
            waits = f"filling replay {size:,}/{self._min_replay_size:,}"
            return f"{waits} · {acting} actor steps/s", ""
        if not learner.get("learner_steps"):
            return f"no update yet · {acting} actor steps/s", ""
        ratio = learner.get("samples_per_insert")
        words = "" if ratio is None else f"{_short(ratio)} samples per insert"
        return f"{acting} actor and {learning} learner steps/s", words

    def _evaluation(self) -> str:
        _, evaluator, elapsed, _ = self._state
        if not evaluator:
            return ""
        mean, std = (evaluator[f"episode_return_{name}"] for name in ("mean", "std"))
        age = max(0.0, elapsed - evaluator["wall_seconds"])
        return f"return {_short(mean)} ± {_short(std)}, {_clock(age)} ago"


def _clock(seconds: float) -> str:
    """Returns "1:23:45", or "23:45" within the hour."""
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def _count(number: float | None) -> str:
    if number is None:
        return "–"
    return f"{number:,.0f}" if number >= 10 else f"{number:.1f}"


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def result_of(run: RunDirectory, title: str, finished: bool) -> str:
    """Draws the learning curve of a run and returns the lines that say how it ended.

    Args:
      run: the directory of the run.
      title: agent and environment.
      finished: whether the run has reached its limits.
    """
    over = "finished: " if finished else ""
    try:
        return over + _words(run, title)
    except UserError as error:  # the run itself is as good without its picture
        return f"{over}the evaluations cannot be shown: {error}"


def _words(run: RunDirectory, title: str) -> str:
    evaluation = csv_rows.last_row(run.evaluator_csv, csv_rows.RESULT)
    if evaluation is None:
        return f"no evaluation; the logs are in {run.logs}"
    from common.reporting import curves

    picture = run.path / "learning_curve.png"
    try:
        curves.learning_curve(run, picture, title)
        drawn = f"learning curve {picture}"
    except ImportError as error:
        drawn = f'no learning curve, which needs the extra "figures": {error}'
    except OSError as error:  # a full disk, or somebody's directory of this name
        drawn = f"no learning curve: {picture} cannot be written ({error.strerror})"
    count = evaluation["episodes"]
    return (
        f"evaluator return {evaluation['episode_return_mean']:.1f} +- "
        f"{evaluation['episode_return_std']:.1f} ({count} episode{'s' * (count > 1)}) after "
        f"{evaluation['wall_seconds']:.0f} s, {evaluation['actor_steps']:,} actor steps, "
        f"{evaluation['learner_steps']:,} learner steps\n{drawn}"
    )


def require_updates(run: RunDirectory) -> None:
    """Raises UserError if a run that is over has rows in learner.csv, but made no update."""
    try:
        row = csv_rows.last_row(run.learner_csv, csv_rows.PROGRESS)
    except CsvError:  # `result_of` reports it
        return
    if row is not None and not row["learner_steps"]:
        raise UserError(
            f"the run in {run.path} made no updates: it reached its limit after "
            f"{row['wall_seconds']:.0f} s and {row['actor_steps']:,} actor steps; raise the limit, "
            "or lower --config.min_replay_size if the agent has it"
        )


def has_ended(run: RunDirectory, limits: Budget) -> bool:
    """Returns whether the newest start in run.json had these limits and has reached them."""
    ended = {"outcome": "finished", "budget": limits.to_json()}
    return any(start.items() >= ended.items() for start in run.read_starts()[-1:])


def is_over(run: RunDirectory, limits: Budget) -> bool:
    """Returns whether a run has reached its limits, and so has its last evaluation.

    The last evaluation must be of the last update. If nothing evaluates the run, so that it has no
    evaluator.csv, run.json alone tells whether it is over.
    """
    row = csv_rows.last_row(run.evaluator_csv, csv_rows.PROGRESS)
    is_finished = has_ended(run, limits)
    if row is None:
        return is_finished and not run.evaluator_csv.exists()
    learnt = csv_rows.last_row(run.learner_csv, ("learner_steps",))
    is_newest = learnt is None or row["learner_steps"] >= learnt["learner_steps"]
    return is_newest and (
        limits.reached_by(row) or (is_finished and limits.episode_return is not None)
    )
