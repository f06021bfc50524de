"""The check of ``regard convert``: outputs of the written folder and the original, compared."""

import math
from collections.abc import Sequence
from pathlib import Path

import torch

from regard.api import Model, load
from regard.cli.io.console import note, print_json, print_line
from regard.ground.errors import BadInput
from regard.ground.files import read_json
from regard.inside import hf_reference, parity
from regard.models.encoder_decoder import ModelFacts
from regard.models.folders.folder import WITHOUT_HEADS
from regard.tour.toy_language.corpus import corpus

SENTENCES = 8
TEXTS = "ids of texts"


def check_conversion(
    model: Model, written: Path, to: str, source: Path, keep_unknown: bool, as_json: bool
) -> float:
    """Compare a model with what was written, and with transformers; the largest difference.

    Heads that the format ``to`` leaves out are not compared.
    """
    theirs = next((folder for folder in (written, source) if _is_hugging_face(folder)), None)
    again = load(written, "cpu", keep_unknown=keep_unknown)
    if theirs is not None and not hf_reference.is_installed():
        note("transformers is not installed: compared without it")
        theirs = None
    left_out = model.facts.head_names if to in WITHOUT_HEADS else ()
    if left_out:
        note(f"the format {to} has no heads: {', '.join(left_out)} not written and not compared")
    return _compare(model, again, theirs, left_out, as_json)


def _is_hugging_face(folder: Path) -> bool:
    path = folder / "config.json"
    return path.exists() and "model_type" in read_json(path)


def _compare(
    model: Model, again: Model, theirs: Path | None, left_out: Sequence[str], as_json: bool
) -> float:
    """Print the differences of all layers; the largest of them."""
    facts, tokenizer = model.facts, model.tokenizer
    texts = [(pair.source, pair.target) for pair in corpus(0, SENTENCES, 0).dev]
    rows = [] if tokenizer is None else parity.text_examples(tokenizer, texts)
    reference, padding = None, set[int]()
    if theirs is not None:
        reference = hf_reference.load_model(theirs, model.paper.formats["hf"].architecture(facts))
        padding = hf_reference.padding_ids(reference)
    random = parity.random_examples(facts, without=padding)
    examples = [*random, *(parity.truncate(one, facts) for one in rows)]
    ours = parity.layer_outputs(model.module, facts, examples)
    others = parity.layer_outputs(again.module, facts, examples)
    expected = ours.keys() - {f"{name} logits" for name in left_out}
    lost = dict.fromkeys(expected, math.inf)  # a layer that is missing does not agree
    columns = {"read back": {**lost, **parity.largest_differences(ours, others)}}
    if rows and again.tokenizer is not None:
        read_back = parity.text_examples(again.tokenizer, texts)
        columns["read back"][TEXTS] = parity.count_differing_rows(rows, read_back)
    if theirs is not None:
        others = hf_reference.layer_outputs(reference, facts, examples)
        columns["transformers"] = parity.largest_differences(ours, others)
        columns["transformers"] |= _differing_texts(rows, theirs, facts, texts) if rows else {}
    _print([*ours, *[TEXTS] * bool(rows)], columns, as_json)
    differences = [value for column in columns.values() for value in column.values()]
    return float(torch.tensor(differences).max())


def _differing_texts(
    rows: list[parity.Example], theirs: Path, facts: ModelFacts, texts: parity.Texts
) -> dict[str, float]:
    """How many rows transformers makes otherwise; nothing if it cannot read the tokenizer."""
    try:
        given = hf_reference.text_examples(theirs, facts, texts)
    except BadInput as error:
        note(f"{error}: ids of texts are compared without it")
        return {}
    ours, others = (
        [parity.without_unread_segments(example, facts) for example in examples]
        for examples in (rows, given)
    )
    return {TEXTS: parity.count_differing_rows(ours, others)}


def _print(layers: list[str], columns: dict[str, dict[str, float]], as_json: bool) -> None:
    if not as_json:
        print_line(f"{'largest difference':20}" + "".join(f"{name:>14}" for name in columns))
    for layer in layers:
        differences = {name: column.get(layer) for name, column in columns.items()}
        if as_json:
            print_json({"layer": layer, **differences})
        else:
            print_line(f"{layer:20}" + "".join(_shown(layer, one) for one in differences.values()))


def _shown(layer: str, difference: float | None) -> str:
    """A count of texts, a difference, or – where there is nothing to compare with."""
    if difference is None:
        return f"{'–':>14}"
    return f"{difference:14.0f}" if layer == TEXTS else f"{difference:14.1e}"
