"""Recurrent layers against a loop of torch's cells over each row alone."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from closeness import GRADIENTS
from naive import LENGTHS, SEED, gradients, spans
from regard.core.layout import Layout
from regard.layers.recurrent.fused_rnn import run_fused
from regard.layers.recurrent.rnn import KERNELS, PARTS, RNNLayer, RNNStack, State

CELLS = {"rnn": nn.RNNCell, "gru": nn.GRUCell, "lstm": nn.LSTMCell}
READS = ["forward", "backward", "both"]
INPUTS, WIDTH = 3, 4


def one_way(cell: str, weights: list[Tensor], x_LD: Tensor, state: State, backward: bool):
    """States of every token of one row, and the last one, cell after cell."""
    naive = CELLS[cell](x_LD.shape[1], WIDTH).double()
    arguments = dict(zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), weights, strict=True))
    states = [torch.zeros(0)] * len(x_LD)
    places = range(len(x_LD))
    for place in reversed(places) if backward else places:
        given = tuple(part[None] for part in state)
        found = torch.func.functional_call(
            naive, arguments, (x_LD[place][None], given if cell == "lstm" else given[0])
        )
        state = tuple(part[0] for part in (found if cell == "lstm" else (found,)))
        states[place] = state[0]
    return states, state


def naive_layer(layer: RNNLayer, x_TD: Tensor, lengths: list[int], begin: State, reads: str):
    states, ends = [], []
    for row, (first, end) in enumerate(spans(lengths)):
        ways = {"forward": [False], "backward": [True], "both": [False, True]}[reads]
        found = [
            one_way(
                layer.cell,
                layer.kernel.all_weights[way],
                x_TD[first:end],
                tuple(part[row].chunk(len(ways))[way] for part in begin),
                backward,
            )
            for way, backward in enumerate(ways)
        ]
        for place in range(end - first):
            states.append(torch.cat([one[0][place] for one in found]))
        ends.append([torch.cat(parts) for parts in zip(*(one[1] for one in found), strict=True)])
    empty = x_TD.new_zeros(0, layer.states)
    packed = torch.stack(states) if states else empty
    return packed, [torch.stack(parts) for parts in zip(*ends, strict=True)]


@pytest.mark.thinned
@pytest.mark.parametrize("cell", list(CELLS))
@pytest.mark.parametrize("reads", READS)
@settings(max_examples=10)
@given(lengths=LENGTHS, seed=SEED)
def test_a_layer_is_a_loop_of_cells_over_each_row(cell, reads, lengths, seed):
    torch.manual_seed(seed)
    layer = RNNLayer(cell, INPUTS, WIDTH, reads=reads).double()
    layout = Layout.ragged(lengths)
    x_TD = torch.randn(layout.tokens, INPUTS, dtype=torch.float64, requires_grad=True)
    begin = tuple(
        torch.randn(len(lengths), layer.states, dtype=torch.float64, requires_grad=True)
        for _ in range(PARTS[cell])
    )
    found, ends = layer(x_TD, layout, begin)
    wanted, wanted_ends = naive_layer(layer, x_TD, lengths, begin, reads)
    torch.testing.assert_close(found, wanted)
    for one, other in zip(ends, wanted_ends, strict=True):
        torch.testing.assert_close(one, other)
    inputs = [x_TD, *begin, *layer.parameters()]
    towards = torch.randn_like(torch.cat([found.flatten(), *map(torch.flatten, ends)]))
    both = [
        torch.cat([one.flatten(), *map(torch.flatten, rest)])
        for one, rest in ((found, ends), (wanted, wanted_ends))
    ]
    for one, other in zip(*(gradients(out, inputs, towards) for out in both), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.thinned
@pytest.mark.parametrize("cell", list(CELLS))
@pytest.mark.parametrize("reads", READS)
@settings(max_examples=10)
@given(lengths=LENGTHS.filter(any), more=st.integers(0, 3), seed=SEED)
def test_padding_that_only_the_device_knows_changes_nothing(cell, reads, lengths, more, seed):
    torch.manual_seed(seed)
    layer = RNNLayer(cell, INPUTS, WIDTH, reads=reads).double()
    ragged = Layout.ragged(lengths)
    rows, longest = len(lengths), max(lengths) + more
    even = Layout.rectangle(rows, longest, lengths_B=torch.tensor(lengths, dtype=torch.int32))
    x_TD = torch.randn(ragged.tokens, INPUTS, dtype=torch.float64, requires_grad=True)
    padded_TD = torch.randn(rows * longest, INPUTS, dtype=torch.float64)
    padded_TD = padded_TD.index_copy(0, even.real_BL.flatten().nonzero()[:, 0], x_TD)
    begin = None
    if reads == "forward":
        begin = tuple(torch.randn(rows, WIDTH, dtype=torch.float64) for _ in range(PARTS[cell]))
    (wanted, wanted_ends), (found, ends) = layer(x_TD, ragged, begin), layer(padded_TD, even, begin)
    found = found[even.real_BL.flatten()]
    inputs = [x_TD, *layer.parameters()]
    both = [
        torch.cat([one.flatten(), *map(torch.flatten, rest)])
        for one, rest in ((wanted, wanted_ends), (found, ends))
    ]
    torch.testing.assert_close(*both)
    towards = torch.randn_like(both[0])
    for one, other in zip(*(gradients(out, inputs, towards) for out in both), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("cell", list(CELLS))
@pytest.mark.parametrize("both", [False, True])
def test_layers_are_those_of_torch_on_padded_data(cell, both):
    """Two layers with copied weights, against torch's own module."""
    ours = RNNStack(cell, INPUTS, WIDTH, 2, reads="both" if both else "forward")
    theirs = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[cell](
        INPUTS, WIDTH, 2, bidirectional=both, batch_first=True
    )
    per_layer = len(theirs.all_weights) // 2
    for number, layer in enumerate(ours.layers):
        for way, weights in enumerate(layer.kernel.all_weights):
            copied = theirs.all_weights[number * per_layer + way]
            for one, other in zip(weights, copied, strict=True):
                one.data.copy_(other.data)
    lengths = [5, 2, 4, 1]
    layout = Layout.ragged(lengths)
    x_TD = torch.randn(layout.tokens, INPUTS)
    found, ends = ours(x_TD, layout)
    padded = pack_padded_sequence(layout.pad(x_TD), lengths, True, enforce_sorted=False)
    wanted, last = theirs(padded)
    torch.testing.assert_close(found, layout.pack(pad_packed_sequence(wanted, True)[0]))
    h = last[0] if cell == "lstm" else last
    for number in range(2):
        of_layer = h[number * per_layer : (number + 1) * per_layer]
        torch.testing.assert_close(ends[number][0], torch.cat(list(of_layer), dim=-1))


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("cell", list(CELLS))
def test_step_by_step_is_all_at_once(cell, residual):
    layers = RNNStack(cell, INPUTS, WIDTH, 3, residual=residual)
    x_BLD = torch.randn(2, 5, INPUTS)
    whole, ends = layers(x_BLD.flatten(0, 1), Layout.rectangle(2, 5))
    states = [(torch.zeros(2, WIDTH),) * PARTS[cell] for _ in range(3)]
    for time in range(5):
        top_RD, states = layers.step(x_BLD[:, time], states)
        torch.testing.assert_close(top_RD, whole.view(2, 5, WIDTH)[:, time])
    for one, other in zip(states, ends, strict=True):
        torch.testing.assert_close(one, other)


