"""A recurrent decoder, with attention or without, before its state or after it.

Where no step needs what the step before has seen, all tokens run in one call of the fused kernel;
else a loop over time runs on the rows still alive.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.ground.layout import Layout
from regard.ground.tape import SILENT, Silent, Unrolled
from regard.models.facts import Facts
from regard.models.sides import Writer
from regard.models.stack import embedding
from regard.parts.attention import Source
from regard.parts.bridge import Bridge
from regard.parts.glance import Glance, Keys
from regard.parts.memory import Carried, shared_rectangle
from regard.parts.readout import Attentional, Maxout
from regard.parts.recurrent import Recurrence, State


class Now(NamedTuple):
    """What a decoder carries: the state of each layer, and the vector that every step is told.

    That is h̃ of the step before (input feeding) or the source in one vector, if there is any.
    """

    states: Sequence[State]
    told_RD: Tensor | None

    def rows(self, index: Tensor | slice) -> "Now":
        """Some of the rows, or all in another order."""
        states = [tuple(part[index] for part in state) for state in self.states]
        return Now(states, None if self.told_RD is None else self.told_RD[index])


class RecurrentWriter(nn.Module):
    """Embeddings, recurrent layers over them that begin at the bridge, and what is read out."""

    def __init__(self, facts: Facts, stack: Writer, source: int):
        super().__init__()
        looking, width = stack.attention, stack.width
        before = looking is not None and looking.timing == "previous"
        self.feeds, self.looks_before = looking is not None and looking.feeding, before
        self.unrolls = before or self.feeds
        told = width if self.feeds or stack.summary else 0
        self.embed = embedding(facts.embed, stack.embedding, stack.dropout)
        self.bridge = Bridge(
            stack.bridge, source, stack.cell, width, stack.depth, summarises=stack.summary
        )
        self.layers = Recurrence(
            stack.cell,
            stack.embedding + told + (source if before else 0),
            width,
            stack.depth,
            residual=stack.residual,
            dropout=stack.dropout,
        )
        self.cross = self.joined = self.maxout = None
        if looking is not None:
            inner = looking.inner or width
            size = {"inner": inner, "positions": looking.positions}
            self.cross = Glance(width, source, looking.score, **size)
            self.joined = None if before else Attentional(source, width)
        seen = source if before else width if stack.summary else 0
        if stack.maxout is not None:
            self.maxout = Maxout(width + stack.embedding + seen, stack.maxout)
        self.dropout = nn.Dropout(stack.dropout)

    def forward(
        self,
        tokens_T: Tensor,
        layout: Layout,
        *,
        source: Source,
        memory: Carried | None = None,
        tape: Silent = SILENT,
    ) -> Tensor:
        """What the next word is read from, at every place of the target."""
        x_TD = tape("embed.output", self.embed(tokens_T, layout))
        now = self._begin(source, memory)
        run = self._unrolled if self.unrolls else self._at_once
        states_TD, seen_TD, now = run(x_TD, layout, now, source, memory, tape)
        if memory is not None:
            memory.now = now
            memory.advance(layout)
        if self.maxout is not None:
            given = [one for one in (states_TD, x_TD, seen_TD) if one is not None]
            states_TD = self.maxout(torch.cat(given, dim=-1))
        return tape("output", self.dropout(states_TD))

    def _begin(self, source: Source, memory: Carried | None) -> Now:
        """Where the memory left off, or at the bridge."""
        if memory is not None and memory.now is not None:
            return memory.now
        states, told_BD = self.bridge(source)
        now = Now(states, torch.zeros_like(states[-1][0]) if self.feeds else told_BD)
        return now if memory is None else memory.begin(now)

    def _at_once(
        self,
        x_TD: Tensor,
        layout: Layout,
        now: Now,
        source: Source,
        memory: Carried | None,
        tape: Silent,
    ) -> tuple[Tensor, Tensor | None, Now]:
        told_TD = None
        if now.told_RD is not None:
            told_TD = now.told_RD[layout.rows_T]
            x_TD = torch.cat([x_TD, told_TD], dim=-1)
        states_TD, ends = self.layers(x_TD, layout, now.states, tape=tape.under("blocks"))
        if self.cross is not None:
            assert self.joined is not None
            keys = self.cross.kept(source, memory.under(0)) if memory else self.cross.keys(source)
            seen_TD = self.cross(states_TD, layout, keys, tape=tape.under("cross"))
            states_TD = self.joined(states_TD, seen_TD)
        return states_TD, told_TD, Now(ends, now.told_RD)

    def _unrolled(
        self,
        x_TD: Tensor,
        layout: Layout,
        now: Now,
        source: Source,
        memory: Carried | None,
        tape: Silent,
    ) -> tuple[Tensor, Tensor | None, Now]:
        assert self.cross is not None
        times = layout.times
        now = now.rows(times.order_B)
        keys = self.cross.kept(source, memory.under(0) if memory else None).ordered(times.order_B)
        record = Unrolled(tape.under("cross"), layout.rows, layout.longest)
        states, seen = [], []
        for time, x_RD in enumerate(times.take(x_TD).split(times.alive)):
            alive = len(x_RD)
            now, keys = now.rows(slice(alive)), keys.first(alive)
            queries = shared_rectangle(alive, 1, str(x_TD.device), start=(layout.start or 0) + time)
            moment = record.at(time, times.order_B[:alive])
            state_RD, seen_RD, now = self._step(x_RD, now, keys, queries, moment)
            states.append(state_RD)
            seen.append(seen_RD)
        if not states:  # no row has a token: a step on nothing still has gradients
            state_RD, seen_RD, now = self._step(x_TD, now, keys, layout, SILENT)
            states, seen = [state_RD], [seen_RD]
        seen_TD = times.give(torch.cat(seen)) if self.looks_before else None  # h̃ has it already
        return times.give(torch.cat(states)), seen_TD, now

    def _step(
        self, x_RD: Tensor, now: Now, keys: Keys, queries: Layout, tape: Silent
    ) -> tuple[Tensor, Tensor, Now]:
        """The next state (or h̃), what was seen on the way, and what goes on."""
        assert self.cross is not None
        if self.looks_before:
            seen_RD = self.cross(now.states[-1][0], queries, keys, tape=tape)
            state_RD, states = self.layers.step(torch.cat([x_RD, seen_RD], dim=-1), now.states)
            return state_RD, seen_RD, Now(states, None)
        assert self.joined is not None and now.told_RD is not None
        state_RD, states = self.layers.step(torch.cat([x_RD, now.told_RD], dim=-1), now.states)
        seen_RD = self.cross(state_RD, queries, keys, tape=tape)
        joined_RD = self.joined(state_RD, seen_RD)
        return joined_RD, seen_RD, Now(states, joined_RD)
