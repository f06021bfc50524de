"""Continuous batching: rows enter and leave a running batch of generation between two steps.

All rows of a batch share the forward pass of a step, whatever their search and their ending. On a
CPU, rows that were added together share a table of hypotheses. On CUDA, rows run in the slots of a
``SlotBatch``, whose steps are CUDA graphs; rows with rules that need the host run beside them.
"""

from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import cast

import torch
from torch import Tensor

from regard.core.errors import BadInput
from regard.generation import DecodingState
from regard.generation.step import SearchBatch, feed, select_rows
from regard.generation.token_loop import TokenRows
from regard.inference.decoder_model import Writer, WriterRow
from regard.inference.generator import Generator
from regard.inference.session_row import SessionRow, StepOutput, Ticket
from regard.inference.slot_batch import SlotBatch

__all__ = ["GenerationSession", "StepOutput", "Ticket"]


class GenerationSession:
    """Rows of the writers that join, of a generator or its edited copies.

    There is room for ``slots`` hypotheses.
    ``prompt_tokens`` is the maximum of prompts that one step reads; at least one row is read.
    ``slot_batch`` runs the rows that it can take. If ``apart``, every row has its own forward pass
    in a step, so that its numbers are those of a direct call.
    """

    def __init__(
        self,
        slots: int,
        prompt_tokens: int = 4_096,
        slot_batch: SlotBatch | None = None,
        *,
        apart: bool = False,
    ):
        self.slots, self.prompt_tokens, self.slot_batch = slots, prompt_tokens, slot_batch
        self.apart = apart
        self.waiting: dict[Ticket, SessionRow] = {}
        self.cohort_batches: dict[object, CohortBatch] = {}  # by module, or by ticket if apart

    @classmethod
    def warmed(
        cls, generator: Generator, slots: int, *, apart: bool = False
    ) -> "GenerationSession":
        """A session for a generator; on CUDA its graphs have been captured."""
        return cls(slots, slot_batch=SlotBatch.warmed(generator, slots), apart=apart)

    def emptied(self) -> "GenerationSession":
        """A session without rows that keeps the captured graphs."""
        if self.slot_batch is not None:
            self.slot_batch.clear()
        return GenerationSession(self.slots, self.prompt_tokens, self.slot_batch, apart=self.apart)

    @property
    def batches(self) -> "list[SlotBatch | CohortBatch]":
        """The running batches."""
        in_slots = [] if self.slot_batch is None else [self.slot_batch]
        return [*in_slots, *self.cohort_batches.values()]

    @property
    def rows(self) -> int:
        """The number of hypotheses that are decoded."""
        return sum(batch.rows for batch in self.batches)

    def __len__(self) -> int:
        return self.rows + len(self.waiting)

    def add(self, ticket: Ticket, writer: Writer, row: WriterRow, *, streams: bool = False) -> None:
        """Add a row, which is read in the next step with room for it."""
        self.waiting[ticket] = SessionRow(ticket, writer, row, streams, self.apart)

    @torch.inference_mode()
    def cancel(self, ticket: Ticket) -> None:
        """Remove a row, waiting or running."""
        if self.waiting.pop(ticket, None) is None:
            for batch in self.batches:
                batch.cancel(ticket)

    @torch.inference_mode()
    def step(self) -> list[StepOutput]:
        """Read prompts that have room, and decode one token of every row."""
        outputs = self._read_waiting()
        for batch in self.batches:
            outputs += batch.step()
        for key in [key for key, batch in self.cohort_batches.items() if not batch.rows]:
            del self.cohort_batches[key]
        return outputs

    def _read_waiting(self) -> list[StepOutput]:
        """Begin the waiting rows that have room, the longest-waiting first."""
        if not self.waiting:
            return []
        free, tokens, chosen = self.slots - self.rows, self.prompt_tokens, list[SessionRow]()
        for row in self.waiting.values():
            fits = row.places <= free and len(row.prompt) <= tokens
            if not fits and (chosen or self.rows):
                break
            free, tokens = free - row.places, tokens - len(row.prompt)
            chosen.append(row)
        for row in chosen:
            del self.waiting[row.ticket]
        others = chosen if self.slot_batch is None else self.slot_batch.begin(chosen)
        outputs = list[StepOutput]()
        for key, group in groupby(others, self._batch_key):
            outputs += self.cohort_batches.setdefault(key, CohortBatch()).begin([*group])
        return outputs

    def _batch_key(self, row: SessionRow) -> object:
        """What rows of a batch have in common: the model, or that they are one row."""
        return row.ticket if self.apart else row.generator.module


