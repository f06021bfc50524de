"""A lock on a folder, so that one process at a time writes to it."""

import fcntl
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import Self
from weakref import WeakValueDictionary, finalize

from regard.core.errors import BadInput
from regard.core.files import TEMPORARY, resolved, sweep_folder, writing

LOCK = "run.lock"


class FolderLock:
    """Lock held to the end of the outermost ``with`` block, or as long as this object lives.

    The system releases it when the process ends or is killed. The lock file stays, unless the lock
    is discarded; a lock file alone does not mean that the folder is locked. ``held`` is false if
    the file system has no locks.
    """

    def __init__(self, folder: Path):
        self.folder, self._blocks = folder, 0
        self._made = [path for path in (folder, *folder.parents) if not path.exists()]
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            no_link = os.O_NOFOLLOW  # its target would be truncated
            handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | no_link, 0o666)
        self._handle, self._close = handle, finalize(self, os.close, handle)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            self._close()
            raise BadInput(f"{folder / LOCK}: cannot be written (not a regular file)")
        self.held = self._acquire(handle)
        if self.held and not self.in_place:
            self._close()
            raise BadInput(f"{folder}: was in use until now; try again")

    @property
    def in_place(self) -> bool:
        """Whether the lock is open and its file still in the folder."""
        with suppress(OSError):
            file = os.fstat(self._handle) if self._close.alive else None
            return file is not None and os.path.samestat(file, (self.folder / LOCK).stat())
        return False

    def __enter__(self) -> Self:
        self._blocks += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._blocks -= 1
        self.release()

    def release(self) -> None:
        """Release the lock, unless a ``with`` block still holds it."""
        if not self._blocks:
            self._close()

    def discard(self) -> None:
        """Release the lock; remove its file, and the empty folders that were made for it."""
        with suppress(OSError):
            (self.folder / LOCK).unlink(missing_ok=True)
            for folder in self._made:
                folder.rmdir()
        self.release()

    def _acquire(self, handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(handle, 200, 0).decode("utf-8", "replace").strip()
            self._close()
            raise BadInput(
                f"{self.folder}: in use by another run ({holder or 'process unknown'}); "
                f"wait until it ends, or choose another folder"
            ) from None
        except OSError:
            return False
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        return True


_OWN: WeakValueDictionary[Path, FolderLock] = WeakValueDictionary()


def lock_folder(folder: Path) -> FolderLock:
    """Lock a folder, creating it if needed; the same process may lock it again."""
    place = resolved(folder)
    lock = _OWN.get(place)
    if lock is None or not lock.in_place:
        lock = _OWN[place] = FolderLock(folder)
    return lock


def lock_vacant(folder: Path) -> FolderLock:
    """Lock a folder that must be empty or not exist."""
    lock = lock_folder(folder) if is_vacant(folder) else None
    if lock is None or not is_vacant(folder):  # another process may have been faster
        raise BadInput(f"{folder}: is not empty; choose another folder")
    if lock.held:
        sweep_folder(folder)
    return lock


def is_vacant(folder: Path) -> bool:
    """Whether a folder does not exist, or contains nothing but a lock file and temporary files.

    A process that was killed during its first write leaves such files; the holder of the lock may
    remove them.
    """
    if not folder.exists():
        return True
    names = (path.name for path in folder.iterdir()) if folder.is_dir() else ("",)
    return all(name == LOCK or TEMPORARY.fullmatch(name) for name in names)
