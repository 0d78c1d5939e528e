"""What this machine has left: memory and disk for another run."""

from collections.abc import Iterator
import os
import pathlib
import shutil

# Of a control group: the files of its limit and its usage, and the field of memory.stat that is
# the part of the usage which the system would drop.
_VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_VERSION_2 = ("memory.max", "memory.current", "inactive_file")


def memory(root: pathlib.Path = pathlib.Path("/")) -> int | None:
    """Bytes of memory that new processes may take; None where Linux does not say.

    The least of what the machine has free and of what each control group that this process is in,
    of version 1 or 2, leaves of its limit. Caches of files count as free: the system drops them.

    Args:
      root: of the file system that has `proc` and `sys`.
    """
    fields = _fields(root / "proc/meminfo")
    left = [_left(*group) for group in _groups(root)]
    if "MemAvailable" in fields:
        left.append(1024 * fields["MemAvailable"])
    return min((one for one in left if one is not None), default=None)


def disk(path: pathlib.Path) -> int | None:
    """Bytes free for this user where `path` is, or will be made; None if that cannot be told."""
    path = path.absolute()
    while not path.exists() and path != path.parent:
        path = path.parent
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return None


def _groups(root: pathlib.Path) -> Iterator[tuple[pathlib.Path, tuple[str, str, str]]]:
    """The folders of the control groups that this process is in, with the names in use there.

    A container often names a group that only its host can see; its own then lies at the top.
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
    limit, usage, cache = names
    try:
        bound, used = int(_text(folder / limit)), int(_text(folder / usage))
    except ValueError:  # "max", or no such file
        return None
    return max(0, bound - used + _fields(folder / "memory.stat").get(cache, 0))


def _fields(path: pathlib.Path) -> dict[str, int]:
    """The numbers of a file of lines "name: number unit" or "name number"."""
    words = (line.replace(":", " ").split() for line in _text(path).splitlines())
    return {one[0]: int(one[1]) for one in words if len(one) > 1 and one[1].isdigit()}


def _text(path: pathlib.Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
