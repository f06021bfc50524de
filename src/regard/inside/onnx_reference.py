"""Outputs of the graphs of an ONNX folder, by ONNX Runtime, and of the model they are made of.

Graphs run on padded batches, decoders in two parts with a KV cache between them; the model runs on
packed rows, without padding.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from regard.core.batch import ImageRow, TokenRow, pack_texts, read_images
from regard.core.tape import Tape
from regard.inside.parity import Example, LayerOutputs
from regard.models.encoder_decoder import ModelFacts
from regard.models.folders.loaded_model import ONNX_GRAPHS
from regard.models.folders.onnx import QUANTISED
from regard.models.folders.onnx_graphs import CHOICES, Graph, has_source, logits_names

Arrays = dict[str, np.ndarray]
SIDES = ("source", "target")
LATER = 1  # tokens of a decoder's second part


class GraphSession:
    """A graph in ONNX Runtime, on the CPU."""

    def __init__(self, path: Path) -> None:
        from onnxruntime import InferenceSession

        self.session = InferenceSession(path, providers=["CPUExecutionProvider"])
        self.inputs = {given.name: given.shape for given in self.session.get_inputs()}
        self.outputs = [output.name for output in self.session.get_outputs()]

    def run(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """Outputs by name; inputs that the graph does not have are left out."""
        feeds = {name: array for name, array in inputs.items() if name in self.inputs}
        return dict(zip(self.outputs, self.session.run(None, feeds), strict=True))

    def empty_cache(self, rows: int) -> Arrays:
        """Keys and values of no tokens."""
        shapes = {name: shape for name, shape in self.inputs.items() if name.startswith("past")}
        return {
            name: np.zeros((rows, heads, 0, size), np.float32)
            for name, (_, heads, _, size) in shapes.items()
        }


def next_cache(outputs: Mapping[str, np.ndarray]) -> Arrays:
    """The cache for the next run, of the outputs of a run."""
    present = {name: array for name, array in outputs.items() if name.startswith("present")}
    return {name.replace("present", "past_key_values"): array for name, array in present.items()}


def open_graph(folder: Path, file: str, quantised: bool = False) -> GraphSession:
    """The graph of a folder, or the one with weights in int8."""
    return GraphSession(folder / ONNX_GRAPHS / f"{file}{QUANTISED * quantised}.onnx")


def graph_outputs(
    folder: Path, facts: ModelFacts, examples: Sequence[Example], quantised: bool = False
) -> LayerOutputs:
    """Outputs of all graphs by name, one of each example."""
    if has_source(facts):
        return _translator_outputs(folder, examples, quantised)
    session = open_graph(folder, Graph.file, quantised)
    rows = [example["trunk"] for example in examples]
    if facts.encoder.embed.reads_images:
        pixels_BCHW = read_images([cast(ImageRow, row) for row in rows]).astype(np.float32)
        return _split(session.run({"pixel_values": pixels_BCHW}), len(rows))
    texts = [cast(TokenRow, row) for row in rows]
    lengths = [len(row.tokens) for row in texts]
    if any(name.startswith("past") for name in session.inputs):
        inputs = _rectangle(texts, left=True)
        return _trimmed(_in_two_parts(session, inputs), lengths, left=True)
    inputs = _rectangle(texts)
    if CHOICES in logits_names(facts):
        outputs = session.run({name: array[None] for name, array in inputs.items()})
        outputs["logits"] = outputs["logits"][0][:, None]
        return _trimmed(outputs, lengths)
    return _trimmed(session.run(inputs), lengths, by_row=_row_outputs(facts))


def _translator_outputs(folder: Path, examples: Sequence[Example], quantised: bool) -> LayerOutputs:
    encoder = open_graph(folder, "encoder_model", quantised)
    decoder = open_graph(folder, "decoder_model_merged", quantised)
    sources, targets = ([cast(TokenRow, row[side]) for row in examples] for side in SIDES)
    read, written = ([len(row.tokens) for row in rows] for rows in (sources, targets))
    inputs = _rectangle(sources)
    encoded = encoder.run(inputs)
    source = {
        "encoder_hidden_states": encoded["last_hidden_state"],
        "encoder_attention_mask": inputs["attention_mask"],
    }
    ids = {"input_ids": _rectangle(targets)["input_ids"]}
    decoded = _in_two_parts(decoder, {**ids, **source})
    return _trimmed(encoded, read) | _trimmed(decoded, written, read)


def _in_two_parts(session: GraphSession, inputs: Arrays) -> Arrays:
    """Outputs for all tokens, of which the last are read with the cache of the others."""
    ids_BL, mask_BL = inputs["input_ids"], inputs.get("attention_mask")
    cut = max(1, ids_BL.shape[1] - LATER)
    first = inputs | {"input_ids": ids_BL[:, :cut]}
    if mask_BL is not None:
        first |= {"attention_mask": mask_BL[:, :cut]}
    before = session.run(first | session.empty_cache(len(ids_BL)))
    if cut == ids_BL.shape[1]:
        return before
    after = session.run({**inputs, "input_ids": ids_BL[:, cut:], **next_cache(before)})
    return {
        name: _joined(name, array, after[name])
        for name, array in before.items()
        if not name.startswith("present")
    }


def _joined(name: str, before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Outputs of both parts; earlier queries give no weight to later keys."""
    if "attentions" not in name:
        return np.concatenate([before, after], 1)
    missing = after.shape[3] - before.shape[3]
    return np.concatenate([np.pad(before, [(0, 0)] * 3 + [(0, missing)]), after], 2)


