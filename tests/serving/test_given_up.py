"""Work that nobody waits for ends at its next step, and long work lets other requests run."""

import asyncio
import threading
from itertools import count

import numpy as np
import pytest

from regard.core.cancellation import CancelledWork, cancelled_if, check_wanted
from regard.inference.component import Component
from regard.inference.generation_session import GenerationSession
from regard.inference.generator import Ending
from regard.inference.translator import Translator
from regard.serving.engine import DeadlineExceeded, TooLarge
from serving.running_server import eventually, running, translation_model, until
from small_bert import SENTENCES
from small_bert import model as small_bert
from small_gpt import small_gpt2
from work import ends

TEXT = "the owl sees the cow"


@pytest.fixture(scope="module")
def models():
    translator = translation_model()
    return {"bert": small_bert("one"), "gpt": small_gpt2(), "mt": translator}


WORK = {
    "beam search": lambda models: models["mt"].translate([TEXT]),
    "greedy search": lambda models: models["gpt"].generate(["The old man"]),
    "states": lambda models: models["bert"].encode([*SENTENCES]),
    "logits": lambda models: models["bert"].logits([*SENTENCES]),
    "vectors": lambda models: [*models["bert"].component("embed").stream([*SENTENCES] * 200)],
    "scores": lambda models: models["gpt"].score([" ".join(SENTENCES * 40)]),
}


@pytest.mark.parametrize("work", WORK)
def test_unwanted_work_ends_at_its_next_step(models, work):
    checks = count()
    with cancelled_if(lambda: next(checks) >= 1), pytest.raises(CancelledWork):
        WORK[work](models)
        WORK[work](models)  # of a single step
    assert next(checks) <= 3


def test_a_batch_that_nobody_waits_for_ends_and_the_next_one_runs(engine_of, monkeypatch):
    engine, values = engine_of(), Component.run

    def run(component, rows, *more):
        while any("endless" in str(row.given) for row in rows):
            check_wanted()
        return values(component, rows, *more)

    monkeypatch.setattr(Component, "run", run)

    async def ask():
        with pytest.raises(DeadlineExceeded):
            await engine.run("mt", "translate", ["endless"], deadline=0.2)
        return await engine.run("mt", "translate", [TEXT])

    with ends(60):
        (answer,) = asyncio.run(ask())
    assert answer.value.texts


def test_rows_that_nobody_waits_for_are_decoded_no_further(engine_of, monkeypatch):
    engine, decoded, gate, step = engine_of(), [], threading.Event(), GenerationSession.step

    def noted(session):
        outputs = step(session)
        decoded.append(len(session))
        gate.wait(20)
        return outputs

    until(lambda: engine.ready)
    monkeypatch.setattr(GenerationSession, "step", noted)

    async def leave():
        ask = engine.run("gpt", "generate", ["The old man"] * 3, {"ending": Ending(30)})
        task = asyncio.ensure_future(ask)
        await eventually(lambda: decoded)
        task.cancel()
        await asyncio.wait([task])
        gate.set()
        return await engine.run("gpt", "generate", ["A dog"], {"ending": Ending(5)})

    assert len(asyncio.run(leave())) == 1
    assert decoded[0] == 3 and max(decoded[1:]) == 1


def test_parts_of_a_call_end_with_its_request(engine_of):
    engine, begun, gate = engine_of(max_batch_tokens=40), [], threading.Event()
    until(lambda: engine.ready)

    def function(served, numbers):
        begun.append(numbers)
        gate.wait(60)
        return numbers

    async def ask():
        with pytest.raises(DeadlineExceeded):
            await engine.call_in_parts("bert", function, [30] * 5, deadline=1.0)
        gate.set()
        return await engine.call("bert", lambda served: served.name)

    assert asyncio.run(ask()) == "bert"
    assert len(begun) == 1


def test_other_requests_run_between_the_parts_of_a_call(engine_of):
    engine, order, gate = engine_of(max_batch_tokens=40), [], threading.Event()
    until(lambda: engine.ready)

    def function(served, numbers):
        gate.wait(60)
        order.append(numbers)
        return [f"value {number}" for number in numbers]

    async def ask():
        parts = asyncio.ensure_future(engine.call_in_parts("bert", function, [30, 5, 30, 20, 9]))
        await eventually(lambda: engine.queued_tokens)
        other = asyncio.ensure_future(
            engine.call("bert", lambda served: order.append("other"), tokens=1)
        )
        await eventually(lambda: engine.queued_tokens == 95)
        gate.set()
        await other
        return await parts

    assert asyncio.run(ask()) == [f"value {number}" for number in range(5)]
    assert order.index("other") == 1 and len(order) > 3
    assert sorted(n for part in order if part != "other" for n in part) == [*range(5)]


def test_isolated_calls_are_those_of_a_direct_call(engine_of):
    engine = engine_of(max_batch_tokens=40, isolate=True)
    parts = []

    async def ask():
        def function(served, numbers):
            parts.append(numbers)
            return numbers

        return await engine.call_in_parts("bert", function, [30] * 5)

    assert asyncio.run(ask()) == [*range(5)] and len(parts) == 1


def test_states_and_raw_scores_in_parts_are_those_of_a_direct_call(models):
    texts = [*SENTENCES] * 3
    with running({"bert": models["bert"]}, max_batch_tokens=20) as server:
        found = server.post("/embed_all", {"inputs": texts}).json()
        for mine, states in zip(found, models["bert"].encode(texts, as_numpy=True), strict=True):
            np.testing.assert_allclose(mine, states, atol=1e-5)
        body = {"inputs": [[text] for text in texts], "raw_scores": True}
        scores = server.post("/predict", body).json()
        logits = models["bert"].logits(texts, as_numpy=True)
        found = [sorted(each["score"] for each in row) for row in scores]
        np.testing.assert_allclose(found, np.sort(logits, -1), atol=1e-5)


def test_texts_longer_than_a_batch_are_refused_by_models_of_any_length(engine_of, monkeypatch):
    """One text of 100,000 tokens kept a model without positions from all others for minutes."""
    monkeypatch.setattr("regard.inference.embed.TOKENS", 8)
    engine = engine_of()

    async def ask(text):
        return await engine.run("mt", "embed", [text])

    assert len(asyncio.run(ask("the owl"))) == 1
    with pytest.raises(TooLarge, match=r"tokens is more than the 8 of one text; divide it"):
        asyncio.run(ask("the owl " * 20))


def test_sources_longer_than_a_batch_are_refused(engine_of, monkeypatch):
    monkeypatch.setattr(Translator, "batch_tokens", 8)
    engine = engine_of()

    async def ask(text):
        return await engine.run("mt", "translate", [text])

    assert asyncio.run(ask("the owl"))[0].value.texts
    with pytest.raises(TooLarge, match=r"tokens is more than the 8 of one text"):
        asyncio.run(ask("the owl " * 20))
