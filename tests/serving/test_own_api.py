"""The paths of regard itself, over HTTP: the records of a direct call, and the insides of a run."""

import base64
import json
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from regard.api import load
from regard.core.errors import BadInput
from regard.generation.beam import Beam
from regard.generation.sample import Sample
from regard.inference.component import Result
from regard.inference.decoder_model import Method
from regard.inference.generator import Ending
from regard.models.edits import read_edits
from regard.serving.apis import inspection
from regard.serving.apis import own as own_api
from regard.serving.apis import request_images as images
from regard.serving.apis.request import APIRequest
from regard.serving.served_model import ServedModel
from regard.serving.settings import RequestLimits, ServerSettings
from safety.frozen_folders import differences
from serving.running_server import running, translation_model
from small_bert import SENTENCES
from small_bert import model as small_bert
from small_gpt import small_gpt2
from small_images import blank_png, small_vit, write_images

INPUTS = {
    "classify": ("one", [{"first": "The storm", "second": "came in."}, {"text": SENTENCES[0]}]),
    "fill": ("words", [{"text": f"The [MASK] {one}"} for one in SENTENCES[:3]]),
    "score": ("words", [{"text": one} for one in SENTENCES[:3]]),
    "tag": ("tags", [{"text": one} for one in SENTENCES[:3]]),
    "answer": ("answer", [{"question": "Who came?", "context": one} for one in SENTENCES[:3]]),
    "choose": ("choose", [{"first": one, "choices": ["came in", "sang"]} for one in SENTENCES[:2]]),
    "generate": ("gpt", [{"text": "The old man"}, {"text": ""}]),
    "embed": ("one", [{"text": one} for one in SENTENCES]),
}
COMPONENT = dict.fromkeys(("classify", "tag", "answer", "choose"), "predict")


@pytest.fixture(scope="module")
def models():
    kinds = ("one", "words", "tags", "answer", "choose")
    writers = {"gpt": small_gpt2(), "mt-en-de": translation_model()}
    return {kind: small_bert(kind) for kind in kinds} | writers


@pytest.fixture(scope="module")
def server(models):
    with running(models, ServerSettings(allow_edits=True)) as server:
        yield server


def direct(model, path, records, **options):
    """Records of the results of a direct call."""
    component = model.component(COMPONENT.get(path, path), **options)
    inputs = [component.parse_record(record, "here") for record in records]
    values = enumerate(component.predict(inputs))
    found = [component.records(Result(key, value)) for key, value in values]
    return json.loads(json.dumps(found))


def served(response):
    assert response.status_code == 200, response.text
    return [result["records"] for result in response.json()["results"]]


@pytest.mark.parametrize("path", INPUTS)
def test_a_path_gives_the_records_of_a_direct_call(server, models, path):
    name, records = INPUTS[path]
    expected = direct(models[name], path, records)
    together = served(server.post(f"/v1/{path}", {"model": name, "inputs": records}))
    assert [*differences("", expected, together, 1e-4, 1e-5)] == []
    alone = served(server.post(f"/v1/{path}", {"model": name, **records[0]}))
    assert [*differences("", expected[:1], alone, 1e-4, 1e-5)] == []


def test_a_search_has_the_settings_of_the_request(server, models):
    ending = {"max_new_tokens": 6, "stop_strings": ["e"]}
    cases = {
        Sample(count=2, seed=4, top_k=7): {"best": 2, "seed": 4, "top_k": 7},
        Beam(3, best=2): {"best": 2, "beam": 3, "search": "beam"},
    }
    for search, settings in cases.items():
        options = {"method": Method(search), "best": 2, "ending": Ending(6, 0, ("e",))}
        expected = direct(models["gpt"], "generate", [{"text": "The old"}], **options)
        answer = served(server.post("/v1/generate", {"text": "The old", **settings, **ending}))
        assert [*differences("", expected, answer, 1e-4, 1e-5)] == []


@pytest.mark.parametrize(("path", "name"), [("translate", "mt-en-de"), ("generate", "gpt")])
def test_a_text_that_is_unfinished_at_the_limit_says_so(server, path, name):
    body = {"model": name, "text": "the owl", "max_new_tokens": 2, "search": "greedy"}
    ((record,),) = served(server.post(f"/v1/{path}", body))
    assert record["n"] == 2 and record["ended"] == ("eos" if record["finished"] else "length")
    refused = server.post(f"/v1/{path}", {**body, "max_new_tokens": 0})
    assert refused.status_code == 400 and "max_new_tokens" in refused.text


