"""Conversions of folders, checked by what is computed with the written and the original folder."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from rich.text import Text
from torch import Tensor

from regard.api import Model, load
from regard.core.errors import ArgumentName, BadArgument, BadInput
from regard.core.files import is_empty, read_json, replacing_folder
from regard.core.flags import parse_numbers
from regard.data.toy_language.corpus import corpus
from regard.experiments.notes import Listener, Note, ignore
from regard.experiments.result import (
    Cell,
    ExperimentResult,
    OutputTable,
    number_column,
    text_column,
)
from regard.inside import hf_reference, parity
from regard.inside.onnx_reference import graph_outputs, model_outputs
from regard.models.encoder_decoder import ModelFacts
from regard.models.folders.folder import WITHOUT_HEADS
from regard.models.folders.hub import local_folder
from regard.models.folders.onnx_graphs import graphs_of

LIMIT, GRAPH_LIMIT = 1e-5, 1e-4  # of differences: of folders, and of graphs in ONNX Runtime
SENTENCES, BATCH = 8, 4
TEXTS = "ids of texts"
DIFFERENCE, COSINE = "largest difference", "int8 cosine"


@dataclass(frozen=True)
class Differences(ExperimentResult):
    """Largest differences of each layer from the folder that was read back, and from transformers.

    – stands where there is nothing to compare with.
    """

    layers: Sequence[str]
    columns: Mapping[str, Mapping[str, float]]

    @property
    def largest(self) -> float:
        """The largest of all; a difference that is not a number stays one."""
        values = [value for column in self.columns.values() for value in column.values()]
        return float(torch.tensor(values).max())

    @property
    def _rows(self) -> list[list[Cell]]:
        return [
            [layer, *(column.get(layer) for column in self.columns.values())]
            for layer in self.layers
        ]

    def tables(self) -> list[OutputTable]:
        shown = [number_column(name, ".1e", missing="–") for name in self.columns]
        return [OutputTable([text_column("layer"), *shown], self._rows)]

    def text(self, width: int | None = None) -> Iterator[Text | str]:
        yield f"{'largest difference':20}" + "".join(f"{name:>14}" for name in self.columns)
        for layer, *differences in self._rows:
            number = ".0f" if layer == TEXTS else ".1e"
            cells = ("–" if value is None else f"{value:{number}}" for value in differences)
            yield f"{layer:20}" + "".join(f"{cell:>14}" for cell in cells)


@dataclass(frozen=True)
class FormatList(ExperimentResult):
    """Formats, each with the reason why it cannot express a model, or None."""

    reasons: Mapping[str, str | None]

    def tables(self) -> list[OutputTable]:
        columns = [text_column("format"), text_column("reason")]
        return [OutputTable(columns, [*self.reasons.items()])]

    def text(self, width: int | None = None) -> Iterator[str]:
        for name, reason in self.reasons.items():
            yield f"{name:<8}{'yes' if reason is None else f'no: {reason}'}"


@dataclass(frozen=True)
class Conversion(ExperimentResult):
    """A converted folder, which is only written if the ``differences`` of its check are small."""

    folder: Path
    differences: "Differences | GraphDifferences | None" = None
    is_written: bool = True

    def tables(self) -> list[OutputTable]:
        return [] if self.differences is None else self.differences.tables()

    def text(self, width: int | None = None) -> Iterator[Text | str]:
        return iter(()) if self.differences is None else self.differences.text(width)


class _Differs(Exception):
    """The check of a conversion found large differences; the folder is not written."""


def list_formats(source: str | Path) -> FormatList:
    """The formats of ``convert`` for a model."""
    return FormatList(load(local_folder(source), "cpu").formats)


def convert(
    source: str | Path,
    target: str | Path,
    to: str,
    *,
    check: bool = False,
    int8: bool = False,
    attention: str | None = None,
    keep_unknown: bool = False,
    on_event: Listener = ignore,
) -> Conversion:
    """Write a model folder in another format, and with ``check`` only if it computes the same.

    ``attention`` are numbers of layers, such as "0,3,6", or "all".
    """
    path = Path(target)
    if to != "onnx" and (int8 or attention is not None):
        remedy = ("add ", ArgumentName("to"), " onnx, or leave it out")
        key = "int8" if int8 else "attention"
        raise BadArgument("only graphs have it", key=key, remedy=remedy)
    layers: list[int] | None = [] if attention is None else None
    if attention is not None and attention != "all":
        layers = parse_numbers("attention", attention)
    if not is_empty(path):
        raise BadInput(f"{path}: exists and is not overwritten; name a new folder")
    folder = local_folder(source)
    model = load(folder, "cpu", keep_unknown=keep_unknown)
    if (reason := (known := model.formats)[to]) is not None:
        usable = ", ".join(name for name, fault in known.items() if fault is None)
        raise BadInput(f"{reason}; formats that can express it as it is: {usable}")
    differences: Differences | GraphDifferences | None = None
    limit = GRAPH_LIMIT if to == "onnx" else LIMIT
    try:
        with replacing_folder(path) as written:
            model.save(written, to, int8=int8, attention=layers)
            if check and to == "onnx":
                differences = check_graphs(model, written, layers, int8)
            elif check:
                differences = check_conversion(model, written, to, folder, keep_unknown, on_event)
            if differences is not None and not differences.largest <= limit:  # NaN fails too
                raise _Differs
    except _Differs:
        assert differences is not None
        fault = f"not written: differs by {differences.largest:.1e} (limit {limit})"
        on_event(Note(f"{path}: {fault}", error=True))
        return Conversion(path, differences, is_written=False)
    on_event(Note(f"wrote {path}"))
    return Conversion(path, differences)


def check_conversion(
    model: Model,
    written: Path,
    to: str,
    source: Path,
    keep_unknown: bool,
    on_event: Listener = ignore,
) -> Differences:
    """Compare a model with the written folder, and with transformers if that is installed.

    Heads that the format ``to`` leaves out are not compared.
    """
    hf_folder = next((folder for folder in (written, source) if _is_hugging_face(folder)), None)
    reread = load(written, "cpu", keep_unknown=keep_unknown)
    if hf_folder is not None and not hf_reference.is_installed():
        on_event(Note("transformers is not installed: the check compares without it"))
        hf_folder = None
    left_out = model.facts.head_names if to in WITHOUT_HEADS else ()
    if left_out:
        names = ", ".join(left_out)
        on_event(Note(f"the format {to} has no heads: {names} not written and not compared"))
    return _compare(model, reread, hf_folder, left_out, on_event)


def _is_hugging_face(folder: Path) -> bool:
    path = folder / "config.json"
    return path.exists() and "model_type" in read_json(path)


def _compare(
    model: Model, reread: Model, hf_folder: Path | None, left_out: Sequence[str], on_event: Listener
) -> Differences:
    facts, tokenizer = model.facts, model.tokenizer
    texts = [(pair.source, pair.target) for pair in corpus(0, SENTENCES, 0).dev]
    rows = [] if tokenizer is None else parity.text_examples(tokenizer, texts)
    reference, padding, most = None, set[int](), None
    if hf_folder is not None:
        architecture = model.paper.formats["hf"].architecture(facts)
        reference = hf_reference.load_model(hf_folder, architecture)
        padding = hf_reference.padding_ids(reference)
        most = hf_reference.position_limit(reference)
    random = parity.random_examples(facts, without=padding, most=most)
    examples = [*random, *(parity.truncate(row, facts, most) for row in rows)]
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
        if rows:
            columns["transformers"] |= _differing_texts(rows, hf_folder, facts, texts, on_event)
    return Differences([*outputs, *[TEXTS] * bool(rows)], columns)


def _differing_texts(
    rows: list[parity.Example],
    hf_folder: Path,
    facts: ModelFacts,
    texts: parity.Texts,
    on_event: Listener,
) -> dict[str, float]:
    """Number of texts with other ids in transformers; empty if it cannot read the tokenizer."""
    try:
        hf_rows = hf_reference.text_examples(hf_folder, facts, texts)
    except BadInput as error:
        on_event(Note(f"{error}: ids of texts are compared without it"))
        return {}
    ours, theirs = (
        [parity.without_unread_segments(example, facts) for example in examples]
        for examples in (rows, hf_rows)
    )
    return {TEXTS: parity.count_differing_rows(ours, theirs)}


@dataclass(frozen=True)
class GraphDifferences(ExperimentResult):
    """Largest difference of each output of a graph, and the least cosine of int8, if it has it."""

    differences: Mapping[str, float]
    cosines: Mapping[str, float]

    @property
    def largest(self) -> float:
        """The largest of all; a difference that is not a number stays one."""
        return float(torch.tensor([*self.differences.values()]).max())

    def tables(self) -> list[OutputTable]:
        columns = [text_column("output"), number_column(DIFFERENCE, ".1e")]
        columns += [number_column(COSINE, ".4f")] * bool(self.cosines)
        rows: list[list[Cell]] = [
            [name, value, *([self.cosines[name]] if self.cosines else [])]
            for name, value in self.differences.items()
        ]
        return [OutputTable(columns, rows)]

    def text(self, width: int | None = None) -> Iterator[Text | str]:
        yield f"{'output':24}{DIFFERENCE:>20}" + f"{COSINE:>14}" * bool(self.cosines)
        for name, value in self.differences.items():
            cosine = f"{self.cosines[name]:14.4f}" if self.cosines else ""
            yield f"{name:24}{value:20.1e}{cosine}"


def check_graphs(
    model: Model, written: Path, attention: Sequence[int] | None, int8: bool
) -> GraphDifferences:
    """Compare graphs with their model.

    The batch has rows of different lengths: random ids, and texts if there is a tokenizer.
    """
    facts, module, tokenizer = model.facts, model.module, model.tokenizer
    texts = [(pair.source, pair.target) for pair in corpus(0, BATCH, 0).dev]
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
    return GraphDifferences(differences, cosines)


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
