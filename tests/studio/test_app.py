"""The studio over real HTTP: files, policy, origins, records, runs, papers, and markup as text."""

import base64
import json
import math
import shutil
import threading
from importlib.resources import files

import httpx
import pytest

from regard.api import Model
from regard.inside.attention.attention_record import unpack_weights
from regard.inside.attribution import methods
from regard.inside.pruning.remove_heads import Head, remove_heads
from regard.serving.apis import request_images as images
from regard.serving.settings import RequestLimits, ServerSettings
from regard.studio import predictions, text_records
from regard.studio.app import HEADERS, studio_apis
from regard.studio.predictions import ABOUT
from regard.training.metrics_log import LOG
from regard.views.view_record import ViewRecord
from serving.running_server import running, translation_model
from small_bert import model as small_bert
from small_bert import small_bert as loaded_bert
from small_gpt import small_gpt2
from small_images import blank_png, small_vit
from small_mistakes import TRANSLATORS, small_translator

MARKUP = "<img src=x onerror=alert(1)> & \"quotes\" '</script>'"
SIGNED = ("leave-one-out", "integrated", "gradient")  # methods whose values have a sign
ROUTES = {(route.method, route.path) for route in studio_apis()[-1].routes}


def write_run(folder, losses, **more):
    folder.mkdir(parents=True)
    events = [{"event": "train", "step": n, "loss": loss} for n, loss in enumerate(losses, 1)]
    (folder / LOG).write_text("".join(json.dumps(event) + "\n" for event in events))
    recipe = {"train": {"steps": 3, "precision": "fp32"}, "optimiser": {"rate": 0.1}}
    (folder / "recipe.json").write_text(json.dumps(recipe))
    for name, content in more.items():
        (folder / name.replace("_", ".")).write_text(json.dumps(content) + "\n")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    command = "/bin/regard train r.toml --set train.steps=3 --out old --branch x --at 2 --resume"
    write_run(folder / "one", [3.0, 2.0, 1.0], environment_jsonl={"command": command})
    origin = {"run": "one", "step": 2, "changed": ["optimiser.rate"]}
    write_run(folder / "sweep" / "two", [3.0, 2.0, 1.5], branch_json=origin)
    return folder


@pytest.fixture(scope="module")
def server(runs):
    translator = translation_model()
    models = {"labels": small_bert("one"), "writer": small_gpt2(), "mt": translator}
    models["masks"] = small_bert("words")
    settings = ServerSettings(allow_edits=True)
    with running(models, settings, studio_apis(runs)) as server:
        yield server


def record(response):
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/octet-stream"
    return ViewRecord.from_bytes(response.content)


def test_every_file_of_the_page_has_its_type_and_policy(server):
    assets = files("regard.studio") / "assets"
    names = [f"assets/{each.name}" for each in assets.iterdir() if each.is_file()]
    names += [f"pages/{each.name}" for each in (assets / "pages").iterdir()]
    assert "assets/studio.js" in names and "pages/translate.js" in names
    for name in (*names, "views/base.js", "views/theme.css"):
        answer = server.client.get(f"/studio/{name}")
        assert answer.status_code == 200, name
        kind = {"js": "text/javascript", "css": "text/css", "html": "text/html"}
        assert answer.headers["content-type"].startswith(kind[name.rpartition(".")[2]])
        assert HEADERS.items() <= dict(answer.headers).items()
    policy = HEADERS["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy


def test_the_root_leads_to_the_page(server):
    answer = server.client.get("/", follow_redirects=True)
    assert answer.url.path == "/studio" and "<title>regard studio</title>" in answer.text


@pytest.mark.parametrize(
    "name", ["assets/app.py", "assets/pages", "pages/..%2fapp.py", "x/base.js"]
)
def test_no_other_file_is_served(server, name):
    assert server.client.get(f"/studio/{name}").status_code == 404


def test_scripts_have_no_way_to_turn_text_into_markup():
    assets = files("regard.studio") / "assets"
    for folder in (assets, assets / "pages"):
        for each in folder.iterdir():
            text = each.read_text() if each.is_file() else ""
            for way in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval("):
                assert way not in text, each.name


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "localhost.evil.example"},
        {"host": "10.0.0.1"},  # private, but not this machine
        {"host": "192.168.1.5:8000"},
        {"host": "[fd00::1]"},
        {"host": "0.0.0.0"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
    ],
)
def test_pages_of_other_sites_are_refused_on_every_api(server, headers):
    for path in ("/studio", "/studio/models", "/docs"):
        assert server.client.get(path, headers=headers).status_code == 403
    body = {"model": "labels", "text": "the old sailor"}
    assert server.post("/v1/classify", body, headers=headers).status_code == 403
    assert server.post("/studio/look", body, headers=headers).status_code == 403


