"""Models that generate text: search, engine, decoding methods, and the component that writes."""

from abc import abstractmethod
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple, Self, cast

from torch import nn

from regard import generation
from regard.core.batch import BatchLimits, Ids
from regard.core.errors import BadInput
from regard.core.tape import NULL_TAPE, NullTape
from regard.data.readers.fields import field_of
from regard.generation import EAGER, EditingEngine, Engine
from regard.generation.beam import Beam
from regard.generation.exact import Exact, SearchErrors, search_errors
from regard.generation.hypothesis import Hypothesis
from regard.generation.mbr import MinimumRisk
from regard.generation.sample import Sample
from regard.generation.step import Search
from regard.generation.token_loop import TokenSearch
from regard.inference.component import Component, Result, Row
from regard.inference.generation_settings import GenerationSettings, as_trained, sampling_of
from regard.inference.inputs import ran_out_of_memory
from regard.inference.model_runner import ModelRunner
from regard.inference.row_batches import broken
from regard.layers.linear.convert import in_precision, products_in_use
from regard.models.encoder_decoder import ModelModule
from regard.models.folders.loaded_model import LoadedModel
from regard.text.vocabulary import Vocabulary

# Numbers of texts, and tokens of the longest, in batches that are run before the first request.
WARM_COUNTS, WARM_LENGTHS, WARM_RUNS = (64, 32, 8, 1), (31, 63, 127, 255, 511), 3
NEW_TOKENS = 128  # the default maximum of a text whose length no setting limits
ONE_LINE = str.maketrans("\r\n", "  ")
EMPTY = Hypothesis(tokens=(), logprob=0.0, score=0.0, logprobs=(), finished=True)


class Request(NamedTuple):
    """A text, or ids, and the prefix that the output must begin with."""

    text: str | Ids
    prefix: str | None = None


class WriterData(NamedTuple):
    """A request in the ids of each model of an ensemble, and the ids of its prefix."""

    ids: list[list[int]]
    prefix: list[int] | None = None


WriterRow = Row[Request, WriterData]
End = Literal["eos", "stop", "length", "positions"]
TextPieces = Generator[str, None, End]
"""Pieces of a text while it is generated, and why it ended."""
AT_LAST_POSITION = "ended at the last position of the model"


@dataclass(frozen=True)
class WrittenText:
    """A generated text: a translation or a continuation.

    ``ended``: at EOS ("eos"), or unfinished, at the limit of new tokens ("length") or at the last
    position of the model ("positions").
    """

    text: str
    score: float
    hypothesis: Hypothesis
    ended: End


class Written(NamedTuple):
    """The texts for a request, best first; with exact search, also the errors of the beam."""

    texts: Sequence[WrittenText]
    errors: SearchErrors | None = None


