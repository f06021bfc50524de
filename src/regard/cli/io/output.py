"""Files of results: written whole or not at all, or with ``--resume`` as results come.

With ``--resume``, results are in FILE.partial until the run ends. FILE.partial.json has the number
of inputs and bytes that are complete, and the command; bytes after these are written again. Inputs
are counted by windows, whose results do not depend on where a run began.
"""

import fcntl
import hashlib
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import asdict, dataclass, field
from io import RawIOBase, TextIOWrapper
from pathlib import Path
from threading import get_ident
from time import monotonic
from typing import TYPE_CHECKING, BinaryIO, TextIO, cast

from typer import Context

from regard.cli.io.console import note
from regard.data.readers.fields import field_of
from regard.data.readers.text_files import STDIN
from regard.ground.errors import BadInput
from regard.ground.files import (
    digest_folder,
    is_file,
    making,
    read_json,
    replacing,
    synchronise,
    write_json,
    writing,
)
from regard.models.folders.hub import local_folder

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

EVERY = 5.0  # seconds of work that a kill may cost, beside the window that it interrupts
SAVING = 0.02  # of the time: progress is saved after every window if that does not take more
RENAMED: dict[str, str] = {"widest": "max_active"}  # options by their names in older files


@dataclass(frozen=True)
class Command:
    """What identifies a command: ``values`` of its verb, model, file and options by name.

    ``shown`` has the names as users write them, where these are others.
    """

    values: Mapping[str, object]
    shown: Mapping[str, str]


@dataclass(frozen=True)
class OutputState:
    """Contents of FILE.partial.json: counts of inputs and bytes, a hash of the inputs, sums."""

    command: Mapping[str, object]
    inputs: int
    bytes: int
    bad: int
    digest: str
    sums: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> "OutputState":
        """The state in a file, whose types are checked."""
        state, kinds = read_json(path), {"inputs": int, "bytes": int, "bad": int}
        counts = {key: field_of(state, key, kind, str(path)) for key, kind in kinds.items()}
        digest = field_of(state, "digest", str, str(path))
        stored: Mapping[str, object] = field_of(state, "command", dict, str(path))
        command = {RENAMED.get(name, name): value for name, value in stored.items()}
        sums = field_of(state, "sums", dict, str(path)) if "sums" in state else {}
        if not all(isinstance(value, int | float) for value in sums.values()):
            raise BadInput(f"{path}: the sums are not numbers")
        return cls(command, **counts, digest=digest, sums=sums)


def resumable_command(context: Context, *free: str) -> Command | None:
    """The command that ``--resume`` continues; None without ``--resume``.

    All options belong to the command, except the ``free`` ones, which change no result.
    """
    from regard.ground.device import device_named  # here: it imports torch
    from regard.inside.edits import read_edits

    options = {**context.params}
    model, file, device, out = (options.pop(name) for name in ("model", "file", "device", "out"))
    if not options.pop("resume"):
        return None
    if out is None:
        raise BadInput("--resume: needs --out FILE, to which the results are written")
    if file == STDIN:
        raise BadInput("--resume: needs FILE; standard input cannot be read again")
    edits = options.pop("edits", None)
    folders = (model, *(options.get("ensemble") or ()))
    command = {
        "verb": context.info_name,
        "file": file,
        "model": [digest_folder(local_folder(folder)) for folder in folders],
        "device": device_named(device).type,
        **{name: value for name, value in options.items() if name not in free},
        **({} if edits is None else {"edits": read_edits(edits).hash}),
    }
    shown = {param.name or "": param.opts[0] for param in context.command.params}
    shown |= {"model": "MODEL", "file": "FILE", "more": "FILE", "blocks": "--workers or --ray"}
    return Command(as_stored(command), shown)


def as_stored(values: Mapping[str, object]) -> dict[str, object]:
    """Values as they will be read again from JSON."""
    return json.loads(json.dumps(values, default=str))


class OutputProgress:
    """Number of ``inputs`` with results, of ``bad`` ones among them, and ``sums`` of figures.

    They are kept in memory only. A run that continues another has ``earlier_inputs`` of that, and
    its sums.
    """

    def __init__(self) -> None:
        self.inputs, self.bad, self.earlier_inputs = 0, 0, 0
        self.sums, self.earlier = Counter[str](), Counter[str]()
        self.begun = monotonic()

    def skip(self, keys: Iterable[str]) -> None:
        """Check the inputs that have results already; here there are none."""

    def add(self, keys: list[str]) -> None:
        """Count the inputs of a window, whose results have been written."""
        self.inputs += len(keys)

    def add_bad(self, error: str) -> None:
        """Print the error of a bad input, and count it."""
        note(error)
        self.bad += 1

    def report(self) -> None:
        """Print the number of bad inputs, if there are any."""
        if self.bad:
            note(f"{self.bad:,} of {self.inputs:,} inputs were skipped because they are bad")


