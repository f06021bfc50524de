"""Continuous batching: rows enter and leave a running batch of generation between two steps.

All rows of a session share the forward pass of a step, whatever their search and their ending;
rows that were added together share a table of hypotheses.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import NamedTuple, cast

import numpy as np
import torch

from regard.decoding import EAGER, DecodingState
from regard.ground.errors import BadInput
from regard.inference.component import Result
from regard.inference.decoder_model import Writer, WriterRow, Written
from regard.inference.generator import Generator
from regard.search.step import SearchBatch, feed, select_rows
from regard.search.token_loop import TokenRows, TokenSearch
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
    """A row of a session, with its text if it is streamed."""

    ticket: Ticket
    writer: Writer
    row: WriterRow
    streams: bool = False
    text: TextStream | None = None

    @property
    def generator(self) -> Generator:
        """The model, whose steps are torch's: their rows can be joined."""
        return replace(cast(Generator, self.writer.model), engine=EAGER)

    @property
    def search(self) -> TokenSearch:
        return cast(TokenSearch, self.writer.method.search)

    @property
    def places(self) -> int:
        """The number of rows of the state that the row takes."""
        return self.search.copies


@dataclass(eq=False)
class Cohort:
    """Rows of one writer that were added in the same step."""

    members: list[SessionRow | None]  # None: cancelled, or answered
    tokens: TokenRows = field(repr=False)


class GenerationSession:
    """Running batch of the writers of one generator that join, with room for ``slots`` hypotheses.

    ``prompt_tokens`` is the maximum of prompts that one step reads; at least one row is read.
    """

    def __init__(self, slots: int, prompt_tokens: int = 4_096):
        self.slots, self.prompt_tokens = slots, prompt_tokens
        self.waiting: dict[Ticket, SessionRow] = {}
        self.cohorts: list[Cohort] = []
        self.state: DecodingState | None = None

    @property
    def rows(self) -> int:
        """The number of hypotheses that are decoded."""
        return sum(len(cohort.tokens) for cohort in self.cohorts)

    def __len__(self) -> int:
        return self.rows + len(self.waiting)

    def add(self, ticket: Ticket, writer: Writer, row: WriterRow, *, streams: bool = False) -> None:
        """Add a row, which is read in the next step with room for it."""
        self.waiting[ticket] = SessionRow(ticket, writer, row, streams)

    @torch.inference_mode()
    def cancel(self, ticket: Ticket) -> None:
        """Remove a row, waiting or running."""
        if self.waiting.pop(ticket, None) is not None:
            return
        for cohort in self.cohorts:
            for number, member in enumerate(cohort.members):
                if member is not None and member.ticket == ticket:
                    cohort.members[number] = None
                    self._drop(cohort, number)

    def _drop(self, dropped: Cohort, number: int) -> None:
        index, start = [], 0
        for cohort in self.cohorts:
            size = len(cohort.tokens)
            going = cohort.tokens.drop(number) if cohort is dropped else np.arange(size)
            index.append(going + start)
            start += size
        self._select(np.concatenate(index))

    @torch.inference_mode()
    def step(self) -> list[StepOutput]:
        """Read prompts that have room, and decode one token of every row."""
        outputs = self._read_waiting()
        if self.state is None:
            return outputs
        logprobs_RV = feed(self.state, np.concatenate([c.tokens.last_R for c in self.cohorts]))
        normaliser_R, index, start = self.state.normaliser(), [], 0
        for cohort in self.cohorts:
            rows = slice(start, start + len(cohort.tokens))
            start = rows.stop
            try:
                own_R = partial(normaliser_R.__getitem__, rows)
                tokens, going = cohort.tokens.choose(logprobs_RV[rows], own_R)
            except FloatingPointError as error:
                fault = BadInput(f"the model is broken: {error}")
                outputs += [StepOutput(m.ticket, error=fault) for m in cohort.members if m]
                cohort.tokens.alive = cohort.tokens.alive.take(np.zeros(0, dtype=np.int64))
                continue
            index.append(going + rows.start)
            outputs += self._streamed(cohort, tokens.rows, tokens.tokens)
            outputs += self._results(cohort)
        self._select(np.concatenate([*index, np.zeros(0, dtype=np.int64)]))
        return outputs

    def _select(self, index_R: np.ndarray) -> None:
        """Keep these rows of the state, and the cohorts that have rows."""
        self.cohorts = [cohort for cohort in self.cohorts if len(cohort.tokens)]
        if not len(index_R):
            self.state = None
        elif self.state is not None:
            select_rows(self.state, index_R)

    def _read_waiting(self) -> list[StepOutput]:
        """Begin the waiting rows that have room, the longest-waiting first."""
        free, tokens, chosen = self.slots - self.rows, self.prompt_tokens, list[SessionRow]()
        for row in self.waiting.values():
            size = len(row.row.data.ids[0])
            fits = row.places <= free and size <= tokens
            if not fits and (chosen or self.state is not None):
                break
            free, tokens = free - row.places, tokens - size
            chosen.append(row)
        outputs = []
        for _, group in groupby(chosen, lambda row: id(row.writer)):
            members = [*group]
            for member in members:
                del self.waiting[member.ticket]
            try:
                self._begin(members)
            except BadInput as error:
                outputs += [StepOutput(member.ticket, error=error) for member in members]
        return outputs

    def _begin(self, members: list[SessionRow]) -> None:
        generator, search = members[0].generator, members[0].search
        prompts = [member.row.data.ids[0] for member in members]
        state, limits, stops = generator.begin(prompts, generator.ending)
        keys = [member.row.key for member in members]
        batch = SearchBatch(state, limits, None, keys, prompts, stops)
        cohort = Cohort([*members], TokenRows(search, batch))
        for member, prompt in zip(members, prompts, strict=True):
            if member.streams:
                member.text = generator.text_stream(prompt, generator.ending)
        if self.state is None:
            self.state = cast(DecodingState, state)
        else:
            self.state.join(cast(DecodingState, state))
        self.cohorts.append(cohort)

    def _streamed(self, cohort: Cohort, rows: list[int], tokens: list[int]) -> list[StepOutput]:
        """New text of rows that are streamed; of several samples, the first is."""
        outputs = []
        for number, token in zip(rows, tokens, strict=True):
            sentence, copy = divmod(number, cohort.tokens.search.copies)
            member = cohort.members[sentence]
            if member is None or member.text is None or copy:
                continue
            if token not in member.generator.ends and (piece := member.text.add(token)):
                outputs.append(StepOutput(member.ticket, piece))
        return outputs

    def _results(self, cohort: Cohort) -> list[StepOutput]:
        """Results of the rows that have ended."""
        outputs = []
        for sentence, member in enumerate(cohort.members):
            if member is None or not cohort.tokens.has_ended(sentence):
                continue
            cohort.members[sentence] = None
            generator, row = member.generator, member.row
            texts = [
                generator.as_text(row.data.ids[0], hypothesis, generator.ending)
                for hypothesis in cohort.tokens.nbest(sentence)
            ]
            rest = "" if member.text is None else member.text.end()
            result = Result(row.key, Written(texts), row.cut, row.cost)
            outputs.append(StepOutput(member.ticket, rest, result))
        return outputs
