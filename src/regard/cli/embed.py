"""``regard embed``: one vector for each text."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import numpy as np
import typer

from regard.api import Model, load
from regard.cli.console import DEVICE, JSON, MODEL, PRECISION, note, print_json, print_line
from regard.cli.line_io import LONGEST, MAX_LENGTH, Parse, answered, check_length, one_or_two
from regard.ground.errors import BadInput
from regard.ground.files import replacing

Vector = np.ndarray | None  # of an empty line there is none


def embed(
    model: MODEL,
    file: Annotated[str, typer.Argument(help="One text a line; - is standard input.")] = "-",
    pool: Annotated[
        str | None,
        typer.Option(help="mean, max, first or pooled; by default what the folder says, or mean."),
    ] = None,
    normalise: Annotated[
        bool | None,
        typer.Option(
            "--normalise/--as-they-are",
            help="Scale vectors to length 1; by default what the folder says, or not.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write all vectors to this file: .npy, .txt or .tsv, .jsonl."),
    ] = None,
    max_length: MAX_LENGTH = LONGEST,
    precision: PRECISION = "auto",
    as_json: JSON = False,
    device: DEVICE = None,
) -> None:
    """Print one vector for each line, as numbers between spaces.

    An empty line stays an empty line; in a .npy file it is a row of zeros. The name of a file
    (--out) says how it is written: .npy, .txt (numbers between spaces), .tsv (between tabs), .jsonl
    (as --json). An encoder reads two texts with a tab between them as one row.

    Example: echo "a gripping film" | regard embed runs/bert/model --json
    """
    if out is not None and as_json:
        raise BadInput("--json: vectors go to a file (--out) or to standard output, not to both")
    if out is not None and out.suffix not in WRITERS:
        raise BadInput(f"--out {out}: a file of vectors ends in {', '.join(WRITERS)}")
    loaded = load(model, device, precision=precision)
    parse = _parser(loaded, max_length)

    def vectors(texts: list[str]) -> list[np.ndarray]:
        return list(loaded.embed(texts, pool, normalise).float().cpu().numpy())

    width = loaded.embed([], pool, normalise).shape[1]
    found = []
    for number, said in answered(file, parse, vectors):
        if out is not None:
            found.append(said)
        elif as_json:
            print_json(_record(number, said))
        else:
            print_line(_line(said))
    if out is not None:
        with replacing(out) as temporary, temporary.open("wb") as stream:
            WRITERS[out.suffix](stream, found, width)
        note(f"wrote {out}: {len(found):,} vectors of {width}")


def _parser(model: Model, most: int) -> Parse:
    """Of an encoder one text or two, truncated; of a translator a text within limits."""
    if model._is_encoder:
        return one_or_two
    vocabulary = model.translator.text.source

    def parse(line: str, where: str) -> str:
        check_length(line, vocabulary, most, where)
        return line

    return parse


def _record(number: int, vector: Vector) -> dict[str, Any]:
    return {"line": number, "vector": None if vector is None else vector.tolist()}


def _line(vector: Vector, between: str = " ") -> str:
    return "" if vector is None else between.join(f"{value:.8g}" for value in vector)


def _write_npy(stream: BinaryIO, vectors: Sequence[Vector], width: int) -> None:
    vectors_ND = np.zeros((len(vectors), width), dtype=np.float32)
    for row_D, vector in zip(vectors_ND, vectors, strict=True):
        row_D[:] = 0.0 if vector is None else vector
    np.save(stream, vectors_ND, allow_pickle=False)


def _write_text(between: str, stream: BinaryIO, vectors: Sequence[Vector], width: int) -> None:
    stream.writelines(f"{_line(vector, between)}\n".encode() for vector in vectors)


def _write_json(stream: BinaryIO, vectors: Sequence[Vector], width: int) -> None:
    for number, vector in enumerate(vectors, start=1):
        stream.write(f"{json.dumps(_record(number, vector))}\n".encode())


WRITERS: dict[str, Callable[[BinaryIO, Sequence[Vector], int], None]] = {
    ".npy": _write_npy,
    ".txt": partial(_write_text, " "),
    ".tsv": partial(_write_text, "\t"),
    ".jsonl": _write_json,
}
