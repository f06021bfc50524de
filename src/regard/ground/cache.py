"""The folder of compiled code that is reused between runs; no other user can write to it."""

import atexit
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path


def cache_folder() -> Path:
    """The first of the usual folders that is private to this user, else a temporary folder."""
    for place in _places():
        try:
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
            if is_private(place) and os.access(place, os.W_OK | os.X_OK):
                return place
        except OSError:
            continue
    return _temporary()


def is_private(path: Path) -> bool:
    """Whether a file or folder belongs to this user, and no other user can write to it.

    A symbolic link does not count: its owner can change its target after this check.
    """
    try:
        info = path.lstat()
    except OSError:
        return False
    if not (stat.S_ISDIR(info.st_mode) or stat.S_ISREG(info.st_mode)):
        return False
    return info.st_uid == os.getuid() and not info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _places() -> Iterator[Path]:
    given = Path(os.environ.get("XDG_CACHE_HOME") or ".")
    if given.is_absolute():  # the standard ignores relative paths
        yield given / "regard"
    with suppress(RuntimeError):  # this user may have no home
        yield Path.home() / ".cache" / "regard"
    yield Path(tempfile.gettempdir()) / f"regard-{os.getuid()}"


@lru_cache
def _temporary() -> Path:
    folder = tempfile.mkdtemp(prefix="regard-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
