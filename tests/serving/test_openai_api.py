"""The official client of OpenAI against a real server, compared with direct calls."""

import base64
import json
import threading

import numpy as np
import openai
import pytest

from regard.core.errors import BadInput
from regard.generation.greedy import Greedy
from regard.generation.logit_bias import LogitBias
from regard.generation.sample import Sample
from regard.serving.apis.request import APIRequest
from regard.serving.worker import Worker
from serving.running_server import running, until
from small_bert import SENTENCES
from small_gpt import POSITIONS

PROMPT = "The old man"


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0) as client:
        yield client


@pytest.mark.parametrize("form", ["float", "base64"])
def test_embeddings(client, models, form):
    answer = client.embeddings.create(model="bert", input=[*SENTENCES], encoding_format=form)
    vectors = [item.embedding for item in answer.data]
    if form == "base64":
        vectors = [np.frombuffer(base64.b64decode(vector), "<f4") for vector in vectors]
    np.testing.assert_allclose(vectors, models["bert"].embed(SENTENCES, as_numpy=True), atol=1e-5)
    assert [item.index for item in answer.data] == [*range(len(SENTENCES))]
    tokens = sum(len(each.tokens) for each in models["bert"].tokens(SENTENCES))
    assert answer.usage.prompt_tokens == answer.usage.total_tokens == tokens


def test_embeddings_of_ids_and_of_fewer_dimensions(client, models):
    ids = models["bert"].tokens(SENTENCES[:2])
    (first, second) = client.embeddings.create(
        model="bert", input=[each.ids.tolist() for each in ids]
    ).data
    expected = models["bert"].embed(SENTENCES[:2], as_numpy=True)
    np.testing.assert_allclose([first.embedding, second.embedding], expected, atol=1e-5)
    (alone,) = client.embeddings.create(model="bert", input=ids[0].ids.tolist(), dimensions=5).data
    np.testing.assert_allclose(alone.embedding, expected[0, :5], atol=1e-5)
    with pytest.raises(openai.BadRequestError, match="dimensions"):
        client.embeddings.create(model="bert", input="a", dimensions=17)


def test_completions_are_the_texts_of_the_model(client, models):
    gpt = models["gpt"]
    for prompts in ([PROMPT, "A dog"], [[*gpt.tokenizer.words.encode(PROMPT)], [5, 6]]):
        expected = gpt.generate(prompts, Greedy(), max_new_tokens=6)
        answer = client.completions.create(
            model="gpt", prompt=prompts, max_tokens=6, temperature=0, echo=False
        )
        assert [choice.text for choice in answer.choices] == [best.text for best, *_ in expected]
        assert {choice.finish_reason for choice in answer.choices} <= {"stop", "length"}
        usage, written = answer.usage, sum(len(best.hypothesis.logprobs) for best, *_ in expected)
        assert usage.completion_tokens == written
        assert usage.total_tokens == usage.prompt_tokens + written


def test_samples_follow_seed_and_settings(client, models):
    settings = {"temperature": 0.7, "top_p": 0.9, "seed": 5}
    search = Sample(0.7, 0, 0.9, 4, 5)
    ((*texts,),) = models["gpt"].generate([PROMPT], search, max_new_tokens=5)
    texts.sort(key=lambda text: -np.mean(text.hypothesis.logprobs))
    answer = client.completions.create(
        model="gpt", prompt=PROMPT, max_tokens=5, n=2, best_of=4, **settings
    )
    assert [choice.text for choice in answer.choices] == [text.text for text in texts[:2]]
    assert [choice.index for choice in answer.choices] == [0, 1]
    drawn = {
        client.completions.create(model="gpt", prompt=PROMPT, max_tokens=9).choices[0].text
        for _ in range(3)
    }
    assert len(drawn) == 3  # without a seed, each request draws anew


def test_texts_are_ranked_by_the_log_probabilities_of_the_model(client):
    biased = {"presence_penalty": 2, "frequency_penalty": -2, "logit_bias": {"80": -100}}
    common = {"model": "gpt", "prompt": [PROMPT, "A dog"], "max_tokens": 10, "seed": 1} | biased
    every = client.completions.create(**common, n=8, best_of=8, logprobs=0).choices
    best = client.completions.create(**common, n=2, best_of=8).choices
    for number in range(2):
        texts = every[8 * number : 8 * number + 8]
        means = [np.mean(choice.logprobs.token_logprobs) for choice in texts]
        assert means == sorted(means, reverse=True)
        chosen = best[2 * number : 2 * number + 2]
        assert [choice.text for choice in chosen] == [choice.text for choice in texts[:2]]
        assert all(choice.logprobs is None for choice in chosen)