@dataclass(frozen=True, eq=False)
class DecoderModel(ModelRunner):
    """Base class of translators and generators; ``engine`` runs the decoding steps."""

    verb: ClassVar[str]
    output: ClassVar[str] = "generated"  # the column of texts in a table
    batch_tokens: ClassVar[int]  # the maximum of a batch
    batch_size: int = 64
    engine: Engine = EAGER

    @classmethod
    def of(cls, loaded: LoadedModel) -> Self:
        return cls(loaded, engine=generation.default_engine(loaded.module))

    @property
    def joins(self) -> bool:
        """Whether rows can enter a running batch."""
        return False

    @property
    def generation_config(self) -> Mapping[str, object] | None:
        """The generation_config.json of the folder: search and constraints of transformers."""
        return self.notes.get("generation")

    @property
    def decode_config(self) -> object:
        """The table ``[decode]`` of the training recipe."""
        return self.notes.get("decode")

    @property
    @abstractmethod
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of generated texts."""

    @cached_property
    @abstractmethod
    def generation_settings(self) -> GenerationSettings | None:
        """The settings of generation_config.json; unsupported settings are ``BadInput``."""

    @cached_property
    def supported_settings(self) -> GenerationSettings | None:
        """The generation settings that apply to any search; None if they are not supported."""
        try:
            return self.generation_settings
        except BadInput:
            return None

    @property
    @abstractmethod
    def search(self) -> Search:
        """The default search."""

    @property
    @abstractmethod
    def base_beam(self) -> Beam:
        """The beam search whose settings command-line options override."""

    @property
    def limits(self) -> BatchLimits:
        """The maximum numbers of tokens and rows of a batch."""
        return BatchLimits(self.batch_tokens, self.batch_size, self.batch_tokens)

    @abstractmethod
    def rows(self, requests: Sequence[Request], keys: Sequence[int]) -> list[WriterRow]:
        """Requests in token ids; a bad request is a ``BadItem``."""

    @abstractmethod
    def write(self, rows: Sequence[WriterRow], search: Search) -> Sequence[Sequence[WrittenText]]:
        """The texts for each row of a batch, best first; draws depend on the keys of rows."""

    @abstractmethod
    def record_written(
        self, rows: Sequence[WriterRow], hypotheses: Sequence[Hypothesis], tape: NullTape
    ) -> None:
        """Run the model over each row and its hypothesis as a whole, on the tape of a run."""

    def longest_prefix(self, source: int) -> int:
        """Tokens of the longest prefix that a server reads, for a source of that many tokens."""
        return 0

    def with_tape_edits(self, tape: NullTape) -> Self:
        """A copy whose decoding steps a tape edits; torch's operators compute steps with edits."""
        edits = tape.only_edits
        return replace(self, engine=EditingEngine(edits)) if edits.live else self

    def writer(self, method: "Method | None" = None, best: int = 1) -> "Writer":
        """The component that generates text by a method, by default the model's search."""
        return Writer(self, Method(self.search) if method is None else method, best)

    @property
    def sampling(self) -> Sample:
        """The default settings of sampling."""
        return sampling_of(self.generation_config or {})

    @cached_property
    def beam(self) -> Beam:
        """Beam search by the table ``[decode]`` of the training recipe, else the default."""
        return Beam() if self.decode_config is None else as_trained(self.decode_config)

    @property
    def models(self) -> list[ModelModule]:
        """The models whose probabilities are combined at every token."""
        return [self.module]

    def choice(self, precision: str = "auto", engine: str = "auto") -> tuple[str, str]:
        """The precision and the engine that will run; BadInput if none can."""
        return generation.choose_engine(self.models, precision, engine, self.batch_size)

    def with_precision(self, kind: str, engine: str = "auto") -> Self:
        steps: Engine = self.engine
        packed: Collection[nn.Module] = ()
        if products_in_use(self.module) is None:
            kind, engine = self.choice(kind, engine)
            steps = generation.build_engine(engine, self.module, kind)
            packed = steps.packed_layers if kind == "fp32" else packed
        module = in_precision(self.module, kind, but_for=packed)
        return replace(self.with_module(module), engine=steps)

    @property
    def description(self) -> str:
        """Engine and precision, in words."""
        dtype = str(next(self.module.parameters()).dtype).removeprefix("torch.")
        words = self.engine.description or products_in_use(self.module)
        return words or f"{dtype} on {self.device.type}"


@dataclass(frozen=True)
class Method:
    """A decoding method: one search for all texts."""

    search: Search
    formula: str = ""  # of its scores

    @property
    def streams(self) -> bool:
        """Whether the search yields tokens one by one."""
        return self.search.streams

    def decode(self, model: DecoderModel, rows: Sequence[WriterRow]) -> list[Written]:
        """The texts for each row of a batch."""
        return [Written(texts) for texts in model.write(rows, self.search)]

    def remark(self, written: Written) -> str:
        """A remark about the texts for a request; empty: none."""
        ended = any(text.ended == "positions" for text in written.texts)
        return AT_LAST_POSITION if ended else ""

    def total(self, sums: Mapping[str, float]) -> str:
        """The summed figures of all results in one line; empty: none."""
        return ""


