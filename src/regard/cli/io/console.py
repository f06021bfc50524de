"""What verbs print: results to standard output, everything else to standard error."""

import json
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console

from regard.ground.errors import BadInput
from regard.ground.files import write_bytes


class Output(Console):
    """A console that leaves a closed pipe to the command line to handle."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


OUT = Output(highlight=False, soft_wrap=True)
ERR = Console(stderr=True, highlight=False, soft_wrap=True)


def complain(message: str) -> None:
    """An error, in one line on standard error."""
    note("regard: " + " ".join(message.split()))


def note(message: str) -> None:
    """A message on standard error; if that cannot be written, it is lost."""
    with suppress(OSError):
        ERR.print(message, markup=False)


def print_json(record: Mapping[str, Any]) -> None:
    """One line of JSON on standard output."""
    sys.stdout.write(json_line(record))


def json_line(record: Mapping[str, Any]) -> str:
    """A record as one line of JSON; bytes of file names that are no UTF-8 become escapes."""
    text = json.dumps(record, ensure_ascii=False) + "\n"
    return text.encode(errors="backslashreplace").decode()


def print_line(text: str) -> None:
    """One line of text on standard output, without markup."""
    sys.stdout.write(text + "\n")


def check_suffixes(**files: Path | None) -> None:
    """Refuse a file of an option, by its format, whose name is that of another of these formats."""
    for format, path in files.items():
        suffix = "" if path is None else path.suffix.lower().removeprefix(".")
        if suffix in files.keys() - {format}:
            raise BadInput(f"--{format} {path}: the name ends in .{suffix}; use --{suffix}")


def write_page(path: Path | None, draw: Callable[[], str]) -> None:
    """Write a page, a drawing or lines to the file of an option, if it was given.

    Folders on the way to it are made.
    """
    write_picture(path, lambda: draw().encode())


def write_picture(path: Path | None, draw: Callable[[], bytes]) -> None:
    """The same of bytes."""
    if path is not None:
        write_bytes(path, draw())
        note(f"wrote {path}")


def slug(name: str) -> str:
    """A name as a folder name."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "rung"


def cost_line(cost: Mapping[str, float]) -> str:
    """The cost of training a model, in one line."""
    return (
        f"cost: {cost['parameters']:,.0f} parameters, {cost['training_flops']:.3g} training FLOPs, "
        f"{cost['tokens']:,.0f} tokens, {cost['device_seconds']:,.0f} device-seconds"
    )
