"""The outputs of ``transformers`` for the same ids, if it is installed; see ``parity``."""

import warnings
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.ground.batch import TokenRow
from regard.inside.parity import Example, LayerOutputs, Tokenize
from regard.models.facts import EncoderDecoder, TrunkWithHeads

HEADS = {"prediction_logits": "words", "seq_relationship_logits": "follows"}


def is_installed() -> bool:
    """Whether ``transformers`` can be imported."""
    return find_spec("transformers") is not None


def load_model(folder: Path, architecture: str) -> Any:
    """The model of a folder as ``transformers`` loads it, in float32."""
    import transformers

    with _quiet():
        model = getattr(transformers, architecture).from_pretrained(
            folder, dtype=torch.float32, local_files_only=True
        )
    return model.eval()


@torch.no_grad()
def layer_outputs(
    model: Any, facts: EncoderDecoder | TrunkWithHeads, examples: Iterable[Example]
) -> LayerOutputs:
    """The output of every layer of its model for every example."""
    outputs: LayerOutputs = {}
    for example in examples:
        if isinstance(example, TokenRow):
            assert isinstance(facts, TrunkWithHeads)
            layers = _row_layers(model, facts, example)
        else:
            layers = _pair_layers(model, *example)
        for layer, value in layers.items():
            outputs.setdefault(layer, []).append(value.reshape(-1, value.shape[-1]))
    return outputs


def _pair_layers(model: Any, source: list[int], target: list[int]) -> dict[str, Tensor]:
    ids = {"input_ids": torch.tensor([source]), "decoder_input_ids": torch.tensor([target])}
    output = model(**ids, output_hidden_states=True)
    sides = {"encoder ": output.encoder_hidden_states, "decoder ": output.decoder_hidden_states}
    layers = [_layers(states, side) for side, states in sides.items()]
    return {**layers[0], **layers[1], "logits": output.logits}


def _row_layers(model: Any, facts: TrunkWithHeads, row: TokenRow) -> dict[str, Tensor]:
    ids = {"input_ids": torch.tensor([row.tokens]), "token_type_ids": torch.tensor([row.segments])}
    if facts.head("choice") is not None:  # one choice per question
        ids = {name: value[None] for name, value in ids.items()}
    output = model(**ids, output_hidden_states=True)
    layers = _layers(output.hidden_states)
    if (pooler := getattr(model, "bert", model).pooler) is not None:
        layers["pooled"] = pooler(output.hidden_states[-1])
    layers |= {ours: output[theirs] for theirs, ours in HEADS.items() if theirs in output}
    if "start_logits" in output:
        layers["logits"] = torch.stack([output.start_logits, output.end_logits], -1)
    elif "logits" in output:
        names = {"mlm": "words", "sentence_pair": "follows"}
        layers[names.get(facts.output_heads[0].name, "logits")] = output.logits
    return layers


def _layers(states: Iterable[Tensor], side: str = "") -> dict[str, Tensor]:
    return {
        f"{side}block {number}" if number else f"{side}embedding": state
        for number, state in enumerate(states)
    }


def tokenize_with(folder: Path, facts: EncoderDecoder | TrunkWithHeads) -> Tokenize:
    """Two texts as ids of the tokenizer of ``transformers``; without EOS for a translator."""
    from transformers import AutoTokenizer

    with _quiet():
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    if isinstance(facts, EncoderDecoder):
        return lambda source, target: (
            tokenizer(source).input_ids[:-1],
            tokenizer(text_target=target).input_ids[:-1],
        )

    def rows(first: str, second: str) -> list[TokenRow]:
        inputs = ((first,), (first, second))
        encodings = [tokenizer(*texts, return_token_type_ids=True) for texts in inputs]
        return [TokenRow(encoding.input_ids, encoding.token_type_ids) for encoding in encodings]

    return rows


def _quiet() -> warnings.catch_warnings:
    """Without progress bars and warnings about optional packages."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    return warnings.catch_warnings(action="ignore")
