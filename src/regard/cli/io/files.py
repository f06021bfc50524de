"""Inputs that a verb is given, and the file or standard output that its results go to."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from io import RawIOBase, TextIOWrapper
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING, BinaryIO, TextIO, cast

from typer import Context

from regard.cli.io.console import flag, show_event
from regard.core.errors import BadInput
from regard.core.files import digest_folder
from regard.data.file_formats import word_lines_format
from regard.data.readers.text_files import STDIN, first_bytes
from regard.experiments.bulk.component_runs import ComponentRun, DocumentRun, VectorRun
from regard.experiments.bulk.result_file import Command, as_stored, open_output
from regard.experiments.options import InputOptions, OutputOptions, ScorerOptions
from regard.models.folders.hub import local_folder

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from regard.experiments.bulk.file_job import FileJob


def check_argument(text: str, second: str | None = None) -> None:
    """Refuse a text of the command line that is empty, not UTF-8, a file, or words in columns."""
    if not text.strip():
        raise BadInput("the text is empty; write it in quotes")
    if any("\ud800" <= character <= "\udfff" for character in text + (second or "")):
        raise BadInput("the text is not UTF-8")
    for given in (text, second or ""):
        if _names_a_file(given):
            raise BadInput(f"{given}: a file, and this verb reads a text; give the text, in quotes")
        if "\n" in given and (form := word_lines_format(given.split("\n"))):
            fault = f"the text is words in columns ({form})"
            raise BadInput(f"{fault}; give the words of a sentence, with spaces between them")


def _names_a_file(text: str) -> bool:
    """Whether a text is the name of a file with a suffix, and that no image, which is read."""
    from regard.images.decode import SUFFIXES

    with suppress(OSError, ValueError):  # of a text that is no file name
        path = Path(text)
        if path.suffix and path.suffix.lower() not in SUFFIXES and path.is_file():
            return b"\0" not in first_bytes(path, 4_096)
    return False


FREE = ("context", "document", "workers", "ray", "skip_bad")  # options that change no result


def resumable_command(context: Context, file: str = "") -> Command | None:
    """The command that ``--resume`` continues, perhaps with another ``file``; else None."""
    from regard.core.device import device_named  # here: it imports torch
    from regard.models.edits import read_edits

    options = {**context.params} | ({"file": file} if file else {})
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
        **{name: value for name, value in options.items() if name not in FREE},
        **({} if edits is None else {"edits": read_edits(edits).hash}),
    }
    shown = {param.name or "": param.opts[0] for param in context.command.params}
    shown |= {"model": "MODEL", "file": "FILE", "more": "FILE", "blocks": "--workers or --ray"}
    return Command(as_stored(command), shown)


def open_job(
    context: Context, model: str, inputs: InputOptions, runs: ScorerOptions, outputs: OutputOptions
) -> "FileJob":
    """The model of a verb that reads files."""
    from regard.experiments.bulk.file_job import FileJob

    command = resumable_command(context)
    return FileJob.open(model, inputs, runs, outputs, command, argument=flag, on_event=show_event)


@contextmanager
def results_to(out: Path | None) -> Iterator[Path | BinaryIO]:
    """The file of results, or without one standard output, which has nothing else meanwhile."""
    text = cast(BinaryIO, StandardText())
    with redirect_stdout(cast(TextIO, ResultText(sys.stdout))):
        stream = text if sys.stdout.isatty() else getattr(sys.stdout, "buffer", text)
        yield stream if out is None else out


def print_results(run: ComponentRun | DocumentRun | VectorRun, out: Path | None) -> None:
    """Print the results of a run, or write them to ``out``; remarks go to standard error."""
    with results_to(out) as place:
        run.write(place, show_event)


@contextmanager
def print_to(out: Path | None) -> Iterator[None]:
    """Block whose printed lines go to a file, if there is one."""
    if out is None:
        yield
        return
    with open_output(out, None, show_event) as progress:
        text = TextIOWrapper(progress.stream, encoding="utf-8")
        try:
            with redirect_stdout(text):
                yield
        finally:
            text.detach()


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
    """Binary stream to a standard output that takes text: a notebook's, or a terminal, by lines."""

    def write(self, data: "ReadableBuffer") -> int:
        content = bytes(data)
        sys.stdout.write(content.decode())
        return len(content)

    def flush(self) -> None:
        sys.stdout.flush()
