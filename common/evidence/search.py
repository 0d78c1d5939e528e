"""A search for hyperparameters with Optuna: each trial is a run, which may end early.

Optuna is an optional package, imported only when a search runs. A study is an SQLite file next to
the run directories, so that the same command continues it. An interrupted trial resumes its run.
"""

import collections
from collections.abc import Callable, Mapping, Sequence
import contextlib
import dataclasses
import math
import pathlib
import queue
import threading
from typing import Any

from common.cluster.processes import StopRequest
from common.config import Config
from common.evidence.effects import late_mean
from common.evidence.execute import Slot, log_of, start, wait
from common.evidence.paper import EPISODE_RETURN
from common.evidence.plan import Plan, PlannedRun, State
from common.evidence.sweep import SweepError, values_of
from common.reporting.command_line import say
from common.reporting.csv_rows import RESULT, read_numbers
from common.reporting.run_directory import RunDirectory
from common.user_error import UserError

_PARTS = 8
"""Number of parts of a run. Trials are compared at the first evaluation in each part."""
_FACTOR = 10.0
"""Largest factor between a tried value and the setting's, where the field has no bound. A range
whose bounds differ by this factor or more is logarithmic."""


@dataclasses.dataclass(frozen=True)
class Range:
    """The values of a hyperparameter that a search tries.

    Attributes:
      choices: the values themselves; () for all values from `low` to `high`.
      low: lowest value.
      high: highest value.
      is_log: whether values are drawn on a logarithmic scale.
      is_whole: whether values are whole numbers.
    """

    choices: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    is_log: bool = False
    is_whole: bool = False

    def suggest(self, trial: Any, name: str) -> str:
        """Returns a trial's value as the text of a flag; floats have four significant digits."""
        if self.choices:
            return trial.suggest_categorical(name, self.choices)
        if self.is_whole:
            return str(trial.suggest_int(name, int(self.low), int(self.high), log=self.is_log))
        return f"{trial.suggest_float(name, self.low, self.high, log=self.is_log):.4g}"


def ranges(texts: Sequence[str], config: Config) -> dict[str, Range]:
    """Returns the ranges of hyperparameters by flag.

    Args:
      texts: "config.NAME" for the range of the field, which is narrowed to a factor of ten around
        the setting's value if a bound is missing; "config.NAME=LOW..HIGH"; or "config.NAME=A,B,C".
      config: the setting's hyperparameters.

    Raises:
      SweepError: there is no such hyperparameter, or it has no range.
    """
    fields = {f"config.{each.name}": each for each in dataclasses.fields(config)}
    found: dict[str, Range] = {}
    for text in texts:
        name, _, values = text.removeprefix("--").partition("=")
        ends = values.split("..")
        if len(ends) == 2:
            found[name] = _between(ends, text, fields.get(name))
        elif values:
            found[name] = Range(choices=values_of(values))
        elif name in fields:
            found[name] = _of_field(fields[name], getattr(config, fields[name].name))
        else:
            raise SweepError(
                f"--vary {text}: only hyperparameters (config.NAME) have a default range: give "
                "values"
            )
    return found


def _between(ends: Sequence[str], text: str, each: dataclasses.Field | None) -> Range:
    with contextlib.suppress(ValueError):
        low, high = map(float, ends)
        if math.isfinite(low) and low < high < math.inf:
            return _range(low, high, bool(each and each.type is int))
    raise SweepError(f"--vary {text}: a range is LOW..HIGH, as in 1e-5..1e-3")


def _range(low: float, high: float, is_whole: bool) -> Range:
    is_log = low > 0 and high >= _FACTOR * low
    return Range((), max(low, 1) if is_log and is_whole else low, high, is_log, is_whole)


def _of_field(each: dataclasses.Field, value: Any) -> Range:
    bounds, choices = each.metadata["bounds"], each.metadata["choices"]
    if choices or each.type is bool:
        return Range(choices=tuple(choices) or ("true", "false"))
    low = bounds.get("minimum", bounds.get("above", -math.inf))
    high = bounds.get("maximum", bounds.get("below", math.inf))
    is_number = each.type in (int, float)
    if is_number and value and not (math.isfinite(low) and math.isfinite(high)):
        around = sorted((value / _FACTOR, value * _FACTOR))
        low, high = max(low, around[0]), min(high, around[1])
    if not (is_number and math.isfinite(low) and math.isfinite(high)):
        raise SweepError(
            f"--vary config.{each.name}: there is no default range around {value!r}: give one, "
            f"config.{each.name}=LOW..HIGH, or values"
        )
    # An exclusive bound moves inwards: by a thousandth of the range, or by 1 for whole numbers.
    margin = (high - low) / 1000 if each.type is float else 1
    low += margin * ("above" in bounds and low == bounds["above"])
    high -= margin * ("below" in bounds and high == bounds["below"])
    return _range(low, high, each.type is int)


class _UnfinishedError(Exception):
    """A trial that the user stopped, or whose run failed."""