def test_the_model_may_be_left_out_if_one_fits(server):
    answer = server.post("/v1/tag", {"text": SENTENCES[0]}).json()
    assert answer["model"] == "tags" and answer["usage"]["tokens"] > 3
    refused = server.post("/v1/score", {"text": "a"})
    assert refused.status_code == 400 and "name one of" in refused.json()["error"]["message"]


def test_a_bad_input_has_its_error_in_its_place(server):
    body = {"model": "one", "inputs": ["a", {"txt": "b"}, "c", {"text": 3}]}
    results = server.post("/v1/classify", body).json()["results"]
    assert ["error" in result for result in results] == [False, True, False, True]
    assert "did you mean 'text'" in results[1]["error"]


WRONG = {
    "{": 400,
    "[1]": 400,
    '{"text": "a", "colour": 1}': 400,
    '{"text": 3}': 400,
    "{}": 400,
    '{"text": "a", "inputs": ["b"]}': 400,
    '{"text": "a", "model": "nobody"}': 404,
    '{"text": "a", "model": "gpt"}': 400,
    '{"inputs": []}': 400,
    '{"text": "a", "inspect": {"layers": [9]}}': 400,
    '{"text": "a", "inspect": {"values": ["wishes"]}}': 400,
    '{"text": "a", "edits": [{"kind": "head-off"}]}': 400,
    '{"text": "a", "edits": [{"kind": "add", "at": "x", "vector": "/etc/passwd:a"}]}': 400,
    '{"text": "a", "deadline": -1}': 400,
    "[" * 60: 400,
    '"\ud800"': 400,
}


@pytest.mark.parametrize("body", WRONG)
def test_wrong_requests_get_one_line(server, body):
    content = body.encode(errors="surrogatepass")
    response = server.client.post("/v1/classify", content=content)
    assert response.status_code == WRONG[body], response.text
    message = response.json()["error"]["message"]
    assert message and "\n" not in message and "Traceback" not in message and "/etc" not in message


SURPLUS = {
    "/v1/generate": {"text": "a man", "prefix": "Ein"},
    "/v1/classify": {"text": "a", "first": "b"},
    "/v1/score": {"model": "gpt", "text": "a man", "source": "x"},
    "/v1/choose": {"first": "a"},
    "/v1/embed": {"model": "one", "first": "a"},
}
MESSAGES = {
    "/v1/generate": "prefix",
    "/v1/classify": "an input has text, or first and second, not text and first",
    "/v1/score": "'source' is no key of an input",
    "/v1/choose": "an input has first and choices, not first",
    "/v1/embed": "an input has text, or first and second, not first",
}


@pytest.mark.parametrize("path", SURPLUS)
def test_keys_that_do_not_fit_together_are_refused(server, path):
    refused = server.post(path, SURPLUS[path])
    assert refused.status_code == 400, refused.text
    assert MESSAGES[path] in refused.json()["error"]["message"]
    given = {key: value for key, value in SURPLUS[path].items() if key != "model"}
    listed = {"inputs": [given], "model": SURPLUS[path].get("model")}
    (result,) = server.post(path, listed).json()["results"]
    assert MESSAGES[path] in result["error"]


def test_messages_name_what_is_empty(server):
    for content in (b"", b" \n"):
        for path in ("/v1/classify", "/v1/completions", "/embed?model=one", "/models/one"):
            refused = server.client.post(path, content=content)
            assert refused.status_code == 400 and "the body is empty" in refused.text
    for name in ("gpt", "words"):
        (result,) = server.post("/v1/score", {"model": name, "text": " "}).json()["results"]
        assert result == {"error": "empty text"}
    bodies = {"/embed?model=one": {"inputs": [[]]}}
    bodies["/v1/completions"] = {"model": "gpt", "prompt": [[5], []]}
    for number, (path, body) in enumerate(bodies.items(), 1):
        refused = server.post(path, body)
        assert refused.status_code == 400 and f": input {number} has no token ids" in refused.text


