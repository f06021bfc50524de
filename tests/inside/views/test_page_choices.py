"""Choices of the page of a text: hidden tokens, heads in colours, and the address; by node."""

import shutil

import numpy as np
import pytest

from regard.inside.attention.attention_map import AttentionMap, RolloutMap
from regard.inside.attention.attention_view import AttentionView
from regard.inside.views.attention_html import LONG

from .test_page_scripts import shown

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
WORDS = ("[CLS]", "a", "[b]", "c", "[SEP]")
SPECIAL = (0, 4)
STATE = "return [chosen.map, chosen.layer, chosen.head, chosen.scale, chosen.view, chosen.hide,"
STATE += "chosen.weights, chosen.heads, chosen.word]"
FIRST = [0, None, None, "linear", "both", [], "raw", [], None]
PRESSED = (
    '[...at("heads").querySelectorAll("[data-head]")]'
    '.filter((one) => one.attributes["aria-pressed"] === "true").map((one) => +one.dataset.head)'
)
LINES = 'lines.all.children.map((one) => [one.attributes["data-head"], one.attributes.style])'


def random_weights(layers, heads, queries, keys, power=1):
    weights = np.random.default_rng(1).random((layers, heads, queries, keys)) ** power
    return weights / weights.sum(-1, keepdims=True)


def text_view(weights, words=WORDS, special=SPECIAL, allowed=None):
    shown_map = AttentionMap("encoder", words, words, weights, allowed, special, special)
    return AttentionView(" ".join(words), (shown_map, RolloutMap.of(shown_map)))


@pytest.fixture(scope="module")
def view():
    return text_view(random_weights(2, 3, 5, 5))


def test_an_address_restores_every_choice(view):
    address = "#layer=1&head=2&scale=root&view=lines&hide=special,sinks&weights=renormalised"
    address += "&heads=0,2&word=q1"
    expected = [0, 1, 2, "root", "lines", ["special", "sinks"], "renormalised", [0, 2], "q1"]
    assert shown(view, STATE, address) == expected
    assert shown(view, STATE, "#map=encoder+rollout&layer=1")[:2] == [1, 1]
    visible = 'return [at("matrix").hidden, at("between").hidden]'
    assert shown(view, visible, address) == [True, False]
    checked = 'return at("choosers").querySelectorAll("input").filter((one) => one.checked)'
    values = shown(view, checked + ".map((one) => `${one.name}=${one.value}`)", address)
    assert {"layer=1", "head=2", "view=lines", "hide=special", "hide=sinks"} <= set(values)
    assert "layer=null" not in values


@pytest.mark.parametrize(
    "address",
    [
        "#layer=9&head=3&heads=0,9&hide=everything&view=up&weights=&scale=1&word=q77&map=cross",
        "#layer=-1&head=1.5&heads=x&word=5&hide=special,x&nonsense&=&%",
        "#readout",
    ],
)
def test_what_an_address_does_not_mean_is_ignored(view, address):
    assert shown(view, STATE, address) == FIRST
    assert shown(view, STATE, f"#layer=1&{address[1:]}") == [0, 1, *FIRST[2:]]


def test_empty_parts_of_a_list_are_ignored(view):
    state = shown(view, STATE, "#heads=0,&hide=special,")
    assert state == [*FIRST[:5], ["special"], "raw", [0], None]
    assert shown(view, STATE, "#heads=,") == FIRST
    assert shown(view, f"return {PRESSED}", "#layer=1&heads=0,") == [0]


