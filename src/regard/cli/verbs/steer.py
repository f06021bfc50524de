"""``regard steer``: a steering vector from two files of texts."""

from pathlib import Path
from typing import Annotated

from typer import Option

from regard.cli.io.console import note, print_json, print_line
from regard.core.errors import BadInput
from regard.experiments import options
from regard.experiments.bulk.line_source import Parse, parser_of


def steer(
    model: options.MODEL,
    plus: Annotated[str, Option(metavar="FILE", help="Texts to steer towards, one per line.")],
    minus: Annotated[str, Option(metavar="FILE", help="Texts to steer away from, one per line.")],
    out: options.OUT_FILE = Path("steer.safetensors"),
    layer: options.LAYER = None,
    name: Annotated[str, Option(help="Name of the vector in the file.")] = "steer",
    scale: Annotated[float, Option(help="Factor in the printed edit.")] = 1.0,
    max_length: options.MAX_LENGTH = None,
    as_json: options.JSON = False,
    *,
    runs: options.LoadOptions,
) -> None:
    """Compute a steering vector from two files of texts.

    The vector is the mean state of the texts of --plus after a layer (default: the middle one),
    minus the mean state of --minus. It is written to a safetensors file; the edit that adds it to a
    model is printed, for a file of --edits beside it.

    Example: regard steer gpt2 --plus joy.txt --minus grief.txt --layer 6 --scale 4 > joy.toml
    """
    from regard.inside.steering import steering_vector
    from regard.weights.files import write_tensors

    if ":" in name or not name.isprintable() or '"' in name or "\\" in name:
        raise BadInput(f"--name {name!r}: a name has no colon, quote, backslash or line break")
    if out is None:
        raise BadInput("--out: missing; name a safetensors file")
    loaded = runs.load(model)
    parse = parser_of(loaded.runner.embedder(), max_length)
    towards, away = _texts(plus, "--plus", parse), _texts(minus, "--minus", parse)
    vector = steering_vector(loaded, towards, away, layer)
    write_tensors(out, {name: vector.values})
    note(f"wrote {out}: {name}, norm {float(vector.values.norm()):.4g}")
    edit = {"kind": "add", "at": vector.at, "vector": f"{out.name}:{name}", "scale": scale}
    if as_json:
        print_json(edit)
    else:
        print_line("[[edit]]")
        for key, value in edit.items():
            print_line(f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}")


def _texts(file: str, option: str, parse: Parse) -> list[object]:
    """The texts of a file, one per line; empty lines are left out."""
    from regard.data.readers.text_files import name_of, read_lines

    name = name_of(file)
    inputs = [parse(line, f"{name}:{number}") for number, line in enumerate(read_lines(file), 1)]
    texts = [text for text in inputs if text is not None]
    if not texts:
        raise BadInput(f"{option} {name}: no texts; write one on each line")
    return texts
