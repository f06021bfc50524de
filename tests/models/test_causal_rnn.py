"""Recurrent language models: rows and steps agree, state is carried, dropout is what it says."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from closeness import VALUES
from regard import generation
from regard.core.batch import PackedTokens, pack
from regard.core.errors import BadInput
from regard.core.layout import Layout
from regard.core.pytree import map_tensors, tensors_in
from regard.generation import Prompts
from regard.layers.dropout import RowDropout
from regard.layers.recurrent.rnn import RNNLayer
from regard.models.facts import change, from_json, to_json
from regard.models.heads import NextTokenHead
from regard.models.paper import count_parameters
from regard.models.papers import KINDS, awd_lstm, zaremba
from regard.models.rnn import CausalRNNFacts
from regard.models.tokens import Tokens
from regard.models.trunk import Trunk
from regard.models.trunk_with_heads import TrunkWithHeads

ROWS, LENGTH, VOCAB = 3, 8, 17
TINY = TrunkWithHeads(
    trunk=Trunk(Tokens(vocab=VOCAB, position=None), CausalRNNFacts(width=6, embedding=5, depth=2)),
    output_heads=(NextTokenHead(tied=False, bias=True),),
)
CELLS = ["rnn", "gru", "lstm"]


def built(**changes):
    torch.manual_seed(1)
    model = change(TINY, **changes).build().eval()
    for name, parameter in model.named_parameters():
        if "initial" in name:
            nn.init.normal_(parameter)
    return model


def rectangle(rows=ROWS, length=LENGTH, seed=2):
    torch.manual_seed(seed)
    return PackedTokens(torch.randint(VOCAB, (rows * length,)), Layout.rectangle(rows, length))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("initial", ["zero", "learned"])
def test_parts_with_carried_state_are_the_whole(cell, initial):
    model, whole = built(cell=cell, initial=initial), rectangle()
    tokens_BL = whole.tokens_T.view(ROWS, LENGTH)
    state, logits = model.trunk.new_state(ROWS), []
    for part_BL in tokens_BL.split([3, 1, 4], dim=1):
        layout = Layout.rectangle(ROWS, part_BL.shape[1])
        outputs = model(PackedTokens(part_BL.flatten(), layout), state=state)
        state = outputs.encoded.state
        logits.append(outputs.by_head["next_token"].view(ROWS, -1, VOCAB))
    expected = model(whole)
    assert expected.encoded.state is None
    together = torch.cat(logits, dim=1).flatten(0, 1)
    assert torch.allclose(together, expected.by_head["next_token"], **VALUES)


@pytest.mark.parametrize("cell", CELLS)
def test_ragged_rows_are_those_of_a_rectangle(cell):
    model, whole = built(cell=cell, initial="learned"), rectangle()
    rows = [row.tolist() for row in whole.tokens_T.view(ROWS, LENGTH)]
    ragged = model(pack([rows[0][:5], rows[1], [], rows[2][:1]])).encoded.states_TD
    even = model(whole).encoded.states_TD.view(ROWS, LENGTH, -1)
    expected = torch.cat([even[0, :5], even[1], even[2, :1]])
    assert torch.allclose(ragged, expected, **VALUES)


@pytest.mark.parametrize("cell", CELLS)
def test_it_is_the_module_of_torch(cell):
    model, whole = built(cell=cell), rectangle()
    names = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
    torchs = names[cell](5, 6, 2, batch_first=True)
    for number, layer in enumerate(model.trunk.layers):
        for name, weight in layer.kernel.named_parameters():
            getattr(torchs, name.replace("l0", f"l{number}")).data.copy_(weight)
    expected, _ = torchs(model.trunk.embed.token(whole.tokens_T.view(ROWS, LENGTH)))
    assert torch.allclose(model(whole).encoded.states_TD.view(ROWS, LENGTH, -1), expected, **VALUES)


@pytest.mark.parametrize("prompts", [[[1, 2, 3], [4], [5, 6]], [[1], [2], [3]]])
def test_decoding_step_by_step_is_the_whole_forward_pass(prompts):
    model = built(initial="learned", last_width=4)
    state = generation.open_state(model, prompts=Prompts.of(prompts), capacity=20)
    tokens_R, rows = torch.tensor([row[-1] for row in prompts]), [list(row) for row in prompts]
    torch.manual_seed(5)
    for _ in range(4):
        logprobs_RV = state.step(tokens_R)
        outputs = model(pack(rows)).by_head["next_token"].log_softmax(-1)
        ends = torch.tensor([len(row) for row in rows]).cumsum(0) - 1
        assert torch.allclose(logprobs_RV, outputs[ends], atol=1e-5)
        index_R = torch.tensor([2, 0, 0])
        state.select_rows(index_R)
        rows = [list(rows[i]) for i in index_R]
        tokens_R = torch.randint(VOCAB, (3,))
        rows = [[*row, int(token)] for row, token in zip(rows, tokens_R, strict=True)]


def test_the_learned_initial_state_has_a_gradient_where_a_text_begins():
    model, whole = built(initial="learned"), rectangle()
    outputs = model(whole, state=model.trunk.new_state(ROWS))
    gradients = torch.autograd.grad(
        outputs.encoded.states_TD.sum(), [*model.trunk.initial.parameters()]
    )
    assert all(gradient.any() for gradient in gradients)
    later = model(whole, state=map_tensors(torch.Tensor.detach, outputs.encoded.state))
    gradients = torch.autograd.grad(
        later.encoded.states_TD.sum(), [*model.trunk.initial.parameters()]
    )
    assert not any(gradient.any() for gradient in gradients)
    assert not outputs.encoded.state.begins_B1.any() and len(tensors_in(outputs.encoded.state)) == 5


def test_a_locked_mask_is_that_of_all_tokens_of_a_row():
    torch.manual_seed(3)
    dropout = RowDropout(0.5).train()
    for layout in (Layout.rectangle(2, 4), Layout.ragged([5, 0, 3])):
        rows = [row for row in layout.split(dropout(torch.ones(8, 40), layout)) if len(row)]
        assert all((row == row[0]).all() for row in rows)
        assert not torch.equal(rows[0][0], rows[1][0])
        assert {*rows[0].unique().tolist()} == {0.0, 2.0}
    assert torch.equal(dropout.eval()(torch.ones(8, 2), layout), torch.ones(8, 2))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("layout", [Layout.rectangle(2, 6), Layout.ragged([5, 4, 3])])
def test_weight_drop_falls_on_the_weights_from_state_to_state(cell, layout):
    torch.manual_seed(4)
    layer, x_TD = RNNLayer(cell, 3, 5, weight_drop=0.5), torch.randn(12, 3)
    plain, _ = layer.eval()(x_TD, layout)
    torch.manual_seed(6)
    dropped, _ = layer.train()(x_TD, layout)
    assert not torch.allclose(plain, dropped)
    weight, other = layer.kernel.weight_hh_l0, RNNLayer(cell, 3, 5)
    other.load_state_dict(layer.state_dict())
    torch.manual_seed(6)
    other.kernel.weight_hh_l0.data = layer.weight_drop(weight).detach()
    zeros = (other.kernel.weight_hh_l0 == 0).float().mean()
    assert 0.2 < zeros < 0.8
    assert torch.allclose(dropped, other(x_TD, layout)[0], **VALUES)
    dropped.sum().backward()
    assert weight.grad is not None
    assert not weight.grad[other.kernel.weight_hh_l0 == 0].any()


def test_facts_round_trip_and_are_checked():
    facts = change(TINY, locked=True, weight_drop=0.2, initial="learned", input_dropout=0.4)
    assert from_json(to_json(facts), KINDS, "x") == facts
    assert facts.writes and facts.eager and facts.trunk.stack.carries_state
    for changes, message in (
        ({"initial": "ones"}, "no initial is called 'ones'"),
        ({"weight_drop": 1.5}, "weight_drop must be at least 0"),
        ({"residual": True, "last_width": 3}, "residual: all layers"),
    ):
        with pytest.raises(BadInput, match=message):
            change(TINY, **changes)


@pytest.mark.parametrize(
    ("size", "count"), [("small", 4_651_600), ("medium", 19_775_200), ("large", 66_022_000)]
)
def test_sizes_of_zaremba(size, count):
    """Those of the paper's code, and a second bias of each gate of both layers."""
    facts = zaremba.PAPER.sizes[size].with_heads(NextTokenHead())
    facts = zaremba.PAPER.fit_heads(facts)
    width = facts.trunk.stack.width
    assert zaremba.PAPER.parameters(facts) == count + 2 * 4 * width
    tied = change(facts, tied=True)
    assert zaremba.PAPER.parameters(tied) == count + 2 * 4 * width - 10_000 * width