def test_its_own_page_and_localhost_are_admitted(server):
    port = httpx.URL(server.url).port
    names = ("localhost", "127.0.0.1", "[::1]")
    for host in (*(f"{name}:{port}" for name in names), "localhost:9999", "127.0.0.1"):
        own = {"host": host, "origin": f"http://{host}", "sec-fetch-site": "same-origin"}
        assert server.client.get("/studio/models", headers=own).status_code == 200


def test_models_are_listed_with_their_heads(server):
    listed = server.client.get("/studio/models").json()
    assert listed["runs"] is True
    models = {each["name"]: each for each in listed["models"]}
    assert models["mt"]["paths"] == ["translate", "embed", "score"]
    assert [site["name"] for site in models["mt"]["sites"]] == ["cross", "encoder", "decoder"]
    first = models["mt"]["sites"][0]["layers"][0]
    assert first == {"heads": 2, "at": "target.blocks.0.cross"}
    assert models["masks"]["mask"] == "[MASK]" and models["labels"]["mask"] is None


def test_attention_of_a_long_text_travels_a_layer_at_a_time(server, monkeypatch):
    body = {"model": "labels", "text": "the old sailor mended his nets"}
    whole = record(server.post("/studio/look", body))
    monkeypatch.setattr(text_records, "AT_ONCE", 10)
    lazy = record(server.post("/studio/look", body))
    assert all(layer["weights"] is None for layer in lazy.json["maps"][0]["layers"])
    assert lazy.json["source"] == {"model": "labels"}
    layer = record(server.post("/studio/layer", {**body, "map": 0, "layer": 1}))
    expected = unpack_weights(whole, whole.json["maps"][0]["layers"][1]["weights"])
    given = unpack_weights(layer, layer.json["weights"])
    assert given.shape == expected.shape and abs(given - expected).max() < 0.01
    assert server.post("/studio/layer", {**body, "map": 9, "layer": 0}).status_code == 400


def test_edits_change_what_is_recorded(server):
    body = {"model": "mt", "text": "the owl", "second": "die Eule"}
    plain = server.post("/studio/look", body).content
    edits = [{"kind": "head-off", "at": "source.blocks.0.attention", "head": 0}]
    assert server.post("/studio/look", {**body, "edits": edits}).content != plain


def test_searches_are_trees(server):
    beam = record(server.post("/studio/tree", {"model": "mt", "text": "the owl", "beam": 2}))
    assert beam.kind == "beam_tree" and len(beam.json["hypotheses"]) >= 1
    body = {"model": "writer", "text": "The old", "steps": 3, "alternatives": 2}
    tokens = record(server.post("/studio/tree", body))
    assert tokens.kind == "token_tree"
    *_, last = tokens.json["winner"]
    greedy = {"model": "writer", "text": "The old", "max_new_tokens": 3, "search": "greedy"}
    (result,) = server.post("/v1/generate", greedy).json()["results"]
    assert tokens.json["continuations"][last] == result["records"][0]["text"]
    empty = server.post("/studio/tree", {"model": "mt", "text": " "})
    assert empty.status_code == 400 and "the text is empty" in empty.json()["error"]["message"]
    drawn = [
        record(server.post("/studio/tree", {**body, "temperature": 2.0, "seed": n})) for n in (1, 1)
    ]
    assert drawn[0].json == drawn[1].json


