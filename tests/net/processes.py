"""``python -m regard`` in a forked process: torch is imported once for all calls."""

import os
import runpy
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

SECONDS = 900  # that a call may take


class Finished(NamedTuple):
    """What a call wrote, and its exit code."""

    code: int
    out: str
    err: str


def regard(arguments: Sequence[object], stdin: str = "", cwd: Path | None = None) -> Finished:
    """Run ``python -m regard`` with these arguments to its end."""
    _import_once()
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("in", "out", "err")]
        paths[0].write_text(stdin, encoding="utf-8")
        sys.stdout.flush()
        sys.stderr.flush()
        process = os.fork()
        if process == 0:
            _child([str(one) for one in arguments], paths, cwd)
        _, status = os.waitpid(process, 0)
        texts = [path.read_text(encoding="utf-8", errors="replace") for path in paths[1:]]
        return Finished(os.waitstatus_to_exitcode(status), *texts)


def _import_once() -> None:
    """The public face, with what it imports when it is used."""
    import regard as package

    _ = package.Model, package.train


def _child(arguments: list[str], paths: Sequence[Path], cwd: Path | None) -> None:
    code: Any = 1
    try:
        _open(paths)
        signal.alarm(SECONDS)
        if cwd is not None:
            os.chdir(cwd)
        sys.argv = ["regard", *arguments]
        runpy.run_module("regard", run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code
        if isinstance(code, str):
            print(code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))


def _open(paths: Sequence[Path]) -> None:
    """The standard streams are files from now on."""
    flags = os.O_RDONLY, os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_CREAT
    for number, (path, flag) in enumerate(zip(paths, flags, strict=True)):
        handle = os.open(path, flag, 0o600)
        os.dup2(handle, number)
        os.close(handle)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False, buffering=1)
