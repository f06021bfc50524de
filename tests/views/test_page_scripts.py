"""What the modules of attention views compute is what was recorded; without a browser, by node."""

import json
import shutil
import subprocess
from base64 import b64encode
from importlib.resources import files

import numpy as np
import pytest

from regard.inside.attention import attention_record
from regard.inside.attention.attention_map import AttentionMap, RolloutMap
from regard.inside.attention.attention_view import AttentionView

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="needs node")
MODULES = files("regard.views") / "modules"
WORDS = ("[CLS]", "a", "[b]", "c", "[SEP]")
SPECIAL = (0, 4)
PROGRAM = """
import { decode } from "%(modules)s/base.js";
import * as maps from "%(modules)s/attention_maps.js";
const record = decode(Uint8Array.from(Buffer.from(%(data)s, "base64")).buffer);
const state = { ...maps.defaults(record), ...%(state)s };
const context = { record, state, say() {}, select() {}, options: {}, body: { append() {} } };
const scene = maps.sceneOf(context);
const rows = (all) => all.map((row) => [...row]);
console.log(JSON.stringify((() => { %(steps)s })()));
"""


def shown(view, steps, tmp_path, **state):
    """What the steps return, with a scene of the view in this state."""
    values = {
        "modules": MODULES.as_posix(),
        "data": json.dumps(b64encode(view.view_record().to_bytes()).decode()),
        "state": json.dumps(state),
        "steps": steps,
    }
    program = tmp_path / "program.mjs"
    program.write_text(PROGRAM % values, encoding="utf-8")
    done = subprocess.run([NODE, program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def random_weights(layers, heads, queries, keys, power=1):
    weights = np.random.default_rng(1).random((layers, heads, queries, keys)) ** power
    return weights / weights.sum(-1, keepdims=True)


def text_view(weights, words=WORDS, special=SPECIAL, allowed=None):
    own = AttentionMap("encoder", words, words, weights, allowed, special, special)
    return AttentionView(" ".join(words), (own, RolloutMap.of(own)))


@pytest.fixture(scope="module")
def view():
    return text_view(random_weights(2, 3, 5, 5))


CHOICES = [(0, None, None), (0, 1, 2), (0, 1, None), (0, None, 2), (1, None, None), (1, 0, None)]


def test_every_choice_shows_the_weights_that_python_selects(view, tmp_path):
    choices = json.dumps(CHOICES)
    read = """return %s.map(([map, layer, head]) =>
      [...maps.matrixOf(record, record.maps[map], layer, head).values]);"""
    for choice, weights in zip(CHOICES, shown(view, read % choices, tmp_path), strict=True):
        number, layer, head = choice
        expected = view.maps[number].select(layer, head)
        np.testing.assert_allclose(np.reshape(weights, (5, 5)), expected, atol=1e-4)


def test_a_view_opens_at_the_chosen_map_layer_and_head(view, tmp_path):
    state = "return [state.map, state.layer, state.head]"
    for choice, expected in (
        ({}, [0, None, None]),
        ({"layer": -1, "head": -3}, [0, 1, 0]),
        ({"name": "encoder rollout", "layer": 0}, [1, 0, None]),
    ):
        assert shown(view.choose(**choice), state, tmp_path) == expected


def test_heads_that_no_page_can_name_leave_the_mean(tmp_path):
    """The last head of each layer, where layers have different numbers of heads."""
    weights = tuple(np.full((heads, 2, 2), 0.5) for heads in (2, 3))
    look = AttentionView("a b", (AttentionMap("encoder", ("a", "b"), ("a", "b"), weights),))
    assert shown(look.choose(head=-1), "return state.head", tmp_path) is None


def test_a_masked_pair_is_known(tmp_path):
    allowed = np.tri(5, dtype=bool)
    look = text_view(random_weights(1, 2, 5, 5), allowed=allowed)
    read = "return scene.rows.map((_, q) => scene.columns.map((_, k) => scene.masked(q, k)))"
    assert shown(look, read, tmp_path) == (~allowed).tolist()


@pytest.mark.parametrize("most", [14_000, 11_000, 9_000])
def test_weights_that_were_rounded_for_a_page_come_back(monkeypatch, tmp_path, most):
    for name in ("MOST", "SMALL"):
        monkeypatch.setattr(attention_record, name, most)
    words = tuple(f"word{number}" for number in range(40))
    look = AttentionView(
        "long", (AttentionMap("encoder", words, words, random_weights(1, 12, 40, 40, 5)),)
    )
    read = "return [maps.roundingOf(scene.map), rows(scene.shown)]"
    note, weights = shown(look, read, tmp_path, layer=0, head=7)
    percent = int(note.split("less than ")[1].split(" %")[0])
    expected = look.maps[0].layers[0][7]
    errors = np.abs(np.array(weights) - expected) / expected.max(-1, keepdims=True)
    assert errors.max() <= percent / 100
    assert errors.max() >= percent / 400


READ = "return [scene.queries, scene.keys, rows(scene.shown), scene.hidden]"


def test_special_tokens_are_hidden_by_position_and_never_by_their_brackets(view, tmp_path):
    state = {"hide": ["special"], "layer": 1, "head": 0}
    queries, keys, weights, note = shown(view, READ, tmp_path, **state)
    assert queries == keys == ["a", "[b]", "c"]
    expected = view.maps[0].layers[1][0, 1:4, 1:4]
    np.testing.assert_allclose(weights, expected, atol=1e-4)
    assert note.startswith("Hidden: special tokens [CLS] [SEP].") and "less than one" in note
    *_, weights, note = shown(view, READ, tmp_path, **state, weights="renormalised")
    np.testing.assert_allclose(weights, expected / expected.sum(-1, keepdims=True), atol=3e-4)
    assert "divided by their sum" in note
    assert "sum to one" in shown(view, READ, tmp_path)[-1]


def sinks_of(weights_LS, allowed):
    """Keys above a tenth of all weight, and above twice the share that equal weights give them."""
    equal = (allowed / allowed.sum(-1, keepdims=True)).mean(axis=0)
    least = np.maximum(0.1, 2 * equal)
    return np.flatnonzero(weights_LS.mean(axis=0) > least).tolist()


@pytest.mark.parametrize("causal", [False, True])
def test_sinks_are_hidden_as_keys_by_the_rule_on_the_page(causal, tmp_path):
    weights = random_weights(2, 3, 20, 20, power=4)
    weights[0, :, :, 0] += 3
    weights[1, 1, 6:, 5] += 2
    weights[1, 2, 6:, 6] += 0.01  # too little for a sink
    allowed = np.tri(20, dtype=bool) if causal else np.ones((20, 20), dtype=bool)
    weights = weights * allowed
    weights /= weights.sum(-1, keepdims=True)
    words = tuple(f"w{number}" for number in range(20))
    look = text_view(weights, words, (), allowed if causal else None)
    every = []
    choices = ((None, None, []), (0, 1, []), (1, 1, []), (1, 2, []), (1, 2, [0, 1]))
    for layer, head, heads in choices:
        state = {"hide": ["sinks"], "layer": layer, "head": head, "heads": heads}
        drawn = [look.maps[0].select(layer, each) for each in (head, *heads)]
        sinks = sorted({key for each in drawn for key in sinks_of(each, allowed)})
        rows, left, note = shown(
            look, "return [scene.rows.length, scene.columns, scene.hidden]", tmp_path, **state
        )
        assert rows == 20 and left == [key for key in range(20) if key not in sinks]
        every.append(sinks)
        if sinks:
            assert "more than 10 % of a head's weight" in note and "more than twice" in note
    assert every[1] == [0] and every[2] == every[4] == [5] and every[3] == []


def test_a_long_text_opens_without_special_tokens_and_sinks(view, tmp_path):
    words = ("[CLS]", *(f"w{number}" for number in range(58)), "[SEP]")
    weights = random_weights(1, 2, 60, 60)
    weights[..., 0] += 30
    weights /= weights.sum(-1, keepdims=True)
    look = text_view(weights, words, (0, 59))
    read = "return [state.hide, scene.keys.length, scene.peak]"
    hidden, left, peak = shown(look, read, tmp_path)
    assert hidden == ["special", "sinks"] and left == 58
    assert peak == pytest.approx(weights[0].mean(axis=0)[1:-1, 1:-1].max(), abs=1e-4)
    hidden, left, peak = shown(look, read, tmp_path, hide=[])
    assert hidden == [] and left == 60 and peak > 0.3
    assert shown(view, read, tmp_path)[0] == []
