"""Generation: prompts in, continuations out, by any causal model with a next-token head."""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import torch

from regard import generation
from regard.core.batch import Ids
from regard.core.checks import check_whole, listed
from regard.core.errors import BadInput, BadItem
from regard.core.tape import NULL_TAPE, NullTape
from regard.data.readers.document_files import field_text
from regard.data.readers.fields import json_object
from regard.generation import Prompts
from regard.generation.beam import Beam
from regard.generation.constraints import Constraints
from regard.generation.greedy import Greedy
from regard.generation.hypothesis import Hypothesis
from regard.generation.sample import Sample
from regard.generation.step import Search, SearchState
from regard.inference.component import Row
from regard.inference.decoder_model import (
    NEW_TOKENS,
    DecoderModel,
    End,
    Method,
    Request,
    TextPieces,
    Writer,
    WriterData,
    WriterRow,
    WrittenText,
    search_errors_as_bad_input,
)
from regard.inference.encoder_model import EncoderModel
from regard.inference.generation_settings import GenerationSettings, ends_of, refused, sampling_of
from regard.inference.inputs import InputLimits, check_search, read_ids
from regard.models.folders.folder import vocabulary_of
from regard.text.continuation import Continuation, StopStrings, TextStream, check_stop_strings
from regard.text.field_template import FieldTemplate
from regard.text.task_prompt import PromptConfig, TaskPrompt
from regard.text.vocabulary import MISSING, Vocabulary

TOP_K = 50  # the default of transformers, for generation settings with do_sample


@dataclass(frozen=True)
class Generation(WrittenText):
    """A continuation of a prompt, as text.

    It may also end before a stop string (``ended`` "stop"), whose tokens the hypothesis has.
    """


@dataclass(frozen=True)
class Ending:
    """Ends of a continuation besides EOS: a number of new tokens, or a stop string.

    EOS is not generated before ``min_new_tokens`` other tokens. ``max_new_tokens`` None: by the
    generation settings of the model, else 128.
    """

    max_new_tokens: int | None = None
    min_new_tokens: int = 0
    stop_strings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_whole("min_new_tokens", self.min_new_tokens, 0)
        if self.max_new_tokens is not None:
            check_whole("max_new_tokens", self.max_new_tokens, max(1, self.min_new_tokens))
        check_stop_strings(self.stop_strings)

    @classmethod
    def of(
        cls, max_new_tokens: int | None, min_new_tokens: int, stop_strings: Iterable[str]
    ) -> "Ending":
        """An ending with stop strings from any iterable."""
        return cls(max_new_tokens, min_new_tokens, tuple(listed(stop_strings, "stop strings")))


ENDING = Ending()


