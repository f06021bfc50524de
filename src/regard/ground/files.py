"""Files that appear whole or not at all."""

import hashlib
import json
import os
import re
import shutil
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from regard.ground.errors import BadInput

LARGEST = 256 << 20  # bytes of a file that is read into memory as a whole


@contextmanager
def reading(path: Path | str) -> Iterator[None]:
    """Say of what the system refuses in this block that the path cannot be read."""
    try:
        yield
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror or error})") from None


@contextmanager
def writing(path: Path | str) -> Iterator[None]:
    """Say of what the system refuses in this block that the path cannot be written."""
    try:
        yield
    except OSError as error:
        raise BadInput(f"{path}: cannot be written ({error.strerror or error})") from None


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name to write to; the file takes its real name when the block ends well.

    A link keeps pointing where it points; what is no file (a device, a pipe) is written as it is.
    The file gets the mode that the umask gives, whoever writes it.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        if path.is_dir():
            raise BadInput(f"{path}: is a folder")
        yield path
        return
    temporary = temporary_name(path)
    try:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            sweep(path)
            temporary.touch()
            mode = temporary.stat().st_mode
            yield temporary
            temporary.chmod(mode)  # libraries may write it anew, for their user alone
            synchronise(temporary)
            temporary.replace(path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """The same for a folder that is empty or not there: it has its name when all is in it."""
    folder = folder.resolve()
    hidden = folder.with_name(f".{folder.name}")
    temporary = temporary_name(hidden)
    try:
        with writing(folder):
            sweep(hidden)
            temporary.mkdir(parents=True)
            yield temporary
            synchronise(temporary)
            temporary.replace(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def is_empty(folder: Path) -> bool:
    """Whether a folder is not there, or holds nothing at all."""
    return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))


def temporary_name(path: Path) -> Path:
    """What a file or folder is called while this process writes it."""
    return path.with_name(f"{path.name}.{_host()}-{os.getpid()}.tmp")


TEMPORARY = re.compile(r"(?P<name>.+)\.(?P<host>[0-9a-f]{12})-(?P<process>[1-9][0-9]*)\.tmp")


def sweep(path: Path) -> None:
    """Remove what killed processes of this host left under temporary names of this path.

    Of processes elsewhere nobody knows here whether they run; see ``sweep_folder``.
    """
    host = _host()
    with suppress(OSError):
        for leftover in path.parent.iterdir():
            found = TEMPORARY.fullmatch(leftover.name)
            ours = found and found["name"] == path.name and found["host"] == host
            if found and ours and not _is_running(int(found["process"])):
                remove(leftover)


def sweep_folder(folder: Path) -> None:
    """The same for all that is in a folder, and for all hosts: its lock must be held."""
    host = _host()
    with suppress(OSError):
        for leftover in list(folder.rglob("*.tmp")):
            found = TEMPORARY.fullmatch(leftover.name)
            if found and not (found["host"] == host and _is_running(int(found["process"]))):
                remove(leftover)


def _host() -> str:
    """A mark of this host and its process numbers: each container has numbers of its own."""
    numbers = ""
    with suppress(OSError):
        numbers = str(Path("/proc/self/ns/pid").readlink())
    return hashlib.sha256(f"{socket.gethostname()} {numbers}".encode()).hexdigest()[:12]


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # another user's
        return True
    return process != os.getpid()  # what bears this process's number is an earlier one's


def synchronise(path: Path) -> None:
    """Wait until a file, or the list of names in a folder, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove(path: Path) -> None:
    """A file or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file, whole or not at all."""
    write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def check_regular(path: Path) -> int:
    """The size of a regular file, or of the one a link leads to.

    A pipe or a device is refused before it is opened: reading it may never end.
    """
    with reading(path):
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise BadInput(f"{path}: cannot be read (not a regular file)")
        path.open("rb").close()  # libraries may say less of what forbids it
    return found.st_size


def read_bytes(path: Path) -> bytes:
    """The content of a regular file that fits into memory."""
    if (size := check_regular(path)) > LARGEST:
        raise BadInput(f"{path}: cannot be read ({size:,} bytes, at most {LARGEST:,})")
    with reading(path):
        return path.read_bytes()


def parse_json(path: Path) -> Any:
    """The JSON value in a file."""
    content = read_bytes(path)
    try:
        return json.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path}: not JSON ({error})") from None


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file."""
    content = parse_json(path)
    if not isinstance(content, dict):
        raise BadInput(f"{path}: not a JSON object")
    return content
