"""Orders of removal, curves, learned gates and times."""

from dataclasses import replace
from math import isclose, nan

import numpy as np
import pytest
import torch

import regard
from regard import BadInput, Tape
from regard.data.readers.examples import ExampleContent
from regard.inside.heads.importance import head_importance
from regard.inside.pruning.curve import CurvePoint, PruningCurve, pruning_curve
from regard.inside.pruning.gates import (
    RATE,
    START,
    closed_share,
    gate_values,
    learn_gates,
    multiply_heads,
    open_probabilities,
    sample_gates,
    train_with_gates,
)
from regard.inside.pruning.orders import (
    first_of,
    normalise,
    order_by,
    order_in_rounds,
    random_order,
)
from regard.inside.pruning.remove_heads import (
    Head,
    heads_of,
    prunable_sites,
    remove_heads,
    turn_off,
)
from regard.inside.pruning.speed import compare_speed, forward_passes
from regard.inside.pruning.task_loss import loss_batches
from regard.metrics.intervals import mean_interval
from regard.metrics.translation import MetricScore
from regard.models.attention_site import AttentionSite
from regard.tasks.components import runner_of
from small_bert import SENTENCES
from small_bert import model as small_encoder

SITE = AttentionSite("trunk", "self", (2, 1), "trunk.blocks.{layer}.attention")
VALUES = {"encoder": np.array([[3.0, 4.0], [0.1, nan]])}
FIRST, SECOND, LONE = heads_of(SITE)


def test_orders_begin_with_the_least():
    assert order_by(VALUES, [SITE]) == [LONE, FIRST, SECOND]
    normal = normalise(VALUES)
    np.testing.assert_allclose(normal["encoder"], [[0.6, 0.8], [1.0, nan]])
    assert order_by(normal, [SITE]) == [FIRST, SECOND, LONE]
    np.testing.assert_array_equal(normalise({"encoder": np.zeros((1, 2))})["encoder"], [[0, 0]])


def test_values_are_measured_again_without_the_heads_before():
    calls = []

    def measure(off):
        calls.append([*off])
        return VALUES if not off else {"encoder": np.array([[4.0, 3.0], [0.0, nan]])}

    assert order_in_rounds(measure, [SITE], 1) == order_by(VALUES, [SITE])
    assert order_in_rounds(measure, [SITE], 3) == [LONE, SECOND, FIRST]
    assert calls == [[], [], [LONE], [LONE, SECOND]]


def test_there_are_no_more_rounds_than_heads_or_than_a_share_needs():
    site = replace(SITE, heads=(8,))
    asked = []

    def measure(off):
        asked.append(len(off))
        return {site.name: np.arange(8.0)[None]}

    order = order_in_rounds(measure, [site], 1000)
    assert order == heads_of(site) and asked == [*range(8)]
    asked.clear()
    assert order_in_rounds(measure, [site], 4, 0.5) == order and asked == [0, 2]


def test_heads_that_are_off_are_as_if_removed():
    model = small_encoder("one")
    (site,) = prunable_sites(model.facts)
    off = heads_of(site)[:2]
    ((rows, loss),) = loss_batches(model.inspected, contents(), model.labels, inputs=3, longest=48)
    smaller = regard.Model(remove_heads(model._loaded, off)).inspected
    expected = loss(smaller.run(rows)).item()
    assert loss(turn_off(model.inspected, off).run(rows)).item() == pytest.approx(
        expected, abs=1e-4
    )
    importance = head_importance(turn_off(model.inspected, off), [(rows, loss)])["encoder"]
    assert (importance[0] == 0).all() and (importance[1] > 0).all()


