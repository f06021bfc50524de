"""Files of results: written whole or not at all, or as results come, by a run that can be resumed.

Results of such a run are in FILE.partial until it ends. FILE.partial.json has the number
of inputs and bytes that are complete, and the command; bytes after these are written again. Inputs
are counted by windows, whose results do not depend on where a run began.
"""

import fcntl
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, BinaryIO

from regard.core.errors import ArgumentName, BadInput
from regard.core.files import (
    is_file,
    making,
    read_json,
    replacing,
    synchronise,
    write_json,
    writing,
)
from regard.data.readers.fields import field_of
from regard.experiments.notes import Listener, Note, ignore

if TYPE_CHECKING:
    from regard.inference.component import AnyResult
    from regard.tasks.components import AnyComponent

EVERY = 5.0  # seconds of work that a kill may cost, beside the window that it interrupts
SAVING = 0.02  # of the time: progress is saved after every window if that does not take more
LABEL = "label"  # the column whose values are counted
LABELS = 8  # of which the most frequent are printed
RESULTS, TOKENS, CUT = "results", "tokens", "results cut"
SUM, COUNT, CHARACTERS, TEXTS, EMPTY = "sum", "count", "characters", "texts", "empty texts"
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


def as_stored(values: Mapping[str, object]) -> dict[str, object]:
    """Values as they will be read again from JSON."""
    return json.loads(json.dumps(values, default=str))


class OutputProgress:
    """Number of ``inputs`` with results, of ``bad`` ones among them, and ``sums`` of figures.

    They are kept in memory only. A run that continues another has ``earlier_inputs`` of that, and
    its sums. ``about`` follows the name of the file when it is written.
    """

    about = ""

    def __init__(self, stream: BinaryIO, on_event: Listener = ignore):
        self.stream, self.on_event = stream, on_event
        self.inputs, self.bad, self.earlier_inputs = 0, 0, 0
        self.sums, self.earlier = Counter[str](), Counter[str]()
        self.begun = monotonic()

    def write(self, text: str) -> None:
        """Write a text in UTF-8; what has no UTF-8 is escaped."""
        self.stream.write(text.encode(errors="backslashreplace"))

    def skip(self, keys: Iterable[str]) -> None:
        """Check the inputs that have results already; here there are none."""

    def add(self, keys: list[str]) -> None:
        """Count the inputs of a window, whose results have been written."""
        self.inputs += len(keys)

    def add_bad(self, error: str) -> None:
        """Report the error of a bad input, and count it."""
        self.on_event(Note(error))
        self.bad += 1

    def report(self) -> None:
        """Report the number of bad inputs, if there are any."""
        if self.bad:
            skipped = f"{self.bad:,} of {self.inputs:,} inputs were skipped because they are bad"
            self.on_event(Note(skipped))


class SavedProgress(OutputProgress):
    """Progress that is saved in a file beside the ``stream`` of results."""

    def __init__(self, path: Path, command: Command, stream: BinaryIO, on_event: Listener):
        super().__init__(stream, on_event)
        self.path, self._inputs = path, hashlib.sha256()
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
def open_output(
    out: Path | BinaryIO, command: Command | None = None, on_event: Listener = ignore
) -> Iterator[OutputProgress]:
    """The ``stream`` of a file of results, and what has been written to it.

    The file is written when this block ends, and not at all if it fails. With a ``command``, a
    failed block leaves FILE.partial, which the same command continues. Without one, the file ends
    any stopped run: its FILE.partial is removed. A stream that is open already is written to.
    """
    if not isinstance(out, Path):
        yield OutputProgress(out, on_event)
        return
    with _resuming(out, command, on_event) if command else _writing(out, on_event) as progress:
        yield progress
    on_event(Note(f"wrote {out}{progress.about}"))


@contextmanager
def _writing(out: Path, on_event: Listener) -> Iterator[OutputProgress]:
    partial = partial_of(out)
    is_stopped = is_file(_state_of(partial))
    with _open_locked(partial) if is_stopped else nullcontext():
        with replacing(out) as temporary, temporary.open("wb") as stream:
            yield OutputProgress(stream, on_event)
        if is_stopped:
            _remove_partial(partial)