def test_stop_strings_and_changed_logits(client, models):
    gpt, common = models["gpt"], {"model": "gpt", "prompt": PROMPT, "temperature": 0}
    ((plain,),) = gpt.generate([PROMPT], Greedy(), max_new_tokens=8)
    stop = plain.text[3:5]
    stopped = client.completions.create(**common, max_tokens=8, stop=stop, logprobs=1).choices[0]
    assert "".join(stopped.logprobs.tokens[:-1]) in stopped.text
    assert len(stopped.logprobs.tokens) < 8
    assert stopped.text == plain.text[: plain.text.index(stop)]
    assert stopped.finish_reason == "stop"
    first = plain.hypothesis.tokens[0]
    biased = client.completions.create(**common, max_tokens=8, logit_bias={str(first): -100})
    bias = LogitBias(((first, -100.0),))
    ((other,),) = gpt.generate([PROMPT], Greedy(logit_bias=bias), max_new_tokens=8)
    assert biased.choices[0].text == other.text
    assert first not in other.hypothesis.tokens
    penalties = {"presence_penalty": 1.5, "frequency_penalty": -2}
    answer = client.completions.create(**common, max_tokens=20, **penalties).choices[0]
    bias = LogitBias(presence=1.5, frequency=-2)
    ((other,),) = gpt.generate([PROMPT], Greedy(logit_bias=bias), max_new_tokens=20)
    assert answer.text == other.text


@pytest.mark.parametrize("size", [0, 1, 5])
def test_log_probabilities_of_prompt_and_text(client, models, size):
    gpt = models["gpt"]
    ids = gpt.tokenizer.words.encode(PROMPT)
    choice = client.completions.create(
        model="gpt", prompt=PROMPT, max_tokens=4, temperature=0, echo=True, logprobs=size
    ).choices[0]
    ((best,),) = gpt.generate([PROMPT], Greedy(), max_new_tokens=4)
    assert choice.text == PROMPT + best.text
    found, text = choice.logprobs, choice.text
    (expected,) = gpt.score([[*ids, *best.hypothesis.tokens]])
    assert found.token_logprobs[0] is None and found.top_logprobs[0] is None
    np.testing.assert_allclose(found.token_logprobs[1 : len(expected) + 1], expected, atol=1e-4)
    for token, logprob, top in zip(
        found.tokens[1:], found.token_logprobs[1:], found.top_logprobs[1:], strict=True
    ):
        assert max(1, size) <= len(top) <= size + 1 and top[token] == logprob
    for at in range(len(ids), len(found.tokens)):  # greedy, by equality
        assert found.token_logprobs[at] == max(found.top_logprobs[at].values())
    prompt_pieces = zip(found.tokens, found.text_offset, strict=True)
    assert all(text.startswith(token, at) for token, at in [*prompt_pieces][: len(ids)])
    assert found.text_offset[len(ids)] == len(PROMPT)
    alone = client.completions.create(
        model="gpt", prompt=PROMPT, max_tokens=4, temperature=0, logprobs=size
    ).choices[0]
    assert alone.text == best.text
    assert alone.logprobs.token_logprobs == found.token_logprobs[len(ids) :]


def test_offsets_count_characters_of_several_tokens(client):
    prompt = "a café 🙂 日本 €5 b"
    found = client.completions.create(
        model="gpt", prompt=prompt, max_tokens=0, echo=True, logprobs=1
    ).choices[0]
    assert found.text == prompt and found.logprobs.text_offset[-1] == len(prompt) - 2
    assert found.logprobs.tokens[-1] == " b"


def test_more_texts_than_inputs_of_a_request_are_scored(models):
    body = {"model": "gpt", "prompt": [PROMPT, "A dog"], "n": 4, "max_tokens": 2, "seed": 1}
    with running({"gpt": models["gpt"]}, max_inputs=3) as server:
        for more in ({"logprobs": 1}, {"presence_penalty": 1, "best_of": 5}):
            answer = server.post("/v1/completions", body | more)
            assert answer.status_code == 200, answer.text
            choices = answer.json()["choices"]
            assert len(choices) == 8
            id_ = answer.headers["x-request-id"]
            assert server.client.get(f"/inspect/{id_}").json()["same"]
        refused = server.post("/v1/completions", body | {"prompt": ["a"] * 4})
        assert refused.status_code == 413


def test_a_prompt_alone_is_scored(client, models):
    ids = [5, 9, 40, 7]
    choice = client.completions.create(
        model="gpt", prompt=ids, max_tokens=0, echo=True, logprobs=1
    ).choices[0]
    (expected,) = models["gpt"].score([ids])
    np.testing.assert_allclose(choice.logprobs.token_logprobs[1:], expected, atol=1e-5)
    assert choice.finish_reason == "length"


