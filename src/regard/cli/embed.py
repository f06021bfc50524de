"""``regard embed``: one vector for each text."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from regard.api import load
from regard.cli.lines import answered, as_it_is, one_or_two
from regard.cli.say import DEVICE, JSON, MODEL, PRECISION, note, print_json, print_line
from regard.ground.errors import BadInput
from regard.ground.files import replacing
from regard.models.facts import EncoderFacts


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
    out: Annotated[Path | None, typer.Option(help="Write all vectors to this .npy file.")] = None,
    precision: PRECISION = "auto",
    as_json: JSON = False,
    device: DEVICE = None,
) -> None:
    """Print one vector for each line, as numbers between spaces.

    An empty line stays an empty line; in a .npy file it is a row of zeros. An encoder reads two
    texts with a tab between them as one row.

    Example: echo "a gripping film" | regard embed runs/bert/model --json
    """
    if out is not None and as_json:
        raise BadInput("--json: vectors go to a file (--out) or to standard output, not to both")
    loaded = load(model, device, precision=precision)
    parse = one_or_two if isinstance(loaded.facts, EncoderFacts) else as_it_is

    def vectors(texts: list[str]) -> list[np.ndarray]:
        return list(loaded.embed(texts, pool, normalise).float().cpu().numpy())

    width = loaded.embed([], pool, normalise).shape[1]
    found = []
    for number, said in answered(file, parse, vectors):
        if out is not None:
            found.append(np.zeros(width, dtype=np.float32) if said is None else said)
        elif as_json:
            print_json({"line": number, "vector": None if said is None else said.tolist()})
        else:
            print_line("" if said is None else " ".join(f"{value:.8g}" for value in said))
    if out is not None:
        vectors_ND = np.array(found, dtype=np.float32).reshape(-1, width)
        with replacing(out) as temporary, temporary.open("wb") as stream:
            np.save(stream, vectors_ND, allow_pickle=False)
        note(f"wrote {out}: {len(found):,} vectors of {width}")
