"""A worker's learner step: its gradients are computed here and applied by a parameter server."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from common.cluster.errors import ServiceUnavailableError
from common.cluster.processes import StopRequest
from common.learning.learner import Learner
from common.networks import packing
from common.remote.gradients import GradientSender
from common.remote.parameters import ParameterClient, Snapshot
from common.types import Batch, Metrics, Nest

_RETRY_SECONDS = 0.2


class RemoteStep:
    """Learner steps with the server's newest parameters (Reactor, section 3.4).

    It takes the place of an `UpdateLoop` in a `Trainer`, and is the source of the parameters
    for the worker's actors.

    Attributes:
      num_updates: 1, updates per call.
      num_samples: items per update.
    """

    num_updates = 1

    def __init__(
        self,
        learner: Learner,
        online: ParameterClient,
        target: ParameterClient,
        updates: GradientSender,
        metrics: Sequence[str],
        batch_size: int,
        jit_compile: bool,
        stop: StopRequest,
    ):
        """Prepares the graph.

        Args:
          learner: computes gradients, one for each of its `actor_variables`, in their order.
          online: reads the network.
          target: reads the target network.
          updates: sends the gradients.
          metrics: names of the learner's metrics, in the order in which they are sent.
          batch_size: items per update.
          jit_compile: whether XLA compiles the gradients.
          stop: ends the waits.
        """
        self._learner = learner
        self._online, self._target = online, target
        self._updates = updates
        self._metrics = metrics
        self.num_samples = batch_size
        self._stop = stop
        self._snapshot: Snapshot | None = None
        self._target_version = 0
        self._gradients = tf.function(
            self._packed_gradients, jit_compile=jit_compile, autograph=False
        )
        self._assign_online = packing.loader(learner.actor_variables)
        self._assign_target = packing.loader(learner.target_variables)

    @property
    def version(self) -> int:
        """Version of the newest snapshot here, 0 before the first."""
        return self._snapshot.status.version if self._snapshot else 0

    @property
    def finished(self) -> bool:
        """True if the newest snapshot here is the run's last."""
        return self._snapshot is not None and self._snapshot.status.finished

    @property
    def steps(self) -> int:
        """Learner steps of the newest snapshot here."""
        return self._snapshot.status.learner_steps if self._snapshot else 0

    @property
    def wall_seconds(self) -> float:
        """Seconds from the run's first start to the newest snapshot here."""
        return self._snapshot.status.wall_seconds if self._snapshot else 0.0

    def parameters(self) -> np.ndarray:
        """Returns the network's parameters, [P] float32, of the newest snapshot here."""
        assert self._snapshot is not None
        return self._snapshot.flat

    def download(self) -> bool:
        """Reads the newest network, and the target if it has changed.

        Returns:
          False if a stop was requested before there was any.

        Raises:
          ClusterError: the server refuses this worker, or does not answer for too long.
        """
        while not self._stop.requested:
            try:
                target = self._target.read(if_newer_than=self._target_version)
                online = self._online.read(if_newer_than=self.version)
            except ServiceUnavailableError as error:
                self._updates.wait_for_server(error)
                continue
            if target is not None:
                self._assign_target(target.flat)
                self._target_version = target.status.version
            if online is not None:
                self._assign_online(online.flat)
                self._learner.steps.assign(online.status.learner_steps)
                self._snapshot = online
            if self._snapshot is not None:
                return True
            self._stop.wait(_RETRY_SECONDS)
        return False

    def __call__(self, samples: Batch) -> tuple[Nest, Metrics]:
        """Learns from `num_samples` items; see `UpdateLoop`."""
        self.download()
        flat, outputs, metrics = self._gradients(samples)
        self._updates.push(self.steps, flat, tf.stack([metrics[name] for name in self._metrics]))
        self._learner.steps.assign_add(1)  # its own: the next draw has another seed
        return outputs, metrics

    def _packed_gradients(self, batch: Batch):
        gradients, outputs, metrics = self._learner.gradients(batch)
        return packing.pack(tf.nest.flatten(gradients)), outputs, metrics
