"""Files of results: written whole or not at all, or kept as they come, so that a run can go on.

With ``--resume`` results stand in FILE.partial until all are there. FILE.partial.json says of how
many inputs it has results, in how many bytes, and of which run; what follows these bytes is written
again. Inputs are counted by windows, whose results do not depend on where the run began."""

import fcntl
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from io import RawIOBase, TextIOWrapper
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO, cast

from typer import Context

from regard.cli.io.console import note
from regard.data.files.fields import field_of
from regard.data.files.text_files import STDIN
from regard.ground.errors import BadInput
from regard.ground.files import (
    digest_folder,
    making,
    read_json,
    replacing,
    synchronise,
    write_json,
    writing,
)
from regard.models.folders.hub import local_folder

EVERY = 5.0  # seconds of work that a kill may cost, beside the window that it interrupts
STATE = {"command": dict, "inputs": int, "bytes": int, "bad": int, "digest": str}
RENAMED = {"widest": "max_active"}  # options by their names in older files

Command = Mapping[str, Any]
"""What tells a command from others: its verb, its model, its file, its options."""


def resumable_command(context: Context, *free: str) -> Command | None:
    """What ``--resume`` goes on with: all options but the ``free`` ones, which change no result.

    None without ``--resume``.
    """
    from regard.ground.device import device_named  # here: it imports torch

    given = {**context.params}
    model, file, device, out = (given.pop(name) for name in ("model", "file", "device", "out"))
    if not given.pop("resume"):
        return None
    if out is None:
        raise BadInput("--resume: needs --out, the file of results that a run goes on with")
    if file == STDIN:
        raise BadInput("--resume: needs FILE: standard input cannot be read again")
    models = [digest_folder(local_folder(one)) for one in (model, *(given.get("ensemble") or ()))]
    command: dict[str, Any] = {"verb": context.info_name, "file": file, "model": models}
    options = {name: value for name, value in given.items() if name not in free}
    command |= {"device": device_named(device).type, **options}
    return json.loads(json.dumps(command, default=str))  # as it is read again


class OutputProgress:
    """How many ``inputs`` have results, and how many of these are ``bad``. Nothing is saved."""

    def __init__(self) -> None:
        self.inputs, self.bad = 0, 0

    def skip(self, keys: Iterable[str]) -> None:
        """Check the inputs that have results already: there are none."""

    def add(self, keys: list[str]) -> None:
        """Count the inputs of a window, whose results have been written."""
        self.inputs += len(keys)

    def check(self, line: Any) -> None:
        """Name a line that is bad, and count it."""
        if line.error is not None:
            note(line.error)
            self.bad += 1

    def report(self) -> None:
        """Print how many inputs were bad, if any were."""
        if self.bad:
            note(f"{self.bad:,} of {self.inputs:,} inputs were skipped: they are bad")


