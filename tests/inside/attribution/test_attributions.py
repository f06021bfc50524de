"""Attributions of an input: what is shown of them, in text, drawings, pages and JSON."""

import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console

from regard import BadInput
from regard.api import Model
from regard.inside.attribution.input_words import replacement_token
from regard.models.coreference_head import CoreferenceHead
from regard.text.tokenizers.word_level import WordTokenizer, WordVocabulary
from regard.text.vocabulary import Lexicon
from regard.views.pages import records_in
from regard.views.word_marks import shares
from small_bert import model as small_bert
from small_bert import small_bert as states_of_bert
from small_images import small_vit

TEXT = "The <old> cat came in"
PIXELS = np.random.default_rng(3).integers(0, 256, (8, 12, 3), dtype=np.uint8)
METHODS = ["gradient", "integrated", "rollout", "attention-gradient", "leave-one-out"]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def model():
    return small_bert("one")


@pytest.fixture(scope="module")
def seen(model):
    return model.attribute(TEXT)


@pytest.fixture(scope="module")
def picture():
    return small_vit(size=(8, 12), width=12, depth=2, heads=3).attribute(PIXELS)


def test_every_method_has_a_value_for_every_word(model, seen):
    (prediction,) = model.predict([TEXT])
    assert list(seen.weights) == METHODS
    assert seen.words == ("The", "<", "old", ">", "cat", "came", "in")
    assert {values.shape for values in seen.weights.values()} == {(1, 7)}
    assert seen.targets == (prediction.label,)
    assert seen.probabilities == (pytest.approx(prediction.probability, 1e-5),)
    assert len(seen.agreement) == 10 and all(-1 <= rho <= 1 for rho in seen.agreement.values())
    assert [*seen.deletion.curves] == [*METHODS, "random"]


def test_subwords_sum_to_words(model, seen):
    pieces = model.attribute(TEXT, method="gradient", subwords=True)
    assert len(pieces.words) > len(seen.words)
    total = pieces.weights["gradient"].sum()
    assert total == pytest.approx(seen.weights["gradient"].sum(), rel=1e-4)


def test_a_label_can_be_chosen(model):
    for label in ("bad", "good"):
        seen = model.attribute(TEXT, label, method="leave-one-out")
        probability = model.predict([TEXT])[0].probabilities[label]
        assert seen.probabilities == (pytest.approx(probability, 1e-5),)


def test_both_texts_of_a_pair_have_words(model):
    seen = model.attribute(("the old", "cat came"), method="gradient")
    assert seen.words == ("the", "old", "cat", "came")


def test_a_text_view_has_words_completeness_agreement_and_areas(seen):
    text = seen.text(80)
    assert all(len(line) <= 80 for line in text.splitlines())
    flat = " ".join(text.split())
    for part in ("integrated gradients (largest", "error 0.", "gradient and integrated", "random"):
        assert part in flat
    assert "all words are replaced by the mask token [MASK]" in flat
    shaded = re.compile(r"^The[·░▒▓█]-? <[·░▒▓█]-? old[·░▒▓█]-?", re.MULTILINE)
    assert len(shaded.findall(text)) == len(METHODS)


def test_words_below_zero_have_another_colour_and_a_sign(seen):
    values = seen.weights["integrated"][0]
    (line,) = [one for one in seen.choose("integrated").text(80).splitlines() if "old" in one][1:]
    words = line.split()
    expected = [value < 0 and "·" not in word for value, word in zip(values, words, strict=True)]
    assert [word.endswith("-") for word in words] == expected
    assert any(expected) and not all(expected)
    console = Console(force_terminal=True, color_system="truecolor", width=80)
    with console.capture() as capture:
        console.print(seen.choose("integrated"))
    assert len({*re.findall(r"48;2;[\d;]+", capture.get())}) > 2


