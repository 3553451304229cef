"""Files that others see whole, or not at all, and a lock among processes."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

#: inode, time of change in ns, bytes: another file has another one
Stamp = tuple[int, int, int]


def stamp_of(path: Path) -> Stamp | None:
    """Tells one content from another without reading it; None: there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def replace_file(path: Path, content: bytes, *, mode: int) -> None:
    """Writes a file that others see whole, or not at all.

    Raises:
        OSError
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # mode 0600
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            os.fchmod(stream.fileno(), mode)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


@contextmanager
def locked(path: Path, *, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Holds a lock among processes; the kernel lets go of it when its holder dies.

    The file stays: removing it would let two holders in, one on the old file, one on a new one.

    Args:
        path: the lock's file, made where there is none.
        waiting: called once when another holds the lock, before waiting for it.
    """
    with path.open("ab") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield
