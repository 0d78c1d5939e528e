"""Credentials of a role: the cluster's token and the run's fingerprint.

Every call between roles carries a proof of the token and the fingerprint. The transport
(`common.cluster.rpc`) compares them in each call, so that no role can forget to and a restarted
role is checked again. The token is a secret. It is never sent, and never passed as a flag, because
every user of a machine can read its command lines. This module does not import TensorFlow.
"""

from collections.abc import Mapping
import dataclasses
import functools
import hashlib
import hmac
import json
import os
import secrets
import stat
from typing import Any

from common.cluster.errors import ClusterError, OtherRunError
from common.reporting.run_directory import differences, listed


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

    def server_proof(self, address: str, identity: str, nonce: str) -> str:
        """Returns a server's proof for a nonce; a recorded proof does not fit another nonce."""
        return self._proof("server", address, identity, nonce)

    def client_proof(self, address: str, identity: str) -> str:
        """Returns the proof that calls to a server present; only this start of it accepts them."""
        return self._proof("client", address, identity)

    def _proof(self, *facts: str) -> str:
        """Returns the HMAC-SHA256 of facts under the token, in hexadecimal."""
        return hmac.new(self.token.encode(), json.dumps(facts).encode(), "sha256").hexdigest()

    def describe(self) -> str:
        """Returns role and run as JSON, which the other side passes to `other_run`."""
        return json.dumps({"role": self.role, "run": self.run})

    def other_run(self, address: str, description: str) -> OtherRunError:
        """Returns the error that lists how the service's run differs from this one.

        Args:
          address: the service's address.
          description: the service's `describe()`.
        """
        there = json.loads(description)
        found = differences(there["run"], self.run)
        said = listed(found, "{name} is {here} here and {there} there")
        return OtherRunError(
            f"this {self.role} and the {there['role']} at {address} belong to different runs: "
            f"{said}; start every role with the same flags and the same cluster in TF_CONFIG"
        )


TOKEN_VARIABLE = "REPLAY_RL_TOKEN"
TOKEN_FILE_VARIABLE = "REPLAY_RL_TOKEN_FILE"
MIN_TOKEN_LENGTH = 16


def new_token() -> str:
    """Returns a new token: 256 random bits as text."""
    return secrets.token_urlsafe(32)


def load_token(environment: Mapping[str, str] = os.environ) -> str:
    """Returns the token in `REPLAY_RL_TOKEN`, or in the file that `REPLAY_RL_TOKEN_FILE` names.

    Raises:
      ClusterError: no token is set, it is shorter than 16 characters, or every user can read or
        write its file. A group may read it, as with Kubernetes secrets.
    """
    if environment.get(TOKEN_VARIABLE):
        return _checked(environment[TOKEN_VARIABLE], TOKEN_VARIABLE)
    if environment.get(TOKEN_FILE_VARIABLE):
        return _from_file(environment[TOKEN_FILE_VARIABLE])
    raise ClusterError(
        f"no cluster token: set {TOKEN_VARIABLE} to the same secret for every role, or "
        f"{TOKEN_FILE_VARIABLE} to a file with it (`openssl rand -hex 32` generates one)"
    )


def load_or_create_token(environment: Mapping[str, str] = os.environ) -> str:
    """Returns `load_token(environment)`, or a new token if neither variable is set.

    Intended for launchers, which pass the token to the roles in their environment.
    """
    if environment.get(TOKEN_VARIABLE) or environment.get(TOKEN_FILE_VARIABLE):
        return load_token(environment)
    return new_token()


def _from_file(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ClusterError(
            f"cannot read the token file {path!r} of {TOKEN_FILE_VARIABLE}: {reason}"
        ) from None
    if mode & (stat.S_IROTH | stat.S_IWOTH):
        raise ClusterError(
            f"the token file {path!r} of {TOKEN_FILE_VARIABLE} is open to every user "
            f"(mode {stat.S_IMODE(mode):o}): run `chmod 600` on it"
        )
    return _checked(text, f"the file {path!r} of {TOKEN_FILE_VARIABLE}")


def _checked(text: str, source: str) -> str:
    token = text.strip()
    if not token.isprintable():
        raise ClusterError(f"the token in {source} contains control characters: use another token")
    if len(token) < MIN_TOKEN_LENGTH:
        raise ClusterError(
            f"the token in {source} has {len(token)} characters, but needs at least "
            f"{MIN_TOKEN_LENGTH}: `openssl rand -hex 32` generates one"
        )
    return token
