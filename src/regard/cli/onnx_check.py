"""``regard convert --to onnx --check``: graphs in ONNX Runtime compared with the model."""

import math
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.api import Model
from regard.cli.io.console import print_line
from regard.cli.io.table_formats import (
    Cell,
    OutputTable,
    TableFormat,
    number_column,
    print_tables,
    text_column,
)
from regard.inside import parity
from regard.inside.onnx_reference import graph_outputs, model_outputs
from regard.models.folders.onnx_graphs import graphs_of
from regard.tour.toy_language.corpus import corpus

LIMIT = 1e-4
SENTENCES = 4
DIFFERENCE, COSINE = "largest difference", "int8 cosine"


def check_graphs(
    model: Model, written: Path, attention: Sequence[int] | None, int8: bool, form: TableFormat
) -> float:
    """Print the largest difference of each output, and the least cosine of int8; return the first.

    The batch has rows of different lengths: random ids, and texts if there is a tokenizer.
    """
    facts, module, tokenizer = model.facts, model.module, model.tokenizer
    texts = [(pair.source, pair.target) for pair in corpus(0, SENTENCES, 0).dev]
    rows = [] if tokenizer is None else parity.text_examples(tokenizer, texts)
    drawn = parity.random_examples(facts)
    examples = [*drawn, *(parity.truncate(row, facts) for row in rows)]
    expected = model_outputs(module, facts, graphs_of(facts, module, attention), examples)
    computed = graph_outputs(written, facts, examples)
    differences = {name: _difference(rows, computed.get(name)) for name, rows in expected.items()}
    cosines: dict[str, float] = {}
    if int8:
        quantised = graph_outputs(written, facts, examples, quantised=True)
        cosines = {name: _cosine(rows, quantised[name]) for name, rows in expected.items()}
    _print(differences, cosines, form)
    return float(torch.tensor([*differences.values()]).max())


def _difference(expected: Sequence[Tensor], computed: Sequence[Tensor] | None) -> float:
    """Largest difference, relative to the largest value if that is above 1."""
    if computed is None:
        return math.inf
    pairs = [(x.flatten(), y.flatten()) for x, y in zip(expected, computed, strict=True)]
    x, y = (torch.cat(parts) for parts in zip(*pairs, strict=True))
    return float((x - y).abs().max() / x.abs().max().clamp(min=1))


def _cosine(expected: Sequence[Tensor], computed: Sequence[Tensor]) -> float:
    """Least cosine of the outputs of a row."""
    pairs = zip(expected, computed, strict=True)
    return min(float(F.cosine_similarity(x.flatten(), y.flatten(), dim=0)) for x, y in pairs)


def _print(differences: dict[str, float], cosines: dict[str, float], form: TableFormat) -> None:
    """Print a line for each output."""
    if form != "text":
        columns = [text_column("output"), number_column(DIFFERENCE, ".1e")]
        columns += [number_column(COSINE, ".4f")] * bool(cosines)
        cells: list[list[Cell]] = [
            [name, value, *([cosines[name]] if cosines else [])]
            for name, value in differences.items()
        ]
        print_tables([OutputTable(columns, cells)], form)
        return
    print_line(f"{'output':24}{DIFFERENCE:>20}" + f"{COSINE:>14}" * bool(cosines))
    for name, value in differences.items():
        cosine = f"{cosines[name]:14.4f}" if cosines else ""
        print_line(f"{name:24}{value:20.1e}{cosine}")
