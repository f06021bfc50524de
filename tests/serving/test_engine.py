"""The engine gives every request what a direct call gives, whatever else it has to do."""

import asyncio
import gc
import threading
import time
import weakref
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.core.errors import BadInput, BadItem
from regard.core.layout import Layout
from regard.generation.beam import Beam
from regard.generation.sample import Sample
from regard.inference.decoder_model import Method
from regard.inference.generator import Ending
from regard.layers.attend import ScaledDot, full
from regard.layers.kernels import bucketed
from regard.layers.kernels.call import AttentionCall
from regard.serving.engine import (
    DeadlineExceeded,
    EngineLimits,
    Failure,
    Overloaded,
    ServedModel,
    TooLarge,
    Unavailable,
    UnknownModel,
)
from regard.serving.worker import LOG, Outbox, Worker
from serving.running_server import eventually, gate_warm_up, until
from small_bert import SENTENCES
from small_bert import model as small_bert

PROMPTS = ["The old man", "A dog", "x", "The girl sees the dog near the"]
SAMPLED = {"method": Method(Sample(seed=2)), "ending": Ending(7)}


def test_every_request_gets_the_answers_of_a_direct_call(models, engine_of):
    """Sixty requests of four kinds at once: each has its own answers, in order."""
    engine = engine_of(slots=5, max_batch_tokens=40)

    async def ask(number):
        texts = [SENTENCES[(number + n) % len(SENTENCES)] for n in range(1 + number % 3)]
        prompts = [PROMPTS[(number + n) % len(PROMPTS)] for n in range(1 + number % 3)]
        match number % 4:
            case 0:
                return texts, await engine.run("bert", "embed", texts)
            case 1:
                return texts, await engine.run("bert", "predict", texts)
            case 2:
                return prompts, await engine.run("gpt", "generate", prompts, SAMPLED)
            case _:
                return prompts, await engine.run("gpt", "embed", prompts, {"pool": "max"})

    async def ask_all():
        return await asyncio.gather(*map(ask, range(60)))

    for number, (texts, answers) in enumerate(asyncio.run(ask_all())):
        values = [answer.value for answer in answers]
        assert [answer.key for answer in answers] == [*range(len(texts))]
        match number % 4:
            case 0:
                np.testing.assert_allclose(
                    values, models["bert"].embed(texts, as_numpy=True), 1e-5, 1e-6
                )
            case 1:
                expected = models["bert"].predict(texts)
                assert [value.label for value in values] == [each.label for each in expected]
            case 2:
                writer = models["gpt"].component("generate", **SAMPLED)
                direct = [written.texts[0] for written in writer.predict(map(_request, texts))]
                ours = [value.texts[0] for value in values]
                assert [each.text for each in ours] == [each.text for each in direct]
                assert [each.hypothesis.tokens for each in ours] == [
                    each.hypothesis.tokens for each in direct
                ]
            case _:
                np.testing.assert_allclose(
                    values, models["gpt"].embed(texts, "max", as_numpy=True), 1e-5, 1e-6
                )


def _request(text):
    from regard.inference.decoder_model import Request

    return Request(text)


def test_isolated_requests_get_the_very_bits_of_a_direct_call(models, engine_of):
    engine = engine_of(isolate=True)
    lists = [[*SENTENCES[n:], *SENTENCES[:1]] for n in range(len(SENTENCES))]

    async def ask_all():
        return await asyncio.gather(*(engine.run("bert", "embed", texts) for texts in lists))

    for texts, answers in zip(lists, asyncio.run(ask_all()), strict=True):
        expected = models["bert"].embed(texts, as_numpy=True)
        assert np.stack([answer.value for answer in answers]).tobytes() == expected.tobytes()


@pytest.mark.parametrize("isolate", [False, True])
def test_attention_of_shared_rows_is_not_padded(engine_of, isolate):
    """Shared rows get the numbers of a row alone, isolated ones those of their own request."""
    engine = engine_of(isolate=isolate)
    call = AttentionCall(ScaledDot(), layout := Layout.ragged([5, 9]), layout, full, 0.0)
    q, k, v = torch.randn(3, layout.tokens, 2, 8, generator=torch.Generator().manual_seed(0))

    async def run():
        return await engine.call("bert", lambda _: bucketed.run(call, q, k, v))

    with bucketed.equal_lengths():
        unpadded = bucketed.run(call, q, k, v)
    until(lambda: engine.ready)
    calls = []
    fused = bucketed.fused_rows
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bucketed, "fused_rows", lambda *a: calls.append(a) or fused(*a))
        values = asyncio.run(run())
    assert len(calls) == (1 if isolate else 2)
    assert torch.equal(values, unpadded) or isolate