def test_a_residual_adds_the_input_from_the_second_layer_on():
    plain, added = (RNNStack("gru", WIDTH, WIDTH, 2, residual=one) for one in (False, True))
    added.load_state_dict(plain.state_dict())
    layout, x_TD = Layout.ragged([3]), torch.randn(3, WIDTH)
    first_TD, _ = plain.layers[0](x_TD, layout)
    torch.testing.assert_close(added(x_TD, layout)[0], plain(x_TD, layout)[0] + first_TD)


def test_dropout_falls_between_layers_only():
    one, two = (RNNStack("gru", INPUTS, WIDTH, depth, dropout=0.5) for depth in (1, 2))
    layout, x_TD = Layout.ragged([4]), torch.randn(4, INPUTS)
    assert torch.equal(one(x_TD, layout)[0], one(x_TD, layout)[0])
    assert not torch.equal(two(x_TD, layout)[0], two(x_TD, layout)[0])
    two.eval()
    assert torch.equal(two(x_TD, layout)[0], two(x_TD, layout)[0])


@pytest.mark.parametrize("lengths", [[], [0], [0, 0]])
def test_nothing_to_read_still_has_gradients(lengths):
    layers = RNNStack("lstm", INPUTS, WIDTH, 2, reads="both")
    states_TD, ends = layers(torch.zeros(0, INPUTS), Layout.ragged(lengths))
    assert states_TD.shape == (0, 2 * WIDTH)
    assert ends[0][0].shape == (len(lengths), 2 * WIDTH)
    states_TD.sum().backward()
    assert all(one.grad is not None and not one.grad.any() for one in layers.parameters())


@pytest.mark.parametrize("cell", list(CELLS))
def test_recurrence_keeps_its_precision_under_autocast(cell):
    layers, layout = RNNStack(cell, INPUTS, WIDTH, 2, reads="both"), Layout.ragged([3, 1])
    x_TD = torch.randn(4, INPUTS)
    wanted, _ = layers(x_TD, layout)
    with torch.autocast("cpu", torch.bfloat16):
        found, ends = layers(x_TD, layout)
        from_half, _ = layers(x_TD.bfloat16(), layout)
    assert found.dtype == ends[0][0].dtype == from_half.dtype == torch.float32
    assert torch.equal(found, wanted)
    torch.testing.assert_close(from_half, wanted, rtol=0, atol=0.02)


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("alive", [None, torch.tensor([3, 2, 2, 1])])
def test_sizes_padded_by_zeros_change_nothing(cell, directions, alive):
    torch.manual_seed(5)
    kernel = KERNELS[cell](5, 6, bidirectional=directions == 2)
    x = torch.randn(4, 3, 5) if alive is None else torch.randn(8, 5)
    begin = tuple(torch.randn(directions, 3, 6) for _ in range(PARTS[cell]))
    found = []
    for multiple in (1, 8):
        how = {"alive": alive, "multiple": multiple}
        out, ends = run_fused(cell, x, begin, kernel.all_weights, **how)
        loss = out.square().sum() + sum(part.sum() for part in ends)
        found.append([out, *ends, *torch.autograd.grad(loss, [*kernel.parameters()])])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, **GRADIENTS)
