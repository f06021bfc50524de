"""Gradients of the final state, compared with autograd one number at a time."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from regard import Report
from regard.core.batch import pack
from regard.experiments.studies.recency import gradient_chart, gradient_norms
from regard.models.facts import change
from regard.models.papers import gpt2, transformer, zaremba
from regard.models.papers.lin import LAPTOP, LAST

SIZES = {"vocab": 20, "width": 4, "embedding": 3, "dropout": 0.0}
STACK = change(transformer.LAPTOP, vocab=20, width=8, inner=16, heads=2, depth=1, dropout=0.0)
MODELS = {
    "rnn": change(LAST, **SIZES, cell="rnn", direction="forward"),
    "attention": change(LAPTOP, **SIZES),
    "transformer": replace(LAST, trunk=STACK.source),
    "lstm language model": change(zaremba.SMALL, **SIZES, last_width=5, initial="learned"),
    "transformer language model": change(gpt2.SMALL, vocab=20, width=8, inner=16, heads=2, depth=1),
}


@pytest.mark.parametrize("facts", MODELS.values(), ids=list(MODELS))
def test_norms_are_those_of_the_whole_jacobian(facts):
    model = facts.build().double().eval()
    tokens = [3, 7, 5, 11]
    packed = pack([tokens])
    embed = model.trunk.embed
    x_TD = embed(packed.tokens_T, packed.layout).detach()

    def final(given):
        """The pooled state, or the last one, as a function of the embeddings."""
        embed.forward = lambda tokens_T, layout, tape: given
        try:
            encoded = model.encode(packed)
            pooled = model.pooled(encoded)
            return encoded.states_TD[-1] if pooled is None else pooled[0]
        finally:
            del embed.forward

    jacobian = torch.autograd.functional.jacobian(final, x_TD)  # (D, T, embedding)
    wanted = jacobian.square().sum((0, 2)).sqrt().flip(0)
    np.testing.assert_allclose(gradient_norms(model, [tokens]), wanted, rtol=1e-8)


def test_one_way_back_answers_for_many_numbers(monkeypatch):
    """However many are asked for at once, the norms are the same."""
    model = MODELS["attention"].build().double().eval()
    texts = [[3, 7, 5, 11], [4, 6], []]
    ways = []
    way_back = torch.autograd.grad
    monkeypatch.setattr(torch.autograd, "grad", lambda *a: ways.append(1) or way_back(*a))
    at_once = gradient_norms(model, texts)
    assert len(ways) == 1
    for tokens, count in ((1, 8), (18, 3)):
        ways.clear()
        monkeypatch.setattr("regard.experiments.studies.recency.TOKENS", tokens)
        np.testing.assert_allclose(gradient_norms(model, texts), at_once, rtol=1e-10)
        assert len(ways) == count


def test_texts_are_averaged_by_distance_from_their_ends():
    model = MODELS["rnn"].build().double().eval()
    one, other = gradient_norms(model, [[3, 7, 5]]), gradient_norms(model, [[4, 6]])
    both = gradient_norms(model, [[3, 7, 5], [4, 6]])
    np.testing.assert_allclose(both[:2], (one[:2] + other) / 2)
    assert both[2] == pytest.approx(one[2])
    many = gradient_norms(model, [[3, 7, 5]] * 40)  # more than are read at once
    np.testing.assert_allclose(many, one)


def test_a_gradient_vanishes_through_states_and_not_through_attention():
    text = [[int(i) for i in torch.randint(20, (30,))] for _ in range(8)]
    sizes = {**SIZES, "width": 16, "embedding": 16, "direction": "forward"}
    last = gradient_norms(change(LAST, **sizes, cell="rnn").build().eval(), text)
    pooled = gradient_norms(change(LAPTOP, **sizes).build().eval(), text)
    assert last[-1] < last[0] / 1_000
    assert pooled[-1] > pooled[0] / 10


def test_pictures_and_page():
    curves = {"RNN": 10.0 ** -np.arange(12.0), "<b>": np.full(12, 0.1)}
    chart = gradient_chart("How far: trained", curves)
    drawing = chart.svg()
    assert drawing.startswith("<svg") and drawing.count("<polyline") == 2
    assert "&lt;b&gt;" in drawing and "<b>" not in drawing
    rows, charts = [["RNN", "99 ± 1"]], {"trained": chart}
    page = Report("How far", ["reader", "0"], rows, charts, ["a note"]).html()
    for part in ("<td>99 ± 1</td>", "a note", "How far: trained", "var(--ink)"):
        assert part in page
    assert "http://www.w3.org" in page and not re.search(r"(src|href)=", page)


def test_no_place_for_nothing_on_a_scale_of_powers():
    (line,) = gradient_chart("t", {"a": np.array([1.0, 0.0, 0.5])}).lines
    assert line.points == [(0, 1.0), (2, 0.5)]