def test_every_choice_is_a_step_back(view):
    steps = """
    const seen = [];
    const see = () => seen.push([location.hash, chosen.layer, chosen.heads, chosen.hide]);
    choose({ layer: 1 }); see();
    at("heads").querySelectorAll("[data-head]")[2].fire("click"); see();
    choose({ layer: 1 });
    const box = at("hide").querySelectorAll("input")[0];
    box.checked = true; box.fire("change"); see();
    choose({ layer: null, heads: [], hide: [] }); see();
    while (past.length) { history.back(); see(); }
    return seen;
    """
    ways = [
        ["#layer=1", 1, [], []],
        ["#layer=1&heads=2", 1, [2], []],
        ["#layer=1&hide=special&heads=2", 1, [2], ["special"]],
        ["", None, [], []],
    ]
    assert shown(view, steps) == [*ways, *ways[-2::-1], ways[-1]]


def test_an_address_names_only_what_differs_from_the_view(view):
    chosen = view.choose(layer=1, head=2)
    assert shown(chosen, "choose({ scale: 'root' }); return location.hash") == "#scale=root"
    steps = "choose({ layer: null }); return location.hash"
    assert shown(chosen, steps) == "#layer=mean"
    assert shown(chosen, STATE, "#layer=mean")[1:3] == [None, 2]


def test_a_page_in_a_frame_has_no_address(view):
    steps = "choose({ layer: 1 }); return [past.length, location.hash, chosen.layer]"
    assert shown(view, steps, "#layer=0", "about:") == [0, "#layer=0", 1]


def test_special_tokens_are_hidden_by_position_and_never_by_their_brackets(view):
    steps = 'return [part.queries, part.keys, shown, at("hidden").textContent, text("sum")]'
    queries, keys, weights, note, rule = shown(view, steps, "#hide=special&layer=1&head=0")
    assert queries == keys == ["a", "[b]", "c"]
    expected = view.maps[0].layers[1][0, 1:4, 1:4]
    read = np.array([list(row.values()) for row in weights])
    np.testing.assert_allclose(read, expected, atol=1e-4)
    assert note == "Hidden: special tokens [CLS] [SEP]." and "less than one" in rule
    address = "#hide=special&layer=1&head=0&weights=renormalised"
    *_, weights, note, rule = shown(view, steps, address)
    read = np.array([list(row.values()) for row in weights])
    np.testing.assert_allclose(read, expected / expected.sum(-1, keepdims=True), atol=3e-4)
    assert "divided by their sum" in rule
    assert "sum to one" in shown(view, 'return text("sum")')


def sinks_of(weights_LS, allowed):
    """Keys above a tenth of all weight, and above twice the share that equal weights give them."""
    equal = (allowed / allowed.sum(-1, keepdims=True)).mean(axis=0)
    least = np.maximum(0.1, 2 * equal)
    return np.flatnonzero(weights_LS.mean(axis=0) > least).tolist()


@pytest.mark.parametrize("causal", [False, True])
def test_sinks_are_hidden_as_keys_by_the_rule_on_the_page(causal):
    weights = random_weights(2, 3, 20, 20, power=4)
    weights[0, :, :, 0] += 3
    weights[1, 1, 6:, 5] += 2
    weights[1, 2, 6:, 6] += 0.01  # too little for a sink
    allowed = np.tri(20, dtype=bool) if causal else np.ones((20, 20), dtype=bool)
    weights = weights * allowed
    weights /= weights.sum(-1, keepdims=True)
    words = tuple(f"w{number}" for number in range(20))
    look = text_view(weights, words, (), allowed if causal else None)
    steps = "return [part.rows.length, part.columns]"
    every = []
    choices = ((None, None, []), (0, 1, []), (1, 1, []), (1, 2, []), (1, 2, [0, 1]))
    for layer, head, heads in choices:
        address = f"#hide=sinks&layer={'mean' if layer is None else layer}"
        address += f"&head={'mean' if head is None else head}&heads={','.join(map(str, heads))}"
        drawn = [look.maps[0].select(layer, each) for each in (head, *heads)]
        sinks = sorted({key for each in drawn for key in sinks_of(each, allowed)})
        rows, left = shown(look, steps, address)
        assert rows == 20 and left == [key for key in range(20) if key not in sinks]
        every.append(sinks)
    assert every[1] == [0] and every[2] == every[4] == [5] and every[3] == []
    note = shown(look, 'return [at("hidden").textContent, text("sink")]', "#hide=sinks&layer=0")
    assert note[0] == "Hidden: sinks w0."
    assert "more than 10 % of a head's weight" in note[1] and "more than twice" in note[1]