def array(value):
    return np.frombuffer(base64.b64decode(value["data"]), "<f4").reshape(value["shape"])


def test_inspect_returns_values_of_the_very_run(server, models):
    text = SENTENCES[0]
    body = {"model": "one", "text": text, "inspect": {"layers": [1], "values": ["weights"]}}
    answer = server.post("/v1/classify", body).json()
    (inspected,) = answer["inspect"]
    (record,) = models["one"].record([text], layers=[1])
    assert {*inspected["values"]} == {*record}
    for name, value in inspected["values"].items():
        np.testing.assert_allclose(array(value), record[name], atol=1e-6)
        assert len(inspected["tokens"]["trunk"]) == value["shape"][-1]
    plain = server.post("/v1/classify", {"model": "one", "text": text}).json()["results"]
    assert [*differences("", plain, answer["results"], 1e-4, 1e-5)] == []


def test_inspect_of_a_generation_covers_prompt_and_text(server):
    body = {"text": "The old man", "max_new_tokens": 4, "inspect": {"names": ["trunk.blocks.0.*"]}}
    answer = server.post("/v1/generate", body).json()
    (inspected,) = answer["inspect"]
    weights = inspected["values"]["trunk.blocks.0.attention.weights"]
    assert weights["shape"][-1] == len(inspected["tokens"]["trunk"])


def test_a_replay_gives_the_same_answer_and_any_value(server):
    body = {"model": "one", "inputs": SENTENCES[:2]}
    answer = server.post("/v1/classify", body, headers={"x-request-id": "mine"}).json()
    assert answer["id"] == "mine"
    again = server.client.get("/inspect/mine").json()
    assert again["same"] and again["results"] == answer["results"] and len(again["inspect"]) == 2
    states = server.post("/inspect/mine", {"values": ["states"], "layers": [0]}).json()
    assert [*states["inspect"][1]["values"]] == ["trunk.blocks.0.output"]
    assert server.client.get("/inspect/nobodys").status_code == 404


def test_a_replay_compares_the_run_whose_values_it_returns(server, monkeypatch):
    text, names = SENTENCES[0], {"names": ["heads.label.logits"], "values": ["weights"]}
    server.post("/v1/classify", {"model": "one", "text": text}, headers={"x-request-id": "plain"})
    own = {"model": "one", "inputs": [text, {"txt": "b"}], "inspect": names}
    taped = server.post("/v1/classify", own, headers={"x-request-id": "taped"}).json()
    again = server.post("/inspect/taped", names).json()
    assert again["inspect_same"] and again["inspect"] == taped["inspect"]
    logits = array(again["inspect"][0]["values"]["heads.label.logits"])[0]
    probability = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    record = taped["results"][0]["records"][0]
    assert record["probability"] == pytest.approx(probability.max(), abs=1e-7)

    async def inspect_another(request, model, name, inputs, *more):
        return await inspection.inspect(request, model, name, [SENTENCES[1]], *more)

    monkeypatch.setattr(own_api, "inspect", inspect_another)
    again = server.post("/inspect/plain", names).json()
    assert again["same"] and not again["inspect_same"]


def test_translate_gives_n_best_lists_and_alignments(translator):
    texts, method = ["the owl sees the cow", "the cow"], Method(Beam(3, best=2))
    expected = direct(translator, "translate", [{"text": t} for t in texts], method=method, best=2)
    with running({"mt": translator}) as server:
        body = {"inputs": texts, "search": "beam", "beam": 3, "best": 2}
        answer = served(server.post("/v1/translate", body))
        assert [*differences("", expected, answer, 1e-4, 1e-5)] == []
        body = {"text": texts[0], "inspect": {"alignment": True}}
        answer = server.post("/v1/translate", body).json()
        (inside,), ((best,),) = answer["inspect"], (r["records"] for r in answer["results"])
        (links,) = translator.align([(texts[0], best["text"])])
        assert inside["alignment"]["links"] == sorted(map(list, links))
        assert inside["alignment"]["source"] == texts[0].split() and inside["values"] == {}
        both = {"text": texts[0], "inspect": {"alignment": True, "values": ["weights"]}}
        (inside,) = server.post("/v1/translate", both).json()["inspect"]
        assert inside["values"] and inside["alignment"]["links"] == sorted(map(list, links))
        body = {"text": texts[0], "inspect": {"contributions": True}}
        (inside,) = server.post("/v1/translate", body).json()["inspect"]
        parts = translator.contributions(texts[0], best["text"])
        assert inside["contributions"]["logit"] == pytest.approx(parts.logit)


