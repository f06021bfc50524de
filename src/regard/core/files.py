"""Atomic writing and checked reading of files."""

import hashlib
import json
import os
import re
import shutil
import socket
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from regard.core.errors import BadInput

# A value of parsed JSON or TOML
JSON = dict[str, "JSON"] | list["JSON"] | str | int | float | bool | None

LARGEST = 256 << 20  # bytes of a file that is read into memory as a whole
BLOCK = 1 << 22  # bytes whose checksum is taken at once


def check_name(path: Path | str) -> None:
    """Refuse a name with a NUL character, for which the system has no error."""
    if "\0" in str(path):
        raise BadInput(f"{path}: a file name cannot have a NUL character")


def status_of(path: Path | str) -> os.stat_result:
    """The size, times and type of a file or folder, or of the target of a link."""
    with reading(path):
        return Path(path).stat()


def is_there(path: Path | str) -> bool:
    """Whether there is a file or folder of this name; a name that cannot be a path is refused.

    Unlike ``Path.exists``, it reports a name that is too long, circular links and missing
    permissions as a path that cannot be read.
    """
    with reading(path):
        try:
            Path(path).stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
    return True


def is_file(path: Path) -> bool:
    """Whether there is a regular file of this name; False for a name that cannot be a path."""
    with suppress(OSError, ValueError):
        return path.is_file()
    return False


@contextmanager
def reading(path: Path | str, fault: str = "cannot be read") -> Iterator[None]:
    """Report an ``OSError`` in this block as a path that cannot be read."""
    check_name(path)
    try:
        yield
    except OSError as error:
        raise BadInput(f"{path}: {fault} ({error.strerror or error})") from None


writing = partial(reading, fault="cannot be written")


def resolved(path: Path) -> Path:
    """The absolute path that links lead to; links in a circle are refused."""
    check_name(path)
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # the latter until Python 3.12
        raise BadInput(f"{path}: its links lead nowhere or are circular") from None