def test_a_long_text_opens_without_special_tokens_and_sinks(view):
    words = ("[CLS]", *(f"w{number}" for number in range(LONG - 2)), "[SEP]")
    weights = random_weights(1, 2, LONG, LONG)
    weights[..., 0] += 30
    weights /= weights.sum(-1, keepdims=True)
    look = text_view(weights, words, (0, LONG - 1))
    peaks = "return [chosen.hide, part.keys.length, peak]"
    hidden, left, peak = shown(look, peaks)
    assert hidden == ["special", "sinks"] and left == LONG - 2
    assert peak == pytest.approx(weights[0].mean(axis=0)[1:-1, 1:-1].max(), abs=1e-4)
    hidden, left, peak = shown(look, peaks, "#hide=")
    assert hidden == [] and left == LONG and peak > 0.3
    assert shown(view, peaks)[0] == []


def test_heads_have_lines_in_colours_of_their_own(view):
    pressed, drawn = shown(view, f"return [{PRESSED}, {LINES}]", "#layer=1&heads=0,2")
    assert pressed == [0, 2]
    weights = view.maps[0].layers[1][[0, 2]]
    for head, own in zip((0, 2), weights, strict=True):
        styles = [style for number, style in drawn if number == str(head)]
        assert len(styles) == (own >= weights.max() / 20).sum() and len(set(styles)) == 1
    assert len({style for _, style in drawn}) == 2
    toggle = 'const press = (i) => at("heads").querySelectorAll("button")[i].fire("click");'
    assert shown(view, f"{toggle} press(0); press(1); return {PRESSED}", "#heads=0,2") == [1, 2]
    assert shown(view, f"{toggle} press(3); return {PRESSED}") == [0, 1, 2]
    pressed, drawn = shown(view, f"{toggle} press(4); return [{PRESSED}, {LINES}]", "#heads=0,2")
    assert pressed == [] and {style for _, style in drawn} == {""}


def test_a_word_that_is_pointed_at_has_its_lines_alone(view):
    steps = """
    point({ query: 2 });
    const own = () => lines.alone.children.map((one) => one.attributes["data-head"]);
    const seen = [lines.all.attributes.visibility, own(), text("readout")];
    point({});
    return [...seen, lines.all.attributes.visibility, own().length];
    """
    hidden, own, readout, back, none = shown(view, steps, "#layer=0&heads=0,1,2")
    weights = view.maps[0].layers[0][:, 2]
    expected = (weights >= view.maps[0].layers[0].max() / 200).sum(axis=-1)
    assert [own.count(str(head)) for head in range(3)] == expected.tolist()
    head, key = np.unravel_index(weights.argmax(), weights.shape)
    assert readout.startswith(f"[b] looks most at {WORDS[key]} (head {head}) {weights.max():.4f}")
    assert (hidden, back, none) == ("hidden", "visible", 0)


def test_a_word_can_be_kept_and_let_go(view):
    steps = """
    const look = () => [chosen.word, text("readout").split(" looks ")[0], location.hash];
    at("lines").fire("keydown", { key: "ArrowDown" });
    at("lines").fire("keydown", { key: "ArrowDown" });
    at("lines").fire("keydown", { key: "Enter" });
    point({});
    const kept = look();
    at("lines").fire("keydown", { key: "Escape" });
    return [kept, chosen.word, location.hash];
    """
    kept, word, address = shown(view, steps, "#hide=special")
    assert kept == ["q2", "[b]", "#hide=special&word=q2"]  # the second that is left
    assert word is None and address == "#hide=special"
