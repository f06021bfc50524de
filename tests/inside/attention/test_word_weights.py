"""The words of a text, each with its weight."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console

import regard
from regard.core.errors import BadInput
from regard.inference.classifier import LabelPrediction
from regard.inside.attention.look import look
from regard.inside.attention.word_weights import WordWeights
from regard.tasks.components import runner_of
from regard.views.pages import records_in

SAID = LabelPrediction("<good>", {"<good>": 0.75, "bad": 0.25})
SHOWN = WordWeights(SAID, ("one", "two<", "th\x1bree"), np.array([0.8, 0.15, 0.05]))


@pytest.fixture(scope="module")
def model(owl_run):
    return regard.load(owl_run / "run" / "model", "cpu")


def test_every_word_has_its_weight(model):
    seen = model.look("dog, owl pig!")
    assert seen.words == ("dog", ",", "owl", "pig", "!")
    assert seen.weights.sum() == pytest.approx(1, abs=1e-5)
    assert [seen.prediction] == model.predict(["dog, owl pig!"])
    pieces = model.look("dog, owl pig!", subwords=True)
    assert len(pieces.words) == len(model.tokenizer.words.encode("dog, owl pig!"))
    assert pieces.weights.sum() == pytest.approx(1, abs=1e-5)


def test_it_looks_at_the_word_that_decides(model):
    seen = model.look("dog cow pig owl rat hen")
    assert seen.words[int(seen.weights.argmax())] == "owl"


def test_words_without_colour_carry_shades():
    lines = SHOWN.text(40).splitlines()
    assert lines[0] == "<good> 0.750"
    assert lines[2] == "one█ two<▒ th␛ree░"
    assert lines[-1] == "0·  0.032░  0.13▒  0.29▓  0.51█"
    assert all(len(line) <= 20 for line in SHOWN.text(20).splitlines()[:-1])
    assert str(SHOWN)


def test_a_drawing_names_the_label():
    root = ElementTree.fromstring(SHOWN.svg())
    texts = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == "<good> 0.750"
    assert {"pool", "one", "two<", "th␛ree"} <= set(texts)


def test_words_with_colour_lie_on_it():
    console = Console(force_terminal=True, color_system="truecolor", width=60, record=True)
    with console.capture() as capture:
        console.print(SHOWN)
    said = capture.get()
    assert "\x1b[" in said and "█" not in said
    assert "one" in re.sub(r"\x1b\[[\d;]*m", "", said)
    plain = Console(force_terminal=False, width=60)
    with plain.capture() as capture:
        plain.print(SHOWN)
    assert "one█" in capture.get()


def test_the_page_is_whole_and_safe():
    page = SHOWN.html()
    assert page.startswith("<!doctype html>")
    assert "&lt;good&gt;" in page and "<good>" not in page and "two<" not in page
    (shown,) = records_in(page)
    assert shown.json["words"] == ["one", "two<", "th␛ree"] and shown.json["signed"] is False
    (method,) = shown.json["methods"]
    np.testing.assert_allclose(shown.array(method["values"])[0], SHOWN.weights, rtol=1e-6)
    assert not re.search(r"<[^>]*(src|href)=", page.split("<script")[0])


def test_no_word_has_a_weight_where_the_last_state_judges(model):
    from regard.models.facts import change
    from regard.models.pools import LastToken

    last = change(model.facts, pool=LastToken())
    with pytest.raises(BadInput, match="this model has no attention"):
        loaded = replace(model._loaded, facts=last, module=last.build().eval())
        look(runner_of(loaded), model.predict, "dog")
