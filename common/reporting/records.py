"""JSON files, read strictly: a mistake in a file raises a one-line error that names the file.

This module also collects the provenance of a result: code, versions of packages, and the machine,
with the limits that a container's control groups set. It replaces files of any kind as a whole, and
tells errors of a full disk from others.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import contextlib
import errno
from importlib import metadata
import json
import os
from pathlib import Path
import platform
import re
import reprlib
import shlex
import shutil
import subprocess
from typing import Any, BinaryIO, NoReturn

from absl import logging

from common.user_error import UserError

LARGEST = 3.4e38
"""About the largest float32. Networks and rewards are float32, so no result is beyond it."""
LARGEST_COUNT = 2**62
"""The largest count in an undamaged file. Adding to such a count does not overflow int64."""
_LONGEST = 1000
_KINDS: Any = {
    str: ("a short line of text", lambda value: value.isprintable() and len(value) <= _LONGEST),
    int: ("a count", lambda value: 0 <= value <= LARGEST_COUNT),
    float: ("a number", lambda value: abs(value) <= LARGEST),
    list: ("lines of text", lambda value: all(type(item) is str for item in value)),
    dict: ("an object", lambda value: True),
}


class JsonError(UserError):
    """Malformed JSON; the message names the file."""


def parse_json(text: str | bytes, where: str | Path) -> Any:
    """Returns the value of a JSON text.

    Args:
      text: the text, in UTF-8 if it is bytes.
      where: name of the file or variable that contains it.

    Raises:
      JsonError: it is not JSON, or has NaN or an infinity.
    """
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise JsonError(f"{where}:{line}: is not JSON ({error}): correct or remove it") from None


def read_json(path: Path) -> Any:
    """Returns the value of a JSON file; None if the file does not exist.

    Raises:
      JsonError: see `parse_json`; or the file cannot be read, or contains nothing but null.
    """
    try:
        found = parse_json(path.read_bytes(), path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise JsonError(f"{path}: cannot be read ({error.strerror})") from None
    if found is None:
        raise JsonError(f"{path} contains only null: correct or remove it")
    return found


def require_keys(where: str | Path, found: Any, kinds: Any, name: str = "it") -> Any:
    """Checks the kind of a value from a JSON file, and returns the value.

    Args:
      where: name of the file.
      found: the value.
      kinds: the required kind: str (a line), float, int (a count) or list (of lines). For an
        object, the kinds of its members by name; a member may be absent, and a member that is not
        an object may be null.
      name: name of the value in messages.

    Raises:
      JsonError: the value, or a member, is of another kind.
    """
    members = kinds if isinstance(kinds, Mapping) else {}
    kind = dict if isinstance(kinds, Mapping) else kinds
    words, is_right = _KINDS[kind]
    if type(found) not in (kind, kind is float and int) or not is_right(found):
        shown = reprlib.repr(found)
        raise JsonError(f"{where}: {name} is {shown}, not {words}: correct or remove it")
    for key, of in members.items():
        if key in found and (found[key] is not None or isinstance(of, Mapping)):
            require_keys(where, found[key], of, key if name == "it" else f"{name}.{key}")
    return found


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a finite number")


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

    Its folder results/ is left out: files that runs leave there do not affect later runs.

    Returns:
      commit: hash, or None without git, a repository or a commit.
      dirty: whether the tree differs from the commit; None where the commit is None.
      status: the lines of `git status --porcelain`, so that untracked files are named.
      diff: differences of tracked files from the commit, at most 200 kB.
      diff_truncated: whether the diff was longer than that.
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
    """Returns a command line in which paths below the working directory are relative to it.

    Such a path must be a whole argument or the whole value of a flag.
    """
    here = re.escape(os.path.join(os.getcwd(), ""))
    return [re.sub(rf"^(--?[\w.]+=)?{here}", r"\1", argument) for argument in command]


def as_shell_words(command: Sequence[str]) -> str:
    """Returns a command line as text that can be pasted into a shell in the working directory."""
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
    return {
        "system": platform.platform(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "usable_cores": usable_cores(),
        "memory_gb": round(memory / 1e9, 1),
        "gpus": gpus.decode(errors="replace").splitlines(),
    }


def usable_cores(root: Path = Path("/")) -> int:
    """Returns the number of cores that this process may use, at least 1.

    This is the minimum of its affinity and the quotas of its control groups (`docker --cpus`,
    `limits.cpu` of a pod), rounded down.

    Args:
      root: the directory that contains `proc` and `sys`.
    """
    cores = len(os.sched_getaffinity(0))
    for folder, version in control_groups("cpu", root):
        files = ("cpu.max",) if version == 2 else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        words = " ".join(text_of(folder / file) for file in files).split()
        with contextlib.suppress(ValueError):  # "max", or no such file
            quota, period = map(int, words)
            cores = min(cores, quota // period) if quota > 0 else cores
    return max(1, cores)


def control_groups(controller: str, root: Path) -> Iterator[tuple[Path, int]]:
    """Yields the folders of this process's control groups, each with its version, 1 or 2.

    In a container the group's path is often its path on the host; its own group is then at the top.

    Args:
      controller: what the groups limit, such as "memory".
      root: the directory that contains `proc` and `sys`.
    """
    for line in text_of(root / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            top, version = root / "sys/fs/cgroup", 2
        elif controller in controllers.split(","):
            top, version = root / "sys/fs/cgroup" / controller, 1
        else:
            continue
        folder = Path(os.path.normpath(f"{top}/{group}"))
        below = [parent for parent in (folder, *folder.parents) if top in parent.parents]
        yield from ((parent, version) for parent in (*below, top))


def text_of(path: Path) -> str:
    """Returns the text of a file; "" if it cannot be read."""
    try:
        return path.read_text()
    except OSError:
        return ""


def _cpu() -> str:
    for line in text_of(Path("/proc/cpuinfo")).splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
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


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Yields a new file that takes the name `path` once all of it is on the disk.

    Whatever stops the writer, the file is the old one or the new one. A link with the name `path`,
    or with the name under which the new file is written, is replaced and not followed: whoever made
    the directory cannot choose what is overwritten. Only one process at a time may write a file.

    Raises:
      OSError: it cannot be written; the old one stays.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)  # left by a killed writer
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def size_of(files: Iterable[Path]) -> int:
    """Returns the total size of files in bytes; some of them may vanish meanwhile."""
    total = 0
    for file in files:
        with contextlib.suppress(FileNotFoundError):
            total += file.stat().st_size
    return total


def with_part(page: Path, begin: str, end: str, part: str) -> str:
    """Returns the text of a page with the part between two marks replaced.

    Raises:
      UserError: the marks are missing, or there are several.
    """
    found = re.split(f"({re.escape(begin)}|{re.escape(end)})", page.read_text())
    if found[1::2] != [begin, end]:
        raise UserError(
            f"{page} needs exactly one line {begin} and, below it, one line {end}: the generated "
            "text goes between them"
        )
    return f"{found[0]}{begin}\n\n{part.strip()}\n\n{end}{found[4]}"


def replace_file(path: Path, text: str) -> None:
    """Replaces a text file as a whole, see `whole_file`."""
    with whole_file(path) as file:
        file.write(text.encode())


_FULL = (errno.ENOSPC, errno.EDQUOT)
_TEXTS = ("No space left on device", "Disk quota exceeded")


def disk_full(error: Exception) -> str:
    """Returns "disk full: ..." if that is what an error of Python or TensorFlow means, else ""."""
    text = str(error).split("\n", 1)[0].rpartition("}} ")[2]  # without TensorFlow's node
    if getattr(error, "errno", None) in _FULL or any(words in text for words in _TEXTS):
        return f"disk full: {text}"
    return ""


_ROOM_SECONDS = 5.0


def when_there_is_room(write: Callable[[], None], wait: Callable[[float], bool]) -> None:
    """Writes a file, and tries again while the disk is full.

    Args:
      write: writes the file.
      wait: waits for a number of seconds; returns whether to give up.

    Raises:
      OSError: the disk was still full when `wait` gave up, or there was another error.
    """
    while True:
        try:
            return write()
        except OSError as error:
            reason = disk_full(error)
            if not reason or wait(_ROOM_SECONDS):
                raise
            logging.log_every_n_seconds(logging.WARNING, "waiting for disk space: %s", 60, reason)


@contextlib.contextmanager
def skipped_if_full(what: str) -> Iterator[None]:
    """Ignores a full disk in the block, and logs "WHAT: disk full: ..." at most once a minute.

    Raises:
      Exception: any other error of the block.
    """
    try:
        yield
    except Exception as error:
        reason = disk_full(error)
        if not reason:
            raise
        logging.log_every_n_seconds(logging.WARNING, "%s: %s", 60, what, reason)