def test_a_beam_begins_with_the_forced_prefix(server):
    body = {"model": "mt", "text": "the owl", "beam": 2}
    forced = record(server.post("/studio/tree", {**body, "prefix": "die"}))
    translated = server.post("/v1/translate", {**body, "prefix": "die", "search": "beam"})
    (result,) = translated.json()["results"]
    assert forced.json["hypotheses"][0]["text"] == result["records"][0]["text"]
    assert result["records"][0]["text"].startswith("die")
    own = record(server.post("/studio/tree", {**body, "prefix": ""}))
    assert not own.json["hypotheses"][0]["text"].startswith("die")
    refused = server.post("/studio/tree", {"model": "writer", "text": "The", "prefix": "old"})
    assert refused.status_code == 400 and "prefix: only of translations" in refused.text


@pytest.mark.parametrize("path", ["look", "evidence", "what-if"])
@pytest.mark.parametrize("text", ["", " \n"])
def test_a_blank_text_is_refused_in_one_line(server, path, text):
    for name in ("labels", "mt", "writer"):
        answer = server.post(f"/studio/{path}", {"model": name, "text": text})
        assert answer.status_code == 400
        assert answer.json()["error"]["message"] == "the text is empty"


def test_evidence_and_what_ifs(server):
    body = {"model": "labels", "text": "the old sailor"}
    found = server.post("/studio/evidence", {**body, "method": "leave-one-out"}).json()
    assert found["words"] == ["the", "old", "sailor"] and len(found["weights"]) == 1
    assert found["replacement"] == "the mask token [MASK]"
    (values,) = found["weights"].values()
    assert max(map(abs, found["shares"])) == 1
    assert [share < 0 for share in found["shares"]] == [value < 0 for value in values[0]]
    whole = server.post("/v1/classify", body).json()["results"][0]["records"][0]
    off = {"heads": [["encoder", 0, 1]], "words": [1]}
    compared = server.post("/studio/what-if", {**body, **off}).json()
    assert compared["without"] == ["encoder head 0.1", "word 1 (old)"]
    named = dict(zip(compared["targets"], compared["before"], strict=True))
    assert named == pytest.approx(whole["probabilities"], abs=1e-5)
    assert compared["before"] != compared["after"]
    refused = server.post("/studio/what-if", {**body, "heads": [["encoder", 9, 0]]})
    assert refused.status_code == 400 and "layer" in refused.json()["error"]["message"]


@pytest.mark.parametrize("name", ["labels", "mt", "writer"])
def test_heads_are_reported_and_removed(server, name):
    texts = ["the owl and the cow", "the dog"]
    report = record(server.post("/studio/heads", {"model": name, "texts": texts}))
    first = report.json["prunable"][0]
    figures = next(s for s in report.json["sites"] if s["name"] == first)["layers"][0][0]["figures"]
    assert figures["importance"] >= 0
    body = {"model": name, "texts": texts, "heads": [[first, 0, 0]]}
    pruned = server.post("/studio/prune", body).json()
    assert pruned["removed"] == 1
    assert pruned["after"]["parameters"] < pruned["before"]["parameters"]
    assert pruned["after"]["loss"] != pruned["before"]["loss"]
    same = server.post("/studio/prune", {**body, "heads": []}).json()
    assert same["after"]["loss"] == same["before"]["loss"] == pruned["before"]["loss"]


@pytest.fixture(scope="module")
def pruned():
    """A translator without encoder heads, and an encoder whose first layer has none."""
    small = {"mt": small_translator(next(iter(TRANSLATORS))), "labels": loaded_bert("one")}
    removed = [Head("encoder", 0, 0), Head("encoder", 0, 1)]
    models = {name: Model(remove_heads(each, removed)) for name, each in small.items()}
    with running(models, ServerSettings(allow_edits=True), studio_apis()) as server:
        yield server


