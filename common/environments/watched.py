"""A guard around the environments of a role: it names those that hang, give NaN or break specs."""

from collections.abc import Callable, Iterator
import contextlib
import os
import sys
import threading
import time
from typing import Any

import dm_env
import numpy as np
import tree

from common.environments.batch import EnvironmentBatch
from common.environments.environment_errors import BrokenSpecError, UnusableEnvironmentError

STALL_SECONDS = 60.0
"""An environment that has not returned from a call for so long hangs."""
MAKE_SECONDS = 10 * STALL_SECONDS
"""Environments of a role that are not made after so long hang."""


def end_process(message: str) -> None:
    """Ends this process from any thread with exit code 1, so that a launcher restarts it."""
    print(f"error: {message}", file=sys.stderr, flush=True)
    os._exit(1)


@contextlib.contextmanager
def making(
    name: str, on_stall: Callable[[str], None] = end_process, seconds: float = STALL_SECONDS
) -> Iterator[None]:
    """Calls `on_stall` with a message, from a thread, if the `with` block takes longer.

    Args:
      name: of the environment that the block makes, for the message.
      on_stall: what to call.
      seconds: longest duration of the block.
    """
    message = (
        f"{name} has not been made after {seconds:g} s: the function that makes it, its first "
        "reset or its first step hangs"
    )
    timer = threading.Timer(seconds, on_stall, [message])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class WatchedBatch:
    """An `EnvironmentBatch` that checks what another one gives.

    Args:
      environments: the batch to watch.
      name: of the environment, for messages.
      on_stall: called once, with a message, from a thread, if a call takes `stall_seconds`.
      stall_seconds: longest duration of a call before `on_stall`.
    """

    def __init__(
        self,
        environments: EnvironmentBatch,
        name: str,
        on_stall: Callable[[str], None] = end_process,
        stall_seconds: float = STALL_SECONDS,
    ):
        self._environments = environments
        self._name = name
        self._on_stall = on_stall
        self._stall_seconds = stall_seconds
        self._ones = np.ones(environments.num_environments, np.float32).tobytes()
        self._timestep = 0
        self._busy_since: float | None = None
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="watch", daemon=True).start()

    @property
    def num_environments(self) -> int:
        """The number of environments, K."""
        return self._environments.num_environments

    def observation_spec(self) -> Any:
        """Returns the observation spec of one environment, without the batch dimension."""
        return self._environments.observation_spec()

    def action_spec(self) -> Any:
        """Returns the action spec of one environment, without the batch dimension."""
        return self._environments.action_spec()

    def reset(self) -> dm_env.TimeStep:
        """Starts an episode in each environment."""
        return self._checked(self._environments.reset)

    def step(self, actions: np.ndarray) -> dm_env.TimeStep:
        """Takes one row of `actions`, [K, ...], in each environment.

        Raises:
          UnusableEnvironmentError: a reward, a discount or an observation is not finite.
          BrokenSpecError: one of them is not what it has to be; a discount is in [0, 1].
        """
        return self._checked(self._environments.step, actions)

    def close(self) -> None:
        """Frees the environments and ends the watch."""
        self._closed.set()
        self._environments.close()

    def _checked(self, function: Callable[..., dm_env.TimeStep], *args) -> dm_env.TimeStep:
        self._busy_since = time.monotonic()
        try:
            timestep = function(*args)
        except BrokenSpecError as error:
            raise BrokenSpecError(
                f"{self._name}: {error}, at timestep {self._timestep + 1} of this process: correct "
                "the environment"
            ) from None
        finally:
            self._busy_since = None
        self._timestep += 1
        observations = [one for one in tree.flatten(timestep.observation) if one.dtype.kind == "f"]
        self._check("reward", timestep.reward)
        if timestep.discount.tobytes() != self._ones:  # this is quicker than NumPy's comparison
            self._check_discount(timestep.discount)
        for observation in observations:
            self._check("observation", observation)
        return timestep

    def _check(self, name: str, array: np.ndarray) -> None:
        if np.isfinite(array).all():
            return
        is_finite = np.isfinite(array.reshape(len(array), -1)).all(axis=1)
        index = int(np.flatnonzero(~is_finite)[0])
        raise UnusableEnvironmentError(self._complaint(f"a {name} that is not finite", index))

    def _check_discount(self, discount: np.ndarray) -> None:
        self._check("discount", discount)
        for index in np.flatnonzero((discount < 0.0) | (discount > 1.0)):
            what = f"a discount of {discount[index]:g}, which is not in [0, 1]"
            raise BrokenSpecError(self._complaint(what, int(index)))

    def _complaint(self, what: str, index: int) -> str:
        return (
            f"{self._name} gave {what}, in environment {index} of this process at its timestep "
            f"{self._timestep}: correct the environment"
        )

    def _watch(self) -> None:
        while not self._closed.wait(1.0):
            since = self._busy_since
            if since is not None and time.monotonic() - since > self._stall_seconds:
                self._on_stall(
                    f"{self._name} has not returned from a step for {self._stall_seconds:g} s, at "
                    f"timestep {self._timestep} of this process"
                )
                return