def test_counts_of_other_widths():
    facts = change(TINY, last_width=4, **{"next_token.tied": False})
    inner = [(5, 6), (6, 4)]
    gates = sum(4 * width * (inputs + width + 2) for inputs, width in inner)
    assert count_parameters(facts.build()) == VOCAB * 5 + gates + VOCAB * 4 + VOCAB
    assert facts.trunk.macs().token == sum(4 * w * (i + w) for i, w in inner)


def test_undropped_states_come_with_dropped_ones():
    model = replace(TINY, trunk=change(TINY.trunk, dropout=0.5)).build().train()
    outputs = model(rectangle())
    dropped = outputs.encoded.states_TD == 0
    assert dropped.any() and not (outputs.encoded.undropped_TD == 0).any()
    kept = 2 * outputs.encoded.undropped_TD[~dropped]
    assert torch.allclose(outputs.encoded.states_TD[~dropped], kept, rtol=1e-4)


def test_the_size_of_awd_lstm():
    """33,556,078 parameters, as the code of the paper prints for WikiText-2."""
    facts = awd_lstm.PAPER.fit_heads(awd_lstm.WIKITEXT_2.with_heads(NextTokenHead()))
    assert awd_lstm.PAPER.parameters(facts) == 33_556_078
    module = change(facts, vocab=9, width=6, embedding=4, last_width=4).build()
    assert module.output.weight is module.trunk.embed.token.weight
    assert [layer.width for layer in module.trunk.layers] == [6, 6, 4]