def test_layers_of_pruned_models_have_their_numbers(pruned):
    listed = pruned.client.get("/studio/models").json()["models"]
    sites = {each["name"]: each["sites"] for each in listed}
    assert [site["name"] for site in sites["mt"]] == ["cross", "decoder"]
    second = {"heads": 2, "at": "trunk.blocks.1.attention"}
    assert sites["labels"] == [{"name": "encoder", "layers": [{"heads": 0, "at": ""}, second]}]


@pytest.mark.parametrize("name", ["mt", "labels"])
def test_pages_of_pruned_models(pruned, name):
    body = {"model": name, "text": "the owl", **({"second": "die Eule"} if name == "mt" else {})}
    maps = record(pruned.post("/studio/look", body)).json["maps"]
    heads = [[layer["heads"] for layer in each["layers"]] for each in maps]
    assert heads == {"mt": [[2], [2]], "labels": [[0, 2]]}[name]
    report = record(pruned.post("/studio/heads", {"model": name, "texts": ["the owl and the cow"]}))
    assert [[*map(len, site["layers"])] for site in report.json["sites"]] == heads
    last = {"map": 0, "layer": len(heads[0]) - 1}
    given = record(pruned.post("/studio/layer", {**body, **last}))
    assert len(unpack_weights(given, given.json["weights"])) == 2
    for method in ("rollout", "attention-gradient"):
        answer = pruned.post(
            "/studio/evidence", {"model": name, "text": "the owl", "method": method}
        )
        assert answer.status_code == 200, answer.text
    off = {"model": name, "text": "the owl", "heads": [["encoder", 0, 0]]}
    message = pruned.post("/studio/what-if", off).json()["error"]["message"]
    assert ("has no heads left" if name == "labels" else "with cross, decoder") in message


def test_evidence_says_by_which_method_it_is_and_in_which_unit(server):
    body = {"model": "labels", "text": "the old sailor"}
    found = server.post("/studio/evidence", body).json()
    assert found["method"] == "leave-one-out"
    assert found["about"].startswith("Difference of log-probabilities: with the word, minus")
    off = server.post("/studio/what-if", {**body, "words": [1]}).json()
    at = off["targets"].index(found["targets"][0])
    lost = math.log(off["before"][at]) - math.log(off["after"][at])
    assert found["weights"]["leave-one-out"][0][1] == pytest.approx(lost, abs=1e-4)
    for method in ABOUT:
        about = server.post("/studio/evidence", {**body, "method": method}).json()["about"]
        assert ("Orange words raise it" in about) == (method in SIGNED)
    for method in ("all", "nothing", ""):
        refused = server.post("/studio/evidence", {**body, "method": method})
        assert refused.status_code == 400 and "no method is called" in refused.text


def test_long_texts_have_integrated_gradients(server, monkeypatch):
    monkeypatch.setattr(predictions, "MOST_LEFT_OUT", 2)
    for text, method in (("the sailor", "leave-one-out"), ("the old sailor", "integrated")):
        found = server.post("/studio/evidence", {"model": "labels", "text": text}).json()
        assert found["method"] == method and [*found["weights"]] == [method]


def test_integrated_gradients_end_early_and_say_so(server, monkeypatch):
    body = {"model": "labels", "text": "the old sailor", "method": "integrated"}
    whole = server.post("/studio/evidence", body).json()
    assert whole["completeness"]["steps"] <= predictions.MOST_STEPS < methods.MOST_STEPS
    assert "not sum" not in whole["about"]
    monkeypatch.setattr(methods, "COMPLETE", -1.0)
    given = server.post("/studio/evidence", body).json()
    assert given["completeness"]["steps"] == predictions.MOST_STEPS
    assert "Here they do not sum to it (64 steps" in given["about"]


def test_unknown_words_are_named_once(server):
    for model in ("labels", "mt"):
        body = {"model": model, "text": "the \u2603 owl \u2603 sees \u6f22"}
        words = server.post("/studio/unknown", body).json()["words"]
        assert words == ["\u2603", "\u6f22"] if model == "labels" else "the" not in words
    known = {"model": "writer", "text": "the \u2603"}
    assert server.post("/studio/unknown", known).json() == {"words": []}


