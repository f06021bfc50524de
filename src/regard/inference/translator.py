"""Translation: text in, text out, by any model that decodes token by token."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from math import isnan
from typing import Self, cast

import numpy as np
import torch
from torch import Tensor

from regard import generation
from regard.core.batch import Batch, Ids, SourceTarget, TokenRow, as_row, pack
from regard.core.cancellation import check_wanted
from regard.core.checks import check_whole
from regard.core.errors import BadInput, shown
from regard.core.tape import NULL_TAPE, NullTape
from regard.data.batches.packing import inference_batches
from regard.data.readers.fields import field_of, filled
from regard.generation.beam import Beam
from regard.generation.constraints import Constraints
from regard.generation.hypothesis import Hypothesis
from regard.generation.step import Ensemble, Search, SearchState
from regard.inference.component import RECORDED, Result, Row
from regard.inference.decoder_model import (
    EMPTY,
    NEW_TOKENS,
    DecoderModel,
    End,
    Method,
    Request,
    Writer,
    WriterData,
    WriterRow,
    WrittenText,
    search_errors_as_bad_input,
)
from regard.inference.embed import Embedder, EncoderInput, Prompt
from regard.inference.generation_settings import GenerationSettings, ends_of, refused
from regard.inference.inputs import (
    InputLimits,
    check_pairs,
    check_search,
    check_texts,
    listed,
    read_ids,
)
from regard.inference.row_batches import ModelRow, broken, in_order
from regard.inference.score_text import Scored, Scorer, TextScore
from regard.inference.text_tokens import TextPart, TextTokens, marks, places_of
from regard.layers.linear.convert import products_in_use
from regard.models.encoder_decoder import EncoderDecoderModule, ModelModule
from regard.models.folders.folder import vocabularies
from regard.objectives.seq2seq import Seq2Seq
from regard.text.segmentation import LabelledRow, LabelledRows, TokenLabels
from regard.text.task_prompt import PromptConfig, TaskPrompt
from regard.text.tokenizers.translation_tokenizer import TranslationTokenizer
from regard.text.vocabulary import Vocabulary, token_count

IdsRow = Row[Scored, tuple[list[int], list[int]]]
GROWTH, MARGIN = 2, 10  # the default: a translation has at most 2n + 10 tokens


class Translation(WrittenText):
    """A translation, as text."""


@dataclass(frozen=True, eq=False)
class Translator(DecoderModel):
    """Runner of an encoder-decoder with its vocabularies.

    ``others`` form an ensemble with it: each reads the source in its own vocabulary, and all share
    the target vocabulary. A text has at most ``max_new_tokens`` tokens after its prefix; None: by
    the generation settings of the model. If these set no limit, or there are none, a source of n
    tokens has at most 2n + 10, and with generation settings at least 128.
    """

    verb, output = "translate", "translation"
    batch_tokens = 4_096  # of the source
    others: tuple["Translator", ...] = ()
    max_new_tokens: int | None = None

    @property
    def module(self) -> EncoderDecoderModule:
        return cast(EncoderDecoderModule, self.loaded.module)

    @cached_property
    def vocabularies(self) -> TranslationTokenizer:
        """The vocabularies of both sides; without tokenizer files, vocabularies of ids."""
        return vocabularies(self.loaded)

    def __post_init__(self) -> None:
        for number, other in enumerate(self.others, 2):
            if other.vocabularies.target.fingerprint != self.vocabularies.target.fingerprint:
                fault = "has another target vocabulary than model 1"
                raise BadInput(f"model {number} of the ensemble {fault}")

    @property
    def objective(self) -> Seq2Seq:
        """The training objective, which sets the special tokens of sentences."""
        return Seq2Seq(self.vocabularies.target.bos, self.vocabularies.target.eos)

    @property
    def vocabulary(self) -> Vocabulary:
        return self.vocabularies.target

    @property
    def position_limit(self) -> int | None:
        return self.module.source.embed.position_limit

    @cached_property
    def prompt(self) -> TaskPrompt | None:
        """The prompt with the prefix of training, or None."""
        if (noted := self.notes.get("prompt")) is None:
            return None
        return PromptConfig.as_trained(noted).prefixed(self.vocabularies.source)

    @property
    def models(self) -> list[ModelModule]:
        return [member.module for member in (self, *self.others)]

    @cached_property
    def generation_settings(self) -> GenerationSettings | None:
        if self.generation_config is None:
            return None
        return GenerationSettings.of(
            self.generation_config, self.ends, self.module.head.out_features
        )

    @property
    def ends(self) -> tuple[int, ...]:
        """The tokens that end a translation."""
        eos, vocab = self.vocabulary.eos, self.module.head.out_features
        return ends_of(self.generation_config, vocab, eos)

    @property
    def base_beam(self) -> Beam:
        return self.search

    @property
    def search(self) -> Beam:
        if self.generation_settings is None:
            return self.beam
        if self.generation_settings.do_sample:
            raise refused("do_sample is not followed; choose a search")
        return self.generation_settings.search

    def with_precision(self, kind: str, engine: str = "auto") -> Self:
        if products_in_use(self.module) is None:
            kind, engine = self.choice(kind, engine)
        others = tuple(other.with_precision(kind, engine) for other in self.others)
        return replace(super().with_precision(kind, engine), others=others)

    def translate(
        self,
        texts: Iterable[str | Ids],
        search: Search | None = None,
        prefixes: Iterable[str] | None = None,
        max_new_tokens: int | None = None,
        *,
        first: int = 0,
        tape: NullTape = NULL_TAPE,
    ) -> list[list[Translation]]:
        """The best translations of each text, best first; each begins with its prefix, if given.

        Results do not depend on how texts are batched. Sampling depends on the index of the text,
        counted from ``first``. Token ids are used as given.
        """
        texts, search = listed(texts), self.search if search is None else check_search(search)
        starts = [None] * len(texts) if prefixes is None else check_texts(prefixes, first + 1)
        if len(starts) != len(texts):
            raise BadInput(f"{len(starts)} prefixes for {len(texts)} texts")
        requests = map(Request, texts, starts)
        writer = self.writer(Method(search), max_new_tokens=max_new_tokens)
        written = writer.predict(requests, first=first, tape=tape)
        return [cast(list[Translation], result.texts) for result in written]

    def writer(
        self, method: Method | None = None, best: int = 1, max_new_tokens: int | None = None
    ) -> Writer:
        writer = super().writer(method, best)
        if max_new_tokens is None:
            return writer
        limit = check_whole("max_new_tokens", max_new_tokens, 1)
        return replace(writer, model=replace(self, max_new_tokens=limit))

    def rows(self, requests: Sequence[Request], keys: Sequence[int]) -> list[WriterRow]:
        texts = [request.text for request in requests]
        sources = zip(*(member.read_rows(texts) for member in (self, *self.others)), strict=True)
        starts = [request.prefix for request in requests if request.prefix is not None]
        prefixes = iter(self.vocabularies.target.encode_all(starts) if starts else [])
        rows = []
        for key, request, ids in zip(keys, requests, sources, strict=True):
            data = WriterData([*ids], None if request.prefix is None else next(prefixes))
            blank = isinstance(request.text, str) and not request.text.strip()
            group = "empty" if blank else data.prefix is None
            rows.append(Row(key, request, data, len(ids[0]), group=group))
        return rows

    def default_target(self, text: str) -> str:
        return self.translate([text])[0][0].text

    def embedder(
        self, pool: str | None = None, normalise: bool | None = None, prompt_name: str | None = None
    ) -> Embedder:
        Prompt.of({}, prompt_name)  # it has none
        return Embedder(
            self, self._embedded_rows, self.facts.encoder.width, pool or "mean", bool(normalise)
        )

    def _embedded_rows(self, inputs: Sequence[EncoderInput]) -> list[ModelRow]:
        return [as_row(ids) for ids in self.read_rows(cast(Sequence[str | Ids], inputs))]

    def token_count(self, given: str, most: int) -> int:
        added = 0 if self.prompt is None else self.prompt.added
        return token_count([given], self.vocabularies.source, 1 + added, most)

    def read_rows(self, inputs: Iterable[str | Ids], first: int = 1) -> list[list[int]]:
        inputs = listed(inputs)
        if self.others and not all(isinstance(given, str) for given in inputs):
            raise BadInput(
                "an ensemble reads texts, not token ids: its models may have different vocabularies"
            )
        limits, end = (
            InputLimits.of(self.module.source, self.max_length),
            self.vocabularies.target.eos,
        )
        return read_ids(inputs, self._encode_all, limits, end=end, first=first)

    def _encode_all(self, texts: list[str]) -> list[list[int]]:
        return [*map(self._prompted, self.vocabularies.source.encode_all(texts))]

    def _prompted(self, ids: list[int]) -> list[int]:
        return ids if self.prompt is None else self.prompt.row(ids).tolist()

    def tokens(self, inputs: Iterable[str | Ids]) -> list[TextTokens]:
        inputs = listed(inputs)
        return [*map(self._tokens, inputs, self.read_rows(inputs))]

    def _tokens(self, given: str | Ids, ids: list[int]) -> TextTokens:
        source = self.vocabularies.source
        tokens = source.pieces(ids)
        if not isinstance(given, str):
            return TextTokens.of(tokens, ids)
        parts = [TextPart(given, source.segment(given))]
        places = places_of([*self._prompted(marks(parts)[0]), 0])  # 0 for EOS
        return TextTokens.of(tokens, ids, parts, places)

    def read_pairs(self, pairs: Iterable[object]) -> list[tuple[list[int], list[int]]]:
        """Pairs (source, target) in ids, from texts or ids; targets have no special tokens."""
        given = check_pairs(pairs, "(source, target)")
        limits = InputLimits.of(self.module.target, self.max_length)
        encode_all = self.vocabularies.target.encode_all
        targets = read_ids([target for _, target in given], encode_all, limits, marks=1)
        sources = self.read_rows(cast(list[str | Ids], [source for source, _ in given]))
        return list(zip(sources, targets, strict=True))

    def label_ids(self, first: Ids, second: Ids | None = None) -> LabelledRows:
        if second is None:
            second = self.translate([first])[0][0].hypothesis.tokens
        ((source, target),) = self.read_pairs([(first, second)])
        read = TokenLabels.of_tokens(self.vocabularies.source.pieces(source))
        written = TokenLabels.of_tokens(self.vocabularies.target.pieces(target))
        row = TokenRow.of((self.vocabularies.target.bos, *target))
        return {
            "source": LabelledRow(TokenRow.of(source), read, read),
            "target": LabelledRow(row, *written.shifted),
        }

    def check_ids(self, examples: Sequence[tuple[Ids, Ids]], first: int = 1) -> None:
        """Refuse pairs in ids, without special tokens, that exceed the limits of the model."""
        limits = [InputLimits.of(side) for side in (self.module.source, self.module.target)]
        for number, example in enumerate(examples, first):
            for limit, ids in zip(limits, example, strict=True):
                limit.check(ids, number, marks=1)

    @torch.inference_mode()
    def write(self, rows: Sequence[WriterRow], search: Search) -> list[list[Translation]]:
        if rows[0].group == "empty":
            return [[Translation("", 0.0, EMPTY, "eos")] for _ in rows]
        sources = [*map(list, zip(*(row.data.ids for row in rows), strict=True))]
        prefixes = [row.data.prefix for row in rows if row.data.prefix is not None] or None
        limits = self._limits(sources[0], prefixes)
        capacity = int(limits.longest_of(len(rows)).max()) + 1
        with search_errors_as_bad_input(search, sources[0], *self.models):
            states = [
                member._open(ids, capacity, search.needs_attention)
                for member, ids in zip((self, *self.others), sources, strict=True)
            ]
            state = Ensemble(states) if self.others else states[0]
            search, keys = search.with_decode(self.vocabulary.decode), [row.key for row in rows]
            nbests = search(state, limits, prefixes, keys)
        return [[*map(self._as_text, nbest)] for nbest in nbests]

    def _as_text(self, hypothesis: Hypothesis) -> Translation:
        unfinished: End = "length" if len(hypothesis.tokens) < self._most else "positions"
        ended = "eos" if hypothesis.finished else unfinished
        return Translation(
            self.vocabulary.decode(hypothesis.tokens), hypothesis.score, hypothesis, ended
        )

    @property
    def _most(self) -> int:
        """The maximum number of tokens of any text, by the positions of the decoder."""
        return self.module.decoder.embed.position_limit or sys.maxsize

    def _limits(self, ids: list[list[int]], prefixes: list[list[int]] | None) -> Constraints:
        """Constraints on translations; the limit of learned positions applies."""
        target, settings = self.vocabularies.target, self.supported_settings
        begun = [0] * len(ids) if prefixes is None else [len(prefix) for prefix in prefixes]
        longest = [
            min(self._longest(len(row) - 1, start), self._most)  # the end is not counted
            for row, start in zip(ids, begun, strict=True)
        ]
        if settings is not None:
            return settings.limits(target.bos, self.ends, longest)
        eos, *others = self.ends
        special = target.pad, target.bos
        return Constraints(target.bos, eos, longest, forbidden=special, other_eos=(*others,))

    def _longest(self, source: int, begun: int) -> int:
        """The maximum number of tokens of a text with a prefix of ``begun`` tokens."""
        if self.max_new_tokens is not None:
            return self.max_new_tokens + begun
        default = GROWTH * source + MARGIN + begun
        if (settings := self.supported_settings) is None:
            return default
        return settings.longest_after(1, default=max(default, NEW_TOKENS + begun))

    def longest_prefix(self, source: int) -> int:
        """As many tokens as a translation has by default, and at least ``NEW_TOKENS``."""
        return min(max(NEW_TOKENS, GROWTH * (source - 1) + MARGIN), self._most)

    def _open(self, ids: list[list[int]], capacity: int, attention: bool) -> SearchState:
        return generation.open_state(
            self.module,
            pack(ids).to(self.device),
            capacity=capacity,
            engine=self.engine,
            attention=attention,
        )

    def scorer(
        self, window: int | None = None, stride: int | None = None, top: int = 0
    ) -> "PairScorer":
        if window is not None or stride is not None:
            name = self.loaded.paper.name
            raise BadInput(f"{name} scores translations as a whole, without window or stride")
        if top:
            raise BadInput("top: the scores of translations have no other tokens")
        return PairScorer(self)

    @torch.no_grad()
    def logits(
        self,
        pairs: Iterable[tuple[str | Ids, str | Ids]],
        tape: NullTape = NULL_TAPE,
        head: str | None = None,
    ) -> list[Tensor]:
        """Logits (tokens, vocabulary) of each pair: row t predicts target token t, the last EOS."""
        if head not in (None, self.objective.head):
            raise BadInput(f"head: this model has only {self.objective.head}, not {shown(head)}")
        with tape.batches() as run:
            return self._logits_of(self.read_pairs(pairs), run)

    @torch.no_grad()
    def record_written(
        self, rows: Sequence[WriterRow], hypotheses: Sequence[Hypothesis], tape: NullTape
    ) -> None:
        limit = self.module.decoder.embed.position_limit
        most = sys.maxsize if limit is None else limit - 1  # BOS has a position
        texts = zip(rows, hypotheses, strict=True)
        self._logits_of([(row.data.ids[0], [*best.tokens[:most]]) for row, best in texts], tape)

    def _logits_of(
        self, examples: Sequence[tuple[list[int], list[int]]], tape: NullTape
    ) -> list[Tensor]:
        """Logits of pairs in ids, on the tape of a run."""

        def split(inputs: SourceTarget, tape: NullTape) -> Sequence[Tensor]:
            logits_TV = self.module(inputs, tape=tape).by_head[self.objective.head]
            return inputs.target.layout.split(logits_TV)

        batches = self.pair_batches(examples, tape)
        return in_order(
            (chosen, split(batch.inputs, tape.next_batch())) for chosen, batch in batches
        )

    def pair_batches(
        self, examples: Sequence[tuple[list[int], list[int]]], tape: NullTape = NULL_TAPE
    ) -> Iterator[tuple[list[int], Batch]]:
        """Batches of pairs with their indices; with a live tape in the given order."""
        lengths = np.array([(len(source), len(target) + 1) for source, target in examples])
        limits = RECORDED if tape.live else self.limits
        for chosen in inference_batches(lengths.reshape(-1, 2), limits, sort=not tape.live):
            check_wanted()
            batch = self.objective.collate([examples[i] for i in chosen])
            sources = pack([examples[i][0] for i in chosen])  # which already have EOS
            inputs = replace(batch.inputs, source=sources)
            yield chosen, replace(batch, inputs=inputs).to(self.device)


@dataclass(frozen=True, eq=False)
class PairScorer(Scorer[tuple[list[int], list[int]]]):
    """The component "score" of pairs (source, target): the target tokens and EOS."""

    reads_whole = False
    record_keys = (("source", "target"),)
    translator: Translator

    @property
    def batch_size(self) -> int:
        return self.translator.batch_size

    @property
    def vocabularies(self) -> tuple[Vocabulary, ...]:
        return self.translator.vocabularies.sides

    def parse(self, line: str, where: str) -> tuple[str, ...]:
        texts = filled(line, where, "empty line").split("\t")
        if len(texts) != 2:
            fault = (
                "no tab between" if len(texts) == 1 else f"{len(texts) - 1} tabs; put one between"
            )
            raise BadInput(f"{where}: {fault} a source and its translation")
        return tuple(filled(text, where) for text in texts)

    def parse_record(self, record: Mapping[str, object], where: str) -> tuple[str, ...]:
        return tuple(field_of(record, key, str, where) for key in ("source", "target"))

    def rows(self, inputs: Sequence[Scored], keys: Sequence[int]) -> list[IdsRow]:
        if self.translator.others:
            raise BadInput("an ensemble cannot score translations: use a single model")
        pairs = self.translator.read_pairs(inputs)
        return [
            Row(key, given, pair, max(len(pair[0]), len(pair[1]) + 1))
            for key, given, pair in zip(keys, inputs, pairs, strict=True)
        ]

    @torch.inference_mode()
    def values(self, rows: Sequence[IdsRow], tape: NullTape = NULL_TAPE) -> list[TextScore]:
        translator, score = self.translator, self.translator.objective.score
        scores = in_order(
            (numbers, score(translator.module, batch, tape.next_batch()))
            for numbers, batch in translator.pair_batches([row.data for row in rows], tape)
        )
        results = [logprobs.tolist() for logprobs in scores]
        if any(map(isnan, chain(*results))):
            raise broken("its probabilities are NaN or infinite", translator.module)
        return [self._score(row, logprobs) for row, logprobs in zip(rows, results, strict=True)]

    def _score(self, row: IdsRow, logprobs: list[float]) -> TextScore:
        texts = tuple(text for text in row.given if isinstance(text, str))
        tokens = (*self.vocabularies[1].pieces(row.data[1]), "</s>")
        size = len(texts[-1].encode()) if isinstance(row.given[1], str) else 0
        return TextScore(tokens, tuple(logprobs), size, texts)

    def records(self, result: Result[TextScore]) -> list[dict[str, object]]:
        score = result.value
        source, target = score.texts
        texts = {"source": source, "target": target, "logprob": score.logprob}
        return [texts | {"tokens": score.tokens, "logprobs": score.logprobs}]
