"""Parity of two models: the same token ids through both, compared layer by layer.

An example is one input of a model: a (source, target) pair of ids, or a row of an encoder.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.ground.batch import SourceTarget, TokenRow, pack, pack_rows
from regard.ground.tape import Tape
from regard.models.facts import EncoderDecoder, TrunkWithHeads
from regard.text.encoder_tokenizer import EncoderTokenizer
from regard.text.translation_tokenizer import TranslationTokenizer

IdPair = tuple[list[int], list[int]]  # a source, and a target that begins with BOS
Example = IdPair | TokenRow
LayerOutputs = dict[str, list[Tensor]]  # by layer, one (tokens, width) per example
Texts = Sequence[tuple[str, str]]
Tokenize = Callable[[str, str], Sequence[Any]]  # two texts as ids

LENGTHS = (1, 6, 13, 24)
SIDES = {"encoder": "source", "decoder": "target"}
HEADS = {
    "pooled": "pool.output",
    "words": "heads.mlm.logits",
    "follows": "heads.sentence_pair.logits",
}


@torch.no_grad()
def layer_outputs(
    module: nn.Module, facts: EncoderDecoder | TrunkWithHeads, examples: Iterable[Example]
) -> LayerOutputs:
    """The output of every layer for every example."""
    paths = _tape_paths(facts)
    outputs: LayerOutputs = {layer: [] for layer in paths}
    for example in examples:
        tape = Tape(*paths.values())
        if isinstance(example, TokenRow):
            packed = pack_rows([example])
            module(packed, tape=tape)
        else:
            source, target = (pack([ids]) for ids in example)
            module(SourceTarget(source, target), tape=tape)
        for layer, path in paths.items():
            if path in tape.kept:  # an RNN decoder that runs step by step records no layers
                outputs[layer].append(tape.kept[path])
    return {layer: values for layer, values in outputs.items() if values}


def _tape_paths(facts: EncoderDecoder | TrunkWithHeads) -> dict[str, str]:
    """The tape path of each layer."""
    if isinstance(facts, TrunkWithHeads):
        blocks = {
            f"block {i + 1}": f"trunk.blocks.{i}.output" for i in range(facts.trunk.stack.depth)
        }
        paths = [f"heads.{head.name}.logits" for head in facts.output_heads]
        logits = next((path for path in paths if path not in HEADS.values()), "logits")
        return {"embedding": "trunk.embed.output", **blocks, **HEADS, "logits": logits}
    sides = {}
    for name, side in SIDES.items():
        sides[f"{name} embedding"] = f"{side}.embed.output"
        for block in range(getattr(facts, side).stack.depth):
            sides[f"{name} block {block + 1}"] = f"{side}.blocks.{block}.output"
    return {**sides, "logits": "logits"}


def largest_differences(ours: LayerOutputs, theirs: LayerOutputs) -> dict[str, float]:
    """The largest difference of each layer that both have, relative to its largest value if > 1."""
    differences = {}
    for layer in ours.keys() & theirs.keys():
        x_TD, y_TD = torch.cat(ours[layer]), torch.cat(theirs[layer])
        differences[layer] = float((x_TD - y_TD).abs().max() / x_TD.abs().max().clamp(min=1))
    return differences


def count_differing_ids(ours: Tokenize, theirs: Tokenize, texts: Texts) -> int:
    """How many texts get different ids."""
    return sum(a != b for pair in texts for a, b in zip(ours(*pair), theirs(*pair), strict=True))


def tokenize_with(text: TranslationTokenizer | EncoderTokenizer) -> Tokenize:
    """Two texts as ids of source and target, or as a row of the first and a row of both."""
    if isinstance(text, TranslationTokenizer):
        return lambda first, second: (text.source.encode(first), text.target.encode(second))

    def rows(first: str, second: str) -> list[TokenRow]:
        a, b = text.words.encode_all([first, second])
        return [
            TokenRow(*([int(i) for i in ids] for ids in row))
            for row in (text.row(a), text.row(a, b))
        ]

    return rows


def random_examples(facts: EncoderDecoder | TrunkWithHeads) -> Iterator[Example]:
    """Random ids of the vocabulary, the same at every call."""
    generator = torch.Generator().manual_seed(0)

    def ids(below: int, length: int) -> list[int]:
        return torch.randint(below, (length,), generator=generator).tolist()

    for length in LENGTHS:
        if isinstance(facts, EncoderDecoder):
            source, target = facts.source.embed.vocab, facts.target.embed.vocab
            yield ids(source, length), ids(target, length + 1)
        else:
            length = min(length, max_length(facts) or length)
            embed = facts.trunk.embed
            yield TokenRow(ids(embed.vocab, length), ids(max(1, embed.segments), length))


def examples_from_texts(
    text: TranslationTokenizer | EncoderTokenizer,
    facts: EncoderDecoder | TrunkWithHeads,
    texts: Texts,
) -> Iterator[Example]:
    """Texts as a model reads them, truncated to its maximum length."""
    tokenize = tokenize_with(text)
    for pair in texts:
        if isinstance(text, TranslationTokenizer):
            source, target = tokenize(*pair)
            yield [*source, text.target.eos], [text.target.bos, *target]
        elif isinstance(facts, TrunkWithHeads):
            yield from (
                TokenRow(*(ids[: max_length(facts)] for ids in row)) for row in tokenize(*pair)
            )


def max_length(facts: TrunkWithHeads) -> int | None:
    """The most tokens of a row; None without a limit."""
    return facts.trunk.embed.limit
