"""Scores of texts: the log-probability of every token, perplexity and bits per byte.

A causal model gives the probability of each token after those before it. A masked LM gives the
probability of each token when it alone is masked; their product is the pseudo-likelihood of a text
(Salazar et al., 2020, arXiv:1910.14659). Longer texts are read in overlapping windows, ``stride``
tokens apart; each window scores the tokens that earlier ones did not, for a masked LM those in its
middle, which have context on both sides.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import exp, log
from typing import ClassVar, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from regard.core.batch import BatchLimits, Ids, PackedTokens, TokenRow
from regard.core.errors import BadInput, BadItem
from regard.core.pytree import map_tensors, tensors_in
from regard.core.tape import NULL_TAPE, NullTape
from regard.data.readers.fields import field_of, filled
from regard.inference.component import Component, Data, Result, Row
from regard.inference.inputs import InputLimits, token_ids, verb_of
from regard.inference.model_runner import ModelRunner
from regard.inference.row_batches import check_finite, in_order, row_batches
from regard.layers.attention import EncoderOutput
from regard.layers.kernels.bucketed import fewest_tokens
from regard.models.heads import NextTokenHead
from regard.models.label_heads import MLMHead
from regard.models.trunk_with_heads import TrunkWithHeads, TrunkWithHeadsModule
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer
from regard.text.tokenizers.list import TrunkTokenizer
from regard.text.tokenizers.row_tokenizer import RowTokenizer, require_tokenizer
from regard.text.tokenizers.subwords import Subwords
from regard.text.vocabulary import Vocabulary, token_count
from regard.text.words import check_text

WINDOW = 1_024  # the default window of models without a limit
ROWS = 1_024  # rows that are built at once
STATES = 1_024  # states whose logits are computed at once
ANY_LENGTH = 1 << 40  # no limit: texts are divided into rows

Scored = str | Ids | tuple[str | Ids, ...]  # a text or ids, or a pair with a translation


@dataclass(frozen=True)
class TextScore:
    """Log-probability of each token of a text, except a first token without context.

    ``bytes`` is the size of the text in UTF-8 (0 for token ids). ``texts`` is the text, or the
    source and its translation. ``top`` has the most probable tokens in place of each token, by id,
    with their log-probabilities.
    """

    tokens: tuple[str, ...]
    logprobs: tuple[float, ...]
    bytes: int = 0
    texts: tuple[str, ...] = ()
    top: tuple[dict[int, float], ...] = ()

    @property
    def logprob(self) -> float:
        """Sum of the log-probabilities of all tokens."""
        return sum(self.logprobs)

    @property
    def perplexity(self) -> float:
        """exp of the mean negative log-probability of a token."""
        return perplexity(self.logprob, len(self.logprobs))

    @property
    def bits_per_byte(self) -> float | None:
        """The negative log-probability in bits per byte of the text."""
        return bits_per_byte(self.logprob, self.bytes)

    @classmethod
    def total(cls, scores: "Iterable[TextScore]") -> "TextScore":
        """The score of several texts together."""
        scores = list(scores)
        logprobs = tuple(logprob for score in scores for logprob in score.logprobs)
        return cls((), logprobs, sum(score.bytes for score in scores))


def perplexity(logprob: float, tokens: float) -> float:
    """exp of the mean negative log-probability of tokens."""
    return exp(min(-logprob / max(1, tokens), 700.0))


def bits_per_byte(logprob: float, bytes: float) -> float | None:
    """The negative log-probability in bits per byte; None for token ids."""
    return -logprob / log(2) / bytes if bytes else None


class Scorer(Component[Scored, Data, TextScore]):
    """Base class of the component "score": log-probabilities of texts or translations."""

    name = "score"
    reads_empty = True  # an empty line is an error
    is_numbered = False
    reads_whole: ClassVar[bool]  # texts of any length are read
    columns = ("logprob", "perplexity")

    @property
    @abstractmethod
    def vocabularies(self) -> tuple[Vocabulary, ...]:
        """The vocabulary of each text of an input."""

    def token_count(self, given: Scored, most: int) -> int:
        texts = zip(given, self.vocabularies, strict=True)
        return max(token_count((text,), words, 1, most) for text, words in texts)

    def lines(self, result: Result[TextScore]) -> list[str]:
        return [f"{result.value.logprob:.4f}"]

    def cells(self, result: Result[TextScore]) -> list[dict[str, object]]:
        return [{"logprob": result.value.logprob, "perplexity": result.value.perplexity}]

    def figures(self, result: Result[TextScore]) -> dict[str, float]:
        score = result.value
        return {"logprob": score.logprob, "tokens": len(score.logprobs), "bytes": score.bytes}


class ScoredRow(NamedTuple):
    """A row, positions in it, and the tokens that are predicted there."""

    row: TokenRow
    at: np.ndarray
    targets: np.ndarray


class TokenScores(NamedTuple):
    """Log-probabilities of tokens, and of the ``K`` most probable tokens with their ids."""

    logprobs_N: Tensor
    top_NK: Tensor
    top_ids_NK: Tensor

    def split(self, sizes: list[int]) -> list["TokenScores"]:
        """Scores of successive tokens, in parts of these sizes."""
        return [*map(TokenScores, *(part.split(sizes) for part in self))]

    @property
    def top(self) -> list[dict[int, float]]:
        """The most probable tokens in place of each token."""
        pairs = zip(self.top_ids_NK.tolist(), self.top_NK.tolist(), strict=True)
        return [dict(zip(*pair, strict=True)) for pair in pairs]


class Content(NamedTuple):
    """Ids of an input, and a function that makes a row of a part of them."""

    ids: list[int]
    row: Callable[[list[int]], TokenRow]
    bytes: int
    texts: tuple[str, ...] = ()


class Window(NamedTuple):
    """Tokens ``begin`` to ``end`` of an input, of which ``first`` to ``last`` count (exclusive)."""

    begin: int
    end: int
    first: int
    last: int


def windows(
    count: int, longest: int, stride: int, *, before: int = 0, after: int = 0
) -> Iterator[Window]:
    """Windows of at most ``longest`` tokens; every token counts in one of them.

    The first window leaves room for ``before`` tokens. All but the last end with ``after`` tokens
    of context that do not count.
    """
    first, last = 0, longest - before - after
    while first < count:
        last = last if last + after < count else count
        end = min(last + after, count)
        yield Window(max(0, end - longest), end, first, last)
        first, last = last, last + stride


@dataclass(frozen=True, eq=False)
class TextScorer(Scorer[Content]):
    """The component "score" of a causal model or a masked LM.

    Scores also have the ``top`` most probable tokens in place of each token.
    """

    reads_whole = True
    runner: ModelRunner
    window_size: int = WINDOW
    stride: int | None = None
    top: int = 0

    def __post_init__(self) -> None:
        if not self.head:
            fault = "is neither a causal nor a masked language model: it cannot score texts"
            raise BadInput(f"this model {fault}; use {verb_of(self.facts)}")

    @property
    def module(self) -> TrunkWithHeadsModule:
        """The module that reads rows."""
        return cast(TrunkWithHeadsModule, self.runner.module)

    @property
    def facts(self) -> TrunkWithHeads:
        """The facts of the model."""
        return cast(TrunkWithHeads, self.runner.facts)

    @property
    def tokenizer(self) -> TrunkTokenizer | None:
        """The tokenizer, if any."""
        return cast(TrunkTokenizer | None, self.runner.tokenizer)

    @property
    def batch_size(self) -> int:
        return self.runner.batch_size

    @property
    def head(self) -> str:
        """The name of the head that predicts tokens; empty: none."""
        return next((name for name in self.facts.head_names if name in ROWS_OF_HEADS), "")

    @property
    def text(self) -> RowTokenizer:
        """The tokenizer; without one, only token ids can be scored."""
        return require_tokenizer(self.tokenizer)

    @property
    def vocabularies(self) -> tuple[Subwords, ...]:
        return self.text.vocabularies

    @property
    def limits(self) -> BatchLimits:
        return BatchLimits(ANY_LENGTH, self.batch_size, ANY_LENGTH)

    @property
    def own_limit(self) -> int:
        return self.window_size

    def candidates(self, row: Row[Scored, Content]) -> int:
        return self.top * row.cost

    def parse(self, line: str, where: str) -> tuple[str, ...]:
        return (filled(line, where, "empty line"),)

    def parse_record(self, record: Mapping[str, object], where: str) -> tuple[str, ...]:
        return (filled(field_of(record, "text", str, where), where),)

    def rows(self, inputs: Sequence[Scored], keys: Sequence[int]) -> list[Row[Scored, Content]]:
        contents = [self._content(given, number) for number, given in enumerate(inputs, start=1)]
        read = zip(keys, inputs, contents, strict=True)
        return [Row(key, given, content, len(content.ids)) for key, given, content in read]

    def values(
        self, rows: Sequence[Row[Scored, Content]], tape: NullTape = NULL_TAPE
    ) -> list[TextScore]:
        contents = [row.data for row in rows]
        tokens: list[list[int]] = [[] for _ in rows]
        logprobs: list[list[float]] = [[] for _ in rows]
        top: list[list[dict[int, float]]] = [[] for _ in rows]
        for number, row, result in self.scored(contents, tape):
            tokens[number] += row.targets.tolist()
            logprobs[number] += result.logprobs_N.tolist()
            top[number] += result.top if self.top else []
        return [
            TextScore(self._pieces(own), tuple(scores), content.bytes, content.texts, tuple(best))
            for own, scores, best, content in zip(tokens, logprobs, top, contents, strict=True)
        ]

    def records(self, result: Result[TextScore]) -> list[dict[str, object]]:
        score = result.value
        means = {"perplexity": score.perplexity, "bits_per_byte": score.bits_per_byte}
        text = {"text": next(iter(score.texts), None), "logprob": score.logprob, **means}
        record: dict[str, object] = text | {"tokens": score.tokens, "logprobs": score.logprobs}
        if self.top:
            record["top"] = [
                dict(zip(self._pieces([*best]), best.values(), strict=True)) for best in score.top
            ]
        return [record]

    def total(self, sums: Mapping[str, float]) -> str:
        if not sums.get("tokens"):
            return ""
        bits = bits_per_byte(sums["logprob"], sums["bytes"])
        mean = perplexity(sums["logprob"], sums["tokens"])
        return f"perplexity {mean:.4f}, {bits:.4f} bits per byte: {sums['tokens']:,.0f} tokens"

    def scored(
        self, contents: Sequence[Content], tape: NullTape = NULL_TAPE
    ) -> Iterator[tuple[int, ScoredRow, TokenScores]]:
        """Yield (index of the text, row, log-probabilities); rows of a text are in order."""
        rows = (
            (number, row)
            for number, content in enumerate(contents)
            for row in ROWS_OF_HEADS[self.head](self, content)
        )
        while some := list(islice(rows, ROWS)):
            results = self._logprobs([row for _, row in some], tape)
            for (number, row), result in zip(some, results, strict=True):
                yield number, row, result

    @property
    def signature(self) -> str:
        """Window and stride, for the signature of a score."""
        return f"window:{self.window_size}|stride:{self.stride or self.window_size // 2}"

    def _content(self, given: Scored, number: int) -> Content:
        text = given[0] if isinstance(given, tuple) and len(given) == 1 else given
        if isinstance(text, str):
            (words,) = self.vocabularies
            ids = words.encode(check_text(text, number))
            if not ids:
                raise BadItem(number, "has no tokens")
            return Content(ids, self.text.row, len(text.encode()), (text,))
        ids = token_ids(given, number).tolist()
        known = self.module.encoder.embed.token.num_embeddings
        InputLimits(known).check(ids, number)
        return Content(ids, lambda ids: TokenRow(ids, [0] * len(ids)), 0)

    def _stride(self, longest: int, most: int) -> int:
        """The number of tokens between windows of ``longest`` tokens, at most ``most``."""
        if longest < 2:
            raise BadInput(
                f"window of {self.window_size} tokens: too small for text beside special tokens"
            )
        if self.stride is not None and not 1 <= self.stride <= most:
            raise BadInput(
                f"stride is {self.stride:,}: it must be from 1 to {most:,} "
                f"with windows of {self.window_size:,} tokens"
            )
        return self.stride or longest // 2

    def before(self, content: Content) -> list[int]:
        """Separator before a text; nothing before token ids."""
        if not content.bytes or self.tokenizer is None:
            return []
        return self.tokenizer.template.separated([])

    def causal_rows(self, content: Content) -> Iterator[ScoredRow]:
        """Rows in which each token is predicted at the one before it, or at the separator."""
        if not self.facts.trunk.stack.causal:
            raise BadInput("this model sees the tokens that it predicts: it cannot score texts")
        before, stride = self.before(content), self._stride(self.window_size, self.window_size - 1)
        for begin, end, first, _ in windows(
            len(content.ids), self.window_size, stride, before=len(before)
        ):
            prefix = before if first == 0 else []
            tokens = np.array([*prefix, *content.ids[begin:end]])
            at = np.arange(max(first - begin + len(prefix), 1), len(tokens)) - 1
            yield ScoredRow(TokenRow(tokens, np.zeros_like(tokens)), at, tokens[at + 1])

    def masked_rows(self, content: Content) -> Iterator[ScoredRow]:
        """A row for each token except special tokens, in which it is masked."""
        tokenizer = cast(EncoderTokenizer, self.text)
        special = len(content.row([]).tokens)
        before = tokenizer.template.text_start("A") if special else 0
        longest = self.window_size - special
        stride = self._stride(longest, longest)
        for begin, end, first, last in windows(
            len(content.ids), longest, stride, after=(longest - stride) // 2
        ):
            row = content.row(content.ids[begin:end])
            for at in range(first - begin + before, last - begin + before):
                tokens = np.array(row.tokens)
                target, tokens[at] = tokens[at], tokenizer.mask
                if target not in tokenizer.special:
                    yield ScoredRow(row._replace(tokens=tokens), np.array([at]), np.array([target]))

    @torch.inference_mode()
    def _logprobs(self, rows: Sequence[ScoredRow], tape: NullTape) -> list[TokenScores]:
        """The log-probabilities of the targets of each row."""

        def of_batch(
            chosen: list[int], batch: PackedTokens, tape: NullTape
        ) -> Sequence[TokenScores]:
            encoded = self.module.encode(batch, tape=tape)
            return self.of_encoded(encoded, batch, [rows[i] for i in chosen], tape)

        return in_order(
            (chosen, of_batch(chosen, batch, tape.next_batch()))
            for chosen, batch in self._batches(rows, tape)
        )

    def _batches(
        self, rows: Sequence[ScoredRow], tape: NullTape
    ) -> Iterator[tuple[list[int], PackedTokens]]:
        """Batches of rows, with their indices."""
        return row_batches(self.module, [scored.row for scored in rows], self.limits, tape)

    def of_encoded(
        self,
        encoded: EncoderOutput,
        batch: PackedTokens,
        rows: Sequence[ScoredRow],
        tape: NullTape = NULL_TAPE,
    ) -> Sequence[TokenScores]:
        """The log-probabilities of the targets of each row, from the states of a batch.

        A live ``tape`` gets the logits of all targets at once.
        """
        starts = batch.layout.offsets.tolist()
        at_N = np.concatenate([row.at + start for row, start in zip(rows, starts, strict=False)])
        targets_N = torch.from_numpy(np.concatenate([row.targets for row in rows]))
        device = self.runner.device
        states_ND = encoded.states_TD[torch.from_numpy(at_N).to(device)]
        sizes = self._product_sizes([len(row.at) for row in rows], tape)
        chunks = zip(states_ND.split(sizes), targets_N.to(device).split(sizes), strict=True)
        parts = zip(*(self._of_states(*chunk, tape) for chunk in chunks), strict=True)
        scores = TokenScores(*(torch.cat(part).cpu() for part in parts))
        check_finite(self.module, scores.logprobs_N, "probabilities")
        return scores.split([len(row.at) for row in rows])

    def _product_sizes(self, counts: Sequence[int], tape: NullTape) -> list[int]:
        """The numbers of targets whose logits are computed at once, for rows with these counts.

        Rows are not divided unless they are long, and rows with few targets have their own product.
        """
        if tape.live:
            return [sum(counts)]
        fewest = fewest_tokens(self.runner.device) if self.head == NextTokenHead.name else 0
        sizes, room = list[int](), 0
        for count in counts:
            if fewest <= count <= room:
                sizes[-1] += count
                room -= count
            else:
                sizes += [min(STATES, count - start) for start in range(0, count, STATES)]
                room = STATES - count if count >= fewest else 0
        return sizes

    def _of_states(self, states_ND: Tensor, targets_N: Tensor, tape: NullTape) -> TokenScores:
        logits_NV = tape(f"heads.{self.head}.logits", self.module.heads[self.head](states_ND))
        logp_NV = torch.log_softmax(logits_NV.float(), dim=-1)
        logprobs_N = logp_NV.gather(1, targets_N[:, None].long())[:, 0]
        named = logp_NV.shape[1] if self.tokenizer is None else len(self.tokenizer.words)
        top_NK, top_ids_NK = logp_NV[:, :named].topk(min(self.top, named), dim=-1)
        return TokenScores(logprobs_N, top_NK, top_ids_NK)

    def _pieces(self, ids: list[int]) -> tuple[str, ...]:
        return tuple(map(str, ids) if self.tokenizer is None else self.tokenizer.words.pieces(ids))


ROWS_OF_HEADS: Mapping[str, Callable[[TextScorer, Content], Iterator[ScoredRow]]] = {
    NextTokenHead.name: TextScorer.causal_rows,
    MLMHead.name: TextScorer.masked_rows,
}
"""The function that makes rows of a text, by the head that predicts tokens."""


@dataclass(frozen=True, eq=False)
class StreamScorer(TextScorer):
    """The component "score" of a recurrent language model, which reads window after window."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stride is not None:
            raise BadInput("stride cannot be used: this model is recurrent and carries its state")

    @property
    def signature(self) -> str:
        return "state:carried"

    def causal_rows(self, content: Content) -> Iterator[ScoredRow]:
        tokens = np.array([*self.before(content), *content.ids])
        for begin in range(0, len(tokens) - 1, self.window_size):
            part = tokens[begin : min(begin + self.window_size, len(tokens) - 1)]
            targets = tokens[begin + 1 : begin + 1 + len(part)]
            row = TokenRow(part, np.zeros_like(part))
            yield ScoredRow(row, np.arange(len(part)), targets)

    def scored(
        self, contents: Sequence[Content], tape: NullTape = NULL_TAPE
    ) -> Iterator[tuple[int, ScoredRow, TokenScores]]:
        """Results of the first windows of all texts, then of the second windows, and so on.

        With a live ``tape``, text after text.
        """
        numbered = [*enumerate(contents)]
        for together in [[text] for text in numbered] if tape.live else [numbered]:
            yield from self._scored_together(together, tape)

    @torch.inference_mode()
    def _scored_together(
        self, contents: Sequence[tuple[int, Content]], tape: NullTape
    ) -> Iterator[tuple[int, ScoredRow, TokenScores]]:
        parts = {number: self.causal_rows(content) for number, content in contents}
        states: dict[int, object] = {}
        while live := {number: row for number, rows in parts.items() if (row := next(rows, None))}:
            numbers, rows = list(live), list(live.values())
            for chosen, batch in row_batches(
                self.module, [row.row for row in rows], self.limits, tape
            ):
                own, record = [numbers[i] for i in chosen], tape.next_batch()
                new = self.module.trunk.new_state(1)
                state = _join([states.get(number, new) for number in own])
                encoded = self.module.encode(batch, state=state, tape=record)
                scores = self.of_encoded(encoded, batch, [rows[i] for i in chosen], record)
                states |= zip(own, _split(encoded.state, len(own)), strict=True)
                yield from zip(own, [rows[i] for i in chosen], scores, strict=True)


def _join(states: Sequence[object]) -> object:
    """Concatenate the states of several rows into one state."""
    parts = iter(zip(*map(tensors_in, states), strict=True))
    return map_tensors(lambda _: torch.cat(next(parts)), states[0])


def _split(state: object, rows: int) -> list[object]:
    """Split a state into the states of single rows."""
    return [map_tensors(lambda x, i=i: x[i : i + 1], state) for i in range(rows)]  # type: ignore[misc]