def test_a_bad_input_keeps_its_place(engine_of):
    engine = engine_of()
    answers = asyncio.run(engine.run("bert", "embed", [SENTENCES[0], None, SENTENCES[1]]))
    assert [isinstance(answer, BadItem) for answer in answers] == [False, True, False]
    answers = asyncio.run(engine.run("gpt", "generate", [None, "A dog"], SAMPLED))
    assert [isinstance(answer, BadItem) for answer in answers] == [True, False]
    (answer,) = asyncio.run(engine.run("gpt", "generate", [None], SAMPLED))
    assert isinstance(answer, BadItem)


def test_a_stream_is_the_text_of_the_result(models, engine_of):
    engine = engine_of()

    async def read():
        return [event async for event in engine.stream("gpt", "generate", "The old", SAMPLED)]

    *pieces, result = asyncio.run(read())
    assert "".join(pieces) == result.value.texts[0].text
    writer = models["gpt"].component("generate", **SAMPLED)
    assert writer.predict([_request("The old")])[0].texts[0].text == "".join(pieces)

    async def refused():
        async for _ in engine.stream("gpt", "generate", "A", {"method": Method(Beam(2))}):
            pass

    with pytest.raises(BadInput, match="only greedy search and sampling can stream"):
        asyncio.run(refused())


def test_requests_that_cannot_be_answered_are_refused(engine_of):
    engine = engine_of(max_inputs=3, max_request_tokens=30)
    with pytest.raises(UnknownModel, match="no model 'gptt'; did you mean 'gpt'"):
        asyncio.run(engine.run("gptt", "embed", ["a"]))
    with pytest.raises(BadInput, match="model bert has no component 'generate'"):
        asyncio.run(engine.run("bert", "generate", ["a"]))
    with pytest.raises(BadInput, match="pool"):
        asyncio.run(engine.run("bert", "embed", ["a"], {"pool": "least"}))
    with pytest.raises(BadInput, match="no input"):
        asyncio.run(engine.run("bert", "embed", []))
    with pytest.raises(TooLarge, match="4 inputs are more than the 3"):
        asyncio.run(engine.run("bert", "embed", ["a"] * 4))
    with pytest.raises(TooLarge, match="tokens are more than the 30 of a request"):
        asyncio.run(engine.run("bert", "embed", ["a b c d e f g h i j k"] * 3))


def test_a_full_queue_refuses_and_says_when_to_come_back(engine_of):
    engine = engine_of(max_queued_tokens=20)

    async def ask():
        return await engine.run("gpt", "generate", ["The old man"], {"ending": Ending(12)})

    async def ask_all():
        return await asyncio.gather(*(ask() for _ in range(20)), return_exceptions=True)

    answers = asyncio.run(ask_all())
    refused = [answer for answer in answers if isinstance(answer, Overloaded)]
    assert 0 < len(refused) < 20 and all(1 <= each.retry_after <= 60 for each in refused)
    assert all(isinstance(each, Overloaded | list) for each in answers)
    assert engine.queued_tokens == 0
    assert len(asyncio.run(ask())) == 1


def test_the_queue_has_room_for_all_that_it_holds(engine_of):
    """A request is refused if the queue would be over its limit with it, not once it is."""
    engine, gate = engine_of(max_queued_tokens=20), threading.Event()

    def ask(tokens):
        return asyncio.ensure_future(engine.call("bert", lambda _: gate.wait(20), tokens))

    async def ask_all():
        asked = []
        for tokens in (12, 9, 8, 1):  # 21 are too many, 20 are not
            asked.append(ask(tokens))
            await asyncio.sleep(0)
            queued.append(engine.queued_tokens)
        gate.set()
        return await asyncio.gather(*asked, return_exceptions=True)

    queued = []
    _, second, third, last = asyncio.run(ask_all())
    assert queued == [12, 12, 20, 20]
    assert isinstance(second, Overloaded) and isinstance(last, Overloaded) and third is True


