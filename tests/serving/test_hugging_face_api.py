"""The InferenceClient of huggingface_hub against a real server: nine tasks, and direct calls."""

import numpy as np
import pytest
from huggingface_hub import InferenceClient, constants
from huggingface_hub.errors import HfHubHTTPError, ValidationError

from regard.generation.greedy import Greedy
from regard.serving.engine import ServedModel
from serving.running_server import running, translation_model
from small_bert import SENTENCES
from small_bert import model as small_bert
from small_gpt import small_gpt2
from small_images import small_vit, write_images

KINDS = ("one", "words", "tags", "parts", "answer", "states")


@pytest.fixture(scope="module")
def models():
    translator = translation_model()
    named = {kind: small_bert(kind) for kind in KINDS}
    return named | {"gpt": small_gpt2(), "vit": small_vit(), "mt-en-de": translator}


@pytest.fixture(scope="module")
def server(models):
    served = [ServedModel(model, name) for name, model in models.items()]
    with running(served) as server:
        yield server


@pytest.fixture(autouse=True)
def own_server_only(monkeypatch):
    """Let the client send requests, which it does not offline; the hub stays out of reach."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")


@pytest.fixture(scope="module")
def client(server):
    return lambda name: InferenceClient(base_url=f"{server.url}/models/{name}", token="none")


def test_feature_extraction(client, models):
    for normalise in (None, True):
        found = client("states").feature_extraction([*SENTENCES], normalize=normalise)
        expected = models["states"].embed(SENTENCES, normalise=normalise, as_numpy=True)
        np.testing.assert_allclose(found, expected, atol=1e-5)
    with pytest.raises(HfHubHTTPError, match="prompt_name"):
        client("states").feature_extraction("a", prompt_name="query")


def test_features_of_a_classifier(client, models):
    found = client("one").feature_extraction(SENTENCES[0], normalize=False)
    expected = models["one"].embed(SENTENCES[:1], normalise=False, as_numpy=True)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_sentence_similarity(client, models):
    found = client("states").sentence_similarity(SENTENCES[0], other_sentences=[*SENTENCES[1:3]])
    vectors = models["states"].embed(SENTENCES[:3], normalise=True, as_numpy=True)
    np.testing.assert_allclose(found, vectors[1:] @ vectors[0], atol=1e-5)


def test_text_classification(client, models):
    (expected,) = models["one"].predict([SENTENCES[0]])
    found = client("one").text_classification(SENTENCES[0])
    scores = {each.label: each.score for each in found}
    assert scores == pytest.approx(expected.probabilities, abs=1e-5)
    assert found[0].label == expected.label
    (logits,) = models["one"].logits([SENTENCES[0]])
    (best,) = client("one").text_classification(SENTENCES[0], top_k=1, function_to_apply="none")
    assert best.score == pytest.approx(logits.max().item(), abs=1e-4)
    soft = client("one").text_classification(SENTENCES[0], function_to_apply="softmax")
    assert soft[0].score == pytest.approx(found[0].score, abs=1e-5)
    bent = client("one").text_classification(SENTENCES[0], function_to_apply="sigmoid")
    assert bent[0].score == pytest.approx(logits.max().sigmoid().item(), abs=1e-5)


def test_token_classification(client, models):
    for text in SENTENCES:
        (tagged,) = models["tags"].predict([text])
        found = client("tags").token_classification(text)
        assert [(e.entity_group, e.word, e.start, e.end) for e in found] == [
            (e.label, e.text, e.start, e.end) for e in tagged.entities
        ]
        words = client("tags").token_classification(text, aggregation_strategy="none")
        assert [(w.entity, w.word) for w in words] == [
            (w.tag, w.text) for w in tagged.words if w.tag != "O"
        ]
    (tagged,) = models["parts"].predict([SENTENCES[0]])
    found = client("parts").token_classification(SENTENCES[0], ignore_labels=["X"])
    assert [word.entity for word in found] == [tag for tag in tagged.tags if tag != "X"]
    with pytest.raises(HfHubHTTPError, match="aggregation_strategy"):
        client("tags").token_classification("a", aggregation_strategy="max")


def test_question_answering(client, models):
    question, context = "Who mended nets?", SENTENCES[0]
    (expected,) = models["answer"].predict([(question, context)])
    found = client("answer").question_answering(question=question, context=context)
    assert (found.answer, found.start, found.end) == (
        expected.best[0].text,
        expected.best[0].start,
        expected.best[0].end,
    )
    assert found.score == pytest.approx(expected.best[0].probability, abs=1e-5)
    several = client("answer").question_answering(question=question, context=context, top_k=3)
    assert [each.answer for each in several] == [each.text for each in expected.best[:3]]
    with pytest.raises(HfHubHTTPError, match="max_answer_len"):
        client("answer").question_answering(question=question, context=context, max_answer_len=3)


def test_fill_mask(client, models):
    text = "The old [MASK] mended his nets."
    (expected,) = models["words"].fill([text], 3)
    found = client("words").fill_mask(text, top_k=3)
    assert [each.token_str for each in found] == [each.word for each in expected.blanks[0]]
    words = models["words"].tokenizer.words
    for each in found:
        assert words.pieces([each.token]) == [each.token_str] and "[MASK]" not in each.sequence
    assert found[0].sequence == expected.text
    with pytest.raises(HfHubHTTPError, match="targets"):
        client("words").fill_mask(text, targets=["sailor"])


def test_text_generation(client, models):
    ((best,),) = models["gpt"].generate(["The old"], Greedy(), max_new_tokens=6)
    gpt = client("gpt")
    assert gpt.text_generation("The old", max_new_tokens=6, do_sample=False) == best.text
    whole = gpt.text_generation("The old", max_new_tokens=6, return_full_text=True)
    assert whole == "The old" + best.text
    settings = {"max_new_tokens": 9, "temperature": 0.9, "top_k": 9, "seed": 3}
    assert len({gpt.text_generation("The old", **settings) for _ in range(2)}) == 1
    settings.pop("seed")
    assert len({gpt.text_generation("The old", **settings) for _ in range(4)}) > 1
    for refused in ({"typical_p": 0.9}, {"details": True}, {"watermark": True}):
        with pytest.raises(ValidationError, match=next(iter(refused))):
            gpt.text_generation("The old", **refused)


def test_translation(client, models):
    ((best, *_),) = models["mt-en-de"].translate(["the owl"])
    found = client("mt-en-de").translation("the owl")
    assert found.translation_text == best.text
    client("mt-en-de").translation("the owl", src_lang="en", tgt_lang="de")
    ((short, *_),) = models["mt-en-de"].translate(["the owl"], max_new_tokens=2)
    limit = {"max_new_tokens": 2}
    found = client("mt-en-de").translation("the owl", generate_parameters=limit)
    assert found.translation_text == short.text != best.text
    with pytest.raises(HfHubHTTPError, match="tgt_lang"):
        client("mt-en-de").translation("the owl", src_lang="en", tgt_lang="fr")


def test_image_classification(client, models, server, tmp_path):
    pytest.importorskip("PIL")
    (path,) = write_images(tmp_path / "images", 1, folders=1)
    (expected,) = models["vit"].predict([path])
    found = client("vit").image_classification(path)
    assert found[0].label == expected.label
    assert found[0].score == pytest.approx(expected.probability, abs=1e-4)
    bare = server.client.post("/models/vit", content=path.read_bytes())
    assert bare.json()[0]["label"] == expected.label
    (best,) = client("vit").image_classification(path.read_bytes(), top_k=1)
    assert best.label == expected.label
    damaged = server.client.post("/models/vit", content=b"no image")
    assert damaged.status_code == 400 and "image" in damaged.json()["error"]


def test_the_root_of_a_server_with_one_model(models, server):
    with running({"one": models["one"]}) as alone:
        client = InferenceClient(base_url=alone.url, token="none")
        assert len(client.text_classification("a")) == 3
    refused = server.post("/", {"inputs": "a"})
    assert refused.status_code == 400 and "/models/NAME" in refused.json()["error"]


def test_a_task_by_name(server, models):
    path = "/models/one/pipeline/feature-extraction"
    (vector,) = server.post(path, {"inputs": SENTENCES[0]}).json()
    expected = models["one"].embed(SENTENCES[:1], as_numpy=True)[0]
    np.testing.assert_allclose(vector, expected, atol=1e-5)
    assert server.post("/models/one/pipeline/painting", {"inputs": "a"}).status_code == 404


WRONG = [
    ("/models/one", {"inputs": 3}),
    ("/models/one", {"inputs": "a", "parameters": {"colour": 1}}),
    ("/models/one", {"inputs": "a", "colour": 1}),
    ("/models/answer", {"inputs": "a"}),
    ("/models/gpt", {"inputs": "a", "stream": True}),
    ("/models/words", {"inputs": "no mask"}),
    ("/models/one/pipeline/translation", {"inputs": "a"}),
]


REFUSED = {
    "fill_mask": ("words", {"targets": ["a"]}),
    "question_answering": ("answer", {"doc_stride": 3}),
    "token_classification": ("tags", {"aggregation_strategy": "first"}),
    "text_generation": ("gpt", {"typical_p": 0.5}),
    "translation": ("mt-en-de", {"generate_parameters": {"max_new_tokens": 5, "bad": [[1]]}}),
}


@pytest.mark.parametrize("task", REFUSED)
def test_parameters_that_are_not_offered_are_refused_by_name(client, task):
    name, parameters = REFUSED[task]
    pair = {"question": "a", "context": "b"} if task == "question_answering" else {}
    texts = [] if pair else ["a [MASK]"]
    with pytest.raises((HfHubHTTPError, ValidationError), match=next(iter(parameters))):
        getattr(client(name), task)(*texts, **pair, **parameters)


@pytest.mark.parametrize(("path", "body"), WRONG)
def test_wrong_requests(server, path, body):
    response = server.post(path, body)
    assert response.status_code == 400, response.text
    assert response.json().keys() == {"error", "error_type"}
    assert server.post("/models/nobody", body).status_code == 404
