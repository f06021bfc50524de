"""Files that appear whole or not at all."""

import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from regard.ground.errors import BadInput

LARGEST = 256 << 20  # bytes of a file that is read into memory as a whole


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name to write to; the file takes its real name when the block ends well.

    A link keeps pointing where it points; what is no file (a device, a pipe) is written as it is.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        if path.is_dir():
            raise BadInput(f"{path}: is a folder")
        yield path
        return
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        synchronise(temporary)
        temporary.replace(path)
    except OSError as error:
        raise BadInput(f"{path}: cannot be written ({error.strerror or error})") from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


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
    try:
        found = path.stat()
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror or error})") from None
    if not stat.S_ISREG(found.st_mode):
        raise BadInput(f"{path}: cannot be read (not a regular file)")
    return found.st_size


def read_bytes(path: Path) -> bytes:
    """The content of a regular file that fits into memory."""
    if (size := check_regular(path)) > LARGEST:
        raise BadInput(f"{path}: cannot be read ({size:,} bytes, at most {LARGEST:,})")
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror or error})") from None


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