def test_a_drawing_has_a_bar_for_each_word_and_method(seen):
    root = ElementTree.fromstring(seen.svg())
    texts = [one.text for one in root.iter(f"{SVG}text")]
    assert {"integrated gradients", "cat", "<", "leave-one-out"} <= {*texts}
    titles = [one.text for one in root.iter(f"{SVG}title")]
    assert f"{seen.weights['rollout'][0, 4]:.4f}" in titles
    assert len(list(root.iter(f"{SVG}rect"))) == 1 + 5 * 7


def test_the_page_is_whole_and_safe(seen):
    page = seen.html()
    assert page.startswith("<!doctype html>")
    assert "The &lt;old&gt; cat" in page and "<old>" not in page
    (shown,) = records_in(page)
    for method in shown.json["methods"]:
        values = shown.array(method["values"])
        np.testing.assert_allclose(values, seen.weights[method["name"]], rtol=1e-5, atol=1e-6)
        tints = shown.array(method["shares"])  # of words in the page, as in a terminal
        np.testing.assert_allclose(tints, shares(seen.weights[method["name"]]), rtol=1e-5)
    (chart,) = shown.json["charts"]
    assert len(shown.json["methods"]) == 5 and chart["title"] == "Deletion"
    assert "random" in [line["name"] for line in chart["lines"]]
    assert not re.search(r"<[^>]*(src|href)=", page.split("<script")[0])


def test_patches_are_drawn_over_the_image(picture):
    pytest.importorskip("PIL")
    assert picture.words[:2] == ("0,0", "0,1") and picture.image.grid == (2, 3)
    assert picture.png().startswith(b"\x89PNG")
    assert picture.svg().count("<image") == 1 + 2 * 5  # with the scale of each
    shown = picture.view_record()
    assert shown.array(shown.json["image"]).tobytes().startswith(b"\x89PNG")
    assert shown.json["grid"] == [2, 3] and len(shown.json["methods"]) == 5
    assert "all patches are replaced by zeros" in " ".join(picture.text(80).split())


def test_json_has_all_figures(seen):
    record = json.loads(json.dumps(seen.to_json()))
    assert record["words"] == list(seen.words) and list(record["weights"]) == METHODS
    assert record["completeness"]["error"] <= 0.01
    assert len(record["agreement"]) == 10
    assert record["deletion"]["areas"]["random"] == pytest.approx(seen.deletion.areas["random"])


def test_one_method_has_nothing_to_agree_with(model):
    seen = model.attribute(TEXT, method="rollout")
    assert seen.agreement == {} and seen.compared == [] and seen.completeness is None
    assert [row[0] for row in seen.method_rows] == ["rollout", "random"]
    assert {len(row) for row in seen.method_rows} == {2}


@pytest.mark.parametrize(
    ("kind", "text", "options", "message"),
    [
        ("one", TEXT, {"method": "lime"}, "method must be one of all, gradient, integrated"),
        ("one", TEXT, {"steps": 0}, "steps must be at least 1, not 0"),
        ("one", TEXT, {"target": "nice"}, "no label is called 'nice'; known: bad, fair, good"),
        ("one", "", {}, "the text has no words"),
        ("one", ("a", "b", "c"), {}, "is not a text"),
        ("words", TEXT, {}, "token: give the position of a token to explain, or a text"),
        ("words", "a [MASK]", {"target": "cat"}, r"'cat' is 2 tokens \(c ##at\); give one token"),
        ("words", "a [MASK] [MASK]", {"target": "a"}, "the text has 2 masks"),
        ("tags", TEXT, {}, "token: give the position of a token to explain$"),
        ("answer", TEXT, {}, "token: give the position of .* as start or end of an answer$"),
        ("answer", TEXT, {"token": 1, "target": "0.5"}, "no label is called '0.5'; known: start"),
        ("one", TEXT, {"token": 1}, "token: this model predicts one output for the whole input"),
        ("states", TEXT, {}, "this model has no output head: there are no logits to explain"),
    ],
)
def test_what_cannot_be_attributed_is_refused_in_one_line(kind, text, options, message):
    with pytest.raises(BadInput, match=message) as refused:
        small_bert(kind).attribute(text, **options)
    assert "\n" not in str(refused.value)