@dataclass(frozen=True, eq=False)
class Generator(DecoderModel, EncoderModel):
    """Runner of a causal trunk with a next-token head, which encodes and generates text."""

    verb = "generate"
    batch_tokens = 16_384  # prompts and continuations
    ending: Ending = ENDING  # the default ending
    field: str | None = None  # of a record, which is written after the others

    def choice(self, precision: str = "auto", engine: str = "auto") -> tuple[str, str]:
        """The precision and the engine that will run; BadInput if none can.

        The default precision of recurrent models is fp32: errors of a carried state accumulate.
        """
        carries = self.facts.trunk.stack.carries_state
        return super().choice("fp32" if carries and precision == "auto" else precision, engine)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return vocabulary_of(self.loaded) if self.tokenizer is None else self.text.words

    @cached_property
    def prompt(self) -> TaskPrompt | None:
        """The prompt with the task token of training, or None."""
        if (noted := self.notes.get("prompt")) is None:
            return None
        return PromptConfig.as_trained(noted).prompt(self.text.words)

    @cached_property
    def fields(self) -> FieldTemplate:
        """The fields of the records that the model was trained on."""
        names = self.notes.get("fields")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise BadInput("this model was not trained on records of fields (objective.fields)")
        return FieldTemplate(tuple(names))

    def read_record(self, line: str, where: str) -> Request:
        """The request for the field of a record, a JSON object with some of the other fields."""
        content = json_object(line, where)
        record = {name: field_text(content, name, where) for name in content}
        if empty := [name for name, text in record.items() if not text]:
            raise BadInput(f"{where}: the field {empty[0]!r} has no text: fill it or remove it")
        try:
            ids = self.fields.prompt(self.text.words, record, str(self.field))
        except BadInput as error:
            raise BadInput(f"{where}: {error}") from None
        return Request(self.text.template.separated(ids))

    @cached_property
    def generation_settings(self) -> GenerationSettings | None:
        if self.generation_config is None:
            return None
        return GenerationSettings.of(self.generation_config, self.ends, len(self.vocabulary))

    @property
    def search(self) -> Search:
        if (settings := self.generation_settings) is None:
            return Greedy() if self.decode_config is None else self.beam
        beam = settings.search
        if not settings.do_sample:
            return beam if beam.size > 1 else Greedy(beam.no_repeat, beam.repetition_penalty)
        if beam.size > 1:
            raise refused("beams cannot sample; choose a search")
        return self.sampling

    @property
    def base_beam(self) -> Beam:
        if (settings := self.generation_settings) is None:
            return self.beam
        beam = settings.search
        if beam.size > 1:
            return beam
        no_repeat, penalty = beam.no_repeat, beam.repetition_penalty
        return replace(self.beam, no_repeat=no_repeat, repetition_penalty=penalty)

    @property
    def sampling(self) -> Sample:
        settings = self.generation_config or {}
        default = {"top_k": TOP_K} if settings.get("do_sample") else {}
        return sampling_of({**default, **settings})

    @cached_property
    def eos(self) -> int:
        """The id of EOS; -1: none."""
        return self._special("eos_token", lambda: self.vocabulary.eos)

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """The tokens that end a text; of a record, the token after the field that is written."""
        if self.field is not None:
            return (self.fields.borders(self.text.words)[self.field][1],)
        return ends_of(self.generation_config, len(self.vocabulary), self.eos)

    def read_prompts(self, prompts: Iterable[str | Ids], first: int = 1) -> list[list[int]]:
        """Read prompts as token ids; errors count them from ``first``. An empty one is BOS, or EOS.

        If the model was trained with a task token, it follows each text.
        """
        limits = InputLimits.of(self.module.decoder, self.max_length)
        rows = read_ids(listed(prompts, "prompts"), self._encode_all, limits, first=first)
        start = self._special("bos_token", lambda: self.vocabulary.bos)
        start = self.eos if start < 0 else start
        for number, row in enumerate(rows, first):
            if not row and start < 0:
                raise BadItem(
                    number, "the prompt is empty, and the vocabulary has no BOS to begin with"
                )
        return [row or [start] for row in rows]

    def _encode_all(self, texts: list[str]) -> list[list[int]]:
        if self.tokenizer is not None and self.prompt is None:
            return self.text.encode_prompts(texts)
        rows = self.vocabulary.encode_all(texts)
        return rows if self.prompt is None else [self.prompt.row(ids).tolist() for ids in rows]

    def generate(
        self,
        prompts: Iterable[str | Ids],
        search: Search | None = None,
        ending: Ending | None = None,
        *,
        first: int = 0,
        tape: NullTape = NULL_TAPE,
    ) -> list[list[Generation]]:
        """The continuations of each prompt, best first.

        Results do not depend on how prompts are batched. Sampling depends on the index of the
        prompt, counted from ``first``, and of the sample. Token ids are used as given.
        """
        search = self.search if search is None else check_search(search)
        writer = self.writer(Method(search), ending=ending)
        requests = map(Request, listed(prompts, "prompts"))
        written = writer.predict(requests, first=first, tape=tape)
        return [cast(list[Generation], result.texts) for result in written]

    def writer(
        self,
        method: Method | None = None,
        best: int = 1,
        ending: Ending | None = None,
        field: str | None = None,
    ) -> Writer:
        writer = super().writer(method, best)
        if field is not None:
            self.fields.check(field)
        if ending is None and field is None:
            return writer
        return replace(writer, model=replace(self, ending=ending or self.ending, field=field))

    def rows(self, requests: Sequence[Request], keys: Sequence[int]) -> list[WriterRow]:
        prompts = self.read_prompts([request.text for request in requests])
        return [
            Row(key, request, WriterData([ids]), len(ids) + self._longest(ids, self.ending)[0])
            for key, request, ids in zip(keys, requests, prompts, strict=True)
        ]

    def stream(
        self,
        prompt: str | Ids,
        search: Search | None = None,
        ending: Ending | None = None,
        *,
        number: int = 0,
    ) -> TextPieces:
        """The continuation of a prompt, piece by piece; sampling depends on its ``number``.

        The generator returns why the text ended.
        """
        if self.tokenizer is None:
            raise BadInput(f"{MISSING}, and text cannot be streamed: use generate()")
        search = self.search if search is None else check_search(search)
        rows = self.read_prompts([prompt], number + 1)
        return self._pieces(rows, search, ending or self.ending, number)

    def _pieces(
        self, rows: list[list[int]], search: Search, ending: Ending, number: int
    ) -> TextPieces:
        text = self.text_stream(rows[0], ending)
        with search_errors_as_bad_input(search, rows, self.module):
            state, limits, stops = self.begin(rows, ending)
            steps = search.stream(state, limits, [number], prompts=rows, stop_test=stops)
            while True:
                try:
                    step = next(steps)
                except StopIteration as end:
                    ((hypothesis, *_),) = end.value
                    break
                if step.rows != [0]:
                    raise BadInput("stream yields one text: set the number of samples to 1")
                if step.tokens[0] not in self.ends:
                    yield from filter(None, [text.add(*step.tokens)])
        yield from filter(None, [text.end()])
        return self.as_text(rows[0], hypothesis, ending).ended

    def text_stream(self, prompt: list[int], ending: Ending) -> TextStream:
        """Streamed text after a prompt."""
        words = self.text.words
        continuation = Continuation(words.decode, prompt, words.unsettled_ids)
        return TextStream(continuation, self.stops_of(ending))

    @torch.inference_mode()
    def write(self, rows: Sequence[WriterRow], search: Search) -> list[list[Generation]]:
        ending, prompts = self.ending, [row.data.ids[0] for row in rows]
        search = search.with_decode(None if self.tokenizer is None else self.stops_of(ending).text)
        with search_errors_as_bad_input(search, prompts, self.module):
            state, limits, stops = self.begin(prompts, ending)
            keys = [row.key for row in rows]
            nbests = search(state, limits, None, keys, prompts=prompts, stop_test=stops)
        return [
            [self.as_text(prompt, hypothesis, ending) for hypothesis in nbest]
            for prompt, nbest in zip(prompts, nbests, strict=True)
        ]

    @torch.no_grad()
    def record_written(
        self, rows: Sequence[WriterRow], hypotheses: Sequence[Hypothesis], tape: NullTape
    ) -> None:
        texts = zip(rows, hypotheses, strict=True)
        whole = [[*row.data.ids[0], *best.tokens][: self.position_limit] for row, best in texts]
        for _, batch in self.batches(whole, tape):
            self.module(batch, tape=tape.next_batch())

    @property
    def joins(self) -> bool:
        return self.module.decoder.new_cache(1, 1).joins

    def begin(
        self, rows: list[list[int]], ending: Ending
    ) -> tuple[SearchState, Constraints, StopStrings | None]:
        """Return the search state after the prompts, the constraints, and the test for stops."""
        limits, stops = self.rules(rows, ending)
        lengths = zip(rows, limits.longest_of(len(rows)).tolist(), strict=True)
        capacity = max(len(row) + longest for row, longest in lengths)
        prompts = Prompts.of(rows, self.device)
        state = generation.open_state(
            self.module, prompts=prompts, capacity=capacity, engine=self.engine
        )
        return state, limits, stops

    def rules(
        self, rows: list[list[int]], ending: Ending
    ) -> tuple[Constraints, StopStrings | None]:
        """The constraints on the tokens after each prompt, and the test for stops, if any."""
        stops = self.stops_of(ending)
        return self._limits(rows, ending), stops if stops.strings else None

    def _limits(self, rows: list[list[int]], ending: Ending) -> Constraints:
        """Constraints on the tokens after each prompt, by the generation settings, if any."""
        longest = [self._longest(row, ending)[0] for row in rows]
        first, shortest = [row[-1] for row in rows], self._shortest(rows, ending)
        eos, *others = self.ends
        constraints = Constraints(first, eos, longest, shortest, other_eos=(*others,))
        if (settings := self.supported_settings) is None:
            return constraints
        return replace(
            constraints,
            forbidden=settings.forbidden,
            must_end=settings.must_end,
            renormalise=settings.renormalise,
        )

    def _shortest(self, rows: list[list[int]], ending: Ending) -> int | list[int]:
        """Number of the first token that may be EOS, from 1: one for all prompts, or for each."""
        if max(self.ends) < 0:
            return 0
        if ending.min_new_tokens or self.supported_settings is None:
            return ending.min_new_tokens + (ending.min_new_tokens > 0)
        after = [self.supported_settings.shortest_after(len(row)) for row in rows]
        return after[0] if len({*after}) == 1 else after

    def _longest(self, row: list[int], ending: Ending) -> tuple[int, End]:
        """Maximum number of tokens after a prompt, and its reason: "length" or "positions"."""
        settings = self.supported_settings
        longest = settings.longest_after(len(row), NEW_TOKENS) if settings else NEW_TOKENS
        if ending.max_new_tokens is not None:
            longest = ending.max_new_tokens
        left = (self.position_limit or sys.maxsize) - len(row) + 1
        return (left, "positions") if left < longest else (longest, "length")

    def stops_of(self, ending: Ending) -> StopStrings:
        """Test for the stop strings of an ending."""
        if ending.stop_strings and self.tokenizer is None:
            raise BadInput(f"{MISSING}, and stop strings cannot be used")
        return StopStrings(self.vocabulary.decode, ending.stop_strings)

    def as_text(self, row: list[int], hypothesis: Hypothesis, ending: Ending) -> Generation:
        """A hypothesis as text after a prompt."""
        whole = Continuation(self.vocabulary.decode, row).text(hypothesis.tokens)
        text = self.stops_of(ending).cut(whole)
        _, limit = self._longest(row, ending)
        ended: End = "eos" if hypothesis.finished else limit
        ended = "stop" if text != whole else ended
        return Generation(text, hypothesis.score, hypothesis, ended)

    def _special(self, role: str, by_usual_name: Callable[[], int]) -> int:
        """Id of a special token, by its role in the tokenizer or by a common name; -1: none."""
        try:
            named = {} if self.tokenizer is None else self.tokenizer.special_ids
            return named[role] if role in named else by_usual_name()
        except BadInput:
            return -1
