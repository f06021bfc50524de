"""What ``transformers`` computes for the same ids, if it is installed; see ``agreement``."""

import warnings
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.ground.batch import TokenRow
from regard.inside.agreement import Coder, Example, Values
from regard.models.bert_folder import architecture
from regard.models.facts import EncoderFacts, PairFacts

HEADS = {"prediction_logits": "words", "seq_relationship_logits": "follows"}


def is_installed() -> bool:
    """Whether there is anything to compare with."""
    return find_spec("transformers") is not None


def model_in(folder: Path, facts: PairFacts | EncoderFacts) -> Any:
    """A folder as ``transformers`` reads it, in full precision."""
    import transformers

    kind = architecture(facts) if isinstance(facts, EncoderFacts) else "AutoModelForSeq2SeqLM"
    with _quiet():
        model = getattr(transformers, kind).from_pretrained(
            folder, dtype=torch.float32, local_files_only=True
        )
    return model.eval()


@torch.no_grad()
def values(model: Any, facts: PairFacts | EncoderFacts, examples: Iterable[Example]) -> Values:
    """What every layer of its model computes."""
    found: Values = {}
    for example in examples:
        if isinstance(example, TokenRow):
            assert isinstance(facts, EncoderFacts)
            layers = _of_row(model, facts, example)
        else:
            layers = _of_pair(model, *example)
        for layer, value in layers.items():
            found.setdefault(layer, []).append(value.reshape(-1, value.shape[-1]))
    return found


def _of_pair(model: Any, source: list[int], target: list[int]) -> dict[str, Tensor]:
    ids = {"input_ids": torch.tensor([source]), "decoder_input_ids": torch.tensor([target])}
    said = model(**ids, output_hidden_states=True)
    sides = {"encoder ": said.encoder_hidden_states, "decoder ": said.decoder_hidden_states}
    layers = [_layers(states, side) for side, states in sides.items()]
    return {**layers[0], **layers[1], "logits": said.logits}


def _of_row(model: Any, facts: EncoderFacts, row: TokenRow) -> dict[str, Tensor]:
    ids = {"input_ids": torch.tensor([row.tokens]), "token_type_ids": torch.tensor([row.segments])}
    if facts.head is not None and facts.head.task == "choose":  # the only choice of a question
        ids = {name: one[None] for name, one in ids.items()}
    said = model(**ids, output_hidden_states=True)
    found = _layers(said.hidden_states)
    if (pooler := getattr(model, "bert", model).pooler) is not None:
        found["pooled"] = pooler(said.hidden_states[-1])
    found |= {ours: said[theirs] for theirs, ours in HEADS.items() if theirs in said}
    if "start_logits" in said:
        found["logits"] = torch.stack([said.start_logits, said.end_logits], -1)
    elif "logits" in said:
        found["logits" if facts.head else "words" if facts.fills else "follows"] = said.logits
    return found


def _layers(states: Iterable[Tensor], side: str = "") -> dict[str, Tensor]:
    return {
        f"{side}block {number}" if number else f"{side}embedding": one
        for number, one in enumerate(states)
    }


def coder(folder: Path, facts: PairFacts | EncoderFacts) -> Coder:
    """How ``transformers`` writes two texts in ids; a translator's without the mark at the end."""
    from transformers import AutoTokenizer

    with _quiet():
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    if isinstance(facts, PairFacts):
        return lambda one, other: (
            tokenizer(one).input_ids[:-1],
            tokenizer(text_target=other).input_ids[:-1],
        )

    def rows(one: str, other: str) -> list[TokenRow]:
        made = [tokenizer(*pair, return_token_type_ids=True) for pair in ((one,), (one, other))]
        return [TokenRow(said.input_ids, said.token_type_ids) for said in made]

    return rows


def _quiet() -> warnings.catch_warnings:
    """Without progress bars, and without remarks on packages that it would like to have."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    return warnings.catch_warnings(action="ignore")
