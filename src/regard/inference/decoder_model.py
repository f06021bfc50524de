"""A model that writes, as people use it: how it searches, what steps it, who shares the work."""

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any, Self, cast

from torch import nn

from regard import decoding
from regard.decoding import Engine
from regard.ground.errors import BadInput
from regard.inference.component import Job, Workers
from regard.inference.generation_settings import GenerationSettings, as_trained, sampling_of
from regard.inference.inputs import ran_out_of_memory
from regard.inference.model_runner import ModelRunner
from regard.parts.linear.convert import in_precision, products_in_use
from regard.search.beam import Beam
from regard.search.hypothesis import Hypothesis
from regard.search.sample import Sample
from regard.search.step import Search
from regard.text.vocabularies.vocabulary import Vocabulary


class DecoderModel(ModelRunner):
    """What a translator and a generator share.

    ``generation_config`` is the file it was published with: how it searches unless told otherwise,
    and what it may write by transformers' rules; ``decode_config`` is the table of the recipe it
    was trained by. ``engine`` steps the decoder; ``workers`` share the searches out, each by
    ``search_batch`` of a model like this.
    """

    engine: Engine
    workers: Workers | None

    @property
    @abstractmethod
    def generation_config(self) -> Mapping[str, Any] | None:
        """Its generation_config.json."""

    @property
    @abstractmethod
    def decode_config(self) -> Any:
        """The table ``[decode]`` of the recipe it was trained by."""

    @property
    @abstractmethod
    def vocabulary(self) -> Vocabulary:
        """What it writes."""

    @abstractmethod
    def search_batch(self, *job: Any) -> list[list[Hypothesis]]:
        """The hypotheses for each input of one batch, in ids."""

    @cached_property
    @abstractmethod
    def generation_settings(self) -> GenerationSettings | None:
        """The same as rules of this library; BadInput where these cannot be."""

    @cached_property
    def supported_settings(self) -> GenerationSettings | None:
        """The same, None where they cannot be: what they allow holds for any search."""
        try:
            return self.generation_settings
        except BadInput:
            return None

    @property
    @abstractmethod
    def search(self) -> Search:
        """How it searches unless told otherwise."""

    @property
    @abstractmethod
    def base_beam(self) -> Beam:
        """The beam search of which options override single settings."""

    @abstractmethod
    def write(
        self, requests: Sequence[tuple[str, str | None]], search: Search, *, first: int
    ) -> list[list[Any]]:
        """The texts for each request, best first: a text, and how what is written must begin.

        Requests are numbered from ``first``.
        """

    @property
    def sampling(self) -> Sample:
        """How it samples unless told otherwise."""
        return sampling_of(self.generation_config or {})

    @cached_property
    def beam(self) -> Beam:
        """Its beam search, by the rules of this library."""
        return Beam() if self.decode_config is None else as_trained(self.decode_config)

    @property
    def models(self) -> list[Any]:
        """The models that decide on every token."""
        return [self.model]

    def choice(self, precision: str = "auto", engine: str = "auto") -> tuple[str, str]:
        """The precision and the engine that would run; BadInput if none can."""
        return decoding.choose_engine(self.models, precision, engine, self.batch_size)

    def with_precision(self, kind: str, engine: str = "auto") -> Self:
        """The same, for inference only, in "fp32", "bf16" or (on a CPU) "int8"; or "auto".

        What "auto" means, and which ``engine`` steps the decoder, ``choice`` says.
        """
        steps: Engine = self.engine
        packed: Collection[nn.Module] = ()
        if products_in_use(self.model) is None:
            kind, engine = self.choice(kind, engine)
            steps = decoding.build_engine(engine, self.model, kind)
            packed = steps.packed_layers if kind == "fp32" else packed
        model = in_precision(self.model, kind, but_for=packed)
        return replace(cast(Any, self), model=model, engine=steps)

    @property
    def description(self) -> str:
        """What does the work, in words."""
        dtype = str(next(self.model.parameters()).dtype).removeprefix("torch.")
        return (
            self.engine.description
            or products_in_use(self.model)
            or f"{dtype} on {self.device.type}"
        )

    def search_batches(self, jobs: list[Job]) -> Iterator[list[list[Hypothesis]]]:
        """The hypotheses of each batch, in order."""
        if self.workers is not None:
            return self.workers.map(jobs)
        return (self.search_batch(*job) for job in jobs)


@contextmanager
def search_errors_as_bad_input(search: Search, rows: list[list[int]]) -> Iterator[None]:
    """A model whose probabilities are not numbers, or too little memory, is bad input."""
    try:
        yield
    except FloatingPointError as error:
        raise BadInput(f"the model is broken: {error}") from None
    except (MemoryError, RuntimeError) as error:
        if not ran_out_of_memory(error):
            raise
        many = f"{len(rows)} sentences of up to {max(map(len, rows))} tokens"
        raise BadInput(
            f"not enough memory to search {many} at once by {search}; "
            "take fewer at once, or a smaller beam"
        ) from error
