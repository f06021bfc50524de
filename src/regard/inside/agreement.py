"""How far two translators agree: the same ids through both, compared layer by layer."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.ground.batch import pack
from regard.ground.tape import Tape
from regard.models.facts import PairFacts
from regard.text.bilingual import Bilingual

Pair = tuple[list[int], list[int]]  # a source, and a target with what comes before its first word
Values = dict[str, list[Tensor]]  # for each layer one (tokens, width) for each pair
Coder = Callable[[str], list[int]]

SIDES = {"encoder": "source", "decoder": "target"}


@torch.no_grad()
def values(module: nn.Module, facts: PairFacts, pairs: Iterable[Pair]) -> Values:
    """What every layer computes."""
    places = {}
    for name, side in SIDES.items():
        places[f"{name} embedding"] = f"{side}.embed.output"
        for block in range(getattr(facts, side).stack.depth):
            places[f"{name} block {block + 1}"] = f"{side}.blocks.{block}.output"
    places["logits"] = "logits"
    found: Values = {layer: [] for layer in places}
    for ids in pairs:
        tape = Tape(*places.values())
        source, target = (pack([one]) for one in ids)
        module(source.tokens_T, source.layout, target.tokens_T, target.layout, tape=tape)
        for layer, place in places.items():
            if place in tape.kept:  # a decoder that runs step by step has no layers of their own
                found[layer].append(tape.kept[place])
    return {layer: values for layer, values in found.items() if values}


@torch.no_grad()
def reference_values(model: Any, pairs: Iterable[Pair]) -> Values:
    """The same of a model of ``transformers``."""
    found: Values = {}
    for source, target in pairs:
        ids = {"input_ids": torch.tensor([source]), "decoder_input_ids": torch.tensor([target])}
        said = model(**ids, output_hidden_states=True)
        sides = {"encoder": said.encoder_hidden_states, "decoder": said.decoder_hidden_states}
        for name, states in sides.items():
            for number, state in enumerate(states):
                layer = f"{name} block {number}" if number else f"{name} embedding"
                found.setdefault(layer, []).append(state[0])
        found.setdefault("logits", []).append(said.logits[0])
    return found


def differences(ours: Values, theirs: Values) -> dict[str, float]:
    """The largest difference of each layer; where values are above 1, as a share of the largest."""
    found = {}
    for layer, one in ours.items():
        x_TD, y_TD = torch.cat(one), torch.cat(theirs[layer])
        found[layer] = float((x_TD - y_TD).abs().max() / x_TD.abs().max().clamp(min=1))
    return found


def other_ids(
    ours: tuple[Coder, Coder], theirs: tuple[Coder, Coder], texts: Sequence[tuple[str, str]]
) -> int:
    """How many texts, sources and targets, get other ids."""
    both = list(zip(ours, theirs, strict=True))
    return sum(
        one(text) != other(text)
        for pair in texts
        for (one, other), text in zip(both, pair, strict=True)
    )


def coders(text: Bilingual) -> tuple[Coder, Coder]:
    """How the two sides are written in ids."""
    return text.source.encode, text.target.encode


def has_reference() -> bool:
    """Whether ``transformers`` is installed."""
    return find_spec("transformers") is not None


def reference(folder: Path) -> Any:
    """A folder as ``transformers`` reads it, in full precision."""
    from transformers import AutoModelForSeq2SeqLM

    with _quiet():
        model = AutoModelForSeq2SeqLM.from_pretrained(
            folder, dtype=torch.float32, local_files_only=True
        )
    return model.eval()


def reference_coders(folder: Path) -> tuple[Coder, Coder]:
    """How ``transformers`` writes the two sides in ids, without the mark at the end."""
    from transformers import AutoTokenizer

    with _quiet():
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return (
        lambda text: tokenizer(text).input_ids[:-1],
        lambda text: tokenizer(text_target=text).input_ids[:-1],
    )


def _quiet() -> warnings.catch_warnings:
    """Without progress bars, and without remarks on packages that it would like to have."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    return warnings.catch_warnings(action="ignore")
