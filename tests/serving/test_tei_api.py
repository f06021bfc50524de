"""The paths of text-embeddings-inference, and those that evaluation harnesses ask first."""

import threading
from functools import partial

import numpy as np
import pytest

from regard.serving.apis import tokenization
from serving.running_server import running, translation_model
from small_bert import LONGEST, SENTENCES
from small_bert import model as small_bert
from small_gpt import small_gpt2

LONG = "storm " * LONGEST


@pytest.fixture(scope="module")
def models():
    kinds = {"one": "one", "several": "several", "ranker": "number", "states": "states"}
    return {name: small_bert(kind) for name, kind in kinds.items()} | {"gpt": small_gpt2()}


def ask(server, path, body, status=200):
    response = server.post(path, body)
    assert response.status_code == status, response.text
    return response.json()


@pytest.mark.parametrize("normalize", [True, False])
def test_embed(server, models, normalize):
    expected = models["states"].embed(SENTENCES, normalise=normalize, as_numpy=True)
    body = {"inputs": [*SENTENCES], "normalize": normalize}
    found = ask(server, "/embed?model=states", body)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    (alone,) = ask(server, "/embed?model=states", {"inputs": SENTENCES[0]} | {"dimensions": 4})
    unit = expected[0, :4] / np.linalg.norm(expected[0, :4])
    np.testing.assert_allclose(alone, unit, atol=1e-5)
    ids = models["states"].tokens(SENTENCES[:1])[0].ids.tolist()
    for inputs in (ids, [ids]):
        (same,) = ask(server, "/embed?model=states", body | {"inputs": inputs})
        np.testing.assert_allclose(same, expected[0], atol=1e-5)


def test_prompts_are_put_before_texts(models):
    model, texts = small_bert("states"), [*SENTENCES[:2]]
    prompts = {"query": "the storm: ", "passage": "sailors: "}
    model.notes["embedding"] = {"pool": "mean", "longest": 12, "prompts": prompts}
    prompted = ["the storm: " + text for text in texts]
    expected = model.embed(prompted, normalise=True, as_numpy=True)
    assert np.abs(expected - model.embed(texts, normalise=True, as_numpy=True)).max() > 0.01
    with running({"sentences": model}) as server:
        more = {"prompt_name": "query", "truncate": True}
        assert_near = partial(np.testing.assert_allclose, atol=1e-5)
        assert_near(ask(server, "/embed", {"inputs": texts, **more}), expected)
        own = ask(server, "/v1/embed", {"inputs": texts, "prompt_name": "query", "normalise": True})
        assert_near([each["records"][0]["vector"] for each in own["results"]], expected)
        body = {"model": "sentences", "input": texts, "prompt_name": "query"}
        found = ask(server, "/v1/embeddings", body)["data"]
        unscaled = model.embed(prompted, as_numpy=True)
        assert_near([each["embedding"] for each in found], unscaled)
        body = {"inputs": texts, "normalize": True, **more}
        assert_near(ask(server, "/models/sentences", body), expected)
        inputs = {"source_sentence": texts[0], "sentences": texts[1:]}
        found = ask(server, "/similarity", {"inputs": inputs, "parameters": more})
        assert_near(found, [expected[0] @ expected[1]])
        states = ask(server, "/embed_all", {"inputs": texts[:1], **more})
        assert_near(states[0], model.encode(prompted[:1])[0])
        (tokens,) = ask(server, "/tokenize", {"inputs": texts[0], "prompt_name": "passage"})
        prompted_ids = model.tokens(["sailors: " + texts[0]])[0].ids
        assert [token["id"] for token in tokens] == [*prompted_ids]
        body = {"text": "gulls", "prompt_name": "query", "inspect": {"layers": [0]}}
        ((read,),) = (each["tokens"].values() for each in ask(server, "/v1/embed", body)["inspect"])
        assert read == [*model.tokens(["the storm: gulls"])[0].tokens]
        count = len(model.tokens(["the storm: a"])[0].ids) - 1
        text = "a " * (12 - count)  # with the prompt it has 12 tokens
        ask(server, "/embed", {"inputs": text, "prompt_name": "query"})
        ask(server, "/embed", {"inputs": text + "a", "prompt_name": "query"}, 413)
        ask(server, "/embed", {"inputs": text + "a"})
        for path in ("/embed", "/embed_all", "/tokenize"):
            error = ask(server, path, {"inputs": "a", "prompt_name": "title"}, 400)["error"]
            assert "no prompt 'title'; its prompts are query, passage" in error


