"""What a model costs to train: floating-point operations, counted from its facts."""

from collections.abc import Sequence
from typing import NamedTuple

from regard.models.facts import ClassifierFacts, EncoderFacts, Facts, PairFacts, Stack
from regard.models.sides import Convolved, Reader, Recurrent, Side, Writer

GATES = {"rnn": 1, "gru": 3, "lstm": 4}


class Products(NamedTuple):
    """How many products a side makes: for each of its tokens, each token of its source, each
    sentence, each pair of its own tokens, and each pair of one with a source token."""

    token: int
    source_token: int = 0
    sentence: int = 0
    own_pair: int = 0
    cross_pair: int = 0


def training_flops(facts: PairFacts, pairs: Sequence[tuple[int, int]]) -> float:
    """Multiplications and additions of one pass forward and backward over pairs of these lengths.

    Two per weight and token forward and four backward, and the same for each query-key pair.
    """
    source_T, target_T = sum(s for s, _ in pairs), sum(t for _, t in pairs)
    reads, writes = products(facts.source), products(facts.target, facts.source.stack)
    forward = (
        reads.token * source_T
        + writes.token * target_T
        + writes.source_token * source_T
        + writes.sentence * len(pairs)
        + facts.target.stack.states * facts.target.embed.vocab * target_T
        + reads.own_pair * sum(s * s for s, _ in pairs)
        + writes.own_pair * sum(t * t for _, t in pairs) / 2
        + writes.cross_pair * sum(s * t for s, t in pairs)
    )
    return 6.0 * forward


def classifier_flops(facts: ClassifierFacts, lengths: Sequence[int]) -> float:
    """The same of a classifier over texts of these lengths."""
    reads, states = products(facts.reader), facts.reader.stack.states
    sentence, token = states * facts.classes, reads.token
    if facts.pooling is not None:
        inner, positions = facts.pooling.inner or states, facts.pooling.positions
        query, key, pair = _of_score(facts.pooling.score, states, states, inner, positions)
        sentence += query
        token += key + pair + states
    forward = (
        token * sum(lengths)
        + sentence * len(lengths)
        + reads.own_pair * sum(length * length for length in lengths)
    )
    return 6.0 * forward


def encoder_flops(facts: EncoderFacts, lengths: Sequence[int], blanks: int = 0) -> float:
    """The same of an encoder over rows of these lengths, of which ``blanks`` tokens are filled."""
    reads, width = _of_stack(facts.stack, None), facts.stack.width
    tokens, rows = sum(lengths), len(lengths)
    forward = reads.token * tokens + reads.own_pair * sum(length * length for length in lengths)
    forward += rows * width * (width * facts.pooled + 2 * facts.follows)
    forward += blanks * width * (width + facts.embed.vocab) * facts.fills
    if facts.head is not None:
        forward += (rows if facts.head.of_rows else tokens) * width * facts.head.outputs
    return 6.0 * forward


def products(facts: Facts, source: Side | None = None) -> Products:
    """What one side costs; a decoder's depends on the source it looks at."""
    match facts.stack:
        case Stack() as stack:
            return _of_stack(stack, source)
        case Reader() as stack:
            return Products(_recurrent(stack, stack.embedding, 2 if stack.reads == "both" else 1))
        case Convolved() as stack:
            return Products(stack.depth * stack.kernel * stack.width * 2 * stack.width)
        case Writer() as stack:
            assert source is not None
            return _of_writer(stack, source.states)


def _of_stack(stack: Stack, source: Side | None) -> Products:
    """Projections and feed-forward, in all layers; scores and weighted sums."""
    width = stack.width
    key = width // stack.heads if stack.key is None else stack.key
    both = stack.heads * (key + (key if stack.value is None else stack.value))
    own = 2 * width * both + 2 * width * stack.inner
    if not stack.cross or source is None:
        return Products(stack.depth * own, own_pair=stack.depth * both)
    return Products(
        token=stack.depth * (own + width * both),
        source_token=stack.depth * source.states * both,
        own_pair=stack.depth * both,
        cross_pair=stack.depth * both,
    )


def _recurrent(stack: Recurrent, inputs: int, ways: int = 1) -> int:
    """The gates of all layers; a layer above the first reads all ways of the one below."""
    width, gates = stack.width, GATES[stack.cell]
    above = (stack.depth - 1) * (ways * width + width)
    return ways * gates * width * (inputs + width + above)


def _of_writer(stack: Writer, source: int) -> Products:
    width, looking = stack.width, stack.attention
    told = width if stack.summary or (looking is not None and looking.feeding) else 0
    seen = source if looking is not None and looking.timing == "previous" else 0
    token = _recurrent(stack, stack.embedding + told + seen)
    if stack.maxout is not None:
        context = seen or (width if stack.summary else 0)
        token += (width + stack.embedding + context) * 2 * stack.maxout
    given = source // 2 if stack.bridge == "backward" else source
    states = stack.depth * (2 if stack.cell == "lstm" else 1) * width
    sentence = given * width if stack.summary else 0
    if stack.bridge != "copy":
        sentence += (width if stack.summary else given) * states
    if looking is None:
        return Products(token, sentence=sentence)
    if looking.timing == "current":
        token += (source + width) * width
    inner = looking.inner or width
    query, key, pair = _of_score(looking.score, width, source, inner, looking.positions)
    return Products(token + query, key, sentence, cross_pair=pair + source)


def _of_score(score: str, query: int, key: int, inner: int, positions: int) -> tuple[int, int, int]:
    """The products of a score, from sizes: for each query, each key, and each pair of them."""
    return {
        "additive": (query * inner, key * inner, inner),
        "concat": (query * inner, key * inner, inner),
        "general": (0, key * query, query),
        "bilinear": (0, key * query, query),
        "location": (query * positions, 0, 0),
    }.get(score, (0, 0, key))