def wait(seconds):
    return lambda _: time.sleep(seconds)


async def together(engine, *asks):
    """Answers of requests to bert, which all wait before the first one runs."""
    gate = threading.Event()
    tasks = [asyncio.ensure_future(engine.call("bert", lambda _: gate.wait(20)))]
    for ask in asks:
        tasks.append(asyncio.ensure_future(ask))
        await eventually(lambda: engine._workers["bert"].queued_requests == len(tasks))
    gate.set()
    return (await asyncio.gather(*tasks))[1:]


def test_a_deadline_ends_waiting_and_running_requests(engine_of):
    engine, gate = engine_of(), threading.Event()

    async def late():
        blocking = asyncio.ensure_future(engine.call("bert", lambda _: gate.wait(20)))
        await asyncio.sleep(0)
        with pytest.raises(DeadlineExceeded, match=r"no answer within 0\.05 s"):
            await engine.run("bert", "embed", ["a"], deadline=0.05)
        gate.set()
        await blocking
        await engine.run("bert", "embed", ["a"])

    asyncio.run(late())
    assert engine.queued_tokens == 0


def test_no_request_is_waited_for_longer_than_the_engine_allows(engine_of):
    engine, gate = engine_of(deadline=0.05), threading.Event()

    async def late():
        for deadline in (None, 20):
            with pytest.raises(DeadlineExceeded, match=r"no answer within 0\.05 s"):
                await engine.call("bert", lambda _: gate.wait(20), deadline=deadline)
        gate.set()

    asyncio.run(late())


def test_a_request_that_nobody_waits_for_is_dropped(engine_of):
    engine = engine_of()

    async def leave():
        gate = threading.Event()
        blocking = asyncio.ensure_future(engine.call("gpt", lambda _: gate.wait(20)))
        ask = engine.run("gpt", "generate", ["The old man"] * 3, {"ending": Ending(30)})
        task = asyncio.ensure_future(ask)
        await eventually(lambda: engine.queued_tokens > 3)
        task.cancel()
        gate.set()
        await blocking
        await engine.run("gpt", "embed", ["a"])
        return engine.queued_tokens

    assert asyncio.run(leave()) == 0


def test_an_engine_that_is_closed_answers_all_that_was_accepted(engine_of, monkeypatch):
    monkeypatch.setattr("regard.serving.engine.CLOSING_SECONDS", 60.0)
    engine = engine_of()

    async def close():
        tasks = [
            asyncio.ensure_future(engine.run("gpt", "generate", [prompt], SAMPLED))
            for prompt in PROMPTS
        ]
        await asyncio.sleep(0)
        await asyncio.get_running_loop().run_in_executor(None, engine.close)
        with pytest.raises(Unavailable):
            await engine.run("bert", "embed", ["a"])
        return await asyncio.gather(*tasks)

    assert all(len(answer) == 1 for answer in asyncio.run(close()))
    assert not engine.ready and not engine.is_running


def test_abandoned_requests_are_refused_at_once(engine_of, monkeypatch):
    engine, gate, step = engine_of(), threading.Event(), Worker._step
    until(lambda: engine.ready)
    monkeypatch.setattr(Worker, "_step", lambda worker: gate.wait(60) and step(worker))

    async def abandon():
        asks = [
            engine.call("bert", lambda _: gate.wait(60)),
            engine.run("bert", "embed", ["a"]),  # it waits for the model
            engine.run("gpt", "generate", ["The old man"], {"ending": Ending(40, 40)}),
        ]
        tasks = [*map(asyncio.ensure_future, asks)]
        await asyncio.sleep(0.02)
        tasks.append(asyncio.ensure_future(engine.run("bert", "embed", ["a"])))
        await asyncio.sleep(0)  # its rows are not prepared yet
        engine.abandon()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        gate.set()  # before it nothing ends that has begun
        return answers

    assert [type(answer) for answer in asyncio.run(abandon())] == [Unavailable] * 4


async def swapped(engine, served):
    """Load a model, and wait until it serves."""
    engine.load(served)
    await eventually(lambda: engine.models[served.name] is served)


@pytest.fixture
def slow_warm_up(monkeypatch):
    """Models that are loaded from now on become warm when the event is set."""
    gate = gate_warm_up(monkeypatch)
    yield gate
    gate.set()