def test_a_vector_for_each_token(server, models):
    found = ask(server, "/embed_all?model=states", {"inputs": [*SENTENCES[:2]]})
    for ours, theirs in zip(found, models["states"].encode(SENTENCES[:2]), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_long_inputs_are_refused_unless_they_may_be_cut(server):
    assert server.client.get("/info?model=states").json()["auto_truncate"] is False
    for path, inputs in (("/embed?model=states", LONG), ("/predict?model=one", LONG)):
        ask(server, path, {"inputs": inputs, "truncate": True})
        for truncate in ({}, {"truncate": None}, {"truncate": False}):
            error = ask(server, path, {"inputs": inputs, **truncate}, 413)
            assert error["error_type"] == "Validation" and "truncate" in error["error"]
            ask(server, path, {"inputs": "short", **truncate})
    ask(server, "/models/states", {"inputs": LONG})  # Hugging Face's paths cut, unless told
    ask(server, "/models/states", {"inputs": LONG, "truncate": False}, 413)


def test_predict(server, models):
    for name in ("one", "several"):
        predictions = models[name].predict([SENTENCES[0], (SENTENCES[1], SENTENCES[2])])
        batch, cut = [[SENTENCES[0]], [*SENTENCES[1:3]]], {"truncate": True}
        found = ask(server, f"/predict?model={name}", {"inputs": batch, **cut})
        for ours, theirs in zip(found, predictions, strict=True):
            assert [each["score"] for each in ours] == sorted(
                (each["score"] for each in ours), reverse=True
            )
            scores = {each["label"]: each["score"] for each in ours}
            assert scores == pytest.approx(theirs.probabilities, abs=1e-5)
        pair = ask(server, f"/predict?model={name}", {"inputs": batch[1], **cut})
        assert pair[0]["score"] == pytest.approx(found[1][0]["score"], abs=1e-5)
        alone = ask(server, f"/predict?model={name}", {"inputs": SENTENCES[0]})
        assert alone[0]["score"] == pytest.approx(found[0][0]["score"], abs=1e-5)


def test_raw_scores_are_logits(server, models):
    (logits,) = models["one"].logits([SENTENCES[0]])
    body = {"inputs": SENTENCES[0], "raw_scores": True}
    scores = {each["label"]: each["score"] for each in ask(server, "/predict?model=one", body)}
    expected = dict(zip(models["one"].labels.names, logits.tolist(), strict=True))
    assert scores == pytest.approx(expected, abs=1e-4)


def test_rerank(server, models):
    query, texts = "Who mended nets?", [*SENTENCES]
    body = {"query": query, "texts": texts, "truncate": True}
    values = [p.value for p in models["ranker"].predict([(query, text) for text in texts])]
    order = sorted(range(len(texts)), key=lambda index: -values[index])
    raw = ask(server, "/rerank", {**body, "raw_scores": True})
    assert [rank["index"] for rank in raw] == order and "text" not in raw[0]
    assert raw[0]["score"] == pytest.approx(values[order[0]], abs=1e-4)
    ranks = ask(server, "/rerank", {**body, "return_text": True})
    assert [rank["text"] for rank in ranks] == [texts[index] for index in order]
    sigmoid = 1 / (1 + np.exp(-values[order[0]]))
    assert ranks[0]["score"] == pytest.approx(sigmoid, abs=1e-4)
    ask(server, "/rerank?model=one", {"query": query, "texts": texts}, 400)


def test_similarity(server, models):
    vectors = models["states"].embed(SENTENCES[:3], normalise=True, as_numpy=True)
    inputs = {"source_sentence": SENTENCES[0], "sentences": [*SENTENCES[1:3]]}
    found = ask(server, "/similarity?model=states", {"inputs": inputs})
    np.testing.assert_allclose(found, vectors[1:] @ vectors[0], atol=1e-5)


@pytest.mark.parametrize("text", [SENTENCES[0], LONG])
def test_tokenize_and_decode(server, models, text):
    (tokens,) = ask(server, "/tokenize?model=one", {"inputs": text})
    plain = models["one"].tokenizer.words.encode(text)
    special = [token for token in tokens if token["special"]]
    assert [token["text"] for token in special] == ["[CLS]", "[SEP]"]
    assert special == [tokens[0], tokens[-1]] and tokens[0]["start"] is None
    assert [token["id"] for token in tokens[1:-1]] == plain
    assert all(text[t["start"] : t["stop"]] == t["text"] for t in tokens[1:-1])
    body = {"inputs": [text, ""], "add_special_tokens": False}
    first, second = ask(server, "/tokenize?model=one", body)
    assert first == tokens[1:-1] and second == []
    ids = [token["id"] for token in tokens]
    decoded = models["one"].tokenizer.words.decode(plain)
    assert ask(server, "/decode?model=one", {"ids": ids}) == [decoded]
    assert ask(server, "/decode?model=one", {"ids": [ids, plain]}) == [decoded] * 2
    whole = ask(server, "/decode?model=one", {"ids": ids, "skip_special_tokens": False})
    assert whole == [f"[CLS] {decoded} [SEP]"]


SPACES = {
    "🙂 x": ["🙂"] * 4 + [" ", "x"],
    " a  b": ["a", " ", "b"],
    "a   b ": ["a", " ", " ", "b", " "],
}


@pytest.mark.parametrize("text", SPACES)
def test_tokens_of_spaces_have_the_spaces(server, text):
    (tokens,) = ask(server, "/tokenize?model=gpt", {"inputs": text, "add_special_tokens": False})
    assert [token["text"] for token in tokens] == SPACES[text]
    assert all(text[t["start"] : t["stop"]] == t["text"] for t in tokens)
    starts = [token["start"] for token in tokens]
    assert starts == sorted(starts)


def test_what_harnesses_ask_first(server, models):
    words, text = models["gpt"].tokenizer.words, "The old man reads naïve café"
    body = {"prompt": text, "add_special_tokens": False, "model": "gpt"}
    answer = ask(server, "/tokenize", body)
    assert answer["tokens"] == words.encode(text)
    assert answer["count"] == len(answer["tokens"]) and answer["max_model_len"] == 48
    again = ask(server, "/detokenize", {"tokens": answer["tokens"], "model": "gpt"})
    assert again == {"prompt": text}
    info = server.client.get("/tokenizer_info?model=gpt").json()
    assert info["eos_token"] == words.pieces([words.eos])[0]
    assert {"bos_token", "pad_token", "chat_template"} <= info.keys()
    info = server.client.get("/tokenizer_info?model=one").json()
    roles = ("unk", "mask", "sep", "cls", "pad")
    assert [info[f"{role}_token"] for role in roles] == [f"[{role.upper()}]" for role in roles]


def test_info(server):
    kinds = {"states": "embedding", "one": "classifier", "ranker": "reranker"}
    for name, kind in kinds.items():
        info = server.client.get(f"/info?model={name}").json()
        assert info["model_id"] == name and [*info["model_type"]] == [kind]
        assert info["max_input_length"] == LONGEST and info["model_dtype"] == "float32"
    assert info["model_type"]["reranker"]["id2label"] == {"0": "likeness"}


WRONG = {
    "/embed?model=states": [
        {"inputs": []},
        {"inputs": "a", "prompt_name": "query"},
        {"inputs": "a", "truncation_direction": "left"},
        {"inputs": [99_999]},
        {"inputs": "a", "dimensions": 99},
        {"texts": "a"},
    ],
    "/embed": [{"inputs": "a"}],  # several models fit
    "/predict?model=one": [{"inputs": ["a", "b", "c"]}, {"inputs": ["a", ["b"]]}, {"inputs": []}],
    "/predict?model=gpt": [{"inputs": "a"}],
    "/rerank": [{"query": "a", "texts": []}],
    "/similarity?model=one": [{"inputs": {"source_sentence": "a", "sentences": []}}],
    "/tokenize?model=one": [{}, {"inputs": "a", "prompt": "b"}, {"inputs": []}],
    "/decode?model=one": [{"ids": [99_999]}, {"ids": [[1], 2]}, {"ids": [-1]}],
}


@pytest.mark.parametrize("path", WRONG)
def test_wrong_requests(server, path):
    for body in WRONG[path]:
        error = ask(server, path, body, 400)
        assert error.keys() == {"error", "error_type"} and error["error_type"] == "Validation"
        assert "\n" not in error["error"]
    assert ask(server, "/embed?model=nobody", {"inputs": "a"}, 404)["error_type"] == "Validation"


def test_the_limit_of_sentence_encoders_is_that_of_their_notes():
    model, long, short = small_bert("states"), "storm " * 12, "storm"
    model.notes["embedding"] = {"pool": "mean", "longest": 12}
    with running({"sentences": model}) as server:
        assert server.client.get("/info").json()["max_input_length"] == 12
        assert server.client.get("/tokenizer_info").json()["model_max_length"] == 12
        ask(server, "/embed", {"inputs": long, "truncate": False}, 413)
        ask(server, "/embed", {"inputs": short, "truncate": False})
        results = ask(server, "/v1/embed", {"inputs": [long, short]})["results"]
        assert [each["cut"] for each in results] == [True, False]


@pytest.mark.parametrize("path", ["/decode", "/detokenize"])
def test_texts_of_ids_are_made_beside_the_event_loop(server, monkeypatch, path):
    threads = []

    def noted(*given, **options):
        threads.append(threading.current_thread().name)
        return "text"

    monkeypatch.setattr(tokenization, "decode", noted)
    ask(server, f"{path}?model=states", {"ids" if path == "/decode" else "tokens": [5, 6]})
    assert threads == ["request"]


def test_encoders_go_before_models_that_write(models):
    translator = translation_model()
    writers = {"gpt": models["gpt"], "mt": translator}
    sentences = small_bert("states", seed=1)
    sentences.notes["embedding"] = {"pool": "mean"}
    with running(writers | {"one": models["one"]}) as server:
        expected = models["one"].embed(["a"], normalise=True, as_numpy=True)
        np.testing.assert_allclose(ask(server, "/embed", {"inputs": "a"}), expected, atol=1e-5)
        assert server.client.get("/info").json()["model_id"] == "one"
        assert ask(server, "/v1/embed", {"text": "a"})["model"] == "one"
    with running(writers | {"one": models["one"], "sentences": sentences}) as server:
        assert server.client.get("/info").json()["model_id"] == "sentences"
    with running(writers) as server:
        assert "name one of gpt, mt" in ask(server, "/embed", {"inputs": "a"}, 400)["error"]