class SavedProgress(OutputProgress):
    """The same, saved in a file beside the ``stream`` of results."""

    def __init__(self, path: Path, command: Command, stream: BinaryIO):
        super().__init__()
        self.path, self.stream, self._inputs = path, stream, hashlib.sha256()
        self._saved, self._state = monotonic(), dict[str, Any]()
        self._note(command)

    def _note(self, command: Command) -> None:
        counts = {"inputs": self.inputs, "bytes": self.stream.tell(), "bad": self.bad}
        self._state = {"command": command, **counts, "digest": self._inputs.hexdigest()}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on where another process stopped; what it wrote after that is removed."""
        command = self._state["command"]
        stored = {RENAMED.get(name, name): value for name, value in state["command"].items()}
        if changed := [name for name in command if stored.get(name) != command[name]]:
            differs = f"differs in: {', '.join(changed)}"
            raise BadInput(f"{self.path}: was begun by another command ({differs}); remove it")
        if self.stream.seek(0, os.SEEK_END) < state["bytes"]:
            raise BadInput(f"{self.path}: is shorter than it was; remove it to begin anew")
        self.stream.seek(state["bytes"])
        self.stream.truncate()
        self.inputs, self.bad = state["inputs"], state["bad"]
        self._state = {**state, "command": command}

    def skip(self, keys: Iterable[str]) -> None:
        self._hash(keys)
        if self._inputs.hexdigest() != self._state["digest"]:
            what = f"the first {self.inputs:,} inputs are not those that it has results of"
            raise BadInput(f"{self.path}: {what}; remove it to begin anew")

    def add(self, keys: list[str]) -> None:
        if not keys:
            return
        super().add(keys)
        self._hash(keys)
        sys.stdout.flush()
        self.stream.flush()
        self._note(self._state["command"])
        if monotonic() - self._saved >= EVERY:
            self.save()

    def save(self) -> None:
        """Write down how far it has come, after the results themselves."""
        os.fsync(self.stream.fileno())
        write_json(_state_of(self.path), self._state)
        self._saved = monotonic()

    def _hash(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._inputs.update(f"{key}\n".encode(errors="surrogateescape"))


@contextmanager
def output_to(path: Path | None, command: Command | None = None) -> Iterator[OutputProgress]:
    """What this block prints goes to the file of an option, if it was given."""
    if path is None:
        yield OutputProgress()
        return
    with open_output(path, command) as (stream, progress):
        text = TextIOWrapper(stream, encoding="utf-8")
        try:
            with redirect_stdout(text):
                yield progress
        finally:
            text.detach()
    note(f"wrote {path}")


class StandardText(RawIOBase):
    """Bytes of whole lines to a standard output that takes text only, as that of a notebook."""

    def write(self, data: Any) -> int:
        sys.stdout.write(bytes(data).decode())
        return len(data)


@contextmanager
def open_output(
    out: Path | None, command: Command | None = None
) -> Iterator[tuple[BinaryIO, OutputProgress]]:
    """A file of results, written when this block ends, and not at all if it fails.

    With a ``command``, results are kept as they come, and the same one goes on after them. Without
    a file they go to standard output.
    """
    if out is None:
        yield cast(BinaryIO, getattr(sys.stdout, "buffer", StandardText())), OutputProgress()
        return
    if command is not None:
        with _resuming(out, command) as progress:
            yield progress.stream, progress
        return
    with replacing(out) as temporary, temporary.open("wb") as stream:
        yield stream, OutputProgress()


@contextmanager
def _resuming(out: Path, command: Command) -> Iterator[SavedProgress]:
    partial = out.with_name(f"{out.name}.partial")
    if out.exists() and not partial.exists():
        raise BadInput(f"{out}: is there already, and no run that was stopped; leave out --resume")
    with writing(out), making(out.parent), _open_locked(partial) as stream:
        progress = SavedProgress(partial, command, stream)
        if stream.seek(0, os.SEEK_END):
            progress.load(_read_state(partial))
            note(f"{partial}: goes on after {progress.inputs:,} inputs")
        try:
            progress.save()
            yield progress
            stream.flush()
        except BaseException:
            progress.save()
            if not progress.inputs:
                _remove(partial)
            raise
        synchronise(partial)
        partial.replace(out)
        _state_of(partial).unlink()


def _state_of(partial: Path) -> Path:
    return partial.with_name(f"{partial.name}.json")


def _remove(partial: Path) -> None:
    for path in (partial, _state_of(partial)):
        path.unlink(missing_ok=True)


def _read_state(partial: Path) -> dict[str, Any]:
    path = _state_of(partial)
    state = read_json(path)
    for key, kind in STATE.items():
        field_of(state, key, kind, str(path))
    return state


def _open_locked(path: Path) -> BinaryIO:
    """A file to read and write, unless another process does; some file systems have no locks."""
    stream = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(stream.fileno()), path.stat()):  # not renamed meanwhile
            return stream
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        return stream
    stream.close()
    raise BadInput(f"{path}: in use by another run; wait until it ends")