@contextmanager
def _resuming(out: Path, command: Command, on_event: Listener) -> Iterator[SavedProgress]:
    partial = partial_of(out)
    if out.exists() and not partial.exists():
        fault = f"{out}: exists, and {partial.name} does not; "
        raise BadInput((fault, ArgumentName("resume"), " has no run to continue"))
    with writing(out), making(out.parent), _open_locked(partial) as stream:
        progress = SavedProgress(partial, command, stream, on_event)
        if stream.seek(0, os.SEEK_END):
            try:
                state = OutputState.read(_state_of(partial))
            except BadInput as error:
                raise BadInput(f"{error}; remove {partial} to begin anew") from None
            progress.load(state)
            on_event(Note(f"{partial}: continues after {progress.inputs:,} inputs"))
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


def statistics_of(component: "AnyComponent", result: "AnyResult") -> dict[str, float]:
    """Summands of one result: tokens, and figures of the columns of its best value."""
    sums: dict[str, float] = {RESULTS: 1, TOKENS: result.usage, CUT: result.cut}
    vectors = component.arrays(result)
    for name, vector in vectors.items():
        sums |= _number(f"norm of {name}", float(vector @ vector) ** 0.5)
    cells = {} if vectors else next(iter(component.cells(result)), {})
    for column, value in cells.items():
        if isinstance(value, float) and isfinite(value):
            sums |= _number(column, value)
        elif isinstance(value, str) and column == LABEL:
            sums[f"{LABEL} {value}"] = 1
        elif isinstance(value, str):
            sums |= {f"{CHARACTERS} {column}": len(value), f"{TEXTS} {column}": 1}
            sums[f"{EMPTY} {column}"] = not value.strip()
    return sums


def _number(name: str, value: float) -> dict[str, float]:
    return {f"{SUM} {name}": value, f"{COUNT} {name}": 1}


def describe_statistics(sums: Mapping[str, float], inputs: int, bad: int) -> str:
    """The statistics of ``inputs``, of which some were bad and others blank, in one line."""
    results = int(sums.get(RESULTS, 0))
    counts = [f"{results:,} results of {inputs:,} inputs", f"{bad:,} bad"]
    if blank := inputs - results - bad:
        counts.append(f"{blank:,} blank")
    counts += [f"{sums.get(CUT, 0):,.0f} cut", f"{sums.get(TOKENS, 0):,.0f} tokens"]
    return "; ".join([", ".join(counts), *_columns(sums)])


def describe_speed(inputs: int, tokens: float, seconds: float) -> str:
    """The speed of a run, from its start to its end, in one line."""
    seconds = max(seconds, 1e-3)
    return f"{seconds:,.1f} s: {inputs / seconds:,.1f} inputs/s, {tokens / seconds:,.0f} tokens/s"


def _columns(sums: Mapping[str, float]) -> Iterator[str]:
    labels = Counter(_named(sums, LABEL))
    if total := sum(labels.values()):
        shares = (f"{name} {count / total:.1%}" for name, count in labels.most_common(LABELS))
        more = len(labels) - LABELS
        yield f"{LABEL}: {', '.join(shares)}" + (f", {more} more" if more > 0 else "")
    for name, count in _named(sums, COUNT).items():
        yield f"{name}: mean {sums[f'{SUM} {name}'] / count:.4g}"
    for name, count in _named(sums, TEXTS).items():
        mean, empty = sums[f"{CHARACTERS} {name}"] / count, sums[f"{EMPTY} {name}"]
        yield f"{name}: mean {mean:.1f} characters, {empty:,.0f} empty"


def _named(sums: Mapping[str, float], kind: str) -> dict[str, float]:
    """The sums of one kind, by the name of their column or label."""
    start = f"{kind} "
    return {key.removeprefix(start): value for key, value in sums.items() if key.startswith(start)}
