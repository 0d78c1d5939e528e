"""The secret token that every call between the roles of a cluster carries.

It is never passed as a flag, because every user of a machine can read its command lines.
"""

from collections.abc import Mapping
import os
import secrets
import stat

from common.cluster.errors import ClusterError

TOKEN_VARIABLE = "REPLAY_RL_TOKEN"
TOKEN_FILE_VARIABLE = "REPLAY_RL_TOKEN_FILE"
MIN_LENGTH = 16


def new_token() -> str:
    """Returns a new token: 256 random bits as text."""
    return secrets.token_urlsafe(32)


def load(environment: Mapping[str, str] = os.environ) -> str:
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
        f"{TOKEN_FILE_VARIABLE} to a file with it (`openssl rand -hex 32` makes one)"
    )


def load_or_create(environment: Mapping[str, str] = os.environ) -> str:
    """Returns `load(environment)`, or a new token if neither variable is set.

    Intended for launchers, which pass the token to the roles in their environment.
    """
    if environment.get(TOKEN_VARIABLE) or environment.get(TOKEN_FILE_VARIABLE):
        return load(environment)
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
        raise ClusterError(f"the token in {source} has control characters: write another one")
    if len(token) < MIN_LENGTH:
        raise ClusterError(
            f"the token in {source} has {len(token)} characters, but needs at least {MIN_LENGTH}: "
            "`openssl rand -hex 32` makes one"
        )
    return token