def test_random_orders_follow_their_seed():
    site = AttentionSite("trunk", "self", (8,) * 4, "{layer}")
    orders = [random_order([site], seed) for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    assert {*orders[2]} == {*heads_of(site)}


def test_one_head_always_stays():
    order = [FIRST, SECOND, LONE]
    assert first_of(order, 0) == []
    assert first_of(order, 0.34) == [FIRST]
    assert first_of(order, 0.99) == [FIRST, SECOND]
    for share in (1, 1.5, -0.1):
        with pytest.raises(BadInput, match=r"share: .* leaves no head, or is below 0"):
            first_of(order, share)


def test_a_curve_scores_the_models_without_the_first_heads():
    model = small_encoder("one")._loaded
    (site,) = prunable_sites(model.facts)
    order = heads_of(site)
    counts = []

    def score(pruned):
        counts.append(pruned.facts.attention_sites[0].heads)
        return MetricScore("accuracy", float(sum(counts[-1])), "")

    curve = pruning_curve(
        model,
        {"encoder": [site]},
        lambda sites: order,
        score,
        whole=4.0,
        metric="accuracy",
        method="importance",
        shares=(0.25, 0.5),
        seeds=(0, 1),
    )
    assert curve.whole == 4 and (1, 2) in counts and (0, 2) in counts
    assert [(point.removed, point.score, point.random) for point in curve.points] == [
        (1, 3.0, (3.0, 3.0)),
        (2, 2.0, (2.0, 2.0)),
    ]


def test_the_table_and_the_chart_have_mean_and_range_of_random_orders():
    point = CurvePoint("cross", 0.2, 2, 10, 29.5, (20.0, 27.0, 22.0))
    curve = PruningCurve("BLEU", "importance", 30.0, (point,))
    columns, (row,) = curve.table()
    assert columns[3:] == ["BLEU", "change", "random", "low", "high", "least", "most"]
    low, high = mean_interval([20.0, 27.0, 22.0])
    assert row == ["cross", 0.2, 2, 29.5, -0.5, 23.0, low, high, 20.0, 27.0]
    own, random = curve.chart("cross").lines
    assert (own.name, [*own.points]) == ("importance", [(0.0, 30.0), (0.2, 29.5)])
    assert (random.name, random.points[1]) == ("random, mean", (0.2, 23.0))
    assert random.intervals[1] == (low, high)
    page = curve.report("title").html()
    assert page.count("<svg") == 1 and "29.50" in page
    alone = PruningCurve("BLEU", "importance", 30.0, (CurvePoint("cross", 0.2, 2, 10, 29.5),))
    assert [line.name for line in alone.chart("cross").lines] == ["importance"]
    assert alone.table()[1][0][-5:] == [None] * 5
    (once,) = PruningCurve("BLEU", "gates", 30.0, (replace(point, random=(20.0,)),)).table()[1]
    assert once[-5:] == [20.0, None, None, 20.0, 20.0]  # one order has no interval


def contents():
    return [ExampleContent((text,), labels=("good",)) for text in (*SENTENCES, "A cat.")]


def test_losses_are_those_of_the_first_short_examples():
    model = small_encoder("one")
    short = loss_batches(model.inspected, contents(), model.labels, inputs=9, longest=6)
    assert [len(rows) for rows, _ in short] == [1]
    batches = loss_batches(model.inspected, contents(), model.labels, inputs=3, longest=48)
    ((rows, loss),) = batches
    logits = [*model.logits(SENTENCES[:3])]
    gold = model.labels.names.index("good")
    expected = -sum(float(each.log_softmax(-1)[gold]) for each in logits)
    assert isclose(loss(model.inspected.run(rows)).item(), expected, rel_tol=1e-5)
    with pytest.raises(BadInput, match="no example has at most 2 tokens"):
        loss_batches(model.inspected, contents(), model.labels, inputs=3, longest=2)
    tagger = small_encoder("tags")
    with pytest.raises(BadInput, match="pruning needs the loss of one label per text"):
        loss_batches(tagger.inspected, contents(), tagger.labels, inputs=3, longest=48)


def test_gates_are_those_of_the_paper():
    log_alpha_H = torch.tensor([-4.0, 0.0, 4.0])
    uniform = (torch.arange(20_000) + 0.5) / 20_000
    for log_alpha, probability in zip(log_alpha_H, open_probabilities(log_alpha_H), strict=True):
        gates = sample_gates(log_alpha, uniform)
        assert isclose(float((gates > 0).float().mean()), float(probability), abs_tol=1e-3)
        assert gates.min() >= 0 and gates.max() <= 1
    assert gate_values(log_alpha_H).tolist() == [0.0, 0.5, 1.0]
    assert closed_share({"encoder": np.array([[-4.0, 4.0], [4.0, nan]])}) == pytest.approx(1 / 3)


@pytest.mark.slow
def test_gates_close_heads_that_do_nothing_and_leave_the_weights():
    loaded = small_encoder("one", seed=3)
    with torch.no_grad():  # the last head of each layer adds nothing
        for block in loaded.module.trunk.blocks:
            block.attention.o.weight[:, 8:] = 0
    before = {name: value.clone() for name, value in loaded.module.state_dict().items()}
    sites = prunable_sites(loaded.facts)
    labels = [str(each.label) for each in loaded.predict([*SENTENCES])]
    told = [ExampleContent((t,), labels=(n,)) for t, n in zip(SENTENCES, labels, strict=True)]
    batches = loss_batches(loaded.inspected, told, loaded.labels, inputs=5, longest=48)
    settings = {"penalty": 0.02, "epochs": 60}
    learned = learn_gates(loaded.inspected, batches, sites, **settings)
    again = learn_gates(loaded.inspected, batches, sites, **settings)
    np.testing.assert_array_equal(learned["encoder"], again["encoder"])
    assert {head.number for head in order_by(learned, sites)[:2]} == {1}
    assert (learned["encoder"][:, 1] < 0).all()
    importance = head_importance(loaded.inspected, batches)["encoder"]
    assert (importance[:, 1] == 0).all() and (importance[:, 0] > 0).all()
    torch.testing.assert_close(loaded.module.state_dict(), before, rtol=0, atol=0)
    with pytest.raises(BadInput, match="penalty must be above 0, not 0"):
        learn_gates(loaded.inspected, batches, sites, penalty=0, epochs=1)


def test_the_penalty_of_gates_is_weighed_against_the_mean_loss():
    """Twice the same texts in a batch are the same mean loss, and so the same gates."""
    model = small_encoder("one", seed=3)
    told, sites = told_labels(model), prunable_sites(model.facts)
    of_times = []
    for times in (1, 3):
        inputs = times * len(told)
        batches = loss_batches(
            model.inspected, told * times, model.labels, inputs=inputs, longest=48
        )
        assert [len(rows) for rows, _ in batches] == [inputs]
        learned = learn_gates(model.inspected, batches, sites, penalty=0.02, epochs=4)
        of_times.append(learned["encoder"])
    once, three_times = of_times
    np.testing.assert_allclose(three_times, once, atol=1e-4)
    assert np.abs(once - START).max() > RATE  # that is, the gates have moved


def gated_edits(site, log_alphas):
    """Tape that multiplies the outputs of heads by their gates."""
    values = gate_values(torch.from_numpy(log_alphas[site.name])).float()
    names = [f"{site.tape_path.format(layer=layer)}.head_outputs" for layer in range(site.layers)]
    gates = dict(zip(names, values, strict=True))
    return Tape(edits=dict.fromkeys(names, lambda name, x_THK: x_THK * gates[name][:, None]))


def test_gates_become_part_of_the_weights():
    model = small_encoder("one")
    expected_of = small_encoder("one")
    (site,) = prunable_sites(model.facts)
    log_alphas = {"encoder": np.array([[-4.0, 0.3], [4.0, -5.0]])}
    multiply_heads(model._loaded, [site], log_alphas)
    closed = first_of(order_by(log_alphas, [site]), closed_share(log_alphas))
    assert {*closed} == {Head("encoder", 0, 0), Head("encoder", 1, 1)}
    smaller = regard.Model(remove_heads(model._loaded, closed))
    expected = expected_of.logits(SENTENCES, tape=gated_edits(site, log_alphas))
    for logits_of in (model.logits, smaller.logits):
        for own, gated in zip(logits_of(SENTENCES), expected, strict=True):
            torch.testing.assert_close(own, gated, rtol=0, atol=1e-5)


def told_labels(model):
    """Sentences with the labels of the model in turns, which attention need not tell apart."""
    names = model.labels.names
    labels = (names[number % len(names)] for number in range(len(SENTENCES)))
    return [ExampleContent((t,), labels=(n,)) for t, n in zip(SENTENCES, labels, strict=True)]


def test_training_with_gates_leaves_the_model_and_follows_its_seed():
    model = small_encoder("one")
    before = {name: value.clone() for name, value in model.module.state_dict().items()}
    batches = loss_batches(model.inspected, told_labels(model), model.labels, inputs=5, longest=48)
    sites, settings = prunable_sites(model.facts), {"penalty": 0.1, "epochs": 2}
    state = torch.get_rng_state()
    runs = [
        train_with_gates(model._loaded, batches, sites, rate=rate, **settings)
        for rate in (1e-2, 1e-2, 1e-3)
    ]
    assert torch.equal(torch.get_rng_state(), state)
    first, again, slower = (trained.module.state_dict() for trained, _ in runs)
    torch.testing.assert_close(model.module.state_dict(), before, rtol=0, atol=0)
    torch.testing.assert_close(again, first, rtol=0, atol=0)
    change = {
        name: [float((own[name] - before[name]).abs().max()) for own in (first, slower)]
        for name in before
        if name.endswith("up.weight")
    }
    assert change and all(fast > 3 * slow > 0 for fast, slow in change.values())
    trained = runs[0][0]
    assert not trained.module.training and trained.notes["weights"] == "trained with gates"
    assert all(weight.grad is None for weight in trained.module.parameters())
    with pytest.raises(BadInput, match="rate of the weights must be above 0, not 0"):
        train_with_gates(model._loaded, batches, sites, rate=0, **settings)


@pytest.mark.slow
def test_a_model_adapts_while_its_gates_close():
    model = small_encoder("one", seed=3)
    batches = loss_batches(model.inspected, told_labels(model), model.labels, inputs=5, longest=48)
    ((rows, loss),) = batches
    sites = prunable_sites(model.facts)
    trained, log_alphas = train_with_gates(
        model._loaded, batches, sites, rate=1e-2, penalty=1.0, epochs=120
    )
    closed = first_of(order_by(log_alphas, sites), closed_share(log_alphas))
    assert len(closed) >= 2  # of 4 heads
    before, masked, after, pruned = (
        loss(each.run(rows)).item()
        for each in (
            model.inspected,
            turn_off(model.inspected, closed),
            runner_of(trained),
            runner_of(remove_heads(trained, closed)),
        )
    )
    assert pruned == pytest.approx(after, abs=1e-5) and pruned < before / 2 < masked


def test_times_are_of_turns_and_sizes_of_both_models():
    model = small_encoder("one")
    pruned = remove_heads(model._loaded, [Head("encoder", 0, 0)])
    turns = []

    def run(loaded):
        return lambda: turns.append(loaded)

    whole, fewer = compare_speed([model._loaded, pruned], run, rounds=2)
    assert turns == [model._loaded, pruned] * 3
    assert (whole.heads, fewer.heads) == (4, 3)
    assert whole.parameters - fewer.parameters == 8 * (3 * 17 + 16)
    rows = [[model.inspected.read(text) for text in SENTENCES[:2]]]
    forward_passes(pruned, rows)()
    assert regard.Model(pruned).predict([SENTENCES[0]])