@dataclass(frozen=True)
class BeamRisk(Method):
    """Minimum Bayes risk decoding over the n-best list of a beam instead of samples."""

    search: MinimumRisk
    beam: Beam = field(kw_only=True)

    def decode(self, model: DecoderModel, rows: Sequence[WriterRow]) -> list[Written]:
        lists = zip(rows, model.write(rows, self.beam), strict=True)
        candidates = {row.key: [text.hypothesis for text in texts] for row, texts in lists}
        return Method(replace(self.search, candidates=candidates)).decode(model, rows)


@dataclass(frozen=True)
class ExactSearch(Method):
    """Exact search; falls back to the best translation of the beam if no optimum is proven."""

    search: Beam
    max_active: int = field(kw_only=True)

    def decode(self, model: DecoderModel, rows: Sequence[WriterRow]) -> list[Written]:
        beam = self.search
        texts = [best for best, *_ in model.write(rows, beam)]
        known = {row.key: text.hypothesis for row, text in zip(rows, texts, strict=True)}
        exact = Exact(beam.length, beam.alpha, beam.no_repeat, self.max_active, known)
        optima = [model.write([row], exact)[0] for row in rows]
        return [
            Written(optimum or [text], search_errors([text.hypothesis], [_hypotheses(optimum)]))
            if text.hypothesis is not EMPTY
            else Written([text])
            for optimum, text in zip(optima, texts, strict=True)
        ]

    def remark(self, written: Written) -> str:
        if written.errors is None or written.errors.proven:
            return ""
        return f"not proven, more than {self.max_active} prefixes are active (max_active)"

    def total(self, sums: Mapping[str, float]) -> str:
        proven, gaps = sums.get("proven", 0), sums.get("gaps", 0) or 1
        return (
            f"{sums.get('missed', 0):.0f} of {proven:.0f} sentences: search error of a beam of "
            f"{self.search.size}, mean score gap {sums.get('gap', 0) / gaps:.4f}; "
            f"{sums.get('empty', 0):.0f} optima are empty; "
            f"{sums.get('sentences', 0) - proven:.0f} sentences not proven"
        )


def _hypotheses(texts: Sequence[WrittenText]) -> list[Hypothesis]:
    return [text.hypothesis for text in texts]


