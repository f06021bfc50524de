"""Compilation of the C++ decoder for this machine, once; the library is cached."""

import atexit
import ctypes
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import cast

from regard.core import machine

FOLDER = Path(__file__).parent
SOURCE = FOLDER / "decoder.cpp"
# gcc's early scheduling, on for ARM, moves loads so far ahead that sums lose their registers.
# gcc vectorises loops that compare floats only if comparisons do not trap.
OPTIMISED = ("-O3", "-fno-schedule-insns", "-fno-trapping-math")
FLAGS = (*OPTIMISED, "-std=c++17", "-fopenmp", "-fPIC", "-shared")
# Targets if REGARD_HIDE hides instructions.
HIDDEN = {"avx2": "-march=x86-64-v3", machine.GENERIC: "-march=x86-64-v2"}
SECONDS = 120  # timeout of the compiler


def library() -> ctypes.CDLL:
    """Load the compiled decoder; ``failure`` must be None."""
    return cast(ctypes.CDLL, _result())


def failure() -> str | None:
    """Reason why the decoder cannot be compiled (the compiler's first error); None if it can."""
    result = _result()
    return result if isinstance(result, str) else None


@lru_cache
def _result() -> ctypes.CDLL | str:
    compiler = machine.compiler()
    if compiler is None:
        return "there is no C++ compiler"
    try:
        return ctypes.CDLL(str(_compiled(compiler)))
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").splitlines()
        reason = next((line for line in lines if "error" in line), str(error))
        return f"{compiler} does not compile the decoder: {reason}"
    except (OSError, subprocess.SubprocessError) as error:
        return f"{compiler} does not compile the decoder: {error}"


def _compiled(compiler: str) -> Path:
    cache, name = cache_folder(), f"decoder-{_key(compiler)}"
    for library in cache.glob(f"{name}-*.so"):
        intact = library.stem == f"{name}-{_digest(library.read_bytes())}"
        if intact and is_private(library):
            return library
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        fresh = Path(folder) / "decoder.so"
        command = [compiler, *compiler_flags(), str(SOURCE), "-o", str(fresh)]
        subprocess.run(command, check=True, capture_output=True, timeout=SECONDS)
        fresh.chmod(0o700)
        return fresh.replace(cache / f"{name}-{_digest(fresh.read_bytes())}.so")


def _key(compiler: str) -> str:
    """Cache key: digest of source, compiler and machine."""
    version = subprocess.run([compiler, "--version"], capture_output=True, timeout=SECONDS).stdout
    abilities = " ".join(sorted(machine.cpu_flags())) or platform.processor()
    sources = (path.read_bytes() for path in sorted(FOLDER.glob("*.[ch]*")))
    parts = (" ".join(compiler_flags()).encode(), version, abilities.encode(), *sources)
    return _digest(b"\0".join(parts))


def compiler_flags() -> tuple[str, ...]:
    """Compiler flags for the best instruction set that the machine has and that is not hidden."""
    if not machine.hidden().intersection(("avx512", "avx2")):
        return (*FLAGS, "-march=native", *(() if machine.has("amx") else ("-DNO_AMX",)))
    return (*FLAGS, HIDDEN.get(machine.instruction_set(), "-march=native"))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def cache_folder() -> Path:
    """Cache folder: the first usual one that is private to this user, else a temporary one."""
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
    cache = Path(os.environ.get("XDG_CACHE_HOME") or ".")
    if cache.is_absolute():  # the standard ignores relative paths
        yield cache / "regard"
    with suppress(RuntimeError):  # this user may have no home
        yield Path.home() / ".cache" / "regard"
    yield Path(tempfile.gettempdir()) / f"regard-{os.getuid()}"


@lru_cache
def _temporary() -> Path:
    folder = tempfile.mkdtemp(prefix="regard-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