@dataclass(eq=False)
class Cohort:
    """Rows of one writer that were added in the same step."""

    members: list[SessionRow | None]  # None: cancelled, or answered
    tokens: TokenRows = field(repr=False)


class CohortBatch:
    """Rows of one model, stepped by torch's operators, for every search without branching."""

    def __init__(self) -> None:
        self.cohorts: list[Cohort] = []
        self.state: DecodingState | None = None

    @property
    def rows(self) -> int:
        """The number of hypotheses that are decoded."""
        return sum(len(cohort.tokens) for cohort in self.cohorts)

    def begin(self, rows: list[SessionRow]) -> list[StepOutput]:
        """Add rows; those that cannot begin have an error."""
        outputs = []
        for _, group in groupby(rows, lambda row: id(row.writer)):
            members = [*group]
            try:
                self._begin(members)
            except BadInput as error:
                outputs += [StepOutput(member.ticket, error=error) for member in members]
        return outputs

    def _begin(self, members: list[SessionRow]) -> None:
        generator, search = members[0].generator, members[0].search
        prompts = [member.prompt for member in members]
        state, limits, stops = generator.begin(prompts, generator.ending)
        keys = [member.row.key for member in members]
        batch = SearchBatch(state, limits, None, keys, prompts, stops)
        cohort = Cohort([*members], TokenRows(search, batch))
        for member in members:
            member.begin()
        if self.state is None:
            self.state = cast(DecodingState, state)
        else:
            self.state.join(cast(DecodingState, state))
        self.cohorts.append(cohort)

    def cancel(self, ticket: Ticket) -> None:
        """Remove a row, if it is here."""
        for cohort in self.cohorts:
            for number, member in enumerate(cohort.members):
                if member is not None and member.ticket == ticket:
                    cohort.members[number] = None
                    self._drop(cohort, number)

    def _drop(self, dropped: Cohort, number: int) -> None:
        index, start = list[Tensor](), 0
        for cohort in self.cohorts:
            size = len(cohort.tokens)
            going_R = cohort.tokens.drop(number) if cohort is dropped else torch.arange(size)
            index.append(going_R + start)
            start += size
        self._select(index)

    def step(self) -> list[StepOutput]:
        """Decode one token of every row."""
        if self.state is None:
            return []
        logprobs_RV = feed(self.state, torch.cat([c.tokens.token_R for c in self.cohorts]))
        normaliser_R, index, start = self.state.normaliser(), list[Tensor](), 0
        outputs = list[StepOutput]()
        for cohort in self.cohorts:
            rows = slice(start, start + len(cohort.tokens))
            start = rows.stop
            try:
                own_R = partial(normaliser_R.__getitem__, rows)
                tokens, going_R = cohort.tokens.extend(logprobs_RV[rows], own_R)
            except FloatingPointError as error:
                outputs += [member.failure(error) for member in cohort.members if member]
                cohort.tokens.clear()
                continue
            index.append(going_R + rows.start)
            outputs += self._streamed(cohort, tokens.rows, tokens.tokens)
            outputs += self._results(cohort)
        self._select(index)
        return outputs

    def _select(self, index: list[Tensor]) -> None:
        """Keep these rows of the state, and the cohorts that have rows."""
        self.cohorts = [cohort for cohort in self.cohorts if len(cohort.tokens)]
        if not self.cohorts:
            self.state = None
        elif self.state is not None:
            select_rows(self.state, torch.cat(index))

    def _streamed(self, cohort: Cohort, rows: list[int], tokens: list[int]) -> list[StepOutput]:
        """New text of rows that are streamed; of several samples, the first is."""
        outputs = []
        for number, token in zip(rows, tokens, strict=True):
            sentence, copy = divmod(number, cohort.tokens.search.copies)
            member = cohort.members[sentence]
            if member is not None and not copy:
                outputs += member.streamed(token)
        return outputs

    def _results(self, cohort: Cohort) -> list[StepOutput]:
        """Results of the rows that have ended."""
        outputs = []
        for sentence, member in enumerate(cohort.members):
            if member is not None and cohort.tokens.has_ended(sentence):
                cohort.members[sentence] = None
                outputs.append(member.result(cohort.tokens.nbest(sentence)))
        return outputs
