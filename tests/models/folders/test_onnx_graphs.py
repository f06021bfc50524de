"""Graphs for ONNX, run by torch: padded batches and caches give what packed rows give."""

from dataclasses import replace

import pytest
import torch

from regard.core.layout import Layout
from regard.inside import onnx_reference, parity
from regard.layers.attend import ScaledDot, attend, causal, full
from regard.layers.kernels.fast_attend import fast_attend
from regard.models.facts import change
from regard.models.folders.onnx_graphs import CausalGraph, MaskedLayout, graphs_of
from regard.models.label_heads import (
    ChoiceHead,
    LabelHead,
    MLMHead,
    SentencePairHead,
    SpanHead,
    TokenLabelHead,
)
from regard.models.papers import bert, electra
from regard.models.pools import FirstToken
from small_families import FACTS, SIZE, small_family

TINY = change(bert.TINY, **SIZE, pool=FirstToken())
HEADS = {
    "features": (),
    "pretraining": (MLMHead(), SentencePairHead()),
    "tags": (TokenLabelHead(5),),
    "spans": (SpanHead(),),
    "choices": (ChoiceHead(),),
    "replaced": (electra.ReplacedTokenHead(),),
    "label and tags": (LabelHead(3), TokenLabelHead(5)),
}
OUTPUTS = {
    "features": {"last_hidden_state"},
    "pretraining": {"logits", "sentence_pair_logits"},
    "tags": {"logits"},
    "spans": {"start_logits", "end_logits"},
    "choices": {"logits"},
    "replaced": {"logits"},
    "label and tags": {"logits", "token_label_logits"},
}
TRACEABLE = [name for name in FACTS if name != "xlnet"]


class GraphInTorch:
    """A graph with the methods of a session of ONNX Runtime."""

    def __init__(self, graph):
        self.graph = graph
        self.inputs = {name: tensor.shape for name, tensor in graph.example().items()}

    def run(self, inputs):
        tensors = {name: torch.from_numpy(inputs[name]) for name in self.inputs}
        return {name: value.numpy() for name, value in self.graph.compute(tensors).items()}

    empty_cache = onnx_reference.GraphSession.empty_cache


@pytest.fixture
def in_torch(monkeypatch):
    """Let graphs run by torch in place of ONNX Runtime."""

    def use(facts, module):
        graphs = {graph.file: graph.eval() for graph in graphs_of(facts, module, None)}
        opened = {file: GraphInTorch(graph) for file, graph in graphs.items()}
        monkeypatch.setattr(onnx_reference, "open_graph", lambda _, file, quantised: opened[file])
        return [*graphs.values()]

    return use


@torch.no_grad()
def compare(facts, module, graphs):
    examples = [*parity.random_examples(facts)]
    expected = onnx_reference.model_outputs(module, facts, graphs, examples)
    computed = onnx_reference.graph_outputs(None, facts, examples)
    assert expected.keys() == computed.keys()
    for name, rows in expected.items():
        for ours, theirs in zip(rows, computed[name], strict=True):
            assert theirs.shape == ours.shape, name
            size = max(1.0, float(ours.abs().max()))  # of logits of T5's own output layer: 30
            torch.testing.assert_close(theirs, ours, rtol=1e-5, atol=1e-5 * size, msg=name)
    return expected


@pytest.mark.parametrize("name", TRACEABLE)
def test_a_family_gives_the_same_in_a_padded_batch(name, in_torch):
    model = small_family(name)
    facts, module = model.facts, model.module
    outputs = compare(facts, module, in_torch(facts, module))
    assert any("attentions" in output for output in outputs)


@pytest.mark.parametrize("heads", HEADS)
def test_heads_have_the_outputs_of_other_libraries(heads, in_torch):
    torch.manual_seed(0)
    facts = replace(TINY, output_heads=HEADS[heads])
    module = facts.build().eval()
    outputs = compare(facts, module, in_torch(facts, module))
    assert {name for name in outputs if "attentions" not in name} == OUTPUTS[heads]


def test_only_chosen_layers_output_their_attention():
    facts = FACTS["translator"][1]
    names = [[*graph.attention] for graph in graphs_of(facts, facts.build(), [1])]
    assert names == [["encoder_attentions.1"], ["cross_attentions.1", "decoder_attentions.1"]]
    assert not any(graph.attention for graph in graphs_of(facts, facts.build()))


@pytest.mark.parametrize("mask", [full, causal])
@pytest.mark.parametrize("side", ["left", "right", "middle"])
def test_masked_keys_agree_with_the_definition(mask, side):
    """Wherever padding lies, its keys count for nothing."""
    torch.manual_seed(0)
    lengths, longest, heads, size = [4, 7, 1], 7, 2, 4
    place_BL = torch.zeros(3, longest, dtype=torch.int64)
    for row, length in enumerate(lengths):
        free = torch.arange(longest)
        places = {"left": free[longest - length :], "right": free[:length]}
        place_BL[row, places.get(side, torch.randperm(longest)[:length])] = 1
    layout, packed = MaskedLayout.of(place_BL), Layout.ragged(lengths)
    qkv = [torch.randn(3 * longest, heads, size) for _ in range(3)]
    real_T = place_BL.flatten().bool()
    rows = [x[real_T] for x in qkv]
    expected = attend(ScaledDot(), *rows, queries=packed, keys=packed, mask=mask)
    for run in (attend, fast_attend):
        computed = run(ScaledDot(), *qkv, queries=layout, keys=layout, mask=mask)
        torch.testing.assert_close(computed[real_T], expected)
        assert computed.isfinite().all()


def test_positions_count_tokens_and_not_places():
    layout = MaskedLayout.of(torch.tensor([[0, 0, 1, 1], [1, 1, 1, 0]]))
    assert layout.pad(layout.positions_T)[0].tolist() == [0, 0, 0, 1]
    assert layout.after(2).positions_T.tolist() == [0, 1, 2, 2]
    assert layout.lengths_B.tolist() == [2, 3]


def test_a_cache_grows_by_what_is_read():
    model = small_family("gpt2")
    (graph,) = graphs_of(model.facts, model.module)
    assert isinstance(graph, CausalGraph)
    with torch.no_grad():
        outputs = graph.compute(graph.example())
    assert [*outputs] == [
        "logits",
        *(f"present.{n}.{kv}" for n in (0, 1) for kv in ("key", "value")),
    ]
    assert outputs["present.1.value"].shape == (2, 2, 8, 8)
    assert outputs["logits"].shape == (2, 3, 23)