def run(
    plan_of: Callable[[Mapping[str, str]], Plan],
    tried: Mapping[str, Range],
    num_trials: int,
    slots: Sequence[Slot],
    file: pathlib.Path,
    stop: StopRequest,
) -> list[dict[str, object]]:
    """Runs trials until there are enough; returns a row for each, the best completed one first.

    Args:
      plan_of: returns the plan, with a single run, for given values of flags.
      tried: ranges by flag.
      num_trials: number of finished trials in the study, including those of earlier starts.
      slots: slots for the trials' runs, one run at a time in each.
      file: the SQLite file of the study.
      stop: an installed request to stop.

    Raises:
      SweepError: Optuna is not installed.
    """
    try:
        import optuna
    except ImportError:
        raise SweepError(
            "--search=optuna needs the package optuna: run `.venv/bin/pip install optuna`, or "
            "install this project with the extra [search]"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # failed trials are reported below
    file.parent.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(
        storage=f"sqlite:///{file}",
        study_name=" ".join(tried),
        direction="maximize",
        pruner=optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=2),
        load_if_exists=True,
    )
    # Repeatable except for the timing of pruning. A later start must not repeat the values.
    study.sampler = optuna.samplers.TPESampler(seed=len(study.trials))
    states = optuna.trial.TrialState
    for trial in study.get_trials(states=(states.RUNNING,)):  # left by a killed search
        study.tell(trial.number, state=states.FAIL)
    open_or_done = study.get_trials(states=(states.COMPLETE, states.PRUNED, states.WAITING))
    known = [each.system_attrs.get("fixed_params", each.params) for each in open_or_done]
    for trial in study.get_trials(states=(states.FAIL,)):  # interrupted ones: the same values again
        if not trial.user_attrs.get("failed") and trial.params not in known:
            study.enqueue_trial(trial.params)
            known.append(trial.params)
    free: queue.SimpleQueue[Slot] = queue.SimpleQueue()
    for slot in slots:
        free.put(slot)
    lock = threading.Lock()  # planning a run may create an environment
    # Trials with equal values have the same run: the second trial waits for the first.
    in_use: dict[pathlib.Path, threading.Lock] = collections.defaultdict(threading.Lock)

    def objective(trial: Any) -> float:
        values = {name: each.suggest(trial, name) for name, each in tried.items()}
        words = f"trial {trial.number}, {', '.join('='.join(pair) for pair in values.items())}"
        try:
            with lock:
                plan = plan_of(values)
                is_free = in_use[plan.runs[0].directory]
            with is_free:
                slot = free.get()
                say(f"{words}: started")
                try:
                    value = _value_of(plan, slot, trial, stop)
                finally:
                    free.put(slot)
        except UserError as error:  # values that cannot be combined
            trial.set_user_attr("failed", str(error))
            raise _UnfinishedError from None
        finally:
            if why := trial.user_attrs.get("failed"):
                say(f"{words}: failed: {why}")
        say(f"{words}: late mean {value:.4g}")
        return value

    def end_if_stopped(study: Any, trial: Any) -> None:
        if stop.requested:
            study.stop()

    done = (states.COMPLETE, states.PRUNED)
    missing = num_trials - len(study.get_trials(states=done))
    say(f"{max(0, missing)} of {num_trials} trials left, {len(slots)} at once; study {file}")
    if missing > 0 and not stop.requested:
        study.optimize(
            objective,
            missing,
            n_jobs=len(slots),
            catch=(_UnfinishedError,),
            callbacks=[end_if_stopped],
        )
    rows = [
        {**trial.params, "late_mean": trial.value, "state": trial.state.name.lower()}
        for trial in study.get_trials(states=done)
    ]
    return sorted(rows, key=lambda row: (row["state"], -row["late_mean"]))


def _value_of(plan: Plan, slot: Slot, trial: Any, stop: StopRequest) -> float:
    """Executes the run of a trial unless it is finished; returns its late mean.

    Raises:
      optuna.TrialPruned: the run is worse than the median of the other trials at the same stage.
      _UnfinishedError: the user stopped the search, or the run failed.
    """
    import optuna

    (planned,) = plan.runs
    told: set[int] = set()
    if planned.read_status().state is not State.FINISHED:

        def watch() -> None:
            _tell(planned, trial, told)
            if trial.should_prune():
                raise optuna.TrialPruned

        wait(start(planned, slot), stop, watch)
    status = planned.read_status()
    if status.state is not State.FINISHED:
        if not stop.requested:
            where = f"in {log_of(planned)}" if slot else "above"
            reason = status.note or f"the output of its run is {where}"
            trial.set_user_attr("failed", reason)
        raise _UnfinishedError
    columns = (plan.experiment.x or "wall_seconds", EPISODE_RETURN)
    rows = read_numbers(RunDirectory(planned.directory).evaluator_csv, columns)
    return late_mean(rows.set_axis(["x", "value"], axis="columns"))


def _tell(planned: PlannedRun, trial: Any, told: set[int]) -> None:
    """Reports the first evaluation in each part of the run."""
    rows = read_numbers(RunDirectory(planned.directory).evaluator_csv, RESULT)
    for *done, mean, _, _ in rows.itertuples(index=False):  # in the order of PROGRESS
        part = int(_PARTS * planned.budget.fraction(*done))
        if part not in told:
            told.add(part)
            trial.report(mean, part)
