"""The evaluator's process: periodic evaluation of the published policy without exploration.

An evaluation runs episodes with one version of the policy and adds a row to evaluator.csv.
"""

from collections.abc import Callable
import contextlib
import functools
import json
import math
import pathlib
import time
from typing import Any, TypeVar

from absl import logging
import numpy as np
import tensorflow as tf

from common import environments
from common.acting.policy import Policy, state_at
from common.agents.trained import restore_newest
from common.cluster.errors import ServiceUnavailableError
from common.cluster.processes import Patience, StopRequest, report_ready
from common.environments import start_states, watch
from common.environments.batch import (
    FIRST,
    LAST,
    BatchedEnvironment,
    EnvironmentBatch,
    WatchedBatch,
)
from common.learning import checkpoint
from common.learning.bookkeeping import SavedCounters
from common.learning.checkpoint import StoredPolicy
from common.networks import packing
from common.remote.parameters import LearnerStatus, ParameterClient, Snapshot
from common.reporting import csv_rows
from common.reporting.budget import EPISODE_STEPS
from common.reporting.csv_rows import CsvRows
from common.reporting.progress import has_ended
from common.reporting.records import (
    read_json,
    replace_file,
    require_keys,
    skipped_if_full,
    when_there_is_room,
    whole_file,
)
from common.reporting.run_directory import RunDirectory
from common.reporting.tensorboard import Events
from common.roles.run_context import RunContext

_EVALUATION = 1_000_003
"""Number in place of an actor's index in the seeds of evaluations; larger than any such index."""
_MAX_ENVIRONMENTS = 10
"""Largest batch of environments; larger ones are no faster."""


def num_environments(num_episodes: int) -> int:
    """Returns the number of environments in an evaluation of `num_episodes` episodes.

    It is the minimum that needs no more rounds of episodes than `_MAX_ENVIRONMENTS`.
    """
    rounds = math.ceil(num_episodes / _MAX_ENVIRONMENTS)
    return math.ceil(num_episodes / rounds)


def environment_seeds(seed: int, num_episodes: int) -> list[int]:
    """Returns the seeds of an evaluation's environments; actors and other runs use others."""
    sequence = np.random.SeedSequence([seed, _EVALUATION])
    return sequence.generate_state(num_environments(num_episodes)).tolist()


def _tell_once(line: str) -> None:
    logging.log_first_n(logging.WARNING, "%s (--max_episode_steps)", 1, line)


