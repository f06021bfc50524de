"""ULMFiT: a recurrent language model with two blocks of batch norm over three pooled states."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from regard.core.batch import pack
from regard.core.errors import BadInput
from regard.core.layout import Layout
from regard.models.facts import change, from_json, to_json
from regard.models.folders import folder as folders
from regard.models.label_heads import LabelHead
from regard.models.model_tables import ModelConfig
from regard.models.papers import KINDS, awd_lstm, bert, ulmfit
from regard.models.papers.ulmfit import NormedLabelHead
from regard.models.pools import ConcatPool, LastToken
from regard.models.start import read_start
from regard.training.optimiser import layer_groups
from regard.weights.files import weights_of

SIZES = {"vocab": 17, "width": 12, "embedding": 8, "last_width": 8}
DROPOUT = ("word_dropout", "dropout", "input_dropout", "hidden_dropout", "weight_drop")
STILL = {**dict.fromkeys(DROPOUT, 0.0), "rates": (0.0, 0.0)}
ROWS = [[1, 2, 3, 4, 5, 6, 7], [8], [], [9, 10, 11]]


def classifier(**changes):
    read = replace(ulmfit.BASE, pool=LastToken(), output_heads=(LabelHead(3),))
    return change(ulmfit.PAPER.fit_heads(read), **{**SIZES, "outputs": 3, **changes})


def built(**changes):
    torch.manual_seed(3)
    return classifier(**changes).build()


def torchs_head(head):
    """The blocks of fastai's PoolingLinearClassifier, of torch's own modules."""
    layers = [
        *(nn.BatchNorm1d(24), nn.Identity(), head.dense, nn.ReLU()),
        *(nn.BatchNorm1d(50), nn.Identity(), head.out),
    ]
    return nn.Sequential(*layers)


def test_three_pooled_states_and_two_blocks():
    model = built(**STILL)
    rows = [row for row in ROWS if row]
    expected = torchs_head(model.heads.label)
    for module in (model, expected):
        module.train()
    for _ in range(2):
        outputs = model(pack(rows))
        states = Layout.ragged([*map(len, rows)]).split(outputs.encoded.states_TD)
        pooled_BD = torch.stack([torch.cat([s[-1], s.amax(0), s.mean(0)]) for s in states])
        torch.testing.assert_close(outputs.pooled_BD, pooled_BD)
        torch.testing.assert_close(outputs.by_head["label"], expected(pooled_BD))
    last = model.eval()(pack(rows))
    torch.testing.assert_close(last.by_head["label"], expected.eval()(last.pooled_BD))


def test_a_row_without_tokens_changes_nothing_for_others():
    with_empty, without = built(**STILL), built(**STILL)
    found = with_empty(pack(ROWS)).by_head["label"]
    expected = without(pack([row for row in ROWS if row])).by_head["label"]
    torch.testing.assert_close(found[[0, 1, 3]], expected)
    assert found.isfinite().all()
    for name, tensor in weights_of(without).items():
        torch.testing.assert_close(weights_of(with_empty)[name], tensor)


def test_batches_of_a_transformer_with_batch_norm_are_not_filled_up():
    """Rows that fill a batch of a fixed shape would count."""
    facts = replace(bert.TINY, pool=ConcatPool(), output_heads=(NormedLabelHead(3),))
    assert facts.eager and not bert.TINY.eager
    changes = {"vocab": 17, "width": 8, "inner": 12, "longest": 10, "segments": 0}
    model = change(facts, **changes).build()
    assert model(pack(ROWS)).by_head["label"].shape == (4, 3)
    assert model.heads.label.norms[0].running_mean.any()


def test_the_head_costs_its_products():
    facts = classifier()
    head = facts.build().heads.label
    weights = head.dense.weight.numel() + head.out.weight.numel()
    assert facts.output_heads[0].macs(facts.trunk, facts.pooled_width) == weights
    without = replace(facts, output_heads=()).training_flops([(3,), (2,)])
    assert facts.training_flops([(3,), (2,)]) - without == 2 * 3 * 2 * weights


def test_pools_read_states_before_the_last_dropout():
    model = built(**STILL | {"dropout": 0.9})
    pooled = [model.train(mode)(pack(ROWS)).pooled_BD for mode in (True, False)]
    torch.testing.assert_close(*pooled)


def test_gradients_go_through_the_last_tokens_of_a_row():
    whole, truncated = built(**STILL), built(**STILL, bptt=3)
    longest = ROWS[0]
    outputs = [model.eval()(pack(ROWS)) for model in (whole, truncated)]
    torch.testing.assert_close(outputs[0].encoded.states_TD, outputs[1].encoded.states_TD)
    read = [model.train()(pack(ROWS)) for model in (whole, truncated)]
    for one, other in zip(read, outputs, strict=True):
        torch.testing.assert_close(one.encoded.states_TD, other.encoded.states_TD)
    early = read[1].encoded.states_TD[: len(longest) - 3]
    assert (
        early.any()
        and not torch.autograd.grad(
            early.sum(), truncated.trunk.embed.token.weight, retain_graph=True
        )[0].any()
    )
    gradients = [
        torch.autograd.grad(one.pooled_BD.sum(), model.trunk.embed.token.weight)[0]
        for one, model in zip(read, (whole, truncated), strict=True)
    ]
    assert gradients[0][longest].any(1).all()
    assert gradients[1][longest].any(1).tolist() == [False] * 4 + [True] * 3
    short = [token for row in ROWS[1:] for token in row]
    torch.testing.assert_close(gradients[0][short], gradients[1][short])


def test_truncated_rows_have_one_draw_of_weight_drop():
    drops = STILL | {"weight_drop": 0.5}
    states = []
    for model in (built(**drops), built(**drops, bptt=3)):
        torch.manual_seed(0)
        states.append(model.train()(pack(ROWS)).encoded.states_TD)
    torch.testing.assert_close(*states)


def test_a_learned_initial_state_has_the_gradient_of_rows_that_are_not_truncated():
    whole, truncated = (built(**STILL, initial="learned", bptt=bptt).train() for bptt in (None, 3))
    gradients = []
    for model in (whole, truncated):
        states = Layout.ragged([*map(len, ROWS)]).split(model(pack(ROWS)).encoded.states_TD)
        learned = [*model.trunk.initial.parameters()]
        of_rows = (
            torch.autograd.grad(states[row].sum(), learned, retain_graph=True) for row in (0, 1, 3)
        )
        gradients.append([*of_rows])
    for row in (1, 2):
        for expected, found in zip(gradients[0][row], gradients[1][row], strict=True):
            assert expected.any()
            torch.testing.assert_close(found, expected)
    assert not any(one.any() for one in gradients[1][0])  # its beginning is cut off


def test_levels_are_embedding_layers_and_head():
    model = built()
    names = {parameter: name for name, parameter in model.named_parameters()}
    levels = [{names[one].rsplit(".", 2)[0] for one in level} for level in layer_groups(model)]
    layers = [{f"trunk.layers.{number}"} for number in range(3)]
    assert levels[:4] == [{"trunk.embed"}, *layers]
    assert all(name.startswith("heads.label") for name in levels[4]) and len(levels) == 5


def test_its_facts_are_those_of_the_paper_and_can_be_stored():
    facts = classifier(bptt=4)
    assert from_json(to_json(facts), KINDS, "here") == facts
    stack, embed = ulmfit.BASE.trunk.stack, ulmfit.BASE.trunk.embed
    assert (stack.width, stack.embedding, stack.depth, stack.weight_drop) == (1150, 400, 3, 0.5)
    rates = (stack.dropout, stack.hidden_dropout, stack.input_dropout, embed.word_dropout)
    assert rates == (0.4, 0.3, 0.4, 0.05)
    for changes in ({"rates": (0.1,)}, {"rates": (0.1, 1.5)}, {"hidden": 0}, {"bptt": 0}):
        with pytest.raises(BadInput, match=next(iter(changes))):
            change(facts, **changes)


def test_a_language_model_of_awd_lstm_is_one_of_ulmfit(tmp_path):
    facts = change(awd_lstm.WIKITEXT_2.with_heads(awd_lstm.HEAD), **SIZES)
    stored = folders.LoadedModel(awd_lstm.PAPER, facts, facts.build(), None)
    folders.write(tmp_path / "lm", stored)
    start = read_start(ModelConfig(start=str(tmp_path / "lm"), paper="ulmfit"), tmp_path)
    assert start.paper is ulmfit.PAPER and start.facts == facts
    theirs = weights_of(stored.module)
    assert all(torch.equal(one, theirs[name]) for name, one in weights_of(start.module).items())
    with pytest.raises(BadInput, match="holds a model of AWD-LSTM, not of Lin"):
        read_start(ModelConfig(start=str(tmp_path / "lm"), paper="lin"), tmp_path)
