"""Running batch of generation in fixed slots, whose steps are CUDA graphs.

The host launches a step before it reads the tokens of the step before, so that the device does not
wait for it. A row that has ended is therefore computed once more, and its token is ignored.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import cast

import numpy as np
import torch

from regard.core.errors import BadInput
from regard.core.pytree import AsyncCopy, move_tensor
from regard.generation.hypothesis import RowTokens, StopTest, by_sentence
from regard.generation.slots import (
    LEVELS,
    SlotDecoder,
    SlotRow,
    SlotSettings,
    SlotTokens,
    slot_capacity,
)
from regard.inference.generator import Generator
from regard.inference.session_row import SessionRow, StepOutput, Ticket

STEPS_AHEAD = 1  # that are launched before the tokens of a step are read


@dataclass(eq=False, kw_only=True)
class SlotHypothesis(RowTokens):
    """One hypothesis of a member, in its slot."""

    member: "SlotMember"
    slot: int
    launched: int = 0  # steps, of which some have not been read


@dataclass(eq=False)
class SlotMember:
    """A row of a session in its slots, one for each hypothesis."""

    row: SessionRow
    settings: SlotSettings
    longest: int
    ends: tuple[int, ...]
    stop_test: StopTest | None
    hypotheses: list[SlotHypothesis] = field(default_factory=list)

    @property
    def has_ended(self) -> bool:
        """Whether all hypotheses have ended."""
        return all(hypothesis.has_ended for hypothesis in self.hypotheses)

    @property
    def slots(self) -> list[int]:
        """Slots of the hypotheses."""
        return [hypothesis.slot for hypothesis in self.hypotheses]


class SlotBatch:
    """Rows of a generator in ``slots`` of ``capacity`` tokens."""

    def __init__(self, generator: Generator, slots: int, capacity: int):
        self.model, self.slots, self.capacity = generator.module, slots, capacity
        self.device = generator.device
        self.selector = SlotTokens(slots + 1, capacity + 1, self.device)
        sizes = slots, capacity, len(LEVELS)
        self.decoder = SlotDecoder(self.model, self.selector, *sizes, self.device)
        self.members: dict[Ticket, SlotMember] = {}
        self.free = list(range(slots))  # a heap
        self.left: list[int] = []  # slots of rows that have ended since the last step
        self.steps: deque[tuple[AsyncCopy, list[SlotHypothesis]]] = deque()

    @classmethod
    def warmed(cls, generator: Generator, slots: int) -> "SlotBatch | None":
        """A batch whose graphs have been captured; None if the model has none."""
        capacity = slot_capacity(generator.module, generator.engine, slots, generator.device)
        if not (capacity and generator.joins):
            return None
        batch = cls(generator, slots, capacity)
        batch.decoder.warm_up()
        return batch

    def clear(self) -> None:
        """Remove all rows, also those whose prompts could not be read."""
        self.members.clear()
        self.steps.clear()
        self.free, self.left = list(range(self.slots)), list(range(self.slots))

    @property
    def rows(self) -> int:
        """The number of slots in use."""
        return self.slots - len(self.free)

    def begin(self, rows: Sequence[SessionRow]) -> list[SessionRow]:
        """Read the prompts of rows; return those that need torch's operators."""
        members, others = list[SlotMember](), list[SessionRow]()
        for row in rows:
            member = self._member(row)
            if member is None or row.places > len(self.free):
                others.append(row)
                continue
            slots = [heappop(self.free) for _ in range(row.places)]
            limits = member.longest, member.ends, member.stop_test
            member.hypotheses = [SlotHypothesis(*limits, member=member, slot=n) for n in slots]
            members.append(member)
        if members:
            self._start(members)
        return others

    def _member(self, row: SessionRow) -> SlotMember | None:
        """The row, if the slots have its model and its rules do not need the host."""
        generator, prompt = cast(Generator, row.writer.model), row.prompt
        if generator.module is not self.model:
            return None
        try:
            limits, stops = generator.rules([prompt], generator.ending)
            row.begin()
        except BadInput:  # the other batch reports it
            return None
        (longest,), (shortest,) = limits.longest_of(1).tolist(), limits.shortest_of(1).tolist()
        settings = SlotSettings(row.search, limits, shortest)
        if not settings.fits or len(prompt) + longest - 1 > self.capacity:
            return None
        return SlotMember(row, settings, longest, limits.ends, stops)

    def _start(self, members: list[SlotMember]) -> None:
        self._free_slots()
        rows = [SlotRow(member.row.prompt, member.slots) for member in members]
        slot_N = self.decoder.start(rows)
        settings = [member.settings for member in members for _ in member.hypotheses]
        longest = max(member.longest for member in members)
        draws_NL = np.zeros((len(settings), longest))
        at = 0
        for member in members:
            count = len(member.hypotheses)
            if member.settings.level:
                row = member.row
                draws = row.search.draws([row.row.key], member.longest)
                draws_NL[at : at + count, : member.longest] = draws
            at += count
        self.selector.start(slot_N, settings, draws_NL)
        self.members |= {member.row.ticket: member for member in members}

    def cancel(self, ticket: Ticket) -> None:
        """Remove a row, if it is here."""
        member = self.members.pop(ticket, None)
        if member is None:
            return
        for hypothesis in member.hypotheses:
            hypothesis.has_ended = True
            heappush(self.free, hypothesis.slot)
        self.left += member.slots

    def _free_slots(self) -> None:
        if self.left:
            left_N = move_tensor(torch.tensor(self.left), self.device)
            self.selector.free(left_N)
            self.left = []

    def step(self) -> list[StepOutput]:
        """Launch a step for all rows, and read the tokens of the step before."""
        running = [
            hypothesis
            for member in self.members.values()
            for hypothesis in member.hypotheses
            if not hypothesis.has_ended and hypothesis.launched < member.longest
        ]
        if running:
            self._launch(running)
        if self.steps and (len(self.steps) > STEPS_AHEAD or not running):
            return self._read(*self.steps.popleft())
        return []

    def _launch(self, running: list[SlotHypothesis]) -> None:
        self._free_slots()
        rows = max(hypothesis.slot for hypothesis in running) + 1
        level = max(hypothesis.member.settings.level for hypothesis in running)
        self.decoder.step(rows, level)
        for hypothesis in running:
            hypothesis.launched += 1
        self.steps.append((AsyncCopy(self.selector.chosen_R2[:rows]), running))

    def _read(self, copy: AsyncCopy, running: list[SlotHypothesis]) -> list[StepOutput]:
        outputs, chosen = list[StepOutput](), copy.read().tolist()
        for hypothesis in running:
            if hypothesis.has_ended:  # at the step before, or cancelled
                continue
            member, (token, logprob) = hypothesis.member, chosen[hypothesis.slot]
            row = member.row
            try:
                is_text = hypothesis.add(int(token), logprob)
            except FloatingPointError as error:
                outputs.append(row.failure(error))
                self.cancel(row.ticket)
                continue
            if is_text and row.text is not None and hypothesis is member.hypotheses[0]:
                outputs += row.streamed(int(token))
            if hypothesis.has_ended and member.has_ended:
                nbest = by_sentence([each.hypothesis for each in member.hypotheses], row.places)[0]
                outputs.append(row.result(nbest))
                self.cancel(row.ticket)
        return outputs