def test_word_dropout_drops_a_word_everywhere():
    torch.manual_seed(2)
    embed = change(TINY.trunk, word_dropout=0.5).build().embed.train()
    tokens_T = torch.arange(VOCAB).repeat(3)
    x_TD = embed(tokens_T, Layout.rectangle(3, VOCAB)).view(3, VOCAB, -1)
    assert torch.equal(x_TD[0], x_TD[1]) and torch.equal(x_TD[0], x_TD[2])
    gone_V = (x_TD[0] == 0).all(-1)
    assert 0 < gone_V.sum() < VOCAB
    assert torch.allclose(x_TD[0, ~gone_V], 2 * embed.token.weight[~gone_V], rtol=1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("half", [False, True])
def test_cudnn_agrees_with_the_cpu(cell, half):
    """Sizes that cuDNN is given padded, in fp32 as on a CPU, under autocast as well."""
    model = built(cell=cell, width=13, last_width=9, initial="learned").train()
    whole, found = rectangle(), []
    for device in ("cpu", "cuda"):
        model.to(device)
        model.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=half and device == "cuda"):
            state = model.trunk.new_state(ROWS)
            outputs = model(whole.to(device), state=state)
            logits_TV = outputs.by_head["next_token"][:, :VOCAB].float()
        (logits_TV.square().mean() + tensors_in(outputs.encoded.state)[1].sum()).backward()
        weight = model.trunk.layers[0].kernel.weight_hh_l0
        values = (logits_TV, outputs.encoded.states_TD, weight.grad)
        found.append([value.detach().float().cpu() for value in values])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-2, atol=2e-2 if half else 2e-3)


@pytest.mark.gpu
def test_weight_drop_on_cuda_is_one_kernel_and_warns_of_nothing():
    model = built(width=13, weight_drop=0.5, locked=True, dropout=0.3).cuda().train()
    whole = rectangle().to("cuda")
    outputs = model(whole, state=model.trunk.new_state(ROWS))
    outputs.by_head["next_token"][:, :VOCAB].sum().backward()
    assert all(one.grad is not None for one in model.trunk.layers.parameters())
    later = model(whole, state=map_tensors(torch.Tensor.detach, outputs.encoded.state))
    assert not torch.equal(later.encoded.states_TD, outputs.encoded.states_TD)
