"""Cells with gates against the fused kernels, and the tape of a loop over time."""

import pytest
import torch

from closeness import GRADIENTS
from regard.core.layout import Layout
from regard.core.tape import NULL_TAPE, Tape
from regard.inside.forward_path import trace
from regard.layers.recurrent.cells import CELLS
from regard.layers.recurrent.projected_lstm import ProjectedBiLSTM
from regard.layers.recurrent.rnn import PARTS, RNNLayer

LENGTHS = [3, 1, 0, 5]
INPUTS, WIDTH = 3, 4
READS = ["forward", "backward", "both"]


def run(layer: RNNLayer, x_TD: torch.Tensor, tape=NULL_TAPE):
    """States, final states and gradients of a layer, from a state that is not zero."""
    torch.manual_seed(1)
    layout = Layout.ragged(LENGTHS)
    begin = tuple(
        torch.randn(len(LENGTHS), layer.states).double() for _ in range(PARTS[layer.cell])
    )
    states_TD, ends = layer(x_TD, layout, begin, tape=tape)
    loss = states_TD.sin().sum() + sum(end.cos().sum() for end in ends)
    gradients = torch.autograd.grad(loss, [x_TD, *layer.parameters()])
    return [states_TD, *ends], gradients


@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("reads", READS)
def test_the_definition_agrees_with_the_fused_kernel(cell, reads):
    torch.manual_seed(0)
    layer = RNNLayer(cell, INPUTS, WIDTH, reads=reads).double()
    x_TD = torch.randn(sum(LENGTHS), INPUTS, dtype=torch.float64, requires_grad=True)
    tape = Tape("*")
    fused, fused_gradients = run(layer, x_TD)
    defined, gradients = run(layer, x_TD, tape)
    for one, other in zip(defined, fused, strict=True):
        torch.testing.assert_close(one, other)
    for one, other in zip(gradients, fused_gradients, strict=True):
        torch.testing.assert_close(one, other, **GRADIENTS)
    ways = (2,) if reads == "both" else ()
    sizes = {"gates": (len(x_TD), *ways, 4 if cell == "lstm" else 3, WIDTH)}
    sizes |= {"cells": (len(x_TD), *ways, WIDTH)} if cell == "lstm" else {}
    assert {name: tuple(value.shape) for name, value in tape.records.items()} == sizes


def test_the_cell_of_an_rnn_agrees_with_torch():
    torch.manual_seed(0)
    layer = RNNLayer("rnn", INPUTS, WIDTH)
    x_RD, state = torch.randn(2, INPUTS), (torch.randn(2, WIDTH),)
    weights = layer.kernel.all_weights[0]
    (own,), (theirs,) = CELLS["rnn"](x_RD, state, weights), layer.step(x_RD, state)
    torch.testing.assert_close(own, theirs)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_an_edit_of_a_gate_changes_later_states(cell):
    torch.manual_seed(0)
    layer, layout = RNNLayer(cell, INPUTS, WIDTH), Layout.ragged([3, 2])
    x_TD = torch.randn(5, INPUTS)

    def close(name: str, gates: torch.Tensor) -> torch.Tensor:
        gates = gates.clone()
        gates[1] = 0  # of the second token of the first row
        return gates

    plain_TD, _ = layer(x_TD, layout)
    edited_TD, _ = layer(x_TD, layout, tape=Tape("gates", edits={"gates": close}))
    same = [torch.allclose(*pair) for pair in zip(plain_TD, edited_TD, strict=True)]
    assert same == [True, False, False, True, True]


def test_gates_and_cells_of_a_projected_layer():
    torch.manual_seed(0)
    layer, layout = ProjectedBiLSTM(WIDTH, WIDTH, 6, cell_clip=0.05).eval(), Layout.ragged([3, 1])
    x_TD, tape = torch.randn(4, 2 * WIDTH), Tape("*")
    plain_TD, _ = layer(x_TD, layout)
    states_TD, _ = layer(x_TD, layout, tape=tape)
    assert torch.equal(plain_TD, states_TD)
    gates, cells = tape.records["gates"], tape.records["cells"]
    assert gates.shape == (4, 2, 4, 6) and cells.shape == (4, 2, 6)
    read_T2F = gates[:, :, 3]
    h_T2D = torch.einsum("twf,wfd->twd", read_T2F * cells.tanh(), layer.projection)
    torch.testing.assert_close(h_T2D.flatten(1), states_TD)
    assert cells.abs().max() <= 0.05


def test_without_a_tape_the_definition_does_not_run():
    layer, x_TD = RNNLayer("lstm", INPUTS, WIDTH, reads="both"), torch.randn(9, INPUTS)
    steps = trace(lambda: layer(x_TD, Layout.ragged(LENGTHS)))
    files = {step.file for step in steps}
    assert not files & {"layers/recurrent/cells.py", "layers/recurrent/unrolled_tape.py"}
