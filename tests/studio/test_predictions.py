"""Understand: frames and clusters as data of the page, and the evidence of a tag or an answer."""

import re
from dataclasses import replace

import pytest
import torch

from regard.api import Model
from regard.models.coreference_head import CoreferenceHead
from regard.serving.app import ServerSettings
from regard.studio.app import studio_apis
from regard.studio.predictions import token_at
from serving.running_server import running
from small_bert import model as small_bert
from small_bert import small_bert as loaded_bert
from small_roles import small_labeller
from small_words import trained
from studio.test_app import MARKUP
from tasks.test_text_pairs import BIDAF, recipe

SEED = 7  # of weights with which some words are predicates
TEXT = "the old sailor mended his nets"


def small_resolver(seed=2):
    """A small BERT that resolves mentions, of random weights."""
    loaded = loaded_bert("states", seed)
    facts = replace(loaded.facts, output_heads=(CoreferenceHead(widest=2, hidden=4),))
    torch.manual_seed(seed)
    return Model(replace(loaded, facts=facts, module=facts.build().eval()))


@pytest.fixture(scope="module")
def server():
    models = {
        "roles": small_labeller(seed=SEED),
        "mentions": small_resolver(),
        "tags": small_bert("tags"),
    }
    models |= {"answers": small_bert("answer"), "labels": small_bert("one")}
    with running(models, ServerSettings(allow_edits=True), studio_apis()) as server:
        yield server


def test_models_of_roles_and_coreference_are_listed(server):
    listed = {m["name"]: m["paths"] for m in server.client.get("/studio/models").json()["models"]}
    assert "roles" in listed["roles"] and "resolve" in listed["mentions"]
    assert not {"roles", "resolve"} & {*listed["labels"], *listed["tags"]}


def test_frames_are_those_of_the_model(server):
    given = server.post("/studio/roles", {"model": "roles", "text": TEXT}).json()
    (sentence,) = small_labeller(seed=SEED).predict([TEXT])
    assert sentence.frames
    assert [each["brackets"] for each in given["frames"]] == [
        *map(sentence.brackets, sentence.frames)
    ]
    first = given["frames"][0]["arguments"][0]
    assert first["probability"] == pytest.approx(sentence.frames[0].arguments[0].probability)
    assert given["svg"].startswith("<svg ") and "<path" in given["svg"]
    assert re.findall(r'(?:fill|stroke)="#\w+', given["svg"]) == []  # colours are those of the page
    assert 'fill="var(--accent' in given["svg"]


def test_clusters_are_those_of_the_model(server):
    given = server.post("/studio/resolve", {"model": "mentions", "text": TEXT}).json()
    (resolved,) = small_resolver().predict([TEXT])
    assert "".join(each["text"] for each in given["parts"] if not each["is_mark"]) == TEXT
    assert [len(each["mentions"]) for each in given["clusters"]] == [*map(len, resolved.clusters)]
    assert given["clusters"][0]["mentions"][0]["text"] == "sailor"
    assert {each["cluster"] for each in given["parts"]} <= {*range(len(resolved.clusters) + 1)}


@pytest.mark.parametrize("path", ["roles", "resolve"])
def test_wrong_inputs_get_one_line(server, path):
    model = {"roles": "roles", "resolve": "mentions"}[path]
    for name, text, message in (
        ("labels", TEXT, "was not trained for this task"),
        (model, " \n", "the text is empty"),
        (model, "x" * 30_000, "text: more than 20,000 characters"),
    ):
        answer = server.post(f"/studio/{path}", {"model": name, "text": text})
        assert answer.status_code == 400 and message in answer.json()["error"]["message"]
    for text in (MARKUP, "\u202e\u05e9 👩\u200d👧 \x1b[31m \x00"):
        answer = server.post(f"/studio/{path}", {"model": model, "text": text})
        assert answer.status_code == 200 and "\\u001b" not in answer.text


def test_a_word_is_found_by_its_character():
    model = small_bert("tags").inspected
    labels = model.read(TEXT)["trunk"].queries
    groups = dict(zip(labels.words, labels.groups, strict=True))
    for word in TEXT.split():
        place = TEXT.index(word)
        for character in (place, place + len(word) - 1):
            assert token_at(model, TEXT, None, character) == groups[word][0]
            assert token_at(model, TEXT, None, character, last=True) == groups[word][-1]
    pair = model.read("the nets", TEXT)["trunk"].queries
    token = token_at(model, "the nets", TEXT, TEXT.index("nets"))
    assert token >= pair.second and token == pair.groups[-2][0]


def test_evidence_of_a_tag_is_that_of_its_token(server):
    body = {"model": "tags", "text": TEXT, "method": "leave-one-out"}
    (tagged,) = server.post("/v1/tag", {"model": "tags", "text": TEXT}).json()["results"]
    word = tagged["records"][0]["words"][2]
    given = server.post(
        "/studio/evidence", {**body, "character": word["start"], "target": word["tag"]}
    ).json()
    assert given["targets"] == [word["tag"]]
    assert given["probabilities"][0] == pytest.approx(word["probability"], abs=1e-5)
    assert given["words"] == TEXT.split()
    changed = {"words": [2], "character": word["start"], "target": word["tag"]}
    compared = server.post("/studio/what-if", {"model": "tags", "text": TEXT, **changed}).json()
    assert compared["before"][0] == pytest.approx(word["probability"], abs=1e-5)
    assert compared["after"] != compared["before"]


def test_evidence_of_an_answer_is_that_of_its_ends(server):
    question = {"question": "the nets", "context": TEXT}
    (answered,) = server.post("/v1/answer", {"model": "answers", **question}).json()["results"]
    span = answered["records"][0]["best"][0]
    body = {"model": "answers", "text": "the nets", "second": TEXT}
    ends = [
        server.post("/studio/evidence", {**body, **end}).json()
        for end in (
            {"target": "start", "character": span["start"]},
            {"target": "end", "character": span["end"] - 1, "last": True},
        )
    ]
    assert [each["targets"] for each in ends] == [["start"], ["end"]]
    assert ends[0]["words"] == ["the", "nets", *TEXT.split()]
    assert ends[0]["weights"] != ends[1]["weights"]


def test_a_character_after_the_text_is_refused(server):
    answer = server.post("/studio/evidence", {"model": "tags", "text": TEXT, "character": 900})
    assert answer.status_code == 400
    assert "no word of the text" in answer.json()["error"]["message"]


@pytest.mark.slow
def test_a_reader_of_one_text_alone_is_asked_elsewhere(tmp_path):
    content = recipe(tmp_path, "answer", BIDAF)
    content["train"]["steps"] = 2
    model = trained(content, tmp_path, tmp_path / "run")
    with running({"reader": model}, apis=studio_apis()) as server:
        alone = server.post("/studio/look", {"model": "reader", "text": "who?"})
        both = {"model": "reader", "text": "who?", "second": "dog cow owl pig"}
        assert server.post("/studio/look", both).status_code == 200
    reads = "reads a question and a text with the answer: ask it on the page Understand"
    assert alone.status_code == 400
    assert alone.json()["error"]["message"] == f"model reader {reads}"
