"""Compile the decoder for the machine at hand, once; what was compiled is kept in a cache."""

import ctypes
import hashlib
import platform
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

from regard.ground import machine
from regard.ground.cache import cache_folder, is_private

SOURCE = Path(__file__).with_name("decoder.cpp")
FLAGS = ("-O3", "-march=native", "-std=c++17", "-fopenmp", "-fPIC", "-shared")
SECONDS = 120  # after which a compiler is given up


@lru_cache
def library() -> ctypes.CDLL | None:
    """The compiled decoder, or None where it cannot be had."""
    compiler = machine.compiler()
    if compiler is None:
        return None
    try:
        return ctypes.CDLL(str(_compiled(compiler)))
    except (OSError, subprocess.SubprocessError):
        return None


def _compiled(compiler: str) -> Path:
    cache, name = cache_folder(), f"decoder-{_key(compiler)}"
    for kept in cache.glob(f"{name}-*.so"):
        whole = f"{name}-{_digest(kept.read_bytes())}"  # as it was written
        if kept.stem == whole and is_private(kept):
            return kept
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        fresh = Path(folder) / "decoder.so"
        command = [compiler, *FLAGS, str(SOURCE), "-o", str(fresh)]
        subprocess.run(command, check=True, capture_output=True, timeout=SECONDS)
        fresh.chmod(0o700)
        return fresh.replace(cache / f"{name}-{_digest(fresh.read_bytes())}.so")


def _key(compiler: str) -> str:
    """Names the source, the compiler and the machine: another of them is compiled anew."""
    version = subprocess.run([compiler, "--version"], capture_output=True, timeout=SECONDS).stdout
    abilities = " ".join(sorted(machine.cpu_flags())) or platform.processor()
    parts = (SOURCE.read_bytes(), " ".join(FLAGS).encode(), version, abilities.encode())
    return _digest(b"\0".join(parts))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
