"""Rows of a running batch of generation, and the output of its steps."""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, cast

from regard.core.errors import BadInput
from regard.generation import EAGER
from regard.generation.hypothesis import Hypothesis
from regard.generation.token_loop import TokenSearch
from regard.inference.component import Result
from regard.inference.decoder_model import Writer, WriterRow, Written
from regard.inference.generator import Generator
from regard.inference.row_batches import broken
from regard.text.continuation import TextStream

Ticket = Hashable


class StepOutput(NamedTuple):
    """Output of a step for a row: a piece of streamed text, and at the end its result or error."""

    ticket: Ticket
    piece: str = ""
    result: Result[Written] | None = None
    error: BadInput | None = None


@dataclass(eq=False)
class SessionRow:
    """A row of a session, with its text if it is streamed; if ``apart``, it is never joined."""

    ticket: Ticket
    writer: Writer
    row: WriterRow
    streams: bool = False
    apart: bool = False
    text: TextStream | None = None

    @cached_property
    def generator(self) -> Generator:
        """The model; rows of torch's steps can be joined."""
        generator = cast(Generator, self.writer.model)
        return generator if self.apart else replace(generator, engine=EAGER)

    @property
    def search(self) -> TokenSearch:
        return cast(TokenSearch, self.writer.method.search)

    @property
    def prompt(self) -> list[int]:
        """Token ids of the prompt."""
        return self.row.data.ids[0]

    @property
    def places(self) -> int:
        """The number of rows of the state that the row takes."""
        return self.search.copies

    def begin(self) -> None:
        """Begin the streamed text, if the row is streamed."""
        if self.streams:
            self.text = self.generator.text_stream(self.prompt, self.generator.ending)

    def streamed(self, token: int) -> list[StepOutput]:
        """New text after a token, if there is any."""
        if self.text is None or token in self.generator.ends:
            return []
        piece = self.text.add(token)
        return [StepOutput(self.ticket, piece)] if piece else []

    def result(self, nbest: list[Hypothesis]) -> StepOutput:
        """Output at the end of the row."""
        generator, row = self.generator, self.row
        texts = [generator.as_text(self.prompt, each, generator.ending) for each in nbest]
        rest = "" if self.text is None else self.text.end()
        return StepOutput(self.ticket, rest, Result(row.key, Written(texts), row.cut, row.cost))

    def failure(self, error: FloatingPointError) -> StepOutput:
        """Output of a row whose log-probabilities are not numbers."""
        return StepOutput(self.ticket, error=broken(str(error), self.generator.module))
