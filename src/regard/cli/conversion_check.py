"""``regard convert --check``: outputs of the written folder compared with the original."""

import math
from collections.abc import Sequence
from pathlib import Path

import torch

from regard.api import Model, load
from regard.cli.io.console import note, print_line
from regard.cli.io.table_formats import (
    Cell,
    OutputTable,
    TableFormat,
    number_column,
    print_tables,
    text_column,
)
from regard.ground.errors import BadInput
from regard.ground.files import read_json
from regard.inside import hf_reference, parity
from regard.models.encoder_decoder import ModelFacts
from regard.models.folders.folder import WITHOUT_HEADS
from regard.tour.toy_language.corpus import corpus

SENTENCES = 8
TEXTS = "ids of texts"


def check_conversion(
    model: Model, written: Path, to: str, source: Path, keep_unknown: bool, form: TableFormat
) -> float:
    """Compare a model with the written folder, and with transformers; the largest difference.

    Heads that the format ``to`` leaves out are not compared.
    """
    hf_folder = next((folder for folder in (written, source) if _is_hugging_face(folder)), None)
    reread = load(written, "cpu", keep_unknown=keep_unknown)
    if hf_folder is not None and not hf_reference.is_installed():
        note("transformers is not installed: the check compares without it")
        hf_folder = None
    left_out = model.facts.head_names if to in WITHOUT_HEADS else ()
    if left_out:
        note(f"the format {to} has no heads: {', '.join(left_out)} not written and not compared")
    return _compare(model, reread, hf_folder, left_out, form)


def _is_hugging_face(folder: Path) -> bool:
    path = folder / "config.json"
    return path.exists() and "model_type" in read_json(path)


def _compare(
    model: Model, reread: Model, hf_folder: Path | None, left_out: Sequence[str], form: TableFormat
) -> float:
    """Print the largest difference of each layer; return the largest of all."""
    facts, tokenizer = model.facts, model.tokenizer
    texts = [(pair.source, pair.target) for pair in corpus(0, SENTENCES, 0).dev]
    rows = [] if tokenizer is None else parity.text_examples(tokenizer, texts)
    reference, padding = None, set[int]()
    if hf_folder is not None:
        architecture = model.paper.formats["hf"].architecture(facts)
        reference = hf_reference.load_model(hf_folder, architecture)
        padding = hf_reference.padding_ids(reference)
    random = parity.random_examples(facts, without=padding)
    examples = [*random, *(parity.truncate(row, facts) for row in rows)]
    outputs = parity.layer_outputs(model.module, facts, examples)
    expected = outputs.keys() - {f"{name} logits" for name in left_out}
    differences = dict.fromkeys(expected, math.inf)  # a layer that is missing does not agree
    reread_outputs = parity.layer_outputs(reread.module, facts, examples)
    differences |= parity.largest_differences(outputs, reread_outputs)
    columns = {"read back": differences}
    if rows and reread.tokenizer is not None:
        reread_rows = parity.text_examples(reread.tokenizer, texts)
        differences[TEXTS] = parity.count_differing_rows(rows, reread_rows)
    if hf_folder is not None:
        hf_outputs = hf_reference.layer_outputs(reference, facts, examples)
        columns["transformers"] = parity.largest_differences(outputs, hf_outputs)
        columns["transformers"] |= _differing_texts(rows, hf_folder, facts, texts) if rows else {}
    _print([*outputs, *[TEXTS] * bool(rows)], columns, form)
    values = [value for column in columns.values() for value in column.values()]
    return float(torch.tensor(values).max())


def _differing_texts(
    rows: list[parity.Example], hf_folder: Path, facts: ModelFacts, texts: parity.Texts
) -> dict[str, float]:
    """Number of texts with other ids in transformers; empty if it cannot read the tokenizer."""
    try:
        hf_rows = hf_reference.text_examples(hf_folder, facts, texts)
    except BadInput as error:
        note(f"{error}: ids of texts are compared without it")
        return {}
    ours, theirs = (
        [parity.without_unread_segments(example, facts) for example in examples]
        for examples in (rows, hf_rows)
    )
    return {TEXTS: parity.count_differing_rows(ours, theirs)}


def _print(layers: list[str], columns: dict[str, dict[str, float]], form: TableFormat) -> None:
    """Print a line for each layer; – where there is nothing to compare with."""
    rows: list[list[Cell]] = [
        [layer, *(column.get(layer) for column in columns.values())] for layer in layers
    ]
    if form != "text":
        shown = [number_column(name, ".1e", missing="–") for name in columns]
        print_tables([OutputTable([text_column("layer"), *shown], rows)], form)
        return
    print_line(f"{'largest difference':20}" + "".join(f"{name:>14}" for name in columns))
    for layer, *differences in rows:
        number = ".0f" if layer == TEXTS else ".1e"
        cells = ("–" if value is None else f"{value:{number}}" for value in differences)
        print_line(f"{layer:20}" + "".join(f"{cell:>14}" for cell in cells))