def test_a_server_stays_ready_while_a_model_becomes_warm(models, engine_of, request):
    engine = engine_of()
    until(lambda: engine.ready)
    gate, other = request.getfixturevalue("slow_warm_up"), small_bert("one", seed=7)

    async def vector():
        return (await engine.run("bert", "embed", SENTENCES[:1]))[0].value

    async def swap():
        before, given_up = engine.models["bert"], ServedModel(other, "bert")
        engine.load(given_up)
        engine.load(ServedModel(other, "bert"))  # and in its place
        engine.load(ServedModel(other, "new"))
        vectors = [await vector()]  # of the model before
        assert engine.ready and engine.models["bert"] is before
        asking = asyncio.ensure_future(engine.run("new", "embed", SENTENCES[:1]))
        await asyncio.sleep(0.05)
        assert not asking.done()
        gate.set()
        await eventually(lambda: engine.models["bert"] is not before)
        assert engine.ready and engine.models["bert"] is not given_up
        vectors += [await vector(), (await asking)[0].value]
        return vectors

    expected = [each.embed(SENTENCES[:1], as_numpy=True)[0] for each in (models["bert"], other)]
    np.testing.assert_allclose(asyncio.run(swap()), [expected[0], *expected[1:] * 2], 1e-5, 1e-6)


def test_a_model_that_is_unloaded_before_it_is_warm_never_serves(engine_of, request):
    engine = engine_of()
    until(lambda: engine.ready)
    gate = request.getfixturevalue("slow_warm_up")

    async def load_and_unload():
        served = ServedModel(small_bert("one", seed=7), "bert")
        engine.load(served)
        engine.unload("bert")
        gate.set()
        return weakref.ref(served)

    assert ended(asyncio.run(load_and_unload()))
    assert "bert" not in engine.models


@pytest.mark.parametrize("name", ["bert", "new"])
def test_a_model_that_cannot_run_is_refused_and_does_not_serve(engine_of, monkeypatch, name):
    engine = engine_of()
    until(lambda: engine.ready)
    before, folder = dict(engine.models), Path("a-file-of-it")

    def refuse(folder):
        raise BadInput(f"{folder}: cannot be read")

    monkeypatch.setattr("regard.serving.served_model.digest_folder", refuse)

    async def load():
        served = ServedModel(small_bert("one", seed=7), name, folder)
        with pytest.raises(BadInput, match="a-file-of-it: cannot be read"):
            async with asyncio.timeout(20):
                await engine.load_and_wait(served)
        return weakref.ref(served), await engine.run("bert", "embed", ["a"])

    served, answers = asyncio.run(load())
    assert ended(served) and dict(engine.models) == before and len(answers) == 1
    assert engine.ready


def test_a_server_is_not_ready_before_its_first_models_are_warm(slow_warm_up, engine_of):
    engine = engine_of()
    assert not engine.ready
    slow_warm_up.set()
    until(lambda: engine.ready)


def test_a_model_is_swapped_without_losing_a_request(models, engine_of):
    engine = engine_of()
    other = small_bert("one", seed=7)

    async def swap():
        blocking = asyncio.ensure_future(engine.call("bert", wait(0.2)))
        await asyncio.sleep(0.05)
        before = asyncio.ensure_future(engine.run("bert", "embed", SENTENCES[:1]))
        await asyncio.sleep(0)  # its rows are not prepared yet
        await swapped(engine, ServedModel(other, "bert"))
        after = await engine.run("bert", "embed", SENTENCES[:1])
        await blocking
        engine.unload("bert")
        with pytest.raises(UnknownModel):
            await engine.run("bert", "embed", SENTENCES[:1])
        return (await before)[0].value, after[0].value

    before, after = asyncio.run(swap())
    expected = [each.embed(SENTENCES[:1], as_numpy=True)[0] for each in (models["bert"], other)]
    np.testing.assert_allclose(before, expected[0], 1e-5, 1e-6)
    np.testing.assert_allclose(after, expected[1], 1e-5, 1e-6)


def ended(reference):
    """Whether the object of a weak reference is soon gone."""
    end = time.monotonic() + 60
    while reference() is not None and time.monotonic() < end:
        gc.collect()
        time.sleep(0.01)
    return reference() is None


