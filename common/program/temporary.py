"""The directory of a local run's sockets and temporary files."""

from collections.abc import Iterator
import contextlib
import os
import pathlib
import shutil
import stat
import sys
import tempfile

from common.reporting.run_directory import RunDirectory

_PREFIX = "replay_rl_"
_OWNER = "run"
"""Name of the file in the directory that says of which run it is."""


@contextlib.contextmanager
def temporary_directory(run: RunDirectory) -> Iterator[pathlib.Path]:
    """Makes a directory for the sockets and temporary files of the roles of a local run.

    No other user can open it. A killed role leaves temporary files behind, such as those of a
    maze's engine, and a killed launcher leaves the directory: the link `tmp` in the run directory
    tells the next start what to remove. Anybody may have made that link, so a start removes only
    what such a start of this run has made.
    """
    link = run.path / "tmp"
    with contextlib.suppress(OSError):  # there is no link
        left = pathlib.Path(os.readlink(link))
        if _is_of(left, run):
            shutil.rmtree(left, ignore_errors=True)
        link.unlink()
    # Not in the run directory itself: the path of a socket is short (`topology.check_address`).
    with tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as directory:
        pathlib.Path(directory, _OWNER).write_text(f"{_identity(run)}{run.path.absolute()}\n")
        try:
            link.symlink_to(directory)
        except OSError as error:
            print(
                f"{link} cannot be a link to the run's temporary files ({error.strerror}): it is "
                f"left as it is, and they are in {directory}",
                file=sys.stderr,
                flush=True,
            )
        try:
            yield pathlib.Path(directory)
        finally:
            with contextlib.suppress(OSError):  # the run directory was moved, or the link replaced
                if os.readlink(link) == directory:
                    link.unlink()


def _is_of(directory: pathlib.Path, run: RunDirectory) -> bool:
    """Returns whether a path is that of a directory which a start of this run has made.

    A copy of a run directory has the link of the run that it is a copy of, but another inode. One
    that was moved keeps its inode.
    """
    try:
        status = directory.lstat()
        return (
            directory.parent == pathlib.Path(tempfile.gettempdir())
            and directory.name.startswith(_PREFIX)
            and status.st_mode == stat.S_IFDIR | 0o700
            and status.st_uid == os.getuid()
            and (directory / _OWNER).read_bytes().startswith(_identity(run).encode())
        )
    except OSError:
        return False


def _identity(run: RunDirectory) -> str:
    status = run.path.stat()
    return f"{status.st_dev} {status.st_ino} "
