"""Parity of two models: the outputs of all layers for the same ids, or images.

An example is one input of a model: a row for each of its sides, "trunk", or "source" and "target".
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.core.batch import ImageRow, TokenRow, pack_texts
from regard.core.tape import Tape
from regard.inference.encoder_model import smallest
from regard.models.encoder_decoder import ModelFacts
from regard.text.tokenizers.list import Tokenizer

Example = Mapping[str, TokenRow | ImageRow]
LayerOutputs = dict[str, list[Tensor]]  # by layer, one (tokens, width) per example
Texts = Sequence[tuple[str, str]]

LENGTHS = (1, 6, 13, 24)


@torch.no_grad()
def layer_outputs(model: nn.Module, facts: ModelFacts, examples: Iterable[Example]) -> LayerOutputs:
    """Output of every layer for every example."""
    outputs: LayerOutputs = {layer: [] for layer in facts.layer_paths}
    for example in examples:
        tape = Tape(*facts.layer_paths.values())
        packed = (pack_texts([example[side]]) for side in facts.sides)
        model(facts.inputs(*packed), tape=tape)
        for layer, path in facts.layer_paths.items():
            if path in tape.records:  # an RNN decoder that runs step by step records no layers
                outputs[layer].append(tape.records[path])
    return {layer: values for layer, values in outputs.items() if values}


def largest_differences(ours: LayerOutputs, theirs: LayerOutputs) -> dict[str, float]:
    """Largest difference of each layer that both have, relative to its largest value if > 1."""
    differences = {}
    for layer in ours.keys() & theirs.keys():
        x_TD, y_TD = torch.cat(ours[layer]), torch.cat(theirs[layer])
        differences[layer] = float((x_TD - y_TD).abs().max() / x_TD.abs().max().clamp(min=1))
    return differences


def count_differing_rows(ours: Sequence[Example], theirs: Sequence[Example]) -> int:
    """Number of rows with different ids or segments."""
    pairs = zip(ours, theirs, strict=True)
    return sum(_as_lists(a[side]) != _as_lists(b[side]) for a, b in pairs for side in a)


def random_examples(
    facts: ModelFacts,
    without: Collection[int] = (),
    lengths: Sequence[int] = LENGTHS,
    most: int | None = None,
) -> Iterator[Example]:
    """Draw random ids, ``without`` some, or random images; the same at every call.

    Rows have at most ``most`` tokens.
    """
    generator = torch.Generator().manual_seed(0)

    def draw(ids: Sequence[int], *shape: int) -> list[Any]:
        places = torch.randint(len(ids), shape, generator=generator)
        return np.asarray(ids)[places.numpy()].tolist()

    for length in lengths:
        example = dict[str, TokenRow | ImageRow]()
        for number, side in enumerate(facts.sides):  # a target has one token more, its first
            trunk = getattr(facts, side)
            if trunk.embed.reads_images:
                image = torch.randn(trunk.embed.ids_per_token, generator=generator).numpy()
                example[side] = ImageRow(image.copy)
                continue
            count = min(length + number, smallest(trunk.embed.limit, most) or length + number)
            known = [i for i in range(trunk.embed.vocab) if i not in without]
            tokens = draw(known, count, *trunk.ids_per_token)
            if spelling := trunk.spelling_vocab:
                ids = draw(range(spelling), count, *trunk.ids_per_token)
                tokens = [[word[0], *row[1:]] for word, row in zip(tokens, ids, strict=True)]
            segments = draw(range(trunk.segments or 1), count)
            example[side] = TokenRow(tokens, segments)
        yield example


def text_examples(tokenizer: Tokenizer, texts: Texts) -> list[Example]:
    """Tokenise pairs of texts as rows: single texts and pairs, or source and target."""
    return [
        {side: labelled.row for side, labelled in rows.items()}
        for pair in texts
        for rows in tokenizer.label_all(*pair)
    ]


def truncate(example: Example, facts: ModelFacts, most: int | None = None) -> Example:
    """Example with rows truncated to what the model can read, and to ``most`` tokens."""
    limits = {side: smallest(getattr(facts, side).embed.limit, most) for side in example}
    return {
        side: TokenRow(row.tokens[: limits[side]], row.segments[: limits[side]])
        for side, row in example.items()
    }


def without_unread_segments(example: Example, facts: ModelFacts) -> Example:
    """Example with segments of 0 if the model has no segment embeddings."""
    return {
        side: row if getattr(facts, side).segments else TokenRow(row.tokens, [0] * len(row.tokens))
        for side, row in example.items()
    }


def _as_lists(row: TokenRow | ImageRow) -> list[list[int]]:
    return [np.asarray(ids).tolist() for ids in (row.tokens, row.segments)]