def test_an_unloaded_model_is_freed_with_its_figures(engine_of):
    engine = engine_of()
    engine.load(ServedModel(small_bert("one", seed=7), "other"))
    asyncio.run(engine.run("other", "embed", SENTENCES[:1]))
    served = weakref.ref(engine.models["other"])
    assert 'model="other"' in queue_figures(engine)
    engine.unload("other")
    assert ended(served)
    assert 'model="other"' not in queue_figures(engine)


def test_figures_of_an_unloaded_model_do_not_come_back(engine_of):
    engine = engine_of()

    async def unload():
        asking = asyncio.ensure_future(engine.call("bert", wait(0.2)))
        await asyncio.sleep(0.05)
        engine.unload("bert")
        await asking

    asyncio.run(unload())
    assert 'model="bert"' not in queue_figures(engine)


def queue_figures(engine):
    lines = engine.metrics.text().decode().splitlines()
    return "\n".join(line for line in lines if line.startswith("regard_queued"))


def test_an_idle_worker_keeps_nothing_of_its_last_request(engine_of):
    engine = engine_of()

    class Given(str):
        pass

    def ask(fails):
        text = Given("The dog")
        with pytest.MonkeyPatch.context() as patch:
            if fails:
                patch.setattr(Worker, "_run_batch", lambda worker: 1 / 0)
                patch.setattr(LOG, "disabled", True)  # pytest keeps tracebacks
            asking = engine.run("bert", "embed", [text])
            with pytest.raises(Failure) if fails else nullcontext():
                asyncio.run(asking)
        return weakref.ref(text)

    assert ended(ask(fails=False))
    assert ended(ask(fails=True))


def test_short_work_is_done_between_the_steps_of_a_generation(engine_of, monkeypatch):
    engine, gate, step = engine_of(), threading.Event(), Worker._step
    order = []
    until(lambda: engine.ready)
    monkeypatch.setattr(Worker, "_step", lambda worker: gate.wait(60) and step(worker))

    async def ask(name, *arguments):
        await engine.run("gpt", *arguments)
        order.append(name)

    async def both():
        long = ask("long", "generate", ["The old man"], {"ending": Ending(40, 40)})
        tasks = [asyncio.ensure_future(long)]
        tasks.append(asyncio.ensure_future(ask("short", "embed", ["A dog"])))
        await eventually(lambda: order or engine._workers["gpt"].queued_requests == 2)
        gate.set()
        await asyncio.gather(*tasks)

    asyncio.run(both())
    assert order == ["short", "long"]


@pytest.fixture
def batches(models, monkeypatch):
    """The texts and costs of the rows of each batch of the component embed."""
    kind, found = type(models["bert"].component("embed")), []
    run = kind.run

    def recorded(self, rows, *more):
        found.append([(row.given, row.cost) for row in rows])
        return run(self, rows, *more)

    monkeypatch.setattr(kind, "run", recorded)
    return found


SMALL = {
    "same": lambda engine: engine.run("bert", "embed", ["The dog"]),
    "another component": lambda engine: engine.run("bert", "predict", ["The dog"]),
    "other options": lambda engine: engine.run("bert", "embed", ["The dog"], {"pool": "max"}),
    "a call": lambda engine: engine.call("bert", wait(0)),
}


@pytest.mark.parametrize("small", SMALL)
def test_a_small_request_does_not_wait_for_the_end_of_a_large_one(
    engine_of, batches, small, monkeypatch
):
    engine, order = engine_of(max_batch_tokens=40), []
    until(lambda: engine.ready)
    batches.clear()
    sent, send = [], Outbox.send

    def noted(outbox):
        if outbox._calls:
            sent.append(len(batches))
        send(outbox)

    monkeypatch.setattr(Outbox, "send", noted)

    async def ask(name, asked):
        await asked
        order.append(name)

    async def ask_both():
        large = ask("large", engine.run("bert", "embed", SENTENCES * 20))
        await together(engine, large, ask("small", SMALL[small](engine)))

    asyncio.run(ask_both())
    _, after, total = sent  # the first answer is that of the call for which both have waited
    assert order == ["small", "large"] and total > 10
    assert after <= total // 2
    if small in ("same", "other options"):
        (where,) = (number for number, rows in enumerate(batches) if "The dog" in dict(rows))
        assert where <= 1


