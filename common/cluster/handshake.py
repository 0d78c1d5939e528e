"""Credentials that every call carries: the cluster's token and a fingerprint of the run.

The transport (`common.cluster.rpc`) compares them in each call, so that no role can forget to and a
restarted role is checked again. This module does not import TensorFlow.
"""

from collections.abc import Mapping
import dataclasses
import functools
import hashlib
import json
from typing import Any

from common.cluster.errors import OtherRunError
from common.reporting.differences import differences, listed


@dataclasses.dataclass(frozen=True)
class Credentials:
    """Identity of a caller or of a service.

    Attributes:
      token: the cluster's secret.
      role: name of this process's role, for messages.
      run: the facts that identify the run, as nested mappings that JSON can hold. None matches
        every run: tools and tests may know only the token.
    """

    token: str
    role: str = "process"
    run: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, credentials: "str | Credentials") -> "Credentials":
        """Returns credentials unchanged, or credentials that hold only the given token."""
        return cls(credentials) if isinstance(credentials, str) else credentials

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 of `run` in hexadecimal, equal for equal runs; empty if `run` is None."""
        if self.run is None:
            return ""
        text = json.dumps(self.run, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def describe(self) -> str:
        """Returns role and run as JSON, which the other side passes to `other_run`."""
        return json.dumps({"role": self.role, "run": self.run})

    def other_run(self, address: str, description: str) -> OtherRunError:
        """Returns the error that lists how the service's run differs from this one.

        Args:
          address: of the service.
          description: the service's `describe()`.
        """
        there = json.loads(description)
        found = differences(there["run"], self.run)
        said = listed(found, "{name} is {here} here and {there} there")
        return OtherRunError(
            f"this {self.role} and the {there['role']} at {address} belong to different runs: "
            f"{said}; start every role with the same flags and the same cluster in TF_CONFIG"
        )