def _rectangle(rows: Sequence[TokenRow], left: bool = False) -> Arrays:
    """Padded ids, segments and mask; padding is before the tokens if ``left``."""
    longest = max(len(row.tokens) for row in rows)
    arrays = np.zeros((3, len(rows), longest), np.int64)
    for number, row in enumerate(rows):
        size = len(row.tokens)
        place = slice(longest - size, longest) if left else slice(size)
        arrays[:, number, place] = row.tokens, row.segments, np.ones(size)
    return dict(zip(("input_ids", "token_type_ids", "attention_mask"), arrays, strict=True))


def _row_outputs(facts: ModelFacts) -> set[str]:
    """Outputs with one value for each row, not for each token."""
    names = logits_names(facts)
    return {name for head in facts.output_heads if head.per_row for name in names[head.name]}


def _split(outputs: Arrays, rows: int) -> LayerOutputs:
    return {
        name: [torch.from_numpy(array[row]) for row in range(rows)]
        for name, array in outputs.items()
    }


def _trimmed(
    outputs: Arrays,
    lengths: Sequence[int],
    sources: Sequence[int] = (),
    by_row: set[str] | frozenset[str] = frozenset(),
    left: bool = False,
) -> LayerOutputs:
    """Outputs of each row, without padding; ``sources`` are the lengths of what it attends to."""

    def places(length: int) -> slice:
        return slice(-length, None) if left else slice(length)

    trimmed: LayerOutputs = {}
    for name, rows in _split(outputs, len(lengths)).items():
        keys = sources if name.startswith("cross") else lengths
        pairs = zip(rows, lengths, keys, strict=True)
        if "attentions" in name:
            trimmed[name] = [row[:, places(q)][:, :, places(k)] for row, q, k in pairs]
        elif not name.startswith("present"):
            trimmed[name] = [row if name in by_row else row[places(q)] for row, q, _ in pairs]
    return trimmed


@torch.no_grad()
def model_outputs(
    module: nn.Module, facts: ModelFacts, graphs: Sequence[Graph], examples: Sequence[Example]
) -> LayerOutputs:
    """Outputs of the model by the names of its graphs, one of each example."""
    attention = {name: path for graph in graphs for name, path in graph.attention.items()}
    states, heads = f"{facts.encoder_path}.output", logits_names(facts)
    outputs: LayerOutputs = {}
    for example in examples:
        tape = Tape(states, *attention.values())
        packed = (pack_texts([example[side]]) for side in facts.sides)
        result = module(facts.inputs(*packed), tape=tape)
        values: dict[str, Tensor] = {}
        if has_source(facts) or not heads:
            values["last_hidden_state"] = tape.records[states]
        for head, names in heads.items():
            logits = result.by_head[head]
            per_token = len(names) > 1 or head == "replaced_token"
            parts = logits.unbind(-1) if per_token else [logits]
            values |= dict(zip(names, parts, strict=True))
        for name in _row_outputs(facts) & values.keys():
            values[name] = values[name][0]
        values |= {name: tape.records[path][0] for name, path in attention.items()}
        for name, value in values.items():
            outputs.setdefault(name, []).append(value)
    return outputs