def test_many_requests_take_turns(engine_of, batches):
    """No batch has room for all: each request has a row in every third batch."""
    engine = engine_of(max_batch_tokens=40)
    texts = [f"The dog {word}" for word in ("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k")]

    until(lambda: engine.ready)
    batches.clear()

    async def ask_all():
        await together(engine, *(engine.run("bert", "embed", [text] * 6) for text in texts))

    asyncio.run(ask_all())
    for text in texts:
        own = [number for number, rows in enumerate(batches) if text in dict(rows)]
        assert own[0] <= 2 and max(b - a for a, b in pairwise(own)) <= 3, batches
    assert len({len(rows) for rows in batches[:3]}) == 1 and len(batches[0]) < len(texts)


def test_requests_that_arrive_together_share_the_first_batch(engine_of, batches):
    """An idle worker is woken once for all of them, not by the first one for itself."""
    engine = engine_of()
    until(lambda: engine.ready)
    batches.clear()

    async def ask_all():
        return await asyncio.gather(*(engine.run("bert", "embed", [text]) for text in SENTENCES))

    asyncio.run(ask_all())
    assert [len(rows) for rows in batches] == [len(SENTENCES)]


def test_requests_of_an_event_loop_that_has_ended_do_not_hold_up_others(engine_of):
    engine = engine_of()

    async def ask():
        task = asyncio.ensure_future(engine.run("bert", "embed", SENTENCES[:1]))
        await asyncio.sleep(0)
        return task

    loop = asyncio.new_event_loop()
    left = loop.run_until_complete(ask())
    answers = asyncio.run(asyncio.wait_for(engine.run("bert", "embed", SENTENCES[:2]), 20))
    assert len(answers) == 2
    assert len(loop.run_until_complete(left)) == 1
    loop.close()


@pytest.mark.parametrize("limits", [{}, {"max_batch_tokens": 3_000}])
def test_batches_on_a_cpu_are_small_unless_told(engine_of, batches, limits):
    engine = engine_of(**limits)
    asyncio.run(engine.run("bert", "embed", [" ".join(SENTENCES)] * 200))
    most = limits.get("max_batch_tokens", 2_048)
    sizes = [sum(cost for _, cost in rows) for rows in batches]
    assert most - 100 < max(sizes) <= most


def test_a_failure_is_told_without_its_reason_and_the_next_request_runs(engine_of, caplog):
    engine = engine_of()

    def broken(_):
        raise RuntimeError("/secret/path")

    with pytest.raises(Exception, match="the model failed") as failure:
        asyncio.run(engine.call("bert", broken))
    assert "secret" not in str(failure.value) and "secret" in caplog.text
    assert len(asyncio.run(engine.run("bert", "embed", ["a"]))) == 1


def test_requests_of_a_failed_batch_get_their_own_answers(models, engine_of, monkeypatch):
    """A shared run fails; rows of two requests, in turn by length, run again by request."""
    engine = engine_of()
    until(lambda: engine.ready)
    kind, sizes = type(engine.models["bert"].component("embed")), []
    run = kind.run

    def run_small(self, rows, *more):
        sizes.append(len(rows))
        if len(rows) > 2:
            raise RuntimeError("out of memory")
        return run(self, rows, *more)

    monkeypatch.setattr(kind, "run", run_small)
    first, second = ["The dog", " ".join(SENTENCES)], [SENTENCES[0]]

    async def ask_both():
        asks = (engine.run("bert", "embed", texts) for texts in (first, second))
        return await together(engine, *asks)

    for texts, answers in zip((first, second), asyncio.run(ask_both()), strict=True):
        expected = models["bert"].embed(texts, as_numpy=True)
        np.testing.assert_allclose([answer.value for answer in answers], expected, 1e-5, 1e-6)
    assert sizes[:3] == [3, 2, 1]


def test_names_and_languages_of_models(models):
    served = ServedModel(models["bert"], "opus-mt-en-de")
    assert (served.source, served.target) == (None, None)  # it does not translate
    assert replace(EngineLimits(), slots=3).slots == 3
    assert set(served.components) == {"embed", "predict"}
    with pytest.raises(BadInput, match="the name of a model"):
        ServedModel(models["bert"], "../etc")
