"""The thread that owns a model: it packs rows of waiting requests into batches and runs them.

An idle worker runs a request at once; what arrives meanwhile waits and shares the next batch.
Requests take turns: a batch has a row of each, then a second row of each, until it is full, and the
next one begins with those that have waited longest. Between two steps of a running generation, one
batch of other work runs, so that neither waits for the end of the other.
"""

import asyncio
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Self, cast

from regard.core.cancellation import CancelledWork, cancelled_if
from regard.core.errors import BadInput, BadItem
from regard.core.machine import least_stable_rows
from regard.inference.component import AnyResult, AnyRow
from regard.inference.decoder_model import Writer
from regard.inference.generation_session import GenerationSession, StepOutput
from regard.inference.generator import Generator
from regard.layers.kernels.bucketed import equal_lengths
from regard.serving.metrics import BatchMetrics, Metrics
from regard.serving.request_errors import Failure, RequestError
from regard.serving.request_threads import RequestThreads, call_in_loop
from regard.serving.served_model import ServedModel
from regard.serving.settings import EngineLimits
from regard.tasks.components import AnyComponent

LOG = logging.getLogger("regard.serving")
STARTING_RATE = 1_000.0  # tokens in a second, until it is measured
SWITCH_SECONDS = 0.0002  # until another thread may go on; steps on a GPU are short
CPU_BATCH_TOKENS = 2_048  # by default: a new request waits for the end of a batch
FEWEST_TOKENS = 2  # of a row that shares products with others, unless numbers are to be exact
MEMORY = 0.9  # the share of the earlier rate in a new estimate

Answer = AnyResult | BadItem


@dataclass(eq=False)
class Work:
    """An accepted request: rows that wait for results, or ``calls`` that need the model alone.

    A call has its number of tokens; other requests run between two calls.
    """

    component: AnyComponent | None
    rows: Sequence[AnyRow | BadItem]
    tokens: int
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[list[Answer]]"
    calls: deque[tuple[int, Callable[[], None]]] = field(default_factory=deque)
    on_piece: Callable[[str], None] | None = None
    answers: dict[int, Answer] = field(default_factory=dict)
    waiting: list[int] = field(default_factory=list)  # indices of rows that have not begun
    own_batches: list[list[int]] = field(default_factory=list)  # of rows that wait, if isolated
    turn: int = 0  # the last batch that had rows of it, or the one that had ended when it arrived
    given_up: bool = False

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows):
            if isinstance(row, BadInput):
                self.answers[number] = row
            else:
                self.waiting.append(number)

    @property
    def is_over(self) -> bool:
        """Whether every row has its answer."""
        return not self.calls and len(self.answers) == len(self.rows)

    @property
    def is_unwanted(self) -> bool:
        """Whether nobody waits for the answer."""
        return self.given_up or self.future.cancelled()

    def row(self, number: int) -> AnyRow:
        """A good row, by its index."""
        return cast(AnyRow, self.rows[number])


Place = tuple[Work, int]
"""A row of a request, by its index."""


class Outbox:
    """Calls in the threads of requests, handed over together: to wake an event loop takes time."""

    def __init__(self) -> None:
        self._calls: dict[asyncio.AbstractEventLoop, list[Callable[[], None]]] = {}

    def add(
        self, loop: asyncio.AbstractEventLoop, function: Callable[..., None], *values: object
    ) -> None:
        """Add a call of a function."""
        self._calls.setdefault(loop, []).append(partial(function, *values))

    def send(self) -> None:
        """Make all calls, each in its loop."""
        calls, self._calls = self._calls, {}
        for loop, own in calls.items():
            call_in_loop(loop, _call_all, own)


def _call_all(calls: Sequence[Callable[[], None]]) -> None:
    for call in calls:
        call()


