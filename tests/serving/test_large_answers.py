"""Answers of many numbers: bounds before the run, and JSON encoded beside the event loop."""

import json
import threading

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.api import Model
from regard.inference.component import Component
from regard.serving.apis import hugging_face, json_body
from regard.serving.apis.json_body import count_leaves, encode_in_parts, encode_json
from serving.running_server import running
from small_bert import SENTENCES
from small_bert import model as small_bert
from small_gpt import small_gpt2

MASKS = "The [MASK] [MASK] came [MASK]."


@pytest.fixture(scope="module")
def models():
    return {"words": small_bert("words"), "gpt": small_gpt2()}


@pytest.fixture(scope="module")
def server(models):
    with running(models, max_candidates=40) as server:
        yield server


@pytest.fixture
def without_runs(monkeypatch):
    """No batch may run: what is too large is refused before."""
    monkeypatch.setattr(Component, "run", lambda *_: pytest.fail("a batch has run"))


def refused(server, path, body):
    answer = server.post(path, body)
    assert answer.status_code == 413, answer.text
    assert "\n" not in answer.json()["error"]["message"]
    return answer.json()["error"]["message"]


def test_candidates_of_all_masks_are_counted(server):
    body = {"inputs": [MASKS, MASKS], "top": 6}
    answer = server.post("/v1/fill", body).json()
    assert [len(blank) for blank in answer["results"][1]["records"][0]["blanks"]] == [6, 6, 6]


def test_too_many_candidates_are_refused_before_the_run(server, without_runs):
    message = refused(server, "/v1/fill", {"inputs": [MASKS, MASKS], "top": 7})
    assert "42 candidates" in message and "40" in message
    scored = {"model": "gpt", "inputs": [SENTENCES[0]] * 4, "top": 20}
    assert "candidates" in refused(server, "/v1/score", scored)
    inspected = {"text": MASKS, "top": 20, "inspect": {}}
    assert "60 candidates" in refused(server, "/v1/fill", inspected)


def test_repeated_texts_are_counted(models, monkeypatch):
    size = 3 * 4 * len(MASKS)
    with running({"words": models["words"]}) as server:
        monkeypatch.setattr(hugging_face, "MOST_SEQUENCES", 2 * size)
        body = {"inputs": [MASKS, MASKS], "parameters": {"top_k": 4}}
        assert len(server.post("/models/words", body).json()) == 2
        monkeypatch.setattr(hugging_face, "MOST_SEQUENCES", 2 * size - 1)
        monkeypatch.setattr(Component, "run", lambda *_: pytest.fail("a batch has run"))
        answer = server.post("/models/words", body)
        assert answer.status_code == 413 and f"{2 * size} characters" in answer.json()["error"]


def test_states_of_too_many_numbers_are_refused_before_the_run(models, monkeypatch):
    (states,) = models["words"].encode([SENTENCES[0]], as_numpy=True)
    with running({"words": models["words"]}, max_numbers=2 * states.size) as server:
        body = {"inputs": [SENTENCES[0]] * 2}
        assert np.shape(server.post("/embed_all", body).json()) == (2, *states.shape)
        monkeypatch.setattr(Model, "encode", lambda *_: pytest.fail("the model has run"))
        answer = server.post("/embed_all", {"inputs": [SENTENCES[0]] * 3})
        assert answer.status_code == 413
        assert f"{3 * states.size} numbers" in answer.json()["error"]


LARGE = {
    "/v1/fill": {"model": "words", "text": MASKS},
    "/v1/score": {"model": "gpt", "text": "The old", "top": 3},
    "/v1/embed": {"model": "words", "inputs": [*SENTENCES]},
    "/v1/embeddings": {"model": "words", "input": [*SENTENCES]},
    "/embed?model=words": {"inputs": [*SENTENCES]},
    "/embed_all?model=words": {"inputs": [*SENTENCES]},
    "/models/words": {"inputs": [MASKS]},
    "/models/words/pipeline/feature-extraction": {"inputs": [*SENTENCES]},
}


@pytest.mark.parametrize("path", LARGE)
def test_large_answers_are_encoded_in_other_threads(server, monkeypatch, path):
    same = {"x-request-id": "same"}
    small = server.post(path, LARGE[path], headers=same)
    assert small.status_code == 200, small.text
    threads, encode = list[str](), json_body.encode_json

    def noted(content):
        threads.append(threading.current_thread().name)
        return encode(content)

    monkeypatch.setattr(json_body, "MANY", 4)
    monkeypatch.setattr(hugging_face, "MANY", 4)
    monkeypatch.setattr(json_body, "encode_json", noted)
    assert server.post(path, LARGE[path], headers=same).content == small.content
    assert len(threads) > 4 and {*threads} == {"request"}


class Named(msgspec.Struct):
    name: str
    more: object
    unset: int | msgspec.UnsetType = msgspec.UNSET


plain = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text(max_size=40)
arrays = st.lists(st.integers(0, 3), min_size=1, max_size=3).map(lambda shape: np.ones(shape, "f"))
values = st.recursive(
    plain | arrays,
    lambda parts: (
        st.lists(parts) | st.dictionaries(st.text(), parts) | st.builds(Named, st.text(), parts)
    ),
    max_leaves=20,
)


@given(values, st.integers(1, 9))
def test_parts_are_the_json_of_the_whole(content, many):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_body, "MANY", many)
        assert encode_in_parts(content) == encode_json(content)
        json.loads(encode_in_parts(content))
    assert 0 <= count_leaves(content, many) <= many