def test_a_head_without_logits_is_named():
    loaded = states_of_bert("states")
    facts = replace(loaded.facts, output_heads=(CoreferenceHead(widest=2, hidden=4),))
    model = Model(replace(loaded, facts=facts, module=facts.build().eval()))
    with pytest.raises(BadInput, match="the head coreference of this model has no logits of"):
        model.attribute(TEXT)


def test_a_vocabulary_without_padding_replaces_words_by_the_unknown_word():
    words = WordVocabulary(Lexicon(("<UNK>", "<S>", "</S>", *"abcd")))
    model = Model(replace(states_of_bert("states"), tokenizer=WordTokenizer(words))).inspected
    assert replacement_token(model) == ("the unknown token <UNK>", words.unk)


def test_neither_layer_nor_head_can_be_chosen(seen):
    assert list(seen.choose("rollout").weights) == ["rollout"]
    with pytest.raises(BadInput, match="do not choose a layer or head"):
        seen.choose(layer=0)
    with pytest.raises(BadInput, match="no method called 'lime' here"):
        seen.choose("lime")


def test_every_mask_is_a_target():
    seen = small_bert("words").attribute("The [MASK] came [MASK] in", method="integrated")
    assert len(seen.targets) == 2 and seen.words == ("The", "came", "in")
    assert seen.completeness.complete and len(seen.completeness.sums) == 2
    root = ElementTree.fromstring(seen.svg())
    assert {*seen.targets} <= {one.text for one in root.iter(f"{SVG}text")}
    shown = seen.view_record()
    assert shown.array(shown.json["methods"][0]["values"]).shape == (2, 3)


def test_the_start_and_the_end_of_an_answer_are_targets():
    model = small_bert("answer")
    p_TV = model.logits([TEXT])[0].softmax(0)
    for number, name in enumerate(("start", "end")):
        seen = model.attribute(TEXT, name, token=3, method="integrated")
        assert seen.targets == (name,) and seen.completeness.complete
        assert seen.probabilities == (pytest.approx(float(p_TV[3, number]), 1e-4),)
    for token in range(len(p_TV)):
        seen = model.attribute(TEXT, token=token, method="gradient")
        assert seen.targets == (("start", "end")[int(p_TV[token].argmax())],)


def test_the_label_of_a_token_is_a_target():
    tagger = small_bert("tags")
    names = set()
    for token in (1, 2, 3):
        seen = tagger.attribute("The old cat came in", token=token, method="integrated")
        (logits_TV,) = tagger.logits(["The old cat came in"])
        names.add(tagger.labels.names[int(logits_TV[token].argmax())])
        assert seen.targets == (tagger.labels.names[int(logits_TV[token].argmax())],)
        assert seen.completeness.complete
    changed = tagger.what_if("The old cat came in", words=["cat"], token=3)
    assert {*changed.targets} <= {*tagger.labels.names} and changed.before != changed.after


def test_a_target_is_named_as_for_contributions():
    """A token inside a text, or as it is printed; a label as written in files, or its number."""
    model = small_bert("words")
    printed = model.attribute("a [MASK]", "##at", method="gradient").targets
    assert printed == ("##at",) == (model.contributions("a [MASK]", target="##at").target.name,)
    labels = small_bert("one")
    assert labels.attribute(TEXT, "fair").targets == ("fair",)
    assert labels.contributions(TEXT, target=1).target.name == "fair"


def test_without_deletion_curves_the_weights_are_the_same():
    model, text = small_bert("one"), "the old sailor"
    quick = model.attribute(text, method="gradient", deletion=False)
    np.testing.assert_array_equal(
        quick.weights["gradient"], model.attribute(text, method="gradient").weights["gradient"]
    )
    assert quick.to_json()["deletion"] == {"shares": (), "curves": {}, "areas": {}}
    assert quick.view_record().json["charts"] == [] and not any("area" in n for n in quick.notes)
