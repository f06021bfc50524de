"""The engine: requests of all APIs, by model, component and options, in shared batches.

``run`` answers a list of inputs; each model has a queue and a thread (``Worker``). Requests are
accepted by the tokens that wait, are given up at their deadline or when nobody waits for them, and
get the answers of a direct call, whatever else is in their batches.
"""

import asyncio
import math
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, TypeVar, cast
from weakref import WeakSet

import numpy as np

from regard.core.batch import BatchLimits
from regard.core.cancellation import check_wanted
from regard.core.errors import BadInput, BadItem, did_you_mean, shown
from regard.data.batches.packing import inference_batches
from regard.inference.component import AnyResult, AnyRow
from regard.models.edits import EditList
from regard.serving.metrics import Metrics
from regard.serving.rates import take_tokens
from regard.serving.request_errors import (
    DeadlineExceeded,
    Failure,
    Overloaded,
    Replaced,
    RequestError,
    TooLarge,
    Unavailable,
    UnknownModel,
)
from regard.serving.request_threads import STOPPING, RequestThreads
from regard.serving.served_model import NO_OPTIONS, ModelInput, Options, ServedModel, inputs_of
from regard.serving.settings import EngineLimits
from regard.serving.worker import Answer, Work, Worker, call_in_loop
from regard.tasks.components import AnyComponent

__all__ = [
    "Answer",
    "DeadlineExceeded",
    "EngineLimits",
    "Failure",
    "Overloaded",
    "RequestError",
    "ServedModel",
    "ServingEngine",
    "TooLarge",
    "Unavailable",
    "UnknownModel",
]
Value = TypeVar("Value")
LONGEST_RETRY = 60  # seconds
CLOSING_SECONDS = 5.0  # for the threads of models to end
CHARACTERS = 32  # of a token; few are longer
SHORT = 500  # characters that are read in the event loop
AT_A_TIME = 65_536  # bytes, after which a request that nobody waits for is not read on