def run_episodes(
    environment: EnvironmentBatch,
    policy: Policy,
    num_episodes: int,
    is_stopped: Callable[[], bool] = lambda: False,
    max_steps: int = EPISODE_STEPS,
    tell: Callable[[str], None] = _tell_once,
) -> np.ndarray:
    """Runs `policy` for exactly `num_episodes` episodes and returns their undiscounted returns.

    The number of episodes per environment is fixed in advance, as evenly as possible, because
    taking the first episodes to finish would favour short ones. If episodes have equal lengths, a
    multiple of K episodes wastes no step.

    An episode that has not ended after `max_steps` is cut: its return is the sum of the rewards up
    to that step. It then continues uncounted until its environment ends it. If all environments
    with episodes left to play are in such an episode, the batch is reset.

    Args:
      environment: a batch of K environments, which is reset first.
      policy: acts in all of them.
      num_episodes: at least 1.
      is_stopped: called before each step; the evaluation ends early once it returns True.
      max_steps: number of steps after which an episode is cut.
      tell: called once, with a line of text, if any episode is cut.

    Returns:
      float64 [num_episodes], ordered by environment, then by time; fewer after an early end.
    """
    k = environment.num_environments
    quota = [num_episodes // k + (index < num_episodes % k) for index in range(k)]
    finished: list[list[float]] = [[] for _ in range(k)]
    current, lengths = np.zeros(k, np.float64), np.zeros(k, np.int64)
    is_cut, was_cut = np.zeros(k, bool), False
    remaining = num_episodes

    state = initial_state = policy.initial_state(k)
    timestep = environment.reset()
    while remaining and not is_stopped():
        state = state_at(policy, state, initial_state, timestep)
        action, state, _ = policy(timestep.observation, state)
        timestep = environment.step(action)
        current += timestep.reward
        lengths += timestep.step_type > FIRST
        is_last = timestep.step_type == LAST
        is_long = (lengths == max_steps) & ~is_last
        for index in np.flatnonzero(is_long | (is_last & ~is_cut)):
            if len(finished[index]) < quota[index]:
                finished[index].append(float(current[index]))
                remaining -= 1
        if is_long.any() and not was_cut:
            was_cut = True
            tell(
                f"an episode did not end within {max_steps:,} steps and was cut off there; so will "
                "be later ones. Its return is the sum of the rewards so far"
            )
        is_cut = (is_cut | is_long) & ~is_last
        current[is_last], lengths[is_last] = 0, 0
        if remaining and all(is_cut[i] for i in range(k) if len(finished[i]) < quota[i]):
            timestep = environment.reset()
            current[:], lengths[:], is_cut[:] = 0, 0, False
    return np.concatenate([np.array(returns) for returns in finished])


class Evaluation:
    """The environments and the policy of a run's evaluations.

    The policy acts without exploration noise (D4PG section 4). The best parameters are kept.
    """

    def __init__(self, context: RunContext):
        """Creates the environments, with seeds that no actor and no other run uses."""
        self._context = context
        self._environments = context.watch(
            lambda: environments.make_batch(
                context.environment,
                environment_seeds(context.seed, context.evaluation_episodes),
                evaluation=True,
                frames=context.agent.declaration.num_frames,
            )
        )
        context.closing.callback(self._environments.close)
        self._policy = context.agent.make_evaluator(
            context.spec, self._environments.num_environments
        )
        self._rows = CsvRows(context.directory.evaluator_csv, csv_rows.EVALUATOR)
        self._starts = None
        if context.start_states:
            self._starts = start_states.read(context.start_states, context.environment)
            with contextlib.closing(self._make_started(1)) as started:
                started.reset()  # raises errors now instead of at the end of the run
        self._number, self._camera = 0, None
        if context.film_every:
            self._camera = _Camera(context)
        best = checkpoint.read_policy(context.directory.best_policy, None)
        self._best = best.episode_return if best else -math.inf

    def run(
        self, flat: np.ndarray, status: LearnerStatus, is_interrupted: Callable[[], bool]
    ) -> float | None:
        """Evaluates a snapshot, and writes a row of evaluator.csv unless it is interrupted.

        The last evaluation, with the run's final parameters, also writes the return of each episode
        to evaluation.json, and with them the returns from start states if the run has such a file.
        If an earlier start has written both the file and the row, it is not repeated.
        Every `film_every`-th evaluation, beginning with the first, films an additional episode.

        Args:
          flat: [P] float32, the parameters.
          status: the learner's progress at these parameters. A finished learner's parameters are
            evaluated with `final_episodes` instead of `evaluation_episodes`.
          is_interrupted: called before each step; returns whether to abandon the evaluation.

        Returns:
          The mean return, or None if the evaluation was interrupted.
        """
        context = self._context
        if status.finished:
            known = _last_return(context.directory, status.learner_steps)
            if known is not None:
                return known
        self._policy.load(flat)
        episodes = context.final_episodes if status.finished else context.evaluation_episodes
        returns = run_episodes(
            self._environments, self._policy, episodes, is_interrupted, context.episode_steps
        )
        if len(returns) < episodes:
            logging.info("abandoned the evaluation of learner step %d", status.learner_steps)
            return None
        if self._camera and self._number % context.film_every == 0:
            self._camera.film(flat, context.directory.film(status.learner_steps), is_interrupted)
        self._number += 1
        frames = environments.frames_per_step(context.environment)
        mean, deviation = float(returns.mean()), float(returns.std())
        row = {
            "paper": context.agent.declaration.paper,
            "setting": context.agent.setting,
            "environment": context.environment,
            "seed": context.seed,
            "wall_seconds": round(status.wall_seconds, 2),
            "actor_steps": status.actor_steps,
            "environment_frames": status.actor_steps * frames,
            "learner_steps": status.learner_steps,
            "episode_return_mean": mean,
            "episode_return_std": deviation,
            "episodes": len(returns),
        }
        if status.finished:  # before the row, which says that the run is complete
            record = row | {"episode_returns": returns.tolist()}
            if self._starts:
                returns = self._play_from_starts(episodes, is_interrupted)
                if len(returns) < episodes:
                    return None
                record["from_start_states"] = {
                    "origin": self._starts.origin,
                    "episode_return_mean": float(returns.mean()),
                    "episode_returns": returns.tolist(),
                }
            file, text = context.directory.evaluation_json, json.dumps(record) + "\n"
            when_there_is_room(lambda: replace_file(file, text), context.stop.wait)
        self._rows.append(row)
        if mean > self._best:
            self._best = mean
            found = StoredPolicy(flat, status.learner_steps, mean)
            checkpoint.write_policy(context.directory.best_policy, found)
        return mean

    def _play_from_starts(self, episodes: int, is_interrupted: Callable[[], bool]) -> np.ndarray:
        started = self._make_started(self._environments.num_environments)
        steps = self._context.episode_steps
        with contextlib.closing(started):
            return run_episodes(started, self._policy, episodes, is_interrupted, steps)

    def _make_started(self, count: int) -> BatchedEnvironment:
        context = self._context
        assert self._starts
        frames = context.agent.declaration.num_frames
        return start_states.make_batch(self._starts, count, context.seed, frames)


def _last_return(directory: RunDirectory, learner_steps: int) -> float | None:
    """Returns the mean return of a run's last evaluation; None if it is not written completely."""
    row = csv_rows.last_row(directory.evaluator_csv, csv_rows.RESULT)
    if row is None or row["learner_steps"] != learner_steps:
        return None
    file = directory.evaluation_json
    record = require_keys(file, read_json(file) or {}, {})
    # A kill between the two leaves a record without its row.
    return row["episode_return_mean"] if row.items() <= record.items() else None


class _Camera:
    """Camera for episodes of a policy, each played in a new environment."""

    def __init__(self, context: RunContext):
        # Imported here, because roles without films import this module as well.
        from common.environments import film

        self._context, self._film = context, film
        self._policy = context.agent.make_evaluator(context.spec, 1)
        with contextlib.closing(self._environment()) as drawn:
            drawn.reset()  # raises now if the environment cannot be drawn

    def film(self, flat: np.ndarray, path: pathlib.Path, is_stopped: Callable[[], bool]) -> None:
        """Plays an episode with the parameters [P] and writes its film to `path`."""
        environment, context = self._environment(), self._context
        self._policy.load(flat)
        batch = WatchedBatch(BatchedEnvironment([environment]), context.environment)
        run_episodes(batch, self._policy, 1, is_stopped, context.episode_steps)
        found = environment.film()
        environment.close()
        with skipped_if_full("no film"):
            path.parent.mkdir(exist_ok=True)
            with whole_file(path) as file:
                self._film.write_gif(file, found.frames, found.frame_seconds)

    def _environment(self) -> Any:
        context = self._context
        seed = environment_seeds(context.seed, 1)[0]
        frames = context.agent.declaration.num_frames
        with watch.Call.of_making(context.environment):
            return self._film.FilmedEnvironment(context.environment, seed, True, frames)


_POLL_SECONDS = 1.0
"""Time between requests to the learner about whether the run is over."""
_Answer = TypeVar("_Answer")


def run(context: RunContext) -> None:
    """Evaluates a snapshot every `evaluation_seconds`, and finally the run's last checkpoint.

    When the run ends, the evaluation in progress is abandoned in favour of the last checkpoint's.
    """
    stop, evaluation = context.stop, Evaluation(context)
    client = ParameterClient(context.client(context.topology.keeper_address))
    patience = Patience(f"no answer from the {context.topology.jobs[0].name}")
    version, next_time = 0, time.monotonic()
    while not stop.requested:
        status = _answer(client.latest)
        if status is None or status.finished:
            final = _final_checkpoint(context, is_over=status is not None)
            if final is not None:
                evaluation.run(final.flat, final.status, lambda: stop.requested)
                _show_last(context.directory, final.status.learner_steps)
                return
            patience.check()
        else:
            patience.renew()
            report_ready()
        snapshot = None
        if status is not None and status.learner_steps > 0 and time.monotonic() >= next_time:
            snapshot = _answer(functools.partial(client.read, version))
        if snapshot is None:
            stop.wait(0.5)
            continue
        version = snapshot.status.version
        next_time = time.monotonic() + context.evaluation_seconds
        evaluation.run(snapshot.flat, snapshot.status, _make_interrupt(client, stop))
        patience.renew()  # the episodes may have taken long


def _answer(call: Callable[[], _Answer]) -> _Answer | None:
    """Returns the answer to a call of the learner, or None if it does not answer."""
    try:
        return call()
    except ServiceUnavailableError as error:
        logging.log_every_n_seconds(logging.WARNING, "waiting for the learner: %s", 60, error)
        return None


def _make_interrupt(client: ParameterClient, stop: StopRequest) -> Callable[[], bool]:
    """Returns a function that tells at each step of an evaluation whether to abandon it."""
    next_time = time.monotonic() + _POLL_SECONDS

    def is_interrupted() -> bool:
        nonlocal next_time
        if stop.requested:
            return True
        if time.monotonic() < next_time:
            return False
        status = _answer(client.latest)
        next_time = time.monotonic() + _POLL_SECONDS
        return status is not None and status.finished

    return is_interrupted


def _show_last(directory: RunDirectory, steps: int) -> None:
    """Writes the last evaluation to TensorBoard; the learner, which writes the others, is gone."""
    row = csv_rows.last_row(directory.evaluator_csv, csv_rows.RESULT)
    if row is not None and row["learner_steps"] == steps:
        events = Events(directory.path, goes_on=False)
        result = row["episode_return_mean"], row["episode_return_std"]
        events.write_evaluation(directory, *result, steps)
        events.close()


def _final_checkpoint(context: RunContext, is_over: bool) -> Snapshot | None:
    """Returns the newest checkpoint if it is the run's last, otherwise None.

    Args:
      context: the context of the run.
      is_over: whether the learner has said that the run is over. If not, the checkpoint is the last
        one if it reaches the run's limits, or if run.json says that the run has reached them. The
        latter covers a limit on the return, which a checkpoint does not contain.
    """
    path, progress, counters = context.directory.checkpoints, tf.Module(), SavedCounters()
    progress.steps = tf.Variable(0, dtype=tf.int64, trainable=False)  # without the networks
    if not restore_newest(path, {"learner": progress, "progress": counters}):
        return None
    status = LearnerStatus(
        version=0,
        learner_steps=int(progress.steps),
        actor_steps=int(np.sum(counters.accepted.numpy())),
        wall_seconds=float(counters.wall_seconds),
        finished=True,
    )
    if not (
        is_over
        or context.limits.reached(status.wall_seconds, status.actor_steps, status.learner_steps)
        or has_ended(context.directory, context.limits)
    ):
        return None
    learner = context.agent.make_learner(context.spec, seed=0)
    restore_newest(path, {"learner": learner})
    return Snapshot(status, packing.to_numpy(learner.actor_variables))
