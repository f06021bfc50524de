"""``regard embed``: one vector for each text."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal

import numpy as np
import typer

from regard.cli.console import note, print_json, print_line
from regard.cli.line_io import Parse, lines_for, predict_lines, with_max_length
from regard.cli.options import (
    BATCH_SIZE,
    DEVICE,
    FILE,
    JSON,
    MAX_LENGTH,
    MODEL,
    OUT_FILE,
    PRECISION,
)
from regard.ground.errors import BadInput
from regard.ground.files import replacing

if TYPE_CHECKING:
    from regard.api import Model

Vector = np.ndarray | None  # None for an empty line


def embed(
    model: MODEL,
    file: FILE = "-",
    pool: Annotated[
        Literal["mean", "max", "first", "pooled"] | None,
        typer.Option(help="Pooling of token states.", show_default="the folder's, else mean"),
    ] = None,
    normalise: Annotated[
        bool | None,
        typer.Option(
            "--normalise/--no-normalise",
            help="Scale vectors to length 1.",
            show_default="the folder's, else no",
        ),
    ] = None,
    out: OUT_FILE = None,
    max_length: MAX_LENGTH = None,
    batch_size: BATCH_SIZE = None,
    precision: PRECISION = "auto",
    device: DEVICE = None,
    as_json: JSON = False,
) -> None:
    """Print one vector for each line.

    Numbers are separated by spaces. An empty line stays empty; in a .npy file it is a row of zeros.
    The name of the file (--out) decides its format: .npy, .txt (separated by spaces), .tsv (by
    tabs) or .jsonl (as --json). An encoder reads two texts separated by a tab as a pair.

    Example: echo "a gripping film" | regard embed runs/bert/model --json
    """
    from regard.api import load

    if out is not None and as_json:
        raise BadInput("--json: vectors are printed, or written to a file (--out), not both")
    if out is not None and out.suffix not in WRITERS:
        raise BadInput(f"--out {out}: the name of a file of vectors ends in {', '.join(WRITERS)}")
    loaded = load(model, device, precision=precision, batch_size=batch_size)
    width = loaded.embed([], pool, normalise).shape[1]

    def embed_texts(texts: list[str]) -> list[np.ndarray]:
        return list(loaded.embed(texts, pool, normalise).float().cpu().numpy())

    vectors = []
    for number, vector in predict_lines(
        file, _parser(loaded, max_length), embed_texts, lines_for(loaded)
    ):
        if out is not None:
            vectors.append(vector)
        elif as_json:
            print_json(_record(number, vector))
        else:
            print_line(_line(vector))
    if out is not None:
        with replacing(out) as temporary, temporary.open("wb") as stream:
            WRITERS[out.suffix](stream, vectors, width)
        note(f"wrote {out}: {len(vectors):,} vectors of {width}")


def _parser(model: "Model", max_length: int | None) -> Parse:
    """An encoder reads one text or two, truncated; a translator refuses long texts."""
    from regard.text.ids_only import MISSING

    if model.tokenizer is None:
        raise BadInput(MISSING)
    runner = model.runner
    limit = runner.truncation or runner.position_limit
    return with_max_length(runner.parse, runner.token_count, max_length, limit)


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
