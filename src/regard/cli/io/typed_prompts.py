"""Prompts that are continued one by one, typed at a terminal or read from a file."""

import sys
from collections import Counter
from typing import TYPE_CHECKING, cast

from regard.cli.io.console import complain, note, print_line
from regard.core.errors import BadInput
from regard.experiments.bulk.line_source import LineSource, read_windows

if TYPE_CHECKING:
    from regard.inference.component import Result
    from regard.inference.decoder_model import End, TextPieces, Writer, Written
    from regard.inference.generator import Generator


def is_typed(file: str) -> bool:
    """Whether the lines are typed at a terminal."""
    return file == "-" and sys.stdin.isatty()


def continue_prompts(writer: "Writer", file: str, must_stream: bool) -> None:
    """Continue prompts one by one; at a terminal, errors and Ctrl-C end one text, not the run."""
    from regard.inference.decoder_model import AT_LAST_POSITION

    typed, method, generator = is_typed(file), writer.method, cast("Generator", writer.model)
    streams = must_stream or (writer.best == 1 and method.streams)
    sums = Counter[str]()
    _show_prompt(typed)
    for (line,) in read_windows(LineSource(file, writer.parse, window=1), sys.stdout.flush):
        number = line.number - 1
        try:
            if streams:
                ended = _print_pieces(generator.stream(line.text, method.search, number=number))
                sums.update(texts=1, unfinished=int(ended == "length"))
                remark = AT_LAST_POSITION if ended == "positions" else ""
            else:
                (of_line,) = writer.stream([line.value], first=number, strict=True)
                result = cast("Result[Written]", of_line)
                print_line("\n".join(writer.lines(result)))
                sums.update(writer.figures(result))
                remark = writer.remark(result)
            if remark:
                note(f"line {line.number}: {remark}")
            if typed:
                _note_total(writer, sums)
        except (BadInput, KeyboardInterrupt) as error:
            if not typed:
                raise
            if isinstance(error, BadInput):
                complain(error)
            else:
                print_line("")
        _show_prompt(typed)
    _note_total(writer, sums)


def _print_pieces(pieces: "TextPieces") -> "End":
    """Print a text while it is generated; return why it ended."""
    while True:
        try:
            piece = next(pieces)
        except StopIteration as end:
            print_line("")
            return cast("End", end.value)
        sys.stdout.write(piece)
        sys.stdout.flush()


def _note_total(writer: "Writer", sums: Counter[str]) -> None:
    """Print how many texts are unfinished, if any are, and count anew."""
    if total := writer.total(sums):
        note(total)
    sums.clear()


def _show_prompt(typed: bool) -> None:
    if typed:
        sys.stdout.flush()
        sys.stderr.write("> ")
        sys.stderr.flush()