def test_tokens_of_a_prefix_are_bounded_before_any_is_decoded(translator, monkeypatch):
    """A long prefix takes a step of all hypotheses for each token: see ``longest_prefix``."""
    target, runs = translator.tokenizer.target, []
    most = translator.translator.longest_prefix(2)
    prefixes = (" ".join(["b"] * count) for count in range(most, 0, -1))
    prefix = next(prefix for prefix in prefixes if len(target.encode(prefix)) <= most)
    with running({"mt": translator}) as server:
        decode = Method.decode
        monkeypatch.setattr(Method, "decode", lambda *given: runs.append(1) or decode(*given))
        whole = {"text": "a", "beam": 4, "prefix": prefix}
        assert served(server.post("/v1/translate", whole)), "as long as it may be"
        assert runs.pop()
        for inputs in ({"text": "a"}, {"inputs": [{"text": "a"}, {"text": "b"}]}):
            last = inputs.get("inputs", [inputs])[-1]
            last["prefix"] = "b " * 3_000
            refused = server.post("/v1/translate", {"beam": 64, **inputs})
            assert refused.status_code == 413 and not runs
            message = refused.json()["error"]["message"]
            assert f"more than the {most} for a text of this length" in message
    assert translator.translator.longest_prefix(500) >= most


def test_a_translator_scores_pairs_of_source_and_target(translator):
    pairs = [
        {"source": "the owl sees the cow", "target": "die Eule"},
        {"source": "the cow", "target": "die Kuh sieht"},
    ]
    expected = direct(translator, "score", pairs)
    with running({"mt": translator}) as server:
        together = served(server.post("/v1/score", {"inputs": pairs}))
        assert [*differences("", expected, together, 1e-4, 1e-5)] == []
        alone = served(server.post("/v1/score", pairs[0]))
        assert [*differences("", expected[:1], alone, 1e-4, 1e-5)] == []
        (result,) = server.post("/v1/score", {"inputs": [{"source": "the cow"}]}).json()["results"]
        assert "target" in result["error"]
        for wrong in ({"text": "the cow"}, {"source": 3, "target": "die"}):
            refused = server.post("/v1/score", wrong)
            assert refused.status_code == 400, refused.text
        id_ = server.post("/v1/score", pairs[0]).json()["id"]
        assert server.client.get(f"/inspect/{id_}").json()["same"]


def test_inspect_returns_contributions_that_sum_to_the_logit(server, models):
    text = SENTENCES[0]
    cases = {("classify", "one"): {}, ("generate", "gpt"): {"max_new_tokens": 2}}
    for (path, name), more in cases.items():
        body = {"model": name, "text": text, "inspect": {"contributions": True}, **more}
        (inside,) = server.post(f"/v1/{path}", body).json()["inspect"]
        logit, parts = inside["contributions"]["logit"], inside["contributions"]["parts"]
        expected = models[name].contributions(text)
        assert [part["name"] for part in parts] == [each.name for each in expected.components]
        assert sum(part["value"] for part in parts) == pytest.approx(logit, abs=1e-4)
    refused = server.post("/v1/classify", {"text": text, "inspect": {"alignment": True}})
    assert refused.status_code == 400 and "needs the translation" in refused.text


