"""The provenance of a result besides its config: code, versions of packages, machine."""

from collections.abc import Sequence
from importlib import metadata
import os
from pathlib import Path
import platform
import shlex
import shutil
import subprocess
from typing import Any

_DIFF_BYTES = 200_000
_PACKAGES = (
    "tensorflow",
    "tf-keras",
    "tensorflow-probability",
    "dm-sonnet",
    "dm-env",
    "dm_control",
    "mujoco",
    "gymnasium",
    "ale-py",
    "absl-py",
    "ml_collections",
    "numpy",
)


def git(directory: Path = Path(__file__).parent) -> dict[str, Any]:
    """Returns the state of the working tree that holds `directory`, by default this code's.

    Its folder results/ is left out: what runs leave there changes no later run.

    Returns:
      commit: hash, or None without git, a repository or a commit.
      dirty: whether the tree differs from the commit; None where the commit is None.
      status: the lines of `git status --porcelain`, so that untracked files are named.
      diff: of tracked files against the commit, at most 200 kB.
      diff_truncated: whether there was more of it.
    """
    commit = _output("git", "rev-parse", "HEAD", cwd=directory)
    if not commit:
        return {"commit": None, "dirty": None, "status": [], "diff": "", "diff_truncated": False}
    code = ("--", ":/", ":(top,exclude)results")
    status = _output("git", "status", "--porcelain", *code, cwd=directory).decode(errors="replace")
    diff = _output("git", "diff", "--no-ext-diff", "HEAD", *code, cwd=directory)
    return {
        "commit": commit.decode().strip(),
        "dirty": bool(status),
        "status": status.splitlines(),
        "diff": diff[:_DIFF_BYTES].decode(errors="replace"),
        "diff_truncated": len(diff) > _DIFF_BYTES,
    }


def as_typed(command: Sequence[str]) -> list[str]:
    """Returns a command line in which paths below the working directory are relative to it."""
    return [argument.replace(os.path.join(os.getcwd(), ""), "") for argument in command]


def as_shell_words(command: Sequence[str]) -> str:
    """Returns a command line that a shell in the working directory takes as it stands."""
    return shlex.join(as_typed(command))


def versions() -> dict[str, str | None]:
    """Returns the version of Python and of each package that matters; None if not installed."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found


def machine() -> dict[str, Any]:
    """Returns operating system, processor, usable cores, memory in GB and the GPUs' names."""
    gpus = _output("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    affinity = getattr(os, "sched_getaffinity", None)  # Linux only
    return {
        "system": platform.platform(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "usable_cores": len(affinity(0)) if affinity else os.cpu_count(),
        "memory_gb": round(memory / 1e9, 1),
        "gpus": gpus.decode(errors="replace").splitlines(),
    }


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _output(*command: str, cwd: Path | None = None) -> bytes:
    """Returns what a command prints; nothing if it is missing, fails or hangs."""
    if shutil.which(command[0]) is None:
        return b""
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return b""
    return done.stdout if done.returncode == 0 else b""
