"""What a role presents with each of its calls: the cluster's token, and which run it is of.

It goes with the transport (`common.cluster.rpc`), so no role can forget to compare, and one that
comes back is compared anew without anybody's doing. This module does not import TensorFlow.
"""

from collections.abc import Mapping
import dataclasses
import functools
import hashlib
import json
from typing import Any

from common.cluster.errors import OtherRunError
from common.reporting.differences import differences


@dataclasses.dataclass(frozen=True)
class Credentials:
    """Who calls, or who serves.

    Attributes:
        token: the secret of the cluster.
        role: what this process is, for messages.
        run: what makes the run what it is, nested mappings that JSON can hold. None, of tools and
            tests that know no more than the token, fits every run.
    """

    token: str
    role: str = "process"
    run: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, credentials: "str | Credentials") -> "Credentials":
        """Returns credentials as they are, or those of a token alone."""
        return cls(credentials) if isinstance(credentials, str) else credentials

    @functools.cached_property
    def fingerprint(self) -> str:
        """Equal for equal runs; empty without one."""
        if self.run is None:
            return ""
        text = json.dumps(self.run, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def describe(self) -> str:
        """Returns role and run as text, for `other_run` at the other end."""
        return json.dumps({"role": self.role, "run": self.run})

    def other_run(self, address: str, description: str) -> OtherRunError:
        """Returns the error that says how the service at `address` differs from this role."""
        there = json.loads(description)
        found = differences(there["run"], self.run)
        said = ", ".join(
            f"{key} is {here} here and {other} there" for key, (other, here) in found.items()
        )
        return OtherRunError(
            f"this {self.role} and the {there['role']} at {address} are not of one run: {said}; "
            "start every role with the same flags, and the same cluster in TF_CONFIG"
        )