def test_generate_streams_the_text_of_its_answer(server):
    body = {"text": "The old man", "max_new_tokens": 6, "temperature": 0.8, "seed": 3}
    whole = server.post("/v1/generate", body).json()["results"]
    headers = {"x-request-id": "streamed"}
    response = server.post("/v1/generate", body | {"stream": True}, headers=headers)
    assert response.headers["content-type"].startswith("text/event-stream")
    events = [json.loads(line[6:]) for line in response.text.splitlines() if line]
    *pieces, last = events
    text = whole[0]["records"][0]["text"]
    assert "".join(piece["text"] for piece in pieces) == text and len(pieces) > 1
    assert last["results"][0]["records"][0]["text"] == text and last["id"] == "streamed"
    for limit in (2, 6):
        short = server.post("/v1/generate", body | {"stream": True, "max_new_tokens": limit}).text
        (record,) = json.loads(short.splitlines()[-2][6:])["results"][0]["records"]
        assert record["n"] == limit and record["ended"] == "length"
    again = server.client.get("/inspect/streamed").json()
    assert again["results"][0]["records"][0]["text"] == text
    for wrong in ({"inputs": ["a", "b"]}, {"text": "a", "search": "beam"}, {"text": 3}):
        refused = server.post("/v1/generate", {**wrong, "stream": True})
        assert refused.status_code == 400, refused.text


@pytest.mark.parametrize("later", [True, False])
def test_an_error_of_a_stream_has_no_path_of_the_machine(server, monkeypatch, later):
    async def failing(*given):
        if later:
            yield "a piece"
        raise BadInput("/srv/models/x.safetensors: damaged")

    monkeypatch.setattr(APIRequest, "stream", failing)
    answer = server.post("/v1/generate", {"text": "The old man", "stream": True})
    assert ("a piece" in answer.text) == later and answer.status_code == (200 if later else 400)
    assert ": damaged" in answer.text and "models" not in answer.text


OTHER_APIS = {
    "/v1/embeddings": {"model": "one", "input": SENTENCES[0]},
    "/v1/completions": {"model": "gpt", "prompt": "The old", "max_tokens": 3, "logprobs": 1},
    "/embed?model=one": {"inputs": SENTENCES[0]},
    "/predict": {"inputs": SENTENCES[0]},
    "/models/tags": {"inputs": SENTENCES[0]},
}


@pytest.mark.parametrize("path", OTHER_APIS)
def test_requests_of_every_api_are_replayed_by_their_ids(server, path):
    id_ = server.post(path, OTHER_APIS[path]).headers["x-request-id"]
    again = server.post(f"/inspect/{id_}", {"layers": [0]}).json()
    assert again["same"] and again["id"] == id_
    (inside,) = again["inspect"]
    assert any(name.endswith("weights") for name in inside["values"])
    assert [run["component"] for run in again["more"]] == ["score"] * ("completions" in path)


def test_edits_of_the_server_and_int8_weights_are_served(models, tmp_path):
    text, edits = SENTENCES[0], tmp_path / "edits.toml"
    edits.write_text('[[edit]]\nkind = "layer-off"\nat = "trunk.blocks.1"\n')
    models["one"].save(tmp_path / "model")
    plain = models["one"].embed([text], as_numpy=True)[0]
    edited = models["one"].edited(read_edits(edits)).embed([text], as_numpy=True)[0]
    int8 = load(tmp_path / "model", precision="int8").embed([text], as_numpy=True)[0]
    opened = [
        ServedModel.open(tmp_path / "model", "edited", "cpu", edits=edits),
        ServedModel.open(tmp_path / "model", "int8", "cpu", "int8"),
    ]
    with running(opened) as server:
        for name, expected in (("edited", edited), ("int8", int8)):
            ((record,),) = served(server.post("/v1/embed", {"model": name, "text": text}))
            np.testing.assert_allclose(record["vector"], expected, 1e-4, 1e-5)
            assert not np.allclose(expected, plain, 1e-4, 1e-5)


def test_replays_are_bounded(models):
    with running({"one": models["one"]}, ServerSettings(replay_bytes=3_000)) as server:
        ids = [server.post("/v1/classify", {"text": "a" * 50}).json()["id"] for _ in range(30)]
        found = [server.client.get(f"/inspect/{id_}").status_code for id_ in ids]
        assert found[0] == 404 and found[-1] == 200
        assert server.app.services.replays.bytes <= 3_000
    with running({"one": models["one"]}, ServerSettings(replay_seconds=0)) as server:
        id_ = server.post("/v1/classify", {"text": "a"}).json()["id"]
        assert server.client.get(f"/inspect/{id_}").status_code == 404