@contextmanager
def making(folder: Path) -> Iterator[None]:
    """Make a folder and its parents where they are missing; remove them if this block fails."""
    above = (folder, *folder.parents)
    new = [path for path in above if not path.exists()]
    if file := next((path for path in above if path.is_file()), None):
        raise BadInput(f"{file}: is a file, not a folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for path in new:  # from the innermost
            with suppress(OSError):
                path.rmdir()
        raise


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path, which replaces ``path`` if the block ends without an error.

    A symbolic link keeps its target; a device or a pipe is written directly. The file gets the
    mode of the umask.
    """
    path = resolved(path)
    with writing(path):
        is_device = path.exists() and not path.is_file()
    if is_device:
        if path.is_dir():
            raise BadInput(f"{path}: is a folder")
        yield path
        return
    temporary = temporary_name(path)
    with writing(path), making(path.parent):
        try:
            sweep(path)
            temporary.touch()
            mode = temporary.stat().st_mode
            yield temporary
            temporary.chmod(mode)  # a library may have replaced it by a private file
            synchronise(temporary)
            temporary.replace(path)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """Write into a folder that is empty or does not exist, whole or not at all."""
    folder = resolved(folder)
    hidden = folder.with_name(f".{folder.name}")
    temporary = temporary_name(hidden)
    with writing(folder), making(folder.parent):
        try:
            sweep(hidden)
            temporary.mkdir()
            yield temporary
            synchronise(temporary)
            temporary.replace(folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def is_empty(folder: Path) -> bool:
    """Whether a folder does not exist or has no entries."""
    return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))


def temporary_name(path: Path) -> Path:
    """The path of a file or folder while this process writes it."""
    return path.with_name(f"{path.name}.{_host()}-{os.getpid()}.tmp")


TEMPORARY = re.compile(r"(?P<name>.+)\.(?P<host>[0-9a-f]{12})-(?P<process>[1-9][0-9]*)\.tmp")


def sweep(path: Path) -> None:
    """Remove temporary files of this path that killed processes of this host have left.

    Whether processes of other hosts run is not known here; see ``sweep_folder``.
    """
    _sweep(path.parent, "*.tmp", lambda name, host: name == path.name and host == _host())


def sweep_folder(folder: Path) -> None:
    """Remove temporary files of all hosts in a folder; the caller must hold its lock."""
    _sweep(folder, "**/*.tmp", lambda name, host: True)


def _sweep(folder: Path, pattern: str, chosen: Callable[[str, str], bool]) -> None:
    """Remove temporary files of this name and host, unless their process may still run."""
    with suppress(OSError):
        for path in list(folder.glob(pattern)):
            if (match := TEMPORARY.fullmatch(path.name)) and chosen(match["name"], match["host"]):
                runs = match["host"] == _host() and _is_running(int(match["process"]))
                if not runs:
                    remove(path)


def _host() -> str:
    """A digest of the host name and the namespace of process ids (containers have their own)."""
    numbers = ""
    with suppress(OSError):
        numbers = str(Path("/proc/self/ns/pid").readlink())
    return hashlib.sha256(f"{socket.gethostname()} {numbers}".encode()).hexdigest()[:12]


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # a process of another user
        return True
    return process != os.getpid()  # an earlier process had the same id


def synchronise(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove(path: Path) -> None:
    """Remove a file or a folder if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    write_bytes(path, text.encode())


def write_files(folder: Path, files: Mapping[str, bytes], stale: Iterable[str] = ()) -> None:
    """Write the files of a folder by name, each atomically; remove the other ``stale`` ones."""
    for name, content in files.items():
        write_bytes(folder / name, content)
    for name in {*stale} - files.keys():
        (folder / name).unlink(missing_ok=True)


def write_json(path: Path, content: object) -> None:
    """Write a JSON file atomically."""
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    write_bytes(path, text.encode(errors="backslashreplace"))


def digest_folder(folder: Path) -> str:
    """A digest of the names and contents of all files in a folder and below it."""
    with reading(folder):
        paths = sorted(filter(Path.is_file, folder.rglob("*")))
    return _digest({str(path.relative_to(folder)): path for path in paths})


def digest_files(paths: Iterable[Path]) -> str:
    """A digest of the names and contents of files, wherever they are."""
    return _digest({path.name: path for path in paths})


def _digest(files: Mapping[str, Path]) -> str:
    digest = hashlib.sha256()
    for name, path in files.items():
        with reading(path), path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{name} {content}\n".encode(errors="replace"))
    return digest.hexdigest()


def checksum_of_file(path: Path) -> int:
    """CRC-32 of a file: fast, and sufficient against accidental damage.

    The file is read in blocks: pages of a mapped file would count as memory.
    """
    checksum = 0
    with reading(path), path.open("rb") as file:
        while block := file.read(BLOCK):
            checksum = zlib.crc32(block, checksum)
    return checksum


def check_regular(path: Path) -> int:
    """The size of a regular file, or of the target of a link.

    A pipe or a device is refused without opening it, because reading it may never end.
    """
    status = status_of(path)
    if not stat.S_ISREG(status.st_mode):
        raise BadInput(f"{path}: cannot be read (not a regular file)")
    with reading(path):
        path.open("rb").close()  # some libraries do not say what forbids it
    return status.st_size


def read_bytes(path: Path) -> bytes:
    """The content of a regular file that fits into memory."""
    if (size := check_regular(path)) > LARGEST:
        raise BadInput(f"{path}: cannot be read ({size:,} bytes, at most {LARGEST:,})")
    with reading(path):
        return path.read_bytes()


def read_text(path: Path) -> str:
    """The content of a UTF-8 file that fits into memory."""
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not UTF-8 (byte {error.start})") from None


def parse_json(path: Path) -> Any:
    """The JSON value in a file."""
    content = read_bytes(path)
    try:
        return json.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path}: not JSON ({error})") from None


def read_json(path: Path) -> dict[str, JSON]:
    """The JSON object in a file."""
    content = parse_json(path)
    if not isinstance(content, dict):
        raise BadInput(f"{path}: not a JSON object")
    return content


def json_line(record: Mapping[str, object]) -> str:
    """A record as one line of JSON; bytes that are not UTF-8 (in file names) are escaped."""
    text = json.dumps(record, ensure_ascii=False) + "\n"
    return text.encode(errors="backslashreplace").decode()