class ServingEngine:
    """Several models, each with its queue and its thread."""

    def __init__(
        self,
        models: Iterable[ServedModel],
        limits: EngineLimits | None = None,
        metrics: Metrics | None = None,
    ):
        self.limits = EngineLimits() if limits is None else limits
        self.metrics = Metrics() if metrics is None else metrics
        self.draining = False
        self.threads = RequestThreads()
        self._workers: dict[str, Worker] = {}
        self._added: set[str] = set()  # names of models that were loaded after the start
        self._coming: dict[str, Worker] = {}  # loaded, but the model before still serves
        self._leaving: WeakSet[Worker] = WeakSet()  # unloaded, with requests to answer
        self._unanswered = 0
        self._abandoned = False
        self._awaited: set[asyncio.Future[Any]] = set()
        for served in models:
            self.load(served)
        self._added.clear()

    @property
    def models(self) -> Mapping[str, ServedModel]:
        """Models by name, in the order in which they were loaded."""
        return {name: worker.served for name, worker in self._workers.items()}

    @property
    def ready(self) -> bool:
        """Whether requests are accepted, and every model has run once; one added later need not."""
        at_start = (worker for name, worker in self._workers.items() if name not in self._added)
        return not self.draining and all(worker.is_warm for worker in at_start)

    @property
    def queued_tokens(self) -> int:
        """Tokens of accepted requests without answer."""
        return sum(worker.queued_tokens for worker in self._workers.values())

    def load(self, served: ServedModel) -> None:
        """Serve a model, in place of one of the same name when it has run once.

        The one before answers until then, and the requests that it has.
        """
        name = served.name
        if name not in self._workers:
            self._added.add(name)
            self._workers[name] = Worker(served, self.limits, self.metrics)
            return
        swap = partial(call_in_loop, asyncio.get_running_loop(), self._swap, name)
        before = self._coming.pop(name, None)
        coming = self._coming[name] = Worker(served, self.limits, self.metrics)
        coming.warmed.add_done_callback(lambda _: swap())
        if before is not None:
            self._let_go(before)

    async def load_and_wait(self, served: ServedModel) -> None:
        """Serve a model, and return when it has run once and answers the requests of its name.

        One that cannot run is not served: the one before stays.
        """
        name = served.name
        self.load(served)
        worker = self._coming.get(name) or self._workers[name]
        try:
            await asyncio.shield(asyncio.wrap_future(worker.warmed))
        except (BadInput, RequestError):
            if self._coming.get(name) is worker:
                self._let_go(self._coming.pop(name))
            elif self._workers.get(name) is worker:
                self.unload(name)
            raise
        if self.models.get(name) is not served:
            raise Replaced(f"model {name} was loaded again or unloaded meanwhile")

    def _swap(self, name: str) -> None:
        """Serve the model that was loaded last under a name, if it has run once."""
        if name in self._coming and self._coming[name].is_warm:
            before, self._workers[name] = self._workers[name], self._coming.pop(name)
            self._let_go(before)

    def unload(self, name: str) -> None:
        """Serve a model no longer, after the requests that it has."""
        self._worker(name)
        for workers in (self._workers, self._coming):
            if name in workers:
                self._let_go(workers.pop(name))
        self.metrics.forget(name)

    @property
    def _all_workers(self) -> list[Worker]:
        return [*self._workers.values(), *self._coming.values(), *self._leaving]

    def _let_go(self, worker: Worker) -> None:
        """End a worker after its requests; only its thread holds it until then."""
        worker.close()
        self._leaving.add(worker)

    def abandon(self) -> None:
        """Accept nothing more, and refuse the requests that have no answer yet."""
        self.draining = self._abandoned = True
        for threads in (self.threads, *(worker.preparing for worker in self._all_workers)):
            threads.abandon()
        for awaited in [*self._awaited]:
            awaited.cancel()

    def close(self) -> None:
        """End the threads of all models, after the requests that they have."""
        self.draining = True
        workers = self._all_workers
        for worker in workers:
            worker.close()
        end = time.monotonic() + CLOSING_SECONDS
        for worker in workers:
            worker.join(max(0.0, end - time.monotonic()))

    @property
    def is_running(self) -> bool:
        """Whether the thread of a model has not ended."""
        return any(worker.is_alive for worker in self._all_workers)

    def _worker(self, name: str) -> Worker:
        if name not in self._workers:
            raise UnknownModel(
                f"there is no model {shown(name)}{did_you_mean(name, self._workers)}"
            )
        return self._workers[name]

    async def run(
        self,
        model_name: str,
        component: str,
        inputs: Sequence[ModelInput],
        options: Options = NO_OPTIONS,
        deadline: float | None = None,
        *,
        edits: EditList | None = None,
    ) -> list[Answer]:
        """The answer to each input, in order: its result, or a ``BadItem``.

        A component reads texts, pairs, ids or images; writers also read a ``Request``.
        ``deadline`` is a number of seconds, in which rows are prepared, too; the default, and the
        most, is ``limits.deadline``.
        """
        with self._counted(model_name) as worker:
            end = Deadline.after(deadline, self.limits)
            runs, rows = await self._prepared(worker, component, inputs, options, end, edits)
            return await self._answered(worker, self._work(runs, rows), end)

    async def stream(
        self,
        model_name: str,
        component: str,
        item: ModelInput,
        options: Options = NO_OPTIONS,
        deadline: float | None = None,
    ) -> AsyncIterator[str | AnyResult]:
        """Pieces of the text of one input while it is generated, and at last its result.

        A generation that cannot be streamed (beam search) is ``BadInput``.
        """
        with self._counted(model_name) as worker:
            end = Deadline.after(deadline, self.limits)
            runs, rows = await self._prepared(worker, component, [item], options, end)
            if not runs.streams:
                raise BadInput("only greedy search and sampling can stream")
            pieces: asyncio.Queue[str | None] = asyncio.Queue()
            work = self._work(runs, rows)
            streams = runs.joins
            if streams:
                work.on_piece = pieces.put_nowait
            answer = asyncio.ensure_future(self._answered(worker, work, end))
            answer.add_done_callback(lambda _: pieces.put_nowait(None))
            try:
                while (piece := await pieces.get()) is not None:
                    yield piece
                (result,) = await answer
            finally:
                answer.cancel()
            if isinstance(result, BadInput):
                raise result
            if not streams:
                yield result.value.texts[0].text
            yield result

    async def call(
        self,
        model_name: str,
        function: Callable[[ServedModel], Value],
        tokens: int = 1,
        deadline: float | None = None,
    ) -> Value:
        """The value of a function that needs the model for itself, run in the model's thread."""
        with self._counted(model_name) as worker:
            self._check_room(worker, tokens)
            work = self._work(None, [], tokens)
            values = list[Value]()
            work.calls.append((tokens, lambda: values.append(function(worker.served))))
            await self._answered(worker, work, Deadline.after(deadline, self.limits))
            return values[0]

    async def call_in_parts(
        self,
        model_name: str,
        function: Callable[[ServedModel, Sequence[int]], Sequence[Value]],
        costs: Sequence[int],
        deadline: float | None = None,
    ) -> list[Value]:
        """The value of each input by a function that needs the model for itself.

        ``function`` takes the indices of some inputs, as many as a batch has room for by their
        ``costs`` in tokens, and other requests run between two calls; with ``limits.isolate``, it
        takes all at once, as a direct call does.
        """
        with self._counted(model_name) as worker:
            tokens = max(1, sum(costs))
            self._check_room(worker, tokens)
            work = self._work(None, [], tokens)
            values: dict[int, Value] = {}

            def run(numbers: Sequence[int]) -> None:
                values.update(zip(numbers, function(worker.served, numbers), strict=True))

            most = tokens if self.limits.isolate else worker.batch_tokens
            limits = BatchLimits(most, len(costs), most)
            for numbers in inference_batches(np.array(costs), limits):
                own = sum(costs[number] for number in numbers)
                work.calls.append((own, partial(run, sorted(numbers))))
            await self._answered(worker, work, Deadline.after(deadline, self.limits))
            return [values[number] for number in range(len(costs))]

    async def prepare(
        self,
        model_name: str,
        component: str,
        inputs: Sequence[ModelInput],
        options: Options = NO_OPTIONS,
    ) -> list[AnyRow | BadItem]:
        """The rows of inputs, with their ids and costs, without a run."""
        with self._counted(model_name) as worker:
            end = Deadline.after(None, self.limits)
            return (await self._prepared(worker, component, inputs, options, end))[1]

    @contextmanager
    def _counted(self, name: str) -> Iterator[Worker]:
        """Count a request, and keep the worker of its model until its end."""
        if self.draining:
            raise Unavailable(STOPPING)
        if self._unanswered >= self.limits.max_queued_requests:
            raise Overloaded("too many requests wait; try again later", self._retry_after(None))
        self._unanswered += 1
        try:
            with self._worker(name).in_use() as worker:
                yield worker
        finally:
            self._unanswered -= 1

    async def _prepared(
        self,
        worker: Worker,
        name: str,
        inputs: Sequence[ModelInput],
        options: Options,
        end: "Deadline",
        edits: EditList | None = None,
    ) -> tuple[AnyComponent, list[AnyRow | BadItem]]:
        """The component, and the rows of inputs."""
        self.check_inputs(inputs)
        self._check_room(worker, _least_tokens(inputs))
        served = worker.served if edits is None else worker.served.with_edits(edits)
        component = served.component(name, options)
        parsed = inputs_of(component, inputs)
        if _are_short(inputs):
            rows = component.prepare(parsed, range(len(parsed)))
        else:
            reading = partial(_prepared_in_parts, component, parsed)
            rows = await end.keep(worker.preparing.run(reading))
        self._check_room(worker, _tokens(component, rows))
        _check_lengths(component, rows)
        self._check_candidates(component, rows)
        return component, rows

    def check_inputs(self, inputs: Sequence[object]) -> None:
        """Refuse a request of too many inputs, or of too long ones, before any is read."""
        if not inputs:
            raise BadInput("there is no input")
        if len(inputs) > (most := self.limits.max_inputs):
            raise TooLarge(f"{len(inputs)} inputs are more than the {most} of a request")
        if (size := size_of(inputs)) > (most := self.limits.max_bytes):
            raise TooLarge(f"{size} bytes or ids are more than the {most} of a request")

    def _check_candidates(self, component: AnyComponent, rows: Sequence[AnyRow | BadItem]) -> None:
        """Refuse a request whose answer would list too many tokens."""
        listed = sum(component.candidates(row) for row in rows if not isinstance(row, BadInput))
        if listed > (most := self.limits.max_candidates):
            raise TooLarge(
                f"an answer with {listed} candidates is more than the {most} of a request; "
                "ask for fewer of each token, or send fewer texts"
            )

    def _check_room(self, worker: Worker, tokens: int) -> None:
        """Refuse a request that is too large, or for which the queue has no room."""
        if tokens > self.limits.max_request_tokens:
            most = self.limits.max_request_tokens
            raise TooLarge(f"{tokens} tokens are more than the {most} of a request")
        if worker.queued_requests and worker.queued_tokens + tokens > self.limits.max_queued_tokens:
            raise Overloaded("the queue is full; try again later", self._retry_after(worker))

    def _retry_after(self, worker: Worker | None) -> int:
        """Seconds in which the waiting tokens are likely to be read."""
        workers = self._workers.values() if worker is None else [worker]
        seconds = max((each.queued_tokens / each.rate for each in workers), default=1)
        return min(max(1, math.ceil(seconds)), LONGEST_RETRY)

    def _work(
        self,
        component: AnyComponent | None,
        rows: Sequence[AnyRow | BadItem],
        tokens: int | None = None,
    ) -> Work:
        loop = asyncio.get_running_loop()
        counted = _tokens(component, rows) if tokens is None else tokens
        take_tokens(counted)
        return Work(component, rows, counted, loop, loop.create_future())

    async def _answered(self, worker: Worker, work: Work, end: "Deadline") -> list[Answer]:
        worker.accept(work)
        try:
            return await end.keep(self._unless_abandoned(work.future))
        finally:
            if not work.future.done() or work.future.cancelled():
                worker.give_up(work)

    async def _unless_abandoned(self, awaited: "asyncio.Future[Value]") -> Value:
        """The result of a future, which ``abandon`` cancels."""
        self._awaited.add(awaited)
        try:
            return await awaited
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._abandoned and task is not None and not task.cancelling():
                raise Unavailable(STOPPING) from None
            raise
        finally:
            self._awaited.discard(awaited)