@pytest.mark.parametrize("method", ABOUT)
def test_evidence_and_what_ifs_are_of_the_edited_model(server, method):
    (site, *_) = server.client.get("/studio/models").json()["models"][0]["sites"]
    edits = [{"kind": "head-off", "at": site["layers"][0]["at"], "head": 1}]
    body = {"model": "labels", "text": "the old sailor", "edits": edits}
    (result,) = server.post("/v1/classify", body).json()["results"]
    (record,) = result["records"]
    found = server.post("/studio/evidence", {**body, "method": method}).json()
    label = found["targets"][0]
    assert found["probabilities"][0] == pytest.approx(record["probabilities"][label], abs=1e-5)
    off = server.post("/studio/what-if", {**body, "words": [1]}).json()
    before = dict(zip(off["targets"], off["before"], strict=True))
    assert before == pytest.approx(record["probabilities"], abs=1e-5)
    whole = server.post("/studio/evidence", {**body, "method": method, "edits": []}).json()
    assert whole["weights"] != found["weights"]


def test_runs_are_found_and_drawn(server, runs):
    listed = {each["name"]: each for each in server.client.get("/studio/runs").json()["runs"]}
    assert listed.keys() == {"one", "sweep/two"}
    assert listed["sweep/two"]["branch"]["step"] == 2 and listed["one"]["branch"] is None
    assert listed["one"]["command"] == ["regard", "train", "r.toml", "--set", "train.steps=3"]
    assert listed["one"]["settings"] == {"train.steps": "3", "optimiser.rate": "0.1"}
    asked = {"run": ["one", "sweep/two"], "smooth": "0.5"}
    drawn = record(server.client.get("/studio/curves", params=asked))
    assert {line["name"] for line in drawn.json["charts"][0]["lines"]} == {"one", "sweep/two"}
    for run in ("../etc", "missing"):
        assert server.client.get("/studio/curves", params={"run": run}).status_code == 404
    assert server.client.get("/studio/curves").status_code == 400
    assert server.client.get("/studio/formation", params={"run": "one"}).status_code == 400


def test_a_run_that_was_stopped_has_fewer_steps_than_its_recipe(server, runs):
    write_run(runs / "short", [3.0])
    checkpoint = runs / "short" / "checkpoints" / "step-00000002"
    checkpoint.mkdir(parents=True)
    (checkpoint / "state.json").write_text("{}")
    (runs / "short" / "model").mkdir()
    try:
        listed = {each["name"]: each for each in server.client.get("/studio/runs").json()["runs"]}
    finally:
        shutil.rmtree(runs / "short")
    keys = ("finished", "step", "steps")
    assert [listed["short"][key] for key in keys] == [True, 2, 3]
    assert [listed["one"][key] for key in keys] == [False, 3, 3]


def test_a_link_out_of_the_folder_of_runs_is_not_followed(server, runs, tmp_path):
    write_run(tmp_path / "secret", [1.0])
    (runs / "linked").symlink_to(tmp_path / "secret")
    try:
        names = {each["name"] for each in server.client.get("/studio/runs").json()["runs"]}
        assert "linked" not in names
    finally:
        (runs / "linked").unlink()


def test_papers_and_their_code(server):
    papers = record(server.client.get("/studio/papers"))
    assert {"BERT", "Bahdanau"} <= {paper["name"] for paper in papers.json["papers"]}
    path = record(server.client.get("/studio/papers/Bahdanau"))
    assert any(step["file"] == "models/rnn.py" for step in path.json["steps"])
    assert server.client.get("/studio/papers/nothing").status_code == 404


@pytest.mark.parametrize("path", sorted(path for method, path in ROUTES if method == "POST"))
@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"model": 3}', b'{"model": "none", "text": "x"}', b"\xff\xfe"]
)
def test_wrong_bodies_get_one_line(server, path, body):
    answer = server.client.post(path, content=body)
    assert answer.status_code in (400, 404)
    message = answer.json()["error"]["message"]
    assert "\n" not in message and "Traceback" not in message


