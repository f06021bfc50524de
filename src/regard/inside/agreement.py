"""How far two models agree: the same ids through both, compared layer by layer.

An example is what a model reads at once: a pair of a translator, or a row of an encoder.
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

Pair = tuple[list[int], list[int]]  # a source, and a target with what comes before its first word
Example = Pair | TokenRow
Values = dict[str, list[Tensor]]  # for each layer one (tokens, width) for each example
Texts = Sequence[tuple[str, str]]
Coder = Callable[[str, str], Sequence[Any]]  # what two texts are in ids

LENGTHS = (1, 6, 13, 24)
SIDES = {"encoder": "source", "decoder": "target"}
HEADS = {
    "pooled": "pool.output",
    "words": "heads.mlm.logits",
    "follows": "heads.sentence_pair.logits",
}


@torch.no_grad()
def values(
    module: nn.Module, facts: EncoderDecoder | TrunkWithHeads, examples: Iterable[Example]
) -> Values:
    """What every layer computes."""
    places = _places(facts)
    found: Values = {layer: [] for layer in places}
    for example in examples:
        tape = Tape(*places.values())
        if isinstance(example, TokenRow):
            packed = pack_rows([example])
            module(packed, tape=tape)
        else:
            source, target = (pack([one]) for one in example)
            module(SourceTarget(source, target), tape=tape)
        for layer, place in places.items():
            if place in tape.kept:  # a decoder that runs step by step has no layers of their own
                found[layer].append(tape.kept[place])
    return {layer: values for layer, values in found.items() if values}


def _places(facts: EncoderDecoder | TrunkWithHeads) -> dict[str, str]:
    """What the tape calls a layer."""
    if isinstance(facts, TrunkWithHeads):
        blocks = {
            f"block {i + 1}": f"trunk.blocks.{i}.output" for i in range(facts.trunk.stack.depth)
        }
        paths = [f"heads.{head.name}.logits" for head in facts.output_heads]
        logits = next((path for path in paths if path not in HEADS.values()), "logits")
        return {"embedding": "trunk.embed.output", **blocks, **HEADS, "logits": logits}
    places = {}
    for name, side in SIDES.items():
        places[f"{name} embedding"] = f"{side}.embed.output"
        for block in range(getattr(facts, side).stack.depth):
            places[f"{name} block {block + 1}"] = f"{side}.blocks.{block}.output"
    return {**places, "logits": "logits"}


def differences(ours: Values, theirs: Values) -> dict[str, float]:
    """The largest difference of each layer that both have; where values are above 1, as a share of
    the largest."""
    found = {}
    for layer in ours.keys() & theirs.keys():
        x_TD, y_TD = torch.cat(ours[layer]), torch.cat(theirs[layer])
        found[layer] = float((x_TD - y_TD).abs().max() / x_TD.abs().max().clamp(min=1))
    return found


def other_ids(ours: Coder, theirs: Coder, texts: Texts) -> int:
    """How many texts get other ids."""
    return sum(
        one != other
        for pair in texts
        for one, other in zip(ours(*pair), theirs(*pair), strict=True)
    )


def coder(text: TranslationTokenizer | EncoderTokenizer) -> Coder:
    """How two texts are written: as source and target, or as a row of the first and one of both."""
    if isinstance(text, TranslationTokenizer):
        return lambda one, other: (text.source.encode(one), text.target.encode(other))

    def rows(one: str, other: str) -> list[TokenRow]:
        first, second = text.words.encode_all([one, other])
        made = (text.row(first), text.row(first, second))
        return [TokenRow(*([int(i) for i in ids] for ids in row)) for row in made]

    return rows


def random_examples(facts: EncoderDecoder | TrunkWithHeads) -> Iterator[Example]:
    """Any ids a model knows, the same at every run."""
    draw = torch.Generator().manual_seed(0)

    def ids(below: int, length: int) -> list[int]:
        return torch.randint(below, (length,), generator=draw).tolist()

    for length in LENGTHS:
        if isinstance(facts, EncoderDecoder):
            source, target = facts.source.embed.vocab, facts.target.embed.vocab
            yield ids(source, length), ids(target, length + 1)
        else:
            length = min(length, longest(facts) or length)
            embed = facts.trunk.embed
            yield TokenRow(ids(embed.vocab, length), ids(max(1, embed.segments), length))


def examples_of(
    text: TranslationTokenizer | EncoderTokenizer,
    facts: EncoderDecoder | TrunkWithHeads,
    texts: Texts,
) -> Iterator[Example]:
    """Texts as a model reads them, not longer than it can."""
    written = coder(text)
    for pair in texts:
        if isinstance(text, TranslationTokenizer):
            source, target = written(*pair)
            yield [*source, text.target.eos], [text.target.bos, *target]
        elif isinstance(facts, TrunkWithHeads):
            yield from (TokenRow(*(ids[: longest(facts)] for ids in row)) for row in written(*pair))


def longest(facts: TrunkWithHeads) -> int | None:
    """The most tokens of a row, if its positions are learned."""
    return facts.trunk.embed.limit