@dataclass(frozen=True, eq=False)
class Writer(Component[Request, WriterData, Written]):
    """The component "translate" or "generate": a model with a decoding ``method``.

    ``best`` is the number of lines for each input.
    """

    reads_empty = True
    reads_source = True
    writes = True
    model: DecoderModel
    method: Method
    best: int = 1

    @property
    def name(self) -> str:
        return self.model.verb

    @property
    def batch_size(self) -> int:
        return self.model.batch_size

    @property
    def limits(self) -> BatchLimits:
        return self.model.limits

    @property
    def own_limit(self) -> int | None:
        return self.model.position_limit

    @property
    def streams(self) -> bool:
        return self.method.streams

    @property
    def joins(self) -> bool:
        return self.method.streams and self.model.joins

    @property
    def longest_row(self) -> int | None:
        return None if self.joins else self.limits.tokens

    def excess(self, row: WriterRow) -> str:
        prefix = len(row.data.prefix or ())
        most = self.model.longest_prefix(row.cost)
        if prefix > most:
            return f"a prefix of {prefix} tokens is more than the {most} for a text of this length"
        return super().excess(row)

    @property
    def copies(self) -> int:
        return cast(TokenSearch, self.method.search).copies if self.streams else 1

    def parse(self, line: str, where: str) -> Request:
        return Request(line)

    def is_blank(self, given: Request) -> bool:
        return isinstance(given.text, str) and not given.text.strip()

    def as_input(self, given: Request | str | Ids) -> Request:
        """A request; a text, or ids, is one without a prefix."""
        return cast(Request, given) if isinstance(given, tuple) else Request(given)

    def parse_record(self, record: Mapping[str, object], where: str) -> Request:
        prefix = field_of(record, "prefix", str, where) if "prefix" in record else None
        return Request(field_of(record, "text", str, where), prefix)

    def token_count(self, given: Request, most: int) -> int:
        return self.model.token_count(given.text, most)

    def rows(self, inputs: Sequence[Request], keys: Sequence[int]) -> list[WriterRow]:
        return self.model.rows(inputs, keys)

    def values(self, rows: Sequence[WriterRow], tape: NullTape = NULL_TAPE) -> list[Written]:
        """The texts for each row; a live ``tape`` edits the search and records the best texts.

        Values are recorded in one forward pass over a row and its best text.
        """
        written = self.method.decode(self.model.with_tape_edits(tape), rows)
        if tape.live:
            best = [texts[0].hypothesis if texts else EMPTY for texts, _ in written]
            self.model.record_written(rows, best, tape)
        return written

    def warm_up(self) -> None:
        """Run batches of all sizes often enough for their CUDA graphs, if the engine captures any.

        Afterwards nothing is captured: larger batches, and other searches, run eagerly.
        """
        engine, token = self.model.engine, len(self.model.vocabulary) // 2
        if not engine.captures:
            return
        most = self.model.position_limit
        lengths = [length for length in WARM_LENGTHS if most is None or length < most]
        for count in WARM_COUNTS if not self.joins else ():  # others run in a session
            for length in lengths:
                requests = [Request([token] * length), *[Request([token])] * (count - 1)]
                rows = self.rows(requests, range(count))
                for _ in range(WARM_RUNS):
                    self.run(rows)
        engine.freeze()

    def lines(self, result: Result[Written]) -> list[str]:
        """Exactly ``best`` lines, so that files stay parallel; line breaks become spaces."""
        lines = [text.text.translate(ONE_LINE) for text in result.value.texts]
        return lines + [""] * (self.best - len(lines))

    def records(self, result: Result[Written]) -> list[dict[str, object]]:
        """JSON objects of the texts of an input, with scores and tokens for reranking."""
        return [self._record(text) for text in result.value.texts]

    def _record(self, text: WrittenText) -> dict[str, object]:
        hypothesis = text.hypothesis
        record: dict[str, object] = {
            "text": text.text,
            "score": text.score,
            "logprob": hypothesis.logprob,
            "n": len(hypothesis.logprobs),
            "ids": hypothesis.tokens,
            "tokens": self.model.vocabulary.pieces(hypothesis.tokens),
            "logprobs": hypothesis.logprobs,
            "finished": hypothesis.finished,
        }
        if hypothesis.coverage is not None:
            record["coverage"] = hypothesis.coverage
        return record | {"ended": text.ended}

    @property
    def columns(self) -> tuple[str, ...]:
        return self.model.output, "score"

    def cells(self, result: Result[Written]) -> list[dict[str, object]]:
        return [{self.model.output: text.text, "score": text.score} for text in result.value.texts]

    def remark(self, result: Result[Written]) -> str:
        return self.method.remark(result.value)

    def figures(self, result: Result[Written]) -> dict[str, float]:
        texts, errors = result.value
        unfinished = sum(text.ended == "length" for text in texts)
        written = {"texts": float(len(texts)), "unfinished": float(unfinished)}
        if errors is None:
            return written
        gap = {"gap": errors.gap, "gaps": float(errors.gap > 0)}
        counts = {"proven": errors.proven, "missed": errors.missed, "empty": errors.empty}
        return {**written, "sentences": 1, **counts, **gap}

    def total(self, sums: Mapping[str, float]) -> str:
        unfinished = ""
        if sums.get("unfinished"):
            unfinished = (
                f"{sums['unfinished']:,.0f} of {sums['texts']:,.0f} texts are unfinished: they end "
                "at the limit of new tokens (max_new_tokens)"
            )
        return "\n".join(filter(None, [self.method.total(sums), unfinished]))


@contextmanager
def search_errors_as_bad_input(
    search: Search, rows: list[list[int]], *models: nn.Module
) -> Iterator[None]:
    """Raise ``BadInput`` for probabilities that are not numbers and for too little memory."""
    try:
        yield
    except FloatingPointError as error:
        raise broken(str(error), *models) from None
    except (MemoryError, RuntimeError) as error:
        if not ran_out_of_memory(error):
            raise
        many = f"{len(rows)} sentences of up to {max(map(len, rows))} tokens"
        raise BadInput(
            f"not enough memory to search {many} at once by {search}; "
            "take fewer at once, or a smaller beam"
        ) from error
