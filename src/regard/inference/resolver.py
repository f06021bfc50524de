"""Clusters of mentions that refer to the same, by a model with a coreference head."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import chain, pairwise
from typing import ClassVar, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from regard.core.batch import BatchLimits, pack_texts
from regard.core.errors import BadInput, BadItem, shown
from regard.core.tape import NULL_TAPE, NullTape, Tape, ValueTape
from regard.data.readers.coreference_documents import document_of, sentence_spans
from regard.data.readers.examples import CoreferenceExample, Mention
from regard.data.readers.fields import json_object
from regard.data.rows.coreference_rows import DocumentRows, document_rows
from regard.inference.component import Row
from regard.inference.predictor import Predictor
from regard.inference.row_batches import finite_logits
from regard.models.coreference_head import ROW, CoreferenceHead
from regard.objectives.antecedent_ranking import pack_spans, span_table
from regard.text.words import Span, Spans, check_text, clitic_spans, joined_spans, spaced_spans

TOKENS = 2_048  # of the documents of a batch: each word begins as many spans as it may be wide
HEAD_WEIGHTS = f"heads.{CoreferenceHead.name}.head_word.weights"  # on a tape
GOLD_ONLY = (
    'this model reads given mentions: give JSON with "sentences" and "clusters" (as for training)'
)

DocumentInput = str | Sequence[Sequence[str]] | CoreferenceExample
"""A text, its sentences as lists of words, or a document with speakers, genre and mentions."""


@dataclass(frozen=True)
class ResolvedMention:
    """A mention: its characters [start, end), its first and last word, and its head word.

    Words are counted from 0 in the whole document. The head word has the largest attention weight.
    """

    text: str
    start: int
    end: int
    first: int
    last: int
    head: str


class MarkedPart(NamedTuple):
    """Part of a text and the number of its innermost cluster (0: none), or a mark of a mention."""

    text: str
    cluster: int
    is_mark: bool = False


@dataclass(frozen=True)
class ResolvedText:
    """A text, its words by sentence, and clusters of mentions, in the order of the text."""

    text: str
    sentences: tuple[tuple[str, ...], ...]
    clusters: tuple[tuple[ResolvedMention, ...], ...]

    @property
    def word_clusters(self) -> list[list[Mention]]:
        """Clusters of words [start, end)."""
        return [[(m.first, m.last + 1) for m in cluster] for cluster in self.clusters]

    @property
    def mentions(self) -> list[tuple[int, ResolvedMention]]:
        """Mentions in the order of the text, each with the number of its cluster, from 1."""
        numbered = [
            (number, mention)
            for number, cluster in enumerate(self.clusters, start=1)
            for mention in cluster
        ]
        return sorted(numbered, key=lambda each: (each[1].first, each[1].last))

    @property
    def parts(self) -> list[MarkedPart]:
        """The text in parts, with a bracket before each mention, and "]" and a number after it."""
        mentions = [
            (mention.start, mention.end, number)
            for number, cluster in enumerate(self.clusters, start=1)
            for mention in cluster
        ]
        opened = sorted(mentions, key=lambda mention: (mention[0], -mention[1]))
        closed = sorted(mentions, key=lambda mention: (mention[1], -mention[0]))
        ends = {place for start, end, _ in mentions for place in (start, end)}
        places = sorted({0, len(self.text), *ends})
        parts = []
        for place, following in pairwise([*places, len(self.text)]):
            parts += [MarkedPart(f"]{n}", n, True) for _, end, n in closed if end == place]
            parts += [MarkedPart("[", n, True) for start, _, n in opened if start == place]
            around = [m for m in mentions if m[0] <= place < following <= m[1]]
            inner = min(around, key=lambda m: m[1] - m[0], default=(0, 0, 0))[2]
            parts.append(MarkedPart(self.text[place:following], inner))
        return [part for part in parts if part.text]

    @property
    def line(self) -> str:
        """The text with a bracket around each mention, and the number of its cluster."""
        return " ".join("".join(part.text for part in self.parts).split())

    @property
    def record(self) -> dict[str, object]:
        """Sentences and clusters for JSON, as in files to train on, and mentions by cluster."""
        clusters = [[[m.first, m.last] for m in cluster] for cluster in self.clusters]
        mentions = [[asdict(mention) for mention in cluster] for cluster in self.clusters]
        return {"sentences": self.sentences, "clusters": clusters, "mentions": mentions}


class ResolverRows(NamedTuple):
    """A text, the characters of its words, its sentences, its rows, and spans of words."""

    text: str
    characters: Sequence[Span]
    sentences: tuple[tuple[str, ...], ...]
    document: DocumentRows
    spans_N2: np.ndarray
    table_NC: np.ndarray


ResolverRow = Row[DocumentInput, ResolverRows]


@dataclass(frozen=True, eq=False)
class Resolver(Predictor[DocumentInput, ResolverRows, ResolvedText]):
    """The component "resolve" of a model with a coreference head.

    A row has at most ``segment`` tokens (0: one sentence). A mention in no cluster is a cluster of
    its own if its mention score is above ``single_above``; None: never. ``show`` prints a result.
    """

    name = "resolve"
    marks_texts = True
    empty_record: ClassVar = dict.fromkeys(("sentences", "clusters", "mentions"))
    record_keys = (("text",), ("sentences",))
    more_keys = ("clusters", "speakers", "genre")
    segment: int = 0
    single_above: float | None = None
    find_words: Spans = field(default=clitic_spans)
    show: Callable[[ResolvedText], str] = field(default=lambda value: value.line)

    @property
    def own_limit(self) -> int:
        return self.max_length or TOKENS

    @property
    def limits(self) -> BatchLimits:
        return BatchLimits(TOKENS, self.batch_size, TOKENS)

    @cached_property
    def head(self) -> CoreferenceHead:
        """The facts of the coreference head."""
        return self.module.heads[CoreferenceHead.name].head

    def rows(self, inputs: Sequence[DocumentInput], keys: Sequence[int]) -> list[ResolverRow]:
        texts = [self._read(given, number) for number, given in enumerate(inputs, start=1)]
        documents = document_rows(
            self.tokenizer,
            [example.sentences for _, _, example in texts],
            self.segment,
            self.max_length,
        )
        rows = []
        for key, given, (text, characters, example), document in zip(
            keys, inputs, texts, documents, strict=True
        ):
            spans_N2 = candidate_spans(self.head, document, example)
            table_NC = span_table(document, spans_N2, example.speakers, example.genre)
            data = ResolverRows(text, characters, example.sentences, document, spans_N2, table_NC)
            rows.append(Row(key, given, data, document.tokens))
        return rows

    def _read(
        self, given: DocumentInput, number: int
    ) -> tuple[str, Sequence[Span], CoreferenceExample]:
        """The text of input ``number``, the characters of its words, and its sentences."""
        if isinstance(given, str):
            if self.head.gold:
                raise BadItem(number, GOLD_ONLY)
            check_text(given, number)
            by_sentence = sentence_spans(given, self.find_words)
            words = tuple(tuple(given[start:end] for start, end in spans) for spans in by_sentence)
            if not words:
                raise BadItem(number, "a text without words")
            return given, [*chain(*by_sentence)], CoreferenceExample("", words, ())
        example = given if isinstance(given, CoreferenceExample) else _listed(given, number)
        return " ".join(example.words), joined_spans(example.words), example

    def values(self, rows: Sequence[ResolverRow], tape: NullTape = NULL_TAPE) -> list[ResolvedText]:
        documents = [row.data for row in rows]
        tables = [data.table_NC for data in documents]
        counts = [len(data.document.rows) for data in documents]
        inputs = pack_texts([*chain.from_iterable(data.document.rows for data in documents)])
        spans_NC = pack_spans(tables, counts)
        run = ValueTape(HEAD_WEIGHTS, tape.next_batch())
        with torch.no_grad():
            positions = {CoreferenceHead.name: spans_NC.to(self.device)}
            outputs = self.module(inputs.to(self.device), positions=positions, tape=run).by_head
        kept_N, at_NA, scores_N = (outputs[name].cpu() for name in CoreferenceHead.more_outputs)
        logits_NA, scores_N = (
            outputs[CoreferenceHead.name].double().cpu(),
            finite_logits(self.module, scores_N),
        )
        best_N = logits_NA.argmax(1)
        antecedents_N = torch.where(
            best_N > 0, at_NA.gather(1, (best_N - 1).clamp(min=0)[:, None])[:, 0], -1
        )
        clusters = self._clusters(kept_N, antecedents_N, scores_N)
        heads = head_tokens(run.value, spans_NC, kept_N) if len(kept_N) else {}
        results, begin = [], 0
        for data in documents:
            end = begin + len(data.spans_N2)
            own = [c for c in clusters if begin <= c[0] < end]
            results.append(_resolved(data, own, begin, heads))
            begin = end
        return results

    def head_words(self, given: DocumentInput) -> tuple[ResolvedText, np.ndarray]:
        """The result of an input, and the attention of its mentions to words (mentions, words).

        The attention to a word is the sum over its tokens.
        """
        rows, tape = self.rows([given], [0]), Tape(HEAD_WEIGHTS)
        (resolved,) = self.values(rows, tape)
        data = rows[0].data
        weights_LS = np.zeros((len(resolved.mentions), len(data.document.places)), np.float32)
        if not len(weights_LS):
            return resolved, weights_LS
        weights_BLS = tape.records[HEAD_WEIGHTS][:, 0].float().cpu().numpy()
        row_N, spans = data.table_NC[:, ROW], {(a, b): n for n, (a, b) in enumerate(data.spans_N2)}
        for number, (_, mention) in enumerate(resolved.mentions):
            span = spans[mention.first, mention.last + 1]
            weights_S = weights_BLS[row_N[span], (row_N[:span] == row_N[span]).sum()]
            for word in range(mention.first, mention.last + 1):
                _, first, last = data.document.places[word]
                weights_LS[number, word] = weights_S[first : last + 1].sum()
        return resolved, weights_LS

    def _clusters(self, kept_N: Tensor, antecedents_N: Tensor, scores_N: Tensor) -> list[list[int]]:
        """Clusters of numbers of spans: a mention joins the cluster of its antecedent."""
        kept, clusters, cluster_of = kept_N.tolist(), list[list[int]](), dict[int, int]()
        for number, antecedent in enumerate(antecedents_N.tolist()):
            if antecedent < 0:
                cluster_of[number] = len(clusters)
                clusters.append([])
            else:
                cluster_of[number] = cluster_of[antecedent]
            clusters[cluster_of[number]].append(kept[number])
        least = torch.inf if self.single_above is None else self.single_above
        return [c for c in clusters if len(c) > 1 or float(scores_N[c[0]]) > least]

    def is_cut(self, given: DocumentInput, cost: int) -> bool:
        return False

    def token_count(self, given: DocumentInput, most: int) -> int:
        return self.rows([given], [0])[0].cost

    def parse(self, line: str, where: str) -> DocumentInput:
        if line.lstrip().startswith("{"):
            return self.parse_record(json_object(line, where), where)
        if self.head.gold:
            raise BadInput(f"{where}: {GOLD_ONLY}")
        return line

    def parse_record(self, record: Mapping[str, object], where: str) -> DocumentInput:
        if "sentences" in record:
            if self.head.gold and "clusters" not in record:
                raise BadInput(f"{where}: {GOLD_ONLY}")
            return document_of(record, where)
        return super().parse_record(record, where)

    def line(self, value: ResolvedText) -> str:
        return self.show(value)

    def with_show(self, show: Callable[[ResolvedText], str]) -> Self:
        return replace(self, show=show)

    @property
    def columns(self) -> tuple[str, ...]:
        return ("clusters",)

    def with_options(self, *, pretokenised: bool = False, entities: bool = False) -> Self:
        super().with_options(entities=entities)
        return replace(self, find_words=spaced_spans) if pretokenised else self


def candidate_spans(
    head: CoreferenceHead, document: DocumentRows, example: CoreferenceExample
) -> np.ndarray:
    """Spans (first word, last word + 1) that may be mentions, in the order of the text."""
    if not head.gold:
        return document.candidates(head.widest)
    mentions = sorted(filter(document.holds, chain(*example.clusters)))
    return np.array(mentions, np.int64).reshape(-1, 2)


def head_tokens(weights_B1LS: Tensor, spans_NC: Tensor, kept_N: Tensor) -> dict[int, int]:
    """Token of its row with the largest weight, for each span that is a mention."""
    row_N = spans_NC[:, ROW]
    counts = torch.bincount(row_N, minlength=len(weights_B1LS))
    place_N = torch.arange(len(row_N)) - (counts.cumsum(0) - counts)[row_N]
    best_BL = weights_B1LS[:, 0].argmax(-1).cpu()
    tokens_N = best_BL[row_N[kept_N], place_N[kept_N]]
    return dict(zip(kept_N.tolist(), tokens_N.tolist(), strict=True))


def _resolved(
    data: ResolverRows, clusters: Iterable[Sequence[int]], begin: int, heads: Mapping[int, int]
) -> ResolvedText:
    words = [*chain(*data.sentences)]

    def mention(number: int) -> ResolvedMention:
        first, end = map(int, data.spans_N2[number - begin])
        start, stop = data.characters[first].start, data.characters[end - 1].end
        tokens = data.document.places[first:end, 1]
        head = first + int(np.searchsorted(tokens, heads[number], side="right")) - 1
        return ResolvedMention(data.text[start:stop], start, stop, first, end - 1, words[head])

    mentions = tuple(tuple(map(mention, cluster)) for cluster in clusters)
    return ResolvedText(data.text, data.sentences, mentions)


def _listed(given: Sequence[Sequence[str]], number: int) -> CoreferenceExample:
    """Document of sentences that are lists of words."""
    if not isinstance(given, tuple | list) or not given:
        raise BadItem(number, f"{shown(given)} is neither a text nor a list of sentences")
    for sentence in given:
        if not isinstance(sentence, tuple | list) or not all(sentence):
            raise BadItem(number, f"{shown(sentence)} is not a list of words")
    words = tuple(tuple(check_text(word, number) for word in sentence) for sentence in given)
    if not any(words):
        raise BadItem(number, "a text without words")
    return CoreferenceExample("", tuple(filter(None, words)), ())