def test_markup_in_texts_stays_text(server):
    for path in ("/studio/look", "/studio/evidence"):
        answer = server.post(path, {"model": "labels", "text": MARKUP})
        assert answer.status_code == 200
        assert not answer.headers["content-type"].startswith("text/html")
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_studio_without_runs_has_none_of_their_paths():
    paths = {route.path for route in studio_apis()[-1].routes}
    assert "/studio/runs" not in paths


IMAGE_PATHS = ("/studio/look", "/studio/evidence", "/studio/what-if")


@pytest.mark.parametrize("path", IMAGE_PATHS)
def test_pixels_are_bounded_before_images_are_decoded_beside_the_event_loop(path, monkeypatch):
    threads, whole = [], images.decode_image

    def noted(*given):
        threads.append(threading.current_thread().name)
        return whole(*given)

    monkeypatch.setattr(images, "decode_image", noted)
    settings = ServerSettings(limits=RequestLimits(pixels=100))
    with running({"vit": small_vit()}, settings, studio_apis()) as server:
        room = server.app.services.images.pixels
        large = server.post(path, {"model": "vit", "image": blank_png(8, 13)})
        assert large.status_code == 400 and "8 × 13 pixels are more than 100" in large.text
        room.used = 4 * 100
        full = server.post(path, {"model": "vit", "image": blank_png(8, 8)})
        assert full.status_code == 429 and full.headers["retry-after"] == "1"
        room.used = 0
        assert not threads
        answer = server.post(path, {"model": "vit", "image": blank_png(8, 8)})
        assert answer.status_code == 200, answer.text
        assert room.used == 0
    (thread,) = threads
    assert thread.startswith("decode-images")


MORE_KEYS = {
    "/studio/layer": {"map": 0, "layer": 0},
    "/studio/heads": {"texts": ["the owl"]},
    "/studio/prune": {"texts": ["the owl"]},
}


@pytest.fixture(scope="module")
def both_inputs():
    with running({"vit": small_vit(), "labels": small_bert("one")}, apis=studio_apis()) as server:
        yield server


@pytest.mark.parametrize("path", sorted(path for method, path in ROUTES if method == "POST"))
def test_no_text_opens_a_file_of_the_server(both_inputs, path, tmp_path):
    (tmp_path / "secret.png").write_bytes(base64.b64decode(blank_png(8, 8)))
    messages, image = set(), {"image": blank_png(8, 8)}
    for name in ("secret.png", "missing.png"):
        file = str(tmp_path / name)
        body = {"model": "vit", "text": file, **MORE_KEYS.get(path, {})}
        bodies = [body, {**body, **image}, {**body, "second": file}]
        bodies += [{**body, "text": "", **image, "second": file}, {**body, "text": ""}]
        if "texts" in body:
            bodies = [{"model": "vit", "texts": [file]}, {"model": "vit", "texts": [file], **image}]
        for each in bodies:
            answer = both_inputs.post(path, each)
            assert answer.status_code == 400, answer.text
            messages.add(answer.json()["error"]["message"])
    assert not any(str(tmp_path) in each or "png" in each for each in messages)
    assert any("model vit reads images" in each for each in messages)


@pytest.mark.parametrize("path", sorted(path for method, path in ROUTES if method == "POST"))
def test_models_of_texts_read_no_images(both_inputs, path):
    body = {"model": "labels", "text": "the owl", "image": blank_png(8, 8)}
    answer = both_inputs.post(path, {**body, **MORE_KEYS.get(path, {})})
    assert answer.status_code == 400
    message = answer.json()["error"]["message"]
    assert message == "model labels reads texts: give a text, and no image"


def test_the_words_of_an_image_are_refused(both_inputs):
    body = {"model": "vit", "image": blank_png(8, 8), "character": 0}
    for path in ("/studio/evidence", "/studio/what-if"):
        answer = both_inputs.post(path, body)
        assert answer.json()["error"]["message"] == "character: an image has no words"


def test_one_layer_of_an_image(both_inputs):
    body = {"model": "vit", "image": blank_png(8, 8), "map": 0, "layer": 0}
    assert record(both_inputs.post("/studio/layer", body)).json["weights"]
