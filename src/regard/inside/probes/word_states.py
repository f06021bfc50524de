"""States of words at every layer, recorded by a tape in one pass over sentences."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.core.checks import check_whole
from regard.core.errors import BadInput
from regard.core.tape import Tape
from regard.inference.encoder_model import smallest
from regard.inference.model_runner import ModelRunner
from regard.inside.probes.probe_tasks import ProbeSet, Words
from regard.text.tokenizers.row_tokenizer import require_tokenizer
from regard.text.words import Span

Pieces = Literal["mean", "first", "last"]
POOLS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda states_TD: states_TD.mean(0),
    "first": lambda states_TD: states_TD[0],
    "last": lambda states_TD: states_TD[-1],
}
"""State of a word, from the states of its tokens."""

Groups = list[list[int]]


class LayerStates(NamedTuple):
    """Features of the examples of a set, (examples, width) for each layer.

    ``known`` is the mask of the examples whose words all have states: a sentence that is too long
    for the model has none.
    """

    layers: dict[int, np.ndarray]
    known: np.ndarray


def layer_numbers(model: ModelRunner, layers: Sequence[int] | None) -> list[int]:
    """Numbers of the layers of an encoder, 0 for the embedding; default: all."""
    depth = model.facts.encoder.stack.depth
    if layers is None:
        return [*range(depth + 1)]
    return sorted({check_whole("layers", layer, 0, depth) for layer in layers})


def read_states(
    model: ModelRunner,
    examples: ProbeSet,
    layers: Sequence[int] | None = None,
    pieces: Pieces = "mean",
) -> LayerStates:
    """Run the encoder of a model on sentences, and read the states of the words of examples.

    Words are joined by spaces. The features of an example with two words are their states a and b
    and the product of both, [a; b; a ⊙ b] (Liu et al., 2019).
    """
    if model.reads_images:
        raise BadInput("this model reads images: a probe needs a model of texts")
    numbers = layer_numbers(model, layers)
    by_sentence = _word_states(model, examples.sentences, numbers, POOLS[pieces])
    missing = {
        place
        for example in examples.examples
        for place in example.places
        if place.word not in by_sentence[place.sentence]
    }
    known = np.array([missing.isdisjoint(example.places) for example in examples.examples])
    if not known.any():
        raise BadInput("every sentence has more tokens than the model reads")
    features = []
    for example, has_states in zip(examples.examples, known, strict=True):
        if has_states:
            states = [by_sentence[place.sentence][place.word] for place in example.places]
            features.append([_joined([of[n] for of in states]) for n in range(len(numbers))])
    stacked = (np.stack(of_layer) for of_layer in zip(*features, strict=True))
    by_layer = dict(zip(numbers, stacked, strict=True))
    if not all(np.isfinite(states).all() for states in by_layer.values()):
        raise BadInput("the states of the model are NaN or infinite: its weights are broken")
    return LayerStates(by_layer, known)


def _joined(states: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([*states, states[0] * states[1]]) if len(states) == 2 else states[0]


def _word_states(
    model: ModelRunner,
    sentences: Sequence[Words],
    layers: Sequence[int],
    pool: Callable[[Tensor], Tensor],
) -> list[dict[int, list[np.ndarray]]]:
    """State of each word of each sentence, by layer; a sentence that is too long has none."""
    require_tokenizer(model.tokenizer)
    facts, limit = model.facts, smallest(model.position_limit, model.truncation)
    texts = [" ".join(words) for words in sentences]
    fitting = [
        number
        for number, text in enumerate(texts)
        if limit is None or model.token_count(text, limit) <= limit
    ]
    short = [texts[number] for number in fitting]
    groups = [
        _groups(tokens.spans, sentences[number])
        for number, tokens in zip(fitting, model.tokens(short), strict=True)
    ]
    paths = [facts.encoder.state_path(facts.encoder_path, layer) for layer in layers]
    states: list[dict[int, list[np.ndarray]]] = [{} for _ in sentences]
    with torch.inference_mode():
        for rows, batch in model.batches(model.read_rows(short)):
            tape = Tape(*paths)
            layout = model.module.encode(batch, tape=tape).layout
            by_path = [model.split(tape.records[path].float().cpu(), layout) for path in paths]
            for at, row in enumerate(rows):
                states[fitting[row]] = {
                    word: [pool(of_path[at][tokens]).numpy() for of_path in by_path]
                    for word, tokens in enumerate(groups[row])
                    if tokens
                }
    return states


def _groups(spans: Sequence[Span | None], words: Words) -> Groups:
    """Positions of the tokens that overlap each word of a text of words with spaces between.

    A token of no word (a lone space) belongs to the word after it.
    """
    starts = [*accumulate((len(word) + 1 for word in words), initial=0)][:-1]
    ends = [start + len(word) for start, word in zip(starts, words, strict=True)]
    groups: Groups = [[] for _ in words]
    for position, span in enumerate(spans):
        if span is not None:
            first, end = bisect_right(ends, span.start), bisect_left(starts, span.end)
            for word in range(first, min(max(end, first + 1), len(words))):
                groups[word].append(position)
    return groups
