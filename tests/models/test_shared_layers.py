"""Layers that share weights: counted once, run as often as there are layers."""

import pytest
import torch

from regard.core.batch import BatchLimits, TokenRow, pack_rows
from regard.core.errors import BadInput
from regard.core.tape import Tape
from regard.models.facts import change
from regard.models.folders.loaded_model import check_depth
from regard.models.label_heads import MLMHead
from regard.models.paper import count_parameters
from regard.models.papers import bert
from regard.training.optimiser import layer_groups

SMALL = change(bert.TINY, vocab=20, width=8, inner=12, longest=10, depth=4, init_std=0.3)
SHARED = change(SMALL, shared_groups=1)
BATCH = pack_rows([TokenRow([3, 4, 5, 6], [0, 0, 1, 1]), TokenRow([7], [0])])


def test_one_block_is_run_by_every_layer():
    model = SHARED.build().eval()
    assert {name.split(".")[2] for name in model.state_dict() if ".blocks." in name} == {"0"}
    own = SMALL.build().eval()  # as many equal blocks
    for name, tensor in own.state_dict().items():
        shared = ".".join("0" if part.isdecimal() else part for part in name.split("."))
        tensor.copy_(model.state_dict()[shared])
    tapes = Tape("*"), Tape("*")
    for one, tape in zip((model, own), tapes, strict=True):
        one(BATCH, tape=tape)
    assert tapes[0].records.keys() == tapes[1].records.keys()  # a path for each layer
    assert "trunk.blocks.3.attention.weights" in tapes[0].records
    torch.testing.assert_close(tapes[0].records, tapes[1].records, rtol=0, atol=0)


def test_parameters_are_counted_once_and_operations_in_each_layer():
    one = count_parameters(change(SMALL, depth=1).build())
    assert count_parameters(SHARED.build()) == one
    assert SHARED.training_flops([(9,)]) == SMALL.training_flops([(9,)])
    assert SHARED.attention_sites == SMALL.attention_sites
    assert SHARED.layer_paths == SMALL.layer_paths


@pytest.mark.parametrize(
    ("depth", "groups", "inner", "order"),
    [
        (4, 1, 1, (0, 0, 0, 0)),
        (4, 2, 1, (0, 0, 1, 1)),
        (4, 4, 1, (0, 1, 2, 3)),
        (5, 2, 1, (0, 0, 0, 1, 1)),
        (4, 1, 2, (0, 1, 0, 1)),
        (8, 2, 2, (0, 1, 0, 1, 2, 3, 2, 3)),
    ],
)
def test_groups_repeat_their_blocks(depth, groups, inner, order):
    facts = change(SMALL, depth=depth, shared_groups=groups, group_depth=inner)
    module = facts.build().trunk
    assert facts.trunk.stack.block_numbers == module.order == order
    assert facts.trunk.stack.blocks == len(module.blocks) == len(set(order))
    assert [module.blocks[number] for number in order] == module.layers


def test_gradients_are_summed_over_layers_and_dropout_is_drawn_in_each():
    model = change(SHARED, depth=2, dropout=0.5, attention_dropout=0.5).build()
    seen = []
    dropout = model.trunk.blocks[0].mlp_residual.dropout
    dropout.register_forward_hook(lambda module, given, out: seen.append((out != 0).float()))
    model(BATCH).encoded.states_TD.square().sum().backward()
    assert len(seen) == 2 and not torch.equal(*seen)
    assert all(one.grad is not None for name, one in model.trunk.blocks.named_parameters())
    assert len(layer_groups(model)) == 3  # embeddings, the block, the pool


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
def test_a_compiled_model_is_one_graph():
    model = SHARED.with_heads(MLMHead()).build().eval()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    limits = BatchLimits(tokens=16, rows=4, longest=8)
    batch = pack_rows([TokenRow([3, 4, 5, 6], [0, 0, 1, 1]), TokenRow([7], [0])], limits)
    expected = model(batch).by_head
    torch.testing.assert_close(compiled(batch).by_head, expected)
    torch._dynamo.reset()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shared_groups": 0}, "shared_groups must be at least 1, not 0"),
        ({"shared_groups": 5}, "a depth of 4 cannot be divided into 5 groups of 1"),
        (
            {"shared_groups": 1, "group_depth": 3},
            "a depth of 4 cannot be divided into 1 groups of 3",
        ),
        ({"group_depth": 2}, "group_depth needs shared_groups"),
        ({"shared_groups": 1, "depth": 1_001}, "depth must be at most 1000"),
    ],
)
def test_groups_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(BadInput, match=message):
        change(SMALL, **changes)


def test_a_file_of_few_tensors_may_hold_many_layers_that_share_them():
    check_depth(change(SHARED, depth=24), 23, "here")
    with pytest.raises(BadInput, match="here: 24 layers, but the file has only 23 tensors"):
        check_depth(change(SMALL, depth=24), 23, "here")