def test_a_prompt_of_all_positions_gets_one_more_token(client, models):
    ids = [7 + n % 40 for n in range(POSITIONS)]
    choice = client.completions.create(
        model="gpt", prompt=[ids], max_tokens=3, temperature=0, echo=True, logprobs=1
    ).choices[0]
    scores = choice.logprobs.token_logprobs
    assert len(scores) == POSITIONS + 1
    (expected,) = models["gpt"].score([ids])
    np.testing.assert_allclose(scores[1:-1], expected, atol=1e-4)


def test_a_stream_is_the_text_of_the_answer(client):
    common = {"model": "gpt", "prompt": PROMPT, "max_tokens": 12, "seed": 3, "echo": True}
    whole = client.completions.create(**common)
    events = [*client.completions.create(**common, stream=True)]
    assert "".join(event.choices[0].text for event in events) == whole.choices[0].text
    assert events[-1].choices[0].finish_reason == whole.choices[0].finish_reason
    assert len(events) > 3 and len({event.id for event in events}) == 1
    short = [*client.completions.create(**{**common, "max_tokens": 2}, stream=True)]
    reasons = [event.choices[0].finish_reason for event in short]
    assert reasons == [*[None] * (len(short) - 1), "length"]
    *_, last = client.completions.create(
        **common, stream=True, stream_options={"include_usage": True}
    )
    assert last.usage == whole.usage and last.choices == []


@pytest.mark.parametrize("size", [0, 3])
@pytest.mark.parametrize("echo", [True, False])
@pytest.mark.parametrize("drawn", [{"temperature": 0}, {"n": 4, "seed": 3, "top_p": 0.9}])
def test_a_stream_has_the_choices_of_the_answer(client, models, drawn, echo, size):
    common = {"model": "gpt", "prompt": PROMPT, "max_tokens": 9, "echo": echo, "logprobs": size}
    whole = client.completions.create(**common, **drawn)
    *events, last = client.completions.create(
        **common, **drawn, stream=True, stream_options={"include_usage": True}
    )
    assert last.usage == whole.usage and last.choices == []
    choices = {}
    for index, choice in ((each.index, each) for event in events for each in event.choices):
        text, _ = choices.get(index, ("", None))
        assert index not in choices or choices[index][1] is None  # nothing after the end
        choices[index] = text + choice.text, choice if choice.finish_reason else None
    assert {*choices} == {*range(drawn.get("n", 1))}
    found = sorted((text, end.finish_reason, end.logprobs) for text, end in choices.values())
    expected = sorted((each.text, each.finish_reason, each.logprobs) for each in whole.choices)
    assert len({text for text, *_ in expected}) == len(choices)  # all differ
    assert [each[:2] for each in found] == [each[:2] for each in expected]
    for (*_, logprobs), (*_, others) in zip(found, expected, strict=True):
        assert logprobs.tokens == others.tokens and logprobs.text_offset == others.text_offset
        numbers = [each for each in logprobs.token_logprobs if each is not None]
        others = [each for each in others.token_logprobs if each is not None]
        np.testing.assert_allclose(numbers, others, atol=1e-5)


def test_the_texts_of_a_stream_come_side_by_side(client):
    events = client.completions.create(
        model="gpt", prompt=PROMPT, max_tokens=20, n=3, seed=1, stream=True
    )
    indices = [event.choices[0].index for event in events]
    assert {*indices[:9]} == {0, 1, 2}


def test_all_texts_of_a_stream_that_nobody_reads_end(client, server, monkeypatch):
    steps, step, gate = [], Worker._step, threading.Event()

    def slow_step(worker):
        steps.append(worker)
        if len(steps) > 5:
            gate.wait(60)
        step(worker)

    monkeypatch.setattr(Worker, "_step", slow_step)
    with client.completions.create(
        model="gpt", prompt=PROMPT, max_tokens=40, n=8, stream=True
    ) as events:
        next(iter(events))
    until(lambda: not server.engine._unanswered)
    gate.set()
    until(lambda: not server.engine.queued_tokens)
    assert len(steps) < 30


@pytest.mark.parametrize("later", [True, False])
def test_an_error_of_a_stream_has_no_path_of_the_machine(server, monkeypatch, later):
    async def failing(*given):
        if later:
            yield "a piece"
        raise BadInput("/srv/models/x.safetensors: damaged")

    monkeypatch.setattr(APIRequest, "stream", failing)
    answer = server.post("/v1/completions", {"model": "gpt", "prompt": PROMPT, "stream": True})
    assert ("a piece" in answer.text) == later and answer.status_code == (200 if later else 400)
    assert ": damaged" in answer.text and "models" not in answer.text


