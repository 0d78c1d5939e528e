"""The memory and disk that this machine has left."""

from collections.abc import Iterator
import os
import pathlib
import shutil

# For both versions of control groups: the files with the limit and the usage of memory, and the
# field of memory.stat with the part of the usage that the system can drop.
_VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_VERSION_2 = ("memory.max", "memory.current", "inactive_file")


def memory(root: pathlib.Path = pathlib.Path("/")) -> int | None:
    """Returns the bytes of memory that new processes may take; None if Linux does not say.

    This is the least of the machine's available memory and of what the limits of this process's
    control groups, of version 1 or 2, leave. Caches of files count as available.

    Args:
      root: the directory that has `proc` and `sys`.
    """
    fields = _fields(root / "proc/meminfo")
    left = [_left(*group) for group in _groups(root)]
    if "MemAvailable" in fields:
        left.append(1024 * fields["MemAvailable"])
    return min((one for one in left if one is not None), default=None)


def disk(path: pathlib.Path) -> int | None:
    """Returns the bytes free for this user at `path`, which need not exist; None if unknown."""
    path = path.absolute()
    while not path.exists() and path != path.parent:
        path = path.parent
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return None


def _groups(root: pathlib.Path) -> Iterator[tuple[pathlib.Path, tuple[str, str, str]]]:
    """Yields the folders of this process's control groups, with the names of their files.

    In a container the group's path is often that on the host; its own group is then at the top.
    """
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            top, names = root / "sys/fs/cgroup", _VERSION_2
        elif "memory" in controllers.split(","):
            top, names = root / "sys/fs/cgroup/memory", _VERSION_1
        else:
            continue
        folder = pathlib.Path(os.path.normpath(f"{top}/{group}"))
        below = [one for one in (folder, *folder.parents) if top in one.parents]
        yield from ((one, names) for one in (*below, top))


def _left(folder: pathlib.Path, names: tuple[str, str, str]) -> int | None:
    """Returns what a control group leaves of its limit; None if it has no limit."""
    limit, usage, cache = names
    try:
        bound, used = int(_text(folder / limit)), int(_text(folder / usage))
    except ValueError:  # "max", or no such file
        return None
    return max(0, bound - used + _fields(folder / "memory.stat").get(cache, 0))


def _fields(path: pathlib.Path) -> dict[str, int]:
    """Returns the numbers in a file of lines "name: number unit" or "name number"."""
    words = (line.replace(":", " ").split() for line in _text(path).splitlines())
    return {one[0]: int(one[1]) for one in words if len(one) > 1 and one[1].isdigit()}


def _text(path: pathlib.Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