def test_replays_end_with_their_time_although_no_request_follows(models, monkeypatch):
    with running({"one": models["one"]}, ServerSettings(replay_seconds=600)) as server:
        id_ = server.post("/v1/classify", {"text": "a"}).json()["id"]
        for seconds, status in ((500, 200), (601, 404)):
            later = SimpleNamespace(monotonic=lambda more=seconds: time.monotonic() + more)
            monkeypatch.setattr("regard.serving.replays.time", later)
            assert server.client.get(f"/inspect/{id_}").status_code == status
        assert server.app.services.replays.bytes == 0


def test_an_id_may_be_that_of_another_process(models):
    for workers in (1, 2):
        with running({"one": models["one"]}, ServerSettings(workers=workers)) as server:
            refused = server.client.get("/inspect/nobodys")
            assert refused.status_code == 404
            message = refused.json()["error"]["message"]
            assert ("only by that of the 2 processes which answered" in message) == (workers == 2)


def test_edits_of_a_request_change_its_answer_alone(server, models):
    text, edit = SENTENCES[0], {"kind": "layer-off", "at": "trunk.blocks.1"}
    plain = server.post("/v1/embed", {"model": "one", "text": text}).json()["results"]
    edited = server.post("/v1/embed", {"model": "one", "text": text, "edits": [edit]})
    assert edited.status_code == 200 and edited.json()["results"] != plain
    after = server.post("/v1/embed", {"model": "one", "text": text}).json()["results"]
    assert after == plain
    with running({"one": models["one"]}) as other:
        refused = other.post("/v1/embed", {"text": text, "edits": [edit]})
        assert refused.status_code == 400 and "does not apply the edits" in refused.text


def test_images_come_in_base64_and_are_bounded(tmp_path):
    pytest.importorskip("PIL")
    model = small_vit()
    files = write_images(tmp_path / "images", 2)
    expected = direct(model, "predict", [{"image": str(file)} for file in files])
    encoded = [base64.b64encode(file.read_bytes()).decode() for file in files]
    with running({"vit": model}) as server:
        body = {"inputs": [{"image": encoded[0]}, "data:image/png;base64," + encoded[1]]}
        answer = served(server.post("/v1/label-image", body))
        for ours, theirs in zip(answer, expected, strict=True):
            assert ours[0]["label"] == theirs[0]["label"]
        stolen = server.post("/v1/label-image", {"image": str(files[0])}).json()["results"]
        assert stolen == [{"error": "image: not base64"}]

    with running({"vit": model}, ServerSettings(limits=RequestLimits(pixels=9))) as server:
        (result,) = server.post("/v1/label-image", {"image": encoded[0]}).json()["results"]
        assert "pixels are more than 9" in result["error"]


def test_the_pixels_of_a_request_are_counted_before_any_is_decoded(monkeypatch):
    image, decoded = blank_png(30, 40), []
    whole = images.decode_image
    monkeypatch.setattr(images, "decode_image", lambda *given: decoded.append(1) or whole(*given))
    limits = ServerSettings(limits=RequestLimits(pixels=3_000))
    with running({"vit": small_vit()}, limits, max_inputs=3) as server:
        for count, status in ((4, 413), (3, 413), (2, 200)):
            assert server.post("/v1/label-image", {"inputs": [image] * count}).status_code == status
            assert len(decoded) == (2 if count == 2 else 0)
        bad = server.post("/v1/label-image", {"inputs": [image, blank_png(3, 2_000)]})
        good, large = bad.json()["results"]
        assert "records" in good and "3 × 2000 pixels are more than 3000" in large["error"]
        room = server.app.services.images.pixels
        assert room.used == 0
        room.used = 4 * 3_000
        full = server.post("/v1/label-image", {"image": image})
        assert full.status_code == 429 and full.headers["retry-after"] == "1"
        full = server.post("/models/vit", {"inputs": image})
        assert full.status_code == 429


def test_images_are_decoded_beside_the_event_loop(monkeypatch):
    threads, whole = [], images.decode_image

    def noted(*given):
        threads.append(threading.current_thread().name)
        return whole(*given)

    monkeypatch.setattr(images, "decode_image", noted)
    with running({"vit": small_vit()}) as server:
        for path, key in (("/v1/label-image", "image"), ("/models/vit", "inputs")):
            assert server.post(path, {key: blank_png(8, 8)}).status_code == 200
    assert len(threads) == 2 and all(name.startswith("decode-images") for name in threads)