class SavedProgress(OutputProgress):
    """Progress that is saved in a file beside the ``stream`` of results."""

    def __init__(self, path: Path, command: Command, stream: BinaryIO):
        super().__init__()
        self.path, self.stream, self._inputs = path, stream, hashlib.sha256()
        self._saved, self._state = monotonic(), self._current(command.values)
        self._shown = command.shown
        self._wait = EVERY  # seconds from save to save

    def _current(self, command: Mapping[str, object]) -> OutputState:
        digest = self._inputs.hexdigest()
        written = self.stream.tell()
        return OutputState(command, self.inputs, written, self.bad, digest, {**self.sums})

    def load(self, state: OutputState) -> None:
        """Continue from a saved state; bytes that were written after it are removed."""
        command, stored = self._state.command, state.command
        if changed := [name for name in command if _value(stored, name) != _value(command, name)]:
            shown = dict.fromkeys(self._shown.get(name, name) for name in changed)
            differs = f"differs in: {', '.join(shown)}"
            raise BadInput(f"{self.path}: was begun by another command ({differs}); remove it")
        if self.stream.seek(0, os.SEEK_END) < state.bytes:
            raise BadInput(f"{self.path}: is shorter than it was; remove it to begin anew")
        self.stream.seek(state.bytes)
        self.stream.truncate()
        self.inputs, self.bad, self._state = state.inputs, state.bad, state
        self.sums.update(state.sums)
        self.earlier_inputs, self.earlier = self.inputs, self.sums.copy()

    def skip(self, keys: Iterable[str]) -> None:
        self._hash(keys)
        if self._inputs.hexdigest() != self._state.digest:
            what = f"has results of other inputs than the first {self.inputs:,} of the file"
            raise BadInput(f"{self.path}: {what}; remove it to begin anew")

    def add(self, keys: list[str]) -> None:
        if not keys:
            return
        super().add(keys)
        self._hash(keys)
        sys.stdout.flush()
        self.stream.flush()
        self._state = self._current(self._state.command)
        if monotonic() - self._saved >= self._wait:
            self.save()

    def save(self) -> None:
        """Write the state, after the results themselves."""
        begun = monotonic()
        os.fsync(self.stream.fileno())
        write_json(_state_of(self.path), asdict(self._state))
        self._saved = monotonic()
        self._wait = min(EVERY, (self._saved - begun) / SAVING)

    def _hash(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._inputs.update(f"{key}\n".encode(errors="surrogateescape"))


@contextmanager
def output_to(path: Path | None, command: Command | None = None) -> Iterator[OutputProgress]:
    """Redirect standard output to a file while this block runs; without a path, leave it."""
    if path is None:
        with redirect_stdout(ResultText(sys.stdout)):
            yield OutputProgress()
        return
    with open_output(path, command) as (stream, progress):
        text = TextIOWrapper(stream, encoding="utf-8")
        try:
            with redirect_stdout(ResultText(text)):
                yield progress
        finally:
            text.detach()
    note(f"wrote {path}")


class ResultText:
    """Stream of the results that this thread prints; what other threads print is no result.

    It goes to standard error: Ray prints a message to standard output when an actor dies.
    """

    def __init__(self, stream: TextIO):
        self._stream, self._thread = stream, get_ident()

    def write(self, text: str) -> int:
        return (self._stream if get_ident() == self._thread else sys.stderr).write(text)

    def flush(self) -> None:
        self._stream.flush()

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


class StandardText(RawIOBase):
    """Binary stream to a standard output that takes only text, as in a notebook."""

    def write(self, data: "ReadableBuffer") -> int:
        content = bytes(data)
        sys.stdout.write(content.decode())
        return len(content)


@contextmanager
def open_output(
    out: Path | None, command: Command | None = None
) -> Iterator[tuple[BinaryIO, OutputProgress]]:
    """A file of results, written when this block ends, and not at all if it fails.

    With a ``command``, a failed block leaves FILE.partial, which the same command continues.
    Without one, the file ends any stopped run: its FILE.partial is removed. Without a file,
    results go to standard output.
    """
    if out is None:
        with redirect_stdout(ResultText(sys.stdout)):
            yield cast(BinaryIO, getattr(sys.stdout, "buffer", StandardText())), OutputProgress()
        return
    if command is not None:
        with _resuming(out, command) as progress:
            yield progress.stream, progress
        return
    partial = partial_of(out)
    is_stopped = is_file(_state_of(partial))
    with _open_locked(partial) if is_stopped else nullcontext():
        with replacing(out) as temporary, temporary.open("wb") as stream:
            yield stream, OutputProgress()
        if is_stopped:
            _remove_partial(partial)


@contextmanager
def _resuming(out: Path, command: Command) -> Iterator[SavedProgress]:
    partial = partial_of(out)
    if out.exists() and not partial.exists():
        raise BadInput(
            f"{out}: exists, and {partial.name} does not; --resume has no run to continue"
        )
    with writing(out), making(out.parent), _open_locked(partial) as stream:
        progress = SavedProgress(partial, command, stream)
        if stream.seek(0, os.SEEK_END):
            try:
                state = OutputState.read(_state_of(partial))
            except BadInput as error:
                raise BadInput(f"{error}; remove {partial} to begin anew") from None
            progress.load(state)
            note(f"{partial}: continues after {progress.inputs:,} inputs")
        try:
            progress.save()
            yield progress
            stream.flush()
        except BaseException:
            progress.save()
            if not progress.inputs:
                _remove_partial(partial)
            raise
        synchronise(partial)
        partial.replace(out)
        _state_of(partial).unlink()


def _remove_partial(partial: Path) -> None:
    for path in (partial, _state_of(partial)):
        path.unlink(missing_ok=True)


def _value(command: Mapping[str, object], name: str) -> object:
    """The value of an option; None if the command has none, or no value of a repeatable one."""
    value = command.get(name)
    return None if value == [] else value


def partial_of(out: Path) -> Path:
    """The file of the results of a run that has not ended."""
    return Path(f"{out}.partial")


def _state_of(partial: Path) -> Path:
    return partial.with_name(f"{partial.name}.json")


def _open_locked(path: Path) -> BinaryIO:
    """Open a file to read and write, locked against other runs if the file system has locks."""
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
