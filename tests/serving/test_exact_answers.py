"""Answers of shared batches on a CPU have the bytes of a direct call with the input alone."""

import asyncio
import json
import re
import threading

import pytest

from regard.core.errors import BadInput
from regard.generation.beam import Beam
from regard.generation.greedy import Greedy
from regard.generation.sample import Sample
from regard.inference.decoder_model import Method
from regard.inference.generation_session import CohortBatch
from regard.inference.generator import Ending
from regard.serving.apis.json_body import encode_json
from regard.serving.engine import EngineLimits, ServedModel, ServingEngine
from regard.serving.worker import Worker
from serving.running_server import eventually, running, translation_model
from small_bert import SENTENCES
from small_bert import model as small_bert
from small_gpt import small_gpt2

TEXTS = [SENTENCES[n % 5][: 12 + 2 * n] for n in range(24)]


def post_together(server, posts, monkeypatch):
    """Answers to requests, none of which begins before all wait."""
    advance, gate = Worker._advance, threading.Event()
    monkeypatch.setattr(Worker, "_advance", lambda worker: gate.wait(60) and advance(worker))

    async def post_all():
        (worker,) = server.app.engine._workers.values()
        async with server.asynchronous() as client:
            posting = asyncio.gather(*(client.post(path, json=body) for path, body in posts))
            await eventually(lambda: worker.queued_requests == len(posts) or posting.done())
            gate.set()
            return await posting

    answers = asyncio.run(post_all())
    assert {answer.status_code for answer in answers} == {200}
    return answers


def direct_records(component, record):
    """Records of a direct call with one input."""
    (result,) = component.stream([component.parse_record(record, "")])
    return json.loads(encode_json(component.records(result)))


def batches_of(server):
    """The number of batches that have run."""
    metrics = server.client.get("/metrics").text
    (batches,) = re.findall(r"^regard_batch_rows_count\{.*\} (.*)$", metrics, re.MULTILINE)
    return float(batches)


def with_choices(text):
    return {"first": text, "choices": ["sang", f"came in, {text[:9]}", "no", text[3:20] or "a"]}


INPUTS = {
    "one": ("/v1/classify", "predict", lambda text: {"text": text}),
    "several": ("/v1/classify", "predict", lambda text: {"text": text}),
    "number": ("/v1/classify", "predict", lambda text: {"first": text, "second": "the old man"}),
    "tags": ("/v1/tag", "predict", lambda text: {"text": text}),
    "answer": ("/v1/answer", "predict", lambda text: {"question": "Who?", "context": text}),
    "words": ("/v1/fill", "fill", lambda text: {"text": f"The [MASK] man. {text} [MASK]"}),
    "choose": ("/v1/choose", "predict", with_choices),
}


@pytest.mark.parametrize("kind", INPUTS)
def test_numbers_of_shared_batches_are_those_of_a_direct_call(kind, monkeypatch):
    path, name, body = INPUTS[kind]
    model = small_bert(kind)
    bodies = [body(text) for text in TEXTS]
    with running({"m": model}) as server:
        answers = post_together(server, [(path, body) for body in bodies], monkeypatch)
        assert batches_of(server) < len(TEXTS) / 2  # they shared batches
    component = model.component(name)
    for body, answer in zip(bodies, answers, strict=True):
        assert answer.json()["results"][0]["records"] == direct_records(component, body)


@pytest.mark.parametrize("kind", ["one", "choose"])
def test_texts_of_any_length_are_exact_on_request(kind, monkeypatch):
    """Also those of a few tokens, whose products take other code."""
    path, name, body = INPUTS[kind]
    model = small_bert(kind)
    bodies = [body(text) for text in ("a", "no", "the sea", *TEXTS[:9], SENTENCES[0] * 3)]
    monkeypatch.setattr("regard.serving.worker.least_stable_rows", lambda: 16)
    monkeypatch.setattr("regard.tasks.multiple_choice.least_stable_rows", lambda: 16)
    with running({"m": model}, exact=True) as server:
        answers = post_together(server, [(path, body) for body in bodies], monkeypatch)
    component = model.component(name)
    for body, answer in zip(bodies, answers, strict=True):
        assert answer.json()["results"][0]["records"] == direct_records(component, body)


SEARCHES = [
    ({"search": "greedy"}, {"method": Method(Greedy())}),
    ({"seed": 3, "temperature": 0.8}, {"method": Method(Sample(seed=3, temperature=0.8))}),
    ({"seed": 1, "best": 2}, {"method": Method(Sample(count=2, seed=1)), "best": 2}),
    ({"search": "beam", "beam": 3}, {"method": Method(Beam(3))}),
]


def test_generated_texts_are_exact_on_request(monkeypatch):
    """Texts, scores and log-probabilities of all tokens, whatever else is generated."""
    model, steps = small_gpt2(), []
    step = CohortBatch.step
    monkeypatch.setattr(
        CohortBatch, "step", lambda batch: (steps.append(id(batch)), step(batch))[1]
    )
    cases = [(text[:n], n, *SEARCHES[n % 4]) for n, text in enumerate(TEXTS[:12], 3)]
    bodies = [
        {"text": text, "max_new_tokens": 3 + n % 7, **settings} for text, n, settings, _ in cases
    ]
    with running({"m": model}, exact=True) as server:
        answers = post_together(server, [("/v1/generate", body) for body in bodies], monkeypatch)
    assert steps != sorted(steps, key=steps.index)  # they ran in turn, not one after another
    for (text, n, _, options), answer in zip(cases, answers, strict=True):
        component = model.component("generate", ending=Ending(3 + n % 7), **options)
        expected = direct_records(component, {"text": text})
        assert answer.json()["results"][0]["records"] == expected
        assert "logprobs" in expected[0]


def test_completions_are_exact_on_request(monkeypatch):
    """With the log-probabilities of prompt and text, and the best tokens in place of each."""
    bodies = [
        {"prompt": text[: 2 + n], "max_tokens": n % 6, "temperature": 0, "logprobs": 3}
        | {"echo": True}
        for n, text in enumerate(TEXTS[:12])
    ]
    with running({"m": small_gpt2()}, exact=True) as server:
        alone = [server.post("/v1/completions", {"model": "m", **body}) for body in bodies]
        posts = [("/v1/completions", {"model": "m", **body}) for body in bodies]
        together = post_together(server, posts, monkeypatch)
    for one, other in zip(alone, together, strict=True):
        assert one.json()["choices"] == other.json()["choices"]
        assert one.json()["choices"][0]["logprobs"]["top_logprobs"]


def test_translations_are_exact_on_request(monkeypatch):
    model = translation_model()
    bodies = [{"text": text} for text in ("the owl", "a cat sees the owl", "owl", "the old cat")]
    with running({"m": model}, exact=True) as server:
        answers = post_together(server, [("/v1/translate", body) for body in bodies], monkeypatch)
        assert batches_of(server) >= len(bodies)
    component = model.component("translate")
    for body, answer in zip(bodies, answers, strict=True):
        assert answer.json()["results"][0]["records"] == direct_records(component, body)


def test_a_model_on_a_gpu_is_not_exact(monkeypatch):
    monkeypatch.setattr(ServedModel, "is_on_cpu", False)
    with pytest.raises(BadInput, match="exact: model m is not on a CPU; isolate requests instead"):
        ServingEngine([ServedModel(small_bert("one"), "m")], EngineLimits(exact=True))