@dataclass(frozen=True)
class Deadline:
    """The time of the event loop at which a request is given up, ``seconds`` after it began."""

    seconds: float
    time: float

    @classmethod
    def after(cls, seconds: float | None, limits: EngineLimits) -> Self:
        """The deadline of a request that begins now, at most the limit of the engine."""
        most = limits.deadline if seconds is None else min(seconds, limits.deadline)
        return cls(most, asyncio.get_running_loop().time() + most)

    async def keep(self, answer: Awaitable[Value]) -> Value:
        """The answer, unless it is late."""
        try:
            async with asyncio.timeout_at(self.time):
                return await answer
        except TimeoutError:
            raise DeadlineExceeded(f"no answer within {self.seconds:g} s") from None


def size_of(item: object) -> int:
    """Bytes and token ids of an input, or of several: what reading them costs."""
    if isinstance(item, str):
        return len(item.encode(errors="surrogatepass"))
    if not isinstance(item, list | tuple):
        return 0
    return len(item) if {*map(type, item)} <= {int} else sum(map(size_of, item))


def _prepared_in_parts(
    component: AnyComponent, inputs: Sequence[ModelInput]
) -> list[AnyRow | BadItem]:
    """The row of each input; between some of them a request that is given up ends."""
    rows, start = list[AnyRow | BadItem](), 0
    while start < len(inputs):
        check_wanted()
        end, size = start, 0
        while end < len(inputs) and size < AT_A_TIME:
            size, end = size + size_of(inputs[end]), end + 1
        rows += component.prepare(inputs[start:end], range(start, end))
        start = end
    return rows


def _are_short(inputs: Sequence[ModelInput]) -> bool:
    """Whether reading texts takes less time than handing them to another thread and back."""
    if not all(isinstance(item, str) for item in inputs):
        return False
    return sum(len(cast(str, item)) for item in inputs) <= SHORT


def _least_tokens(inputs: Sequence[ModelInput]) -> int:
    """A number of tokens that inputs hardly fall short of, without a tokenizer."""
    texts = (item for item in inputs if isinstance(item, str))
    return sum(1 + len(text) // CHARACTERS for text in texts)


def _check_lengths(component: AnyComponent, rows: Sequence[AnyRow | BadItem]) -> None:
    """Refuse texts whose search would keep other requests waiting for too long."""
    for row in rows:
        if not isinstance(row, BadInput) and (reason := component.excess(row)):
            raise TooLarge(reason)


def _tokens(component: AnyComponent | None, rows: Sequence[AnyRow | BadItem]) -> int:
    """Tokens of rows; each hypothesis of a search counts."""
    tokens = sum(row.cost for row in rows if not isinstance(row, BadInput))
    return tokens if component is None else tokens * component.copies