def test_a_stream_ends_with_done(server):
    body = {"model": "gpt", "prompt": PROMPT, "stream": True}
    response = server.post("/v1/completions", body)
    assert response.headers["content-type"].startswith("text/event-stream")
    *events, done, rest = response.text.split("\n\n")
    assert done == "data: [DONE]" and rest == ""
    assert all(json.loads(event.removeprefix("data: "))["object"] for event in events)


def test_models(client):
    assert [model.id for model in client.models.list()] == ["bert", "gpt"]
    assert client.models.retrieve("gpt").id == "gpt"
    with pytest.raises(openai.NotFoundError) as error:
        client.models.retrieve("gtp")
    assert error.value.body["code"] == "model_not_found"


@pytest.mark.parametrize("path", ["/chat/completions", "/nowhere", "/v1/models"])
def test_an_unknown_path_is_an_error_of_openai(client, path):
    for send in (client.get, client.post):
        with pytest.raises(openai.NotFoundError, match="no such path") as error:
            send(path, cast_to=object)
        assert error.value.code == "unknown_url" and error.value.param is None
        assert error.value.type == "invalid_request_error"


def test_top_k_limits_what_is_drawn(client, models):
    common = {"model": "gpt", "prompt": PROMPT, "max_tokens": 6, "seed": 4}
    ((text,),) = models["gpt"].generate([PROMPT], Sample(1.0, 3, 1.0, 1, 4), max_new_tokens=6)
    limited = client.completions.create(**common, extra_body={"top_k": 3}).choices[0].text
    free = client.completions.create(**common).choices[0].text
    assert limited == text.text != free
    for every in (-1, 0):
        again = client.completions.create(**common, extra_body={"top_k": every})
        assert again.choices[0].text == free


WRONG = {
    "suffix": {"suffix": "b"},
    "best_of": {"n": 3, "best_of": 2},
    "n": {"n": 2, "temperature": 0},
    "stop": {"stop": ["a", "b", "c", "d", "e"]},
    "stream_options": {"stream_options": {"include_usage": True}},
    "max_tokens": {"max_tokens": 0},
    "logprobs": {"logprobs": 6, "stream": True},
    "logit_bias": {"logit_bias": {"cat": 1}},
    "prompt": {"prompt": ["a", 3]},
    "temperature": {"temperature": 3},
    "top_p": {"top_p": "high"},
    "echo": {"echo": 1},
    "colour": {"colour": 1},
    "frequency_penalty": {"frequency_penalty": -3},
    "top_k": {"top_k": -2},
    "best_of ": {"n": 2, "best_of": 3, "stream": True},
}


@pytest.mark.parametrize("parameter", WRONG)
def test_wrong_requests_name_the_parameter(server, parameter):
    response = server.post("/v1/completions", {"model": "gpt", "prompt": "a"} | WRONG[parameter])
    error = response.json()["error"]
    assert response.status_code == 400 and error["param"] == parameter.strip()
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error" and "\n" not in error["message"]


def test_the_codes_of_errors_are_those_of_openai(server):
    for prompt in ("a " * 200, [[5], [5] * 200]):
        response = server.post("/v1/completions", {"model": "gpt", "prompt": prompt})
        error = response.json()["error"]
        assert response.status_code == 400 and error["code"] == "context_length_exceeded"
        assert error["param"] == "prompt" and error["type"] == "invalid_request_error"
    error = server.post("/v1/completions", {"model": "gpt"}).json()["error"]
    assert error["param"] == "prompt" and error["code"] == "bad_input"
    error = server.post("/v1/embeddings", {"model": "bert", "input": {}}).json()["error"]
    assert error["param"] == "input"


@pytest.mark.parametrize(
    "more",
    [
        {"temperature": 3},
        {"logprobs": 6},
        {"colour": 1},
        {"logit_bias": {"999999": 1}},
        {"logit_bias": {"9" * 5_000: 100}},
        {"logit_bias": {"٣": 1}},
        {"prompt": []},
        {"prompt": [999_999]},
        {"prompt": [[1], "a"]},
        {"model": "bert"},
        {"stream": True, "prompt": ["a", "b"]},
        {"prompt": "a " * 200},
    ],
)
def test_other_wrong_requests(server, more):
    response = server.post("/v1/completions", {"model": "gpt", "prompt": "a"} | more)
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"} and len(error["message"]) < 200
