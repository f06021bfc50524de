"""Outputs of ``transformers`` for the same ids, if it is installed; see ``parity``."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from regard.core.batch import ImageRow, TokenRow
from regard.core.errors import BadInput, reason_of
from regard.inside.parity import Example, LayerOutputs, Texts
from regard.models.encoder_decoder import ModelFacts


class HFSide(NamedTuple):
    """Names of the inputs and hidden states of one side of a model in ``transformers``."""

    ids: str
    segments: str | None
    states: str
    prefix: str = ""


SIDES = {
    "trunk": HFSide("input_ids", "token_type_ids", "hidden_states"),
    "source": HFSide("input_ids", None, "encoder_hidden_states", "encoder "),
    "target": HFSide("decoder_input_ids", None, "decoder_hidden_states", "decoder "),
}
HEADS = {
    "prediction_logits": "mlm",
    "seq_relationship_logits": "sentence_pair",  # BERT
    "sop_logits": "sentence_pair",  # ALBERT
}
ONE_PER_TOKEN = ("replaced_token",)  # heads with one logit, whose outputs have no last axis


def is_installed() -> bool:
    """Whether ``transformers`` can be imported."""
    return find_spec("transformers") is not None


def load_model(folder: Path, architecture: str) -> Any:
    """Load the model of a folder with ``transformers``, in float32."""
    import transformers

    with _quiet(), _errors_as_bad_input(f"{folder}: transformers cannot load it"):
        load = getattr(transformers, architecture).from_pretrained
        return load(folder, dtype=torch.float32, local_files_only=True).eval()


def padding_ids(model: Any) -> set[int]:
    """Padding id of a model, if it has one: the model does not read it as a token."""
    return {model.config.to_dict().get("pad_token_id")} - {None}


def position_limit(model: Any) -> int | None:
    """The maximum number of tokens of a row, also of positions that are computed; None: no limit.

    Marian computes a table of sinusoids, which ends there.
    """
    limit: int | None = model.config.to_dict().get("max_position_embeddings")
    return limit


@torch.no_grad()
def layer_outputs(model: Any, facts: ModelFacts, examples: Iterable[Example]) -> LayerOutputs:
    """Output of every layer of a ``transformers`` model for every example."""
    outputs: LayerOutputs = {}
    for example in examples:
        with _errors_as_bad_input("transformers cannot run the model"):
            layers = _layers(model, facts, example)
        for layer, value in layers.items():
            outputs.setdefault(layer, []).append(value.reshape(-1, value.shape[-1]))
    return outputs


def _layers(model: Any, facts: ModelFacts, example: Example) -> dict[str, Tensor]:
    output, trunk = _run(model, _inputs(facts, example))
    layers = dict[str, Tensor]()
    for name in facts.sides:
        side, stack = SIDES[name], getattr(facts, name).stack
        names = ["embedding", *(f"block {number + 1}" for number in range(stack.depth))]
        # Encoder-decoders, as most models, return their last states after the final norm only.
        last = trunk.get("last_hidden_state", output[side.states][-1])
        last = output[side.states][-1] if len(facts.sides) > 1 else last
        if stack.final_norm and torch.equal(output[side.states][-1], last):
            names[-1] = "final norm"
        states = zip(names, output[side.states], strict=True)
        layers |= {f"{side.prefix}{layer}": x for layer, x in states}
        if stack.final_norm:
            layers[f"{side.prefix}final norm"] = last
    if (pooled_BD := trunk.get("pooler_output")) is not None:
        layers["pooled"] = pooled_BD
    heads = {head: output[name] for name, head in HEADS.items() if name in output}
    if "start_logits" in output:
        heads["span"] = torch.stack([output.start_logits, output.end_logits], -1)
    elif "logits" in output:
        head = facts.head_names[0]
        heads[head] = output.logits[..., None] if head in ONE_PER_TOKEN else output.logits
    return layers | {f"{head} logits": logits for head, logits in heads.items()}


def _run(model: Any, inputs: dict[str, Tensor]) -> tuple[Any, Any]:
    """Run a model; return its outputs and its trunk's outputs, with all hidden states."""
    trunk_outputs = list[Any]()
    hook = model.base_model.register_forward_hook(lambda *call: trunk_outputs.append(call[-1]))
    try:
        output = model(**inputs, output_hidden_states=True)
    finally:
        hook.remove()
    return output, trunk_outputs[0]


def _inputs(facts: ModelFacts, example: Example) -> dict[str, Tensor]:
    inputs = {}
    for name, row in example.items():
        side = SIDES[name]
        if getattr(facts, name).embed.reads_images:
            inputs["pixel_values"] = torch.from_numpy(cast(ImageRow, row).read())[None]
            continue
        inputs[side.ids] = torch.tensor([[int(i) for i in row.tokens]])
        if side.segments is not None and getattr(facts, name).segments:
            inputs[side.segments] = torch.tensor([[int(i) for i in row.segments]])
    if "choice" in facts.head_names:  # one choice per question
        inputs = {name: ids[None] for name, ids in inputs.items()}
    return inputs


def text_examples(folder: Path, facts: ModelFacts, texts: Texts) -> list[Example]:
    """Pairs of texts, tokenised by ``transformers``."""
    from transformers import AutoConfig, AutoTokenizer

    with _quiet():
        with _errors_as_bad_input("transformers cannot read the tokenizer"):
            tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
    return [rows for pair in texts for rows in ROWS[facts.sides](tokenizer, config, *pair)]


def _trunk_rows(tokenizer: Any, config: Any, first: str, second: str) -> list[Example]:
    """Rows of the first text alone, and of both."""
    inputs = (first,), (first, second)
    encodings = [tokenizer(*texts, return_token_type_ids=True) for texts in inputs]
    return [{"trunk": TokenRow(each.input_ids, each.token_type_ids)} for each in encodings]


def _pair_rows(tokenizer: Any, config: Any, first: str, second: str) -> list[Example]:
    """Rows of a source, and of a target without its last token."""
    source, target = tokenizer(first).input_ids, tokenizer(text_target=second).input_ids
    rows = {"source": source, "target": [config.decoder_start_token_id, *target[:-1]]}
    return [{side: TokenRow(ids, [0] * len(ids)) for side, ids in rows.items()}]


ROWS: dict[tuple[str, ...], Callable[..., list[Example]]] = {
    ("trunk",): _trunk_rows,
    ("source", "target"): _pair_rows,
}


@contextmanager
def _errors_as_bad_input(fault: str) -> Iterator[None]:
    """Report an error of ``transformers``, which may be of any kind, in one line."""
    try:
        yield
    except Exception as error:
        raise BadInput(f"{fault} ({reason_of(error)})") from error


def _quiet() -> warnings.catch_warnings:
    """Context without progress bars and warnings about optional packages."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    return warnings.catch_warnings(action="ignore")