class Worker:
    """Queue and thread of one model; ``preparing`` reads inputs in a thread of its own.

    ``warmed`` is done when the model has run once, or was closed before; its exception says why the
    model cannot run.
    """

    def __init__(self, served: ServedModel, limits: EngineLimits, metrics: Metrics):
        self.served, self.limits, self.metrics = served, limits, metrics
        self.batch_tokens = limits.max_batch_tokens
        is_default, on_cpu = self.batch_tokens == EngineLimits.max_batch_tokens, served.is_on_cpu
        if limits.exact and not on_cpu:
            raise BadInput(f"exact: model {served.name} is not on a CPU; isolate requests instead")
        if is_default and on_cpu:
            self.batch_tokens = CPU_BATCH_TOKENS
        self.preparing = RequestThreads(1, f"prepare-{served.name}")
        self.queued_tokens = self.queued_requests = 0
        self.rate, self.is_warm, self.closing = STARTING_RATE, False, False
        self.warmed: Future[None] = Future()
        self._queue = metrics.of_queue(served.name)
        self._batches: dict[str, BatchMetrics] = {}
        self._changed = threading.Condition()
        self._turn = 0  # the number of batches that have run
        self._users = 0  # requests, whether or not they have rows
        self._accepted: list[Work] = []  # since the event loop woke the thread last
        self._arrivals: list[Work] = []
        self._outbox = Outbox()
        self._active: list[Work] = []  # oldest first
        self._session = GenerationSession(limits.slots, apart=limits.exact)
        self._thread = threading.Thread(target=self._run, name=f"model-{served.name}", daemon=True)
        self._thread.start()

    # In the thread of the event loop.

    @contextmanager
    def in_use(self) -> Iterator[Self]:
        """Keep the thread until the end of a request, which may not have its rows yet."""
        with self._changed:
            self._users += 1
        try:
            yield self
        finally:
            with self._changed:
                self._users -= 1
                self._changed.notify()

    def accept(self, work: Work) -> None:
        """Add a request to the queue; those that arrive together are handed over together."""
        if not self._accepted or self._accepted[-1].loop is not work.loop:
            work.loop.call_soon(self._hand_over)
        self._accepted.append(work)
        with self._changed:
            self._count(work, +1)

    def _hand_over(self) -> None:
        accepted, self._accepted = self._accepted, []
        with self._changed:
            self._arrivals += accepted
            self._changed.notify()

    def give_up(self, work: Work) -> None:
        """Drop a request that nobody waits for, at the next step."""
        with self._changed:
            work.given_up = True
            self._changed.notify()

    def close(self) -> None:
        """End the thread after the requests that use it."""
        with self._changed:
            self.closing = True
            self._changed.notify()

    @property
    def is_alive(self) -> bool:
        """Whether the thread has not ended."""
        return self._thread.is_alive()

    def join(self, seconds: float | None = None) -> None:
        """Wait for the end of the thread."""
        self._thread.join(seconds)

    def _count(self, work: Work, sign: int) -> None:
        self.queued_tokens += sign * work.tokens
        self.queued_requests += sign
        if self.closing:  # the figures of the name are those of its next model, or forgotten
            return
        tokens, requests = self._queue
        tokens.set(self.queued_tokens)
        requests.set(self.queued_requests)

    # In the thread of the model.

    def _run(self) -> None:
        if not self.served.is_on_cpu:
            sys.setswitchinterval(SWITCH_SECONDS)
        # Isolated rows are padded as in a direct call, shared ones as a row that is alone.
        least = least_stable_rows() if self.limits.exact else FEWEST_TOKENS
        with nullcontext() if self.limits.isolate else equal_lengths(least):
            try:
                self._warm_up()
                self.warmed.set_result(None)
            except BaseException as error:  # nobody must wait for a thread that has ended
                self.warmed.set_exception(_reason(error))
            self._loop()

    def _loop(self) -> None:
        while self._wait():
            try:
                self._advance()
            except BaseException as error:  # nobody must wait for a thread that has ended
                self._session = self._session.emptied()
                self._fail_all(_reason(error))
            self._outbox.send()

    def _wait(self) -> bool:
        """Wait for requests; False: the thread is to end."""
        with self._changed:
            while not (self._arrivals or self._active or self._is_over):
                self._changed.wait()
            return bool(self._arrivals or self._active)

    def _advance(self) -> None:
        """Take arrivals, run one batch, and one step of the running generation."""
        with self._changed:
            arrivals, self._arrivals = self._arrivals, []
        self._active += arrivals
        for work in arrivals:
            work.turn = self._turn - 1  # before the requests of the batch that ran when it arrived
            if self._is_stepped(work):
                self._enter_session(work)
        self._drop_given_up()
        self._run_batch()
        self._outbox.send()
        self._step()

    @property
    def _is_over(self) -> bool:
        return self.closing and not self._users

    def _warm_up(self) -> None:
        """Run each component once, so that the first request waits for nothing."""
        _ = self.served.folder_hash
        try:
            self.served.capture_encoder()
        except Exception:
            LOG.exception("the encoder could not be captured")
        for name in self.served.components:
            try:
                component = self.served.component(name)
                [*component.stream([component.parse("a", "warm-up")])]
                if component.writes and not self.limits.isolate:
                    self._warm_up_writer(cast(Writer, component))
            except BadInput:
                continue  # a component of pairs or images
            except Exception:
                LOG.exception("warm-up of %s failed", name)
        self.is_warm = True

    def _warm_up_writer(self, writer: Writer) -> None:
        """Capture all CUDA graphs of a writer: none is captured while a request waits."""
        if writer.model.joins:
            generator = cast(Generator, writer.model)
            slots, apart = self.limits.slots, self.limits.exact
            self._session = GenerationSession.warmed(generator, slots, apart=apart)
        writer.warm_up()

    def _is_stepped(self, work: Work) -> bool:
        if work.component is None or (self.limits.isolate and work.on_piece is None):
            return False
        return work.component.joins

    def _enter_session(self, work: Work) -> None:
        for number in work.waiting:
            writer, streams = cast(Writer, work.component), work.on_piece is not None
            self._session.add((work, number), writer, work.row(number), streams=streams)
        work.waiting = []
        if work.is_over:
            self._answer(work)

    def _drop_given_up(self) -> None:
        for work in [work for work in self._active if work.is_unwanted]:
            for number in range(len(work.rows)):
                if number not in work.answers:
                    self._session.cancel((work, number))
            self._leave(work)

    def _leave(self, work: Work) -> None:
        self._active.remove(work)
        with self._changed:
            self._count(work, -1)

    def _run_batch(self) -> None:
        """Run one batch: of the request that has waited longest, and rows that may share it."""
        able = [work for work in self._active if work.calls or work.waiting or work.is_over]
        if not able:
            return
        first = min(able, key=lambda work: work.turn)
        if first.calls:
            self._call(first)
            return
        if first.is_over:  # all inputs were bad
            self._answer(first)
            return
        batch = self._batch_of(first)
        self._turn += 1
        for work, _ in batch:
            work.turn = self._turn
        start, tokens = time.perf_counter(), sum(work.row(n).cost for work, n in batch)
        works = {id(work): work for work, _ in batch}.values()
        try:
            with cancelled_if(lambda: all(work.is_unwanted for work in works)):
                answers = self._answers(first, batch)
        except CancelledWork:  # all will be dropped
            return
        self._measure(first.component, len(batch), tokens, time.perf_counter() - start)
        for (work, number), answer in answers.items():
            if isinstance(answer, Exception) and not isinstance(answer, BadItem):
                self._fail(work, answer)
            else:
                work.answers[number] = answer
        for work in works:
            if work.is_over and work in self._active:
                self._answer(work)

    def _batch_of(self, first: Work) -> list[Place]:
        """Rows for one batch, taken from the queue, by length: equal ones share a kernel call."""
        if self.limits.isolate:
            return self._next_own_batch(first)
        batch = self._rows_for(first)
        return sorted(batch, key=lambda place: place[0].row(place[1]).cost)

    def _next_own_batch(self, work: Work) -> list[Place]:
        """The next batch of a direct call with these rows; other requests run between two."""
        assert work.component is not None
        if not work.own_batches:
            rows = {number: work.row(number) for number in work.waiting}
            work.own_batches = [*work.component.batches_by_cost(rows)]
        numbers = work.own_batches.pop(0)
        work.waiting = [number for own in work.own_batches for number in own]
        return [(work, number) for number in numbers]

    def _rows_for(self, first: Work) -> list[Place]:
        """Rows of requests in turn, from the first on; a request whose row has no room waits."""
        component = first.component
        assert component is not None
        most_tokens = min(self.batch_tokens, component.limits.tokens)
        queues = self._queues(component, first.row(first.waiting[0]).group)
        tokens, batch = 0, list[Place]()
        most_rows = 1 if self.limits.exact and component.writes else component.batch_size
        while queues and len(batch) < most_rows:
            work, numbers = queues.popleft()
            cost = work.row(numbers[0]).cost
            if batch and tokens + cost > most_tokens:
                continue
            work.waiting.remove(numbers[0])
            batch.append((work, numbers.popleft()))
            tokens += cost
            if numbers:
                queues.append((work, numbers))  # its next turn
        return batch

    def _queues(self, component: AnyComponent, group: Hashable) -> deque[tuple[Work, deque[int]]]:
        """Waiting rows that may share a batch, by request; the longest without a turn first."""
        queues = (
            (work, deque(number for number in work.waiting if work.row(number).group == group))
            for work in sorted(self._active, key=lambda work: work.turn)
            if work.component is component and not self._is_stepped(work)
        )
        return deque((work, numbers) for work, numbers in queues if numbers)

    def _answers(self, first: Work, batch: list[Place]) -> dict[Place, Answer | Exception]:
        """Result of each row; after an error, each request runs alone, and has its own error."""
        component = first.component
        assert component is not None
        rows = [work.row(number) for work, number in batch]
        try:
            return dict(zip(batch, component.run(rows), strict=True))
        except CancelledWork:
            raise
        except Exception as error:
            answers: dict[Place, Answer | Exception] = {}
            works = {id(work): work for work, _ in batch}
            if len(works) == 1:
                return dict.fromkeys(batch, _reason(error))
            for work in works.values():
                answers |= self._answers(work, [place for place in batch if place[0] is work])
            return answers

    def _call(self, work: Work) -> None:
        """Run the next function that needs the model for itself."""
        tokens, call = work.calls.popleft()
        self._turn += 1
        work.turn = self._turn
        start = time.perf_counter()
        try:
            with cancelled_if(lambda: work.is_unwanted):
                call()
        except CancelledWork:  # it will be dropped
            work.calls.clear()
            return
        except Exception as error:
            self._fail(work, _reason(error))
            return
        self._measure(None, 1, tokens, time.perf_counter() - start)
        if work.is_over:
            self._answer(work)

    def _step(self) -> None:
        """Decode one token of every row of the running generation."""
        if not len(self._session):
            return
        start = time.perf_counter()
        try:
            outputs = self._session.step()
        except Exception as error:
            self._session = self._session.emptied()
            for work in [work for work in self._active if self._is_stepped(work)]:
                self._fail(work, _reason(error))
            return
        rows = self._session.rows + sum(output.result is not None for output in outputs)
        seconds = time.perf_counter() - start
        self._observe("generate", rows, rows / self.limits.slots, rows, seconds)
        for output in outputs:
            self._take(output)

    def _take(self, output: StepOutput) -> None:
        work, number = cast(Place, output.ticket)
        if output.piece and work.on_piece is not None:
            self._outbox.add(work.loop, work.on_piece, output.piece)
        if output.error is not None:
            self._fail(work, output.error)
        elif output.result is not None:
            work.answers[number] = output.result
            if work.is_over and work in self._active:
                self._answer(work)

    def _answer(self, work: Work) -> None:
        self._leave(work)
        answers = [work.answers[number] for number in range(len(work.rows))]
        self._outbox.add(work.loop, _set, work.future, answers, None)

    def _fail(self, work: Work, error: Exception) -> None:
        if work not in self._active:
            return
        for number in range(len(work.rows)):
            self._session.cancel((work, number))
        self._leave(work)
        self._outbox.add(work.loop, _set, work.future, [], error)

    def _fail_all(self, error: Exception) -> None:
        for work in [*self._active]:
            self._fail(work, error)

    def _measure(
        self, component: AnyComponent | None, rows: int, tokens: int, seconds: float
    ) -> None:
        name = "call" if component is None else component.name
        self._observe(name, rows, min(1.0, tokens / self.batch_tokens), tokens, seconds)

    def _set_rate(self, tokens: int, seconds: float) -> None:
        if seconds > 0:
            self.rate = MEMORY * self.rate + (1 - MEMORY) * tokens / seconds

    def _observe(self, name: str, rows: int, fill: float, tokens: int, seconds: float) -> None:
        """Count a batch of a component, or a step."""
        if name not in self._batches:
            self._batches[name] = self.metrics.of_batches(self.served.name, name)
        figures = self._batches[name]
        figures.rows.observe(rows)
        figures.fill.observe(fill)
        figures.tokens.inc(tokens)
        figures.seconds.inc(seconds)
        self._set_rate(tokens, seconds)


def _reason(error: BaseException) -> Exception:
    """An error as clients may see it; others are logged."""
    if isinstance(error, BadInput | RequestError):
        return error
    LOG.error("a request failed", exc_info=error)
    return Failure("the model failed; the log of the server has the reason")


def _set(
    future: "asyncio.Future[list[Answer]]", answers: list[Answer], error: Exception | None
) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(answers)
    else:
        future.set_exception(error)
