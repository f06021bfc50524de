"""``regard convert``: a model as Hugging Face or regard keep it, held against what it was."""

import math
from pathlib import Path
from typing import Annotated

import torch
import typer

from regard.api import Model, load
from regard.cli.console import JSON, MODEL, complain, note, print_json, print_line
from regard.data.toy_language import corpus
from regard.ground.errors import BadInput
from regard.ground.files import is_empty, read_json, replacing_folder
from regard.inside import hf_reference, parity
from regard.models.facts import EncoderDecoder, TrunkWithHeads
from regard.models.formats.folder import FORMATS
from regard.text.plain_tokenizer import PlainTokenizer

LIMIT = 1e-5
SENTENCES = 8
TEXTS = "ids of texts"


def convert(
    source: MODEL,
    target: Annotated[Path, typer.Argument(metavar="DST", help="A folder that is not there yet.")],
    to: Annotated[str, typer.Option("--to", help="hf or regard.")],
    check: Annotated[bool, typer.Option("--check", help="Read it back and compare.")] = False,
    keep_unknown: Annotated[
        bool,
        typer.Option("--keep-unknown", help="Keep tensors of unknown layers beside the weights."),
    ] = False,
    as_json: JSON = False,
) -> None:
    """Write a model's folder in the form of Hugging Face or of regard.

    With --check, what was written is read back and run beside the original, on random ids and on
    text, and beside transformers if that is installed: one line for each layer with the largest
    difference (as a share of the layer's largest value, where that is above 1; – where transformers
    has no such layer), and one with the number of texts that get other ids. Above 1e-5 nothing is
    left in DST and the exit code is 1.

    With --keep-unknown, tensors of layers that regard does not know (a published model with heads
    of its own) are kept beside the weights and written back by --to hf, bit for bit; otherwise
    they are an error.

    Example: regard convert opus-mt-en-de runs/en-de --to regard --check
    """
    if to not in FORMATS:
        raise BadInput(f"--to {to}: choose {' or '.join(FORMATS)}")
    if not is_empty(target):
        raise BadInput(f"{target}: is there already, and nothing is overwritten")
    model = load(source, "cpu", keep_unknown=keep_unknown)
    if check and not isinstance(model.facts, EncoderDecoder | TrunkWithHeads):
        raise BadInput("--check compares translators and encoders; this model is neither")
    with replacing_folder(target) as written:
        model.save(written, to)
        if check:
            theirs = next((f for f in (written, Path(source)) if _is_hugging_face(f)), None)
            again = load(written, "cpu", keep_unknown=keep_unknown)
            worst = _compared(model, again, theirs, as_json)
            if not worst <= LIMIT:  # a NaN is no agreement
                complain(f"{target}: not written, since it differs by {worst:.1e} (above {LIMIT})")
                raise typer.Exit(1)
    note(f"wrote {target}")


def _is_hugging_face(folder: Path) -> bool:
    return "regard" not in read_json(folder / "config.json")


def _compared(model: Model, again: Model, theirs: Path | None, as_json: bool) -> float:
    """Print how far all agree, line by line; the largest difference of all."""
    facts, text = model.facts, model.tokenizer
    assert isinstance(facts, EncoderDecoder | TrunkWithHeads)
    assert not isinstance(text, PlainTokenizer)
    texts = [(pair.source, pair.target) for pair in corpus(0, SENTENCES, 0).dev]
    examples = list(parity.random_examples(facts))
    if text is not None:
        examples += parity.examples_from_texts(text, facts, texts)
    ours = parity.layer_outputs(model.module, facts, examples)
    said = parity.layer_outputs(again.module, facts, examples)
    lost = dict.fromkeys(ours, math.inf)  # a layer that is not there again does not agree
    columns = {"read back": {**lost, **parity.largest_differences(ours, said)}}
    if text is not None and isinstance(again.tokenizer, type(text)):
        both = parity.tokenize_with(text), parity.tokenize_with(again.tokenizer)
        columns["read back"][TEXTS] = parity.count_differing_ids(*both, texts)
    if theirs is not None and not hf_reference.is_installed():
        note("transformers is not installed: compared without it")
    elif theirs is not None:
        reference = hf_reference.load_model(theirs, model.paper.formats["hf"].architecture(facts))
        said = hf_reference.layer_outputs(reference, facts, examples)
        columns["transformers"] = parity.largest_differences(ours, said)
        if text is not None:
            both = parity.tokenize_with(text), hf_reference.tokenize_with(theirs, facts)
            columns["transformers"][TEXTS] = parity.count_differing_ids(*both, texts)
    _print([*ours, *[TEXTS] * (text is not None)], columns, as_json)
    found = [value for column in columns.values() for value in column.values()]
    return float(torch.tensor(found).max())


def _print(layers: list[str], columns: dict[str, dict[str, float]], as_json: bool) -> None:
    if not as_json:
        print_line(f"{'largest difference':20}" + "".join(f"{name:>14}" for name in columns))
    for layer in layers:
        found = {name: column.get(layer) for name, column in columns.items()}
        if as_json:
            print_json({"layer": layer, **found})
        else:
            print_line(f"{layer:20}" + "".join(_shown(layer, one) for one in found.values()))


def _shown(layer: str, found: float | None) -> str:
    """A count of texts, a difference, or that there was nothing to compare with."""
    if found is None:
        return f"{'–':>14}"
    return f"{found:14.0f}" if layer == TEXTS else f"{found:14.1e}"
