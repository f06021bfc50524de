"""Coreference head: spans of words, their mention scores, and an antecedent for each.

The span model and mention ranking of Lee et al. (2017, arXiv:1707.07045), with the coarse-to-fine
pruning and the higher-order inference of Lee et al. (2018, arXiv:1804.05392), over the states of
any trunk: recurrent over sentences, or BERT over independent segments (Joshi et al., 2019,
arXiv:1908.09091). Head words are averaged over states, as in the last of these papers; the first
averages word vectors.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.layout import Layout
from regard.core.tape import NULL_TAPE, NullTape
from regard.layers.attend import Score, attend
from regard.layers.attention import EncoderOutput
from regard.layers.dropout import Dropout
from regard.models.facts import above_zero, at_least, share
from regard.models.heads import AnyHead, Inputs, Named
from regard.models.trunk import Trunk

COLUMNS = ("row", "first", "last", "width", "document", "speaker", "genre")
"""Of a span: the number of its row, its first and last token in it, its words less one, the number
of its document, and the ids of its speaker and genre (0: unknown)."""
ROW, FIRST, LAST, WIDTH, DOCUMENT, SPEAKER, GENRE = range(len(COLUMNS))
GENRES = ("bc", "bn", "mz", "nw", "pt", "tc", "wb")  # of OntoNotes
DISTANCES = 10  # buckets: 0, 1, 2, 3, 4, 5-7, 8-15, 16-31, 32-63, 64 and more


def read_document(encoded: EncoderOutput, pooled_BD: Tensor | None, at: Tensor | None) -> Inputs:
    """All states with their layout, and the spans (N, columns); None without spans."""
    return None if at is None else (encoded.states_TD, encoded.layout, at)


@dataclass(frozen=True)
class CoreferenceHead(AnyHead):
    """Mention-ranking head over spans of at most ``widest`` words.

    Mentions are the spans with the best scores that do not cross a better one, ``ratio`` for each
    word; with ``gold``, all given spans. Each is scored with ``antecedents`` mentions before it:
    the best by a bilinear score (``coarse``), or the nearest. With ``order`` 2, spans are scored a
    second time, after their expected antecedent is mixed into them. ``hidden`` is the size of both
    hidden layers of a score, ``feature_size`` of the vector of a width, a distance, a speaker or a
    genre; the last two are features only with ``metadata``.
    """

    name: ClassVar[str] = "coreference"
    read: ClassVar[Callable[..., Inputs]] = staticmethod(read_document)
    needs_positions: ClassVar[bool] = True
    eager: ClassVar[bool] = True
    logits_order: ClassVar[int | None] = None
    more_outputs: ClassVar[tuple[str, ...]] = (
        "coreference.kept",
        "coreference.antecedents",
        "coreference.mentions",
    )
    widest: int = 10
    ratio: float = 0.4
    antecedents: int = 50
    coarse: bool = True
    order: int = 1
    gold: bool = False
    metadata: bool = False
    hidden: int = 150
    feature_size: int = 20
    dropout: float = 0.2

    def __post_init__(self) -> None:
        at_least(1, self, "widest", "antecedents", "order", "hidden", "feature_size")
        above_zero(self, "ratio")
        share(self, "dropout")

    def span_size(self, width: int) -> int:
        """The size of the vector of a span over states of size ``width``."""
        return 3 * width + self.feature_size

    def build(self, trunk: Trunk, tokens: nn.Embedding, width: int) -> "CoreferenceHeadModule":
        return CoreferenceHeadModule(self, width)

    def run(self, module: nn.Module, inputs: Sequence[object], tape: NullTape) -> Named:
        logits_NA, *more = module(*inputs, tape=tape)
        return dict(zip(self.more_outputs, more, strict=True)) | {
            self.name: tape("logits", logits_NA)
        }

    def macs(self, trunk: Trunk, width: int) -> int:
        size, layer = self.span_size(width), self.hidden * self.hidden
        spans = self.widest * (width + self.hidden * size + layer)
        pairs = self.ratio * self.antecedents * (self.hidden * size + layer)
        return int(spans + pairs + self.ratio * size * (size if self.coarse else self.hidden))


class HeadWordScore(Score):
    """Score of a key alone, w·k: how much it is the head of a span, which has no query."""

    def __init__(self, width: int):
        super().__init__()
        self.out = nn.Linear(width, 1, bias=False)

    def keyed(self, k: Tensor) -> Tensor:
        return self.out(k)

    def between(self, q_BLHK: Tensor, k_BSHK: Tensor, queries: Layout, keys: Layout) -> Tensor:
        return k_BSHK[..., 0].transpose(1, 2)[:, :, None].expand(-1, -1, q_BLHK.shape[1], -1)


@dataclass(frozen=True, eq=False)
class SpanMask:
    """Mask of the words of each span, from its first to its last position in its row."""

    first_N: Tensor
    last_N: Tensor

    def __call__(self, spans: Layout, words: Layout) -> Tensor:
        """Mask of the words of spans, (B, L, S)."""
        place_B1S = words.pad(words.positions_T)[:, None]
        first_BL1, last_BL1 = (spans.pad(end_N)[..., None] for end_N in (self.first_N, self.last_N))
        return (first_BL1 <= place_B1S) & (place_B1S <= last_BL1)


class FeedForwardScore(nn.Sequential):
    """Score from two hidden layers with ReLU and dropout."""

    def __init__(self, inputs: int, hidden: int, dropout: float):
        layers: list[nn.Module] = []
        for size in (inputs, hidden):
            layers += [nn.Linear(size, hidden), nn.ReLU(), Dropout(dropout)]
        super().__init__(*layers, nn.Linear(hidden, 1))


class PairScore(nn.Module):
    """Score of a span i with an antecedent j: two hidden layers over [g_i; g_j; g_i ∘ g_j; φ].

    The first layer is a sum of four, so that only the product is computed for each pair.
    """

    def __init__(self, size: int, features: int, head: CoreferenceHead):
        super().__init__()
        self.span = nn.Linear(size, head.hidden)
        self.antecedent = nn.Linear(size, head.hidden, bias=False)
        self.product = nn.Linear(size, head.hidden, bias=False)
        self.features = nn.Linear(features, head.hidden, bias=False)
        self.dropout = Dropout(head.dropout)
        self.second, self.out = nn.Linear(head.hidden, head.hidden), nn.Linear(head.hidden, 1)

    def forward(self, g_ND: Tensor, at_NA: Tensor, features_NAD: Tensor) -> Tensor:
        """Scores (N, A) of spans with their antecedents."""
        product_NAF = self.product(g_ND[:, None] * g_ND[at_NA])
        x_NAF = self.span(g_ND)[:, None] + self.antecedent(g_ND)[at_NA] + product_NAF
        x_NAF = self.dropout(F.relu(x_NAF + self.features(features_NAD)))
        return self.out(self.dropout(F.relu(self.second(x_NAF))))[..., 0].float()


class CoreferenceHeadModule(nn.Module):
    """Module of the coreference head."""

    def __init__(self, head: CoreferenceHead, width: int):
        super().__init__()
        size, features = head.span_size(width), head.feature_size
        self.head = head
        self.word = HeadWordScore(width)
        self.width = nn.Embedding(head.widest, features)
        self.mention = FeedForwardScore(size, head.hidden, head.dropout)
        self.distance = nn.Embedding(DISTANCES, features)
        self.speaker = nn.Embedding(2, features) if head.metadata else None
        self.genre = nn.Embedding(1 + len(GENRES), features) if head.metadata else None
        self.pair = PairScore(size, features * (3 if head.metadata else 1), head)
        self.coarse = nn.Linear(size, size, bias=False) if head.coarse else None
        self.gate = nn.Linear(2 * size, size) if head.order > 1 else None
        self.dropout = Dropout(head.dropout)

    def forward(
        self, states_TD: Tensor, layout: Layout, spans_NC: Tensor, *, tape: NullTape = NULL_TAPE
    ) -> tuple[Tensor, ...]:
        """Logits (mentions, 1 + antecedents), the first of "no antecedent", which is 0.

        Also the number of each mention among the spans, the numbers of its antecedents among all
        mentions, and the mention score of every span. Spans are in the order of the text.
        """
        g_ND = self.represent(states_TD, layout, spans_NC, tape)
        scores_N = self.mention(g_ND)[:, 0].float()
        logits, kept, antecedents, before = [], [], [], 0
        for begin, end in _documents(spans_NC):
            spans = spans_NC[begin:end]
            kept_N = begin + self._mentions(layout, spans, scores_N[begin:end])
            ranked = self.rank(g_ND[kept_N], scores_N[kept_N], spans_NC[kept_N], tape)
            logits.append(ranked[0])
            antecedents.append(before + ranked[1])
            kept.append(kept_N)
            before += len(kept_N)
        return _join(logits, -torch.inf), torch.cat(kept), _join(antecedents, 0), scores_N

    def represent(
        self, states_TD: Tensor, layout: Layout, spans_NC: Tensor, tape: NullTape = NULL_TAPE
    ) -> Tensor:
        """Vector of each span: its first and last state, its head word, and its width."""
        begin_N = layout.offsets.long()[spans_NC[:, ROW]]
        counts = torch.bincount(spans_NC[:, ROW], minlength=layout.rows).tolist()
        none_N11 = states_TD.new_zeros(len(spans_NC), 1, 1)
        words_THK = states_TD[:, None]
        head_NHK = attend(
            self.word,
            none_N11,
            words_THK,
            words_THK,
            queries=Layout.ragged(counts, states_TD.device),
            keys=layout,
            mask=SpanMask(spans_NC[:, FIRST], spans_NC[:, LAST]),
            tape=tape.under("head_word"),
        )
        width_N = spans_NC[:, WIDTH].clamp(max=self.head.widest - 1)
        ends = (states_TD[begin_N + spans_NC[:, place]] for place in (FIRST, LAST))
        parts = (*ends, head_NHK[:, 0], self.dropout(self.width(width_N)))
        return torch.cat([part.to(states_TD.dtype) for part in parts], -1)

    def _mentions(self, layout: Layout, spans_NC: Tensor, scores_N: Tensor) -> Tensor:
        """Numbers of the spans of a document that are mentions."""
        if self.head.gold:
            return torch.arange(len(spans_NC), device=spans_NC.device)
        most = max(1, int(self.head.ratio * int((spans_NC[:, WIDTH] == 0).sum())))
        begin_N = layout.offsets.long()[spans_NC[:, ROW]]
        ends = zip(
            (begin_N + spans_NC[:, FIRST]).tolist(),
            (begin_N + spans_NC[:, LAST]).tolist(),
            strict=True,
        )
        best = scores_N.detach().argsort(descending=True, stable=True).tolist()
        chosen = best_uncrossed([*ends], best, most)
        return torch.tensor(chosen, dtype=torch.int64, device=spans_NC.device)

    def rank(
        self, g_ND: Tensor, scores_N: Tensor, spans_NC: Tensor, tape: NullTape = NULL_TAPE
    ) -> tuple[Tensor, Tensor]:
        """Logits (N, 1 + A) of the mentions of a document, and the numbers of their antecedents.

        Impossible antecedents have a logit of -inf.
        """
        coarse_NA, at_NA = self._candidates(g_ND, scores_N)
        features_NAD = self._features(spans_NC, at_NA)
        none_N1 = scores_N.new_zeros(len(scores_N), 1)
        for number in range(self.head.order):
            logits_NA = torch.cat([none_N1, coarse_NA + self.pair(g_ND, at_NA, features_NAD)], 1)
            if self.gate is not None and number + 1 < self.head.order:
                weights_NA = tape("antecedents.weights", torch.softmax(logits_NA, -1))
                g_ND = self._refined(g_ND, at_NA, weights_NA.to(g_ND.dtype))
        return logits_NA, at_NA

    def _candidates(self, g_ND: Tensor, scores_N: Tensor) -> tuple[Tensor, Tensor]:
        """Scores without the pair score, and numbers, of the antecedents of each mention."""
        count = len(g_ND)
        places_N = torch.arange(count, device=g_ND.device)
        size = min(self.head.antecedents, max(count - 1, min(count, 1)))
        if self.coarse is None:
            at_NA = places_N[:, None] - 1 - torch.arange(size, device=g_ND.device)
            both_NA = scores_N[:, None] + scores_N[at_NA.clamp(min=0)]
            return both_NA.masked_fill(at_NA < 0, -torch.inf), at_NA.clamp(min=0)
        bilinear_NN = (self.coarse(self.dropout(g_ND)) @ g_ND.T).float()
        both_NN = bilinear_NN + scores_N[:, None] + scores_N
        earlier_NN = places_N < places_N[:, None]
        return both_NN.masked_fill(~earlier_NN, -torch.inf).topk(size, dim=1)

    def _features(self, spans_NC: Tensor, at_NA: Tensor) -> Tensor:
        """Vectors of the distance of each pair, in mentions, and of its speakers and genre."""
        places_N = torch.arange(len(at_NA), device=at_NA.device)
        parts = [self.distance(distance_bucket(places_N[:, None] - at_NA))]
        if self.speaker is not None and self.genre is not None:
            speaker_N, genre_N = spans_NC[:, SPEAKER], spans_NC[:, GENRE]
            alike_NA = (speaker_N[:, None] == speaker_N[at_NA]) & (speaker_N[:, None] > 0)
            genre_ND = self.genre(genre_N)
            parts += [self.speaker(alike_NA.long()), genre_ND[:, None].expand_as(parts[0])]
        return self.dropout(torch.cat(parts, -1))

    def _refined(self, g_ND: Tensor, at_NA: Tensor, weights_NA: Tensor) -> Tensor:
        """Spans mixed with their expected antecedent; "no antecedent" is the span itself."""
        assert self.gate is not None
        expected_ND = weights_NA[:, :1] * g_ND
        expected_ND = expected_ND + torch.einsum("na,nad->nd", weights_NA[:, 1:], g_ND[at_NA])
        gate_ND = torch.sigmoid(self.gate(torch.cat([g_ND, expected_ND], -1)))
        return torch.lerp(expected_ND, g_ND, gate_ND)


def distance_bucket(distance: Tensor) -> Tensor:
    """Bucket of each distance: itself up to 4, then by powers of two."""
    logarithm = distance.clamp(min=1).double().log2().floor().long() + 3
    return torch.where(distance <= 4, distance.clamp(min=0), logarithm.clamp(max=DISTANCES - 1))


def best_uncrossed(ends: Sequence[tuple[int, int]], best: Sequence[int], most: int) -> list[int]:
    """At most ``most`` spans in the order ``best``, without those that cross a better one; sorted.

    Two spans cross if they overlap and neither contains the other.
    """
    chosen: list[int] = []
    last_of, first_of = dict[int, int](), dict[int, int]()  # farthest ends of chosen spans
    for number in best:
        first, last = ends[number]
        inside = range(first, last + 1)
        crosses = any(
            (place > first and last_of.get(place, last) > last)
            or (place < last and first_of.get(place, first) < first)
            for place in inside
        )
        if crosses:
            continue
        chosen.append(number)
        last_of[first] = max(last, last_of.get(first, last))
        first_of[last] = min(first, first_of.get(last, first))
        if len(chosen) == most:
            break
    return sorted(chosen)


def _documents(spans_NC: Tensor) -> Iterator[tuple[int, int]]:
    """First and last span (exclusive) of each document that has spans; of one without, if none has.

    So that all weights have gradients in a batch without documents.
    """
    begin = 0
    if not len(spans_NC):
        yield 0, 0
    for count in torch.bincount(spans_NC[:, DOCUMENT]).tolist():
        if count:
            yield begin, begin + count
        begin += count


def _join(parts: Sequence[Tensor], padding: float) -> Tensor:
    """Rows of several tables, padded to as many columns."""
    columns = max(part.shape[1] for part in parts)
    return torch.cat([F.pad(part, (0, columns - part.shape[1]), value=padding) for part in parts])
