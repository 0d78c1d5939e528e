"""Runs whose roles a test starts by hand, through TF_CONFIG, and nobody restarts."""

import signal

from watched_run import TOKEN, WatchedRun

from common.cluster import rpc
from common.cluster.topology import Topology
from common.program.layouts import DISTRIBUTED


class RunByHand(WatchedRun):
    """A run.

    Args:
      start: starts forks, see `forked`.
      workdir: of the run; logs go to its parent.
      module: the agent's program.
      flags: of all roles.
      layout: of the run.
      **counts: tasks by job that the cluster lists.
    """

    def __init__(self, start, workdir, module, flags, layout=DISTRIBUTED, **counts):
        super().__init__(workdir)
        self.topology = Topology.local(layout.roles, counts)
        self._start, self._module, self._flags = start, module, flags

    def start(self, role, index=0, *flags, **variables):
        """Starts a task of a role, with more flags."""
        return self._start(
            self.workdir.parent / f"{role}-{index}.log",
            *(self._module, *self._flags, f"--workdir={self.workdir}", f"--role={role}", *flags),
            TF_CONFIG=self.topology.to_tf_config(role, index),
            REPLAY_RL_TOKEN=TOKEN,
            **variables,
        )

    def client(self, role, index=0):
        """A client of a service."""
        return rpc.Client(self.topology.address(role, index), TOKEN)

    def ends(self, programs, seconds):
        """Waits until all have ended with exit code 0."""
        for program in programs:
            assert program.wait(seconds) == 0, program.output
            assert "Traceback" not in program.output, program.output

    def stops(self, programs, seconds):
        """Stops all with SIGTERM and waits until they have ended in order."""
        for program in programs:
            program.stop()
        for program in programs:
            assert program.wait(seconds) == 128 + signal.SIGTERM, program.output
            assert "Traceback" not in program.output, program.output
