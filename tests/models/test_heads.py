"""Heads: what each computes, against torch's own layers, and what they share with the trunk."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from functorch.compile import make_boxed_func
from torch import Tensor, nn
from torch._dynamo.backends.common import aot_autograd

from regard.core.batch import IGNORED, pack
from regard.layers.linear.convert import convert
from regard.layers.losses import smoothed_cross_entropy
from regard.models.facts import change
from regard.models.heads import NextTokenHead, VocabularyLinear
from regard.models.label_heads import LabelHead, MLMHead, TokenLabelHead
from regard.models.papers import bert
from regard.models.pools import AttentionPool, LastToken, MeanPool
from regard.models.rnn import RNNEncoderFacts
from regard.models.tokens import Tokens
from regard.models.trunk import Trunk
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.objectives.label_losses import Classification, TokenClassification

VOCAB = 20
SMALL = change(bert.TINY, vocab=VOCAB, width=8, inner=12, longest=10, segments=0, init_std=0.3)
BILSTM = Trunk(Tokens(VOCAB, None), RNNEncoderFacts(width=6, embedding=5, direction="both"))
ROWS = [[3, 4, 5, 6], [7], [8, 9]]


class Halves(nn.Module):
    """In the place of dropout, so that its place can be seen."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 0.5 + 0.1


def reference(head: nn.Module, dropout: nn.Module) -> nn.Sequential:
    """Dropout, dense layer, tanh, dropout, output layer (RoBERTa's classification head)."""
    return nn.Sequential(dropout, head.dense, nn.Tanh(), dropout, head.out)


def test_a_dense_label_head_is_dropout_dense_tanh_dropout_out():
    model = SMALL.with_heads(LabelHead(3, dropout=0.4, dense="tanh")).build().eval()
    head, states_BD = model.heads["label"], torch.randn(5, 8)
    torch.testing.assert_close(head(states_BD), reference(head, nn.Identity())(states_BD))
    head.dropout = head.dense_dropout = Halves()
    torch.testing.assert_close(head(states_BD), reference(head, Halves())(states_BD))
    outputs = model(pack(ROWS))
    torch.testing.assert_close(outputs.by_head["label"], head(outputs.pooled_BD))


def test_dropout_of_a_dense_head_falls_twice():
    """A mean over many draws is near the value without; each place alone would vary less."""
    model = SMALL.with_heads(LabelHead(3, dropout=0.5, dense="tanh")).build()
    head, states_BD = model.heads["label"].train(), torch.randn(1, 8)
    drawn = torch.stack([head(states_BD)[0] for _ in range(50)])
    assert len(drawn.unique(dim=0)) > 40
    with torch.no_grad():
        head.dense.weight.zero_()  # what the first dropout changes no longer counts
        head.dense.bias.fill_(1.0)
    assert len(torch.stack([head(states_BD)[0] for _ in range(50)]).unique(dim=0)) > 10


def test_a_plain_label_head_has_one_layer():
    model = SMALL.with_heads(LabelHead(3)).build().eval()
    head, states_BD = model.heads["label"], torch.randn(5, 8)
    assert sorted(head.state_dict()) == ["out.bias", "out.weight"]
    torch.testing.assert_close(head(states_BD), head.out(states_BD))


def test_the_masked_lm_head_is_dense_activation_norm_token_vectors():
    model = SMALL.with_heads(MLMHead()).build().eval()
    head, states_TD = model.heads["mlm"], torch.randn(5, 8)
    stack = SMALL.trunk.stack
    wanted = nn.Sequential(head.dense, nn.GELU(), head.norm)(states_TD)
    wanted = wanted @ model.trunk.embed.token.weight.T + head.out.bias
    assert stack.activation == "gelu" and head.norm.eps == stack.eps
    torch.testing.assert_close(head(states_TD), wanted)


@pytest.mark.parametrize("head", [MLMHead(), NextTokenHead()], ids=str)
def test_vectors_are_tied_only_if_their_shapes_agree(head):
    """The states of this trunk have 12 numbers, its token vectors 5."""
    with pytest.raises(ValueError, match="tied only if their shapes agree"):
        TrunkWithHeads(BILSTM, output_heads=(head,)).build()
    untied = change(TrunkWithHeads(BILSTM, output_heads=(head,)), tied=False).build()
    assert untied(pack(ROWS)).by_head[head.name].shape == (7, VOCAB)


@pytest.mark.parametrize("bias", [True, False])
def test_the_next_token_head_is_one_layer(bias):
    model = SMALL.with_heads(NextTokenHead(bias=bias)).build().eval()
    head, states_TD = model.heads["next_token"], torch.randn(5, 8)
    assert head.weight is model.trunk.embed.token.weight
    assert (head.bias is not None) == bias and not (bias and head.bias.any())
    torch.testing.assert_close(head(states_TD), states_TD @ model.trunk.embed.token.weight.T)


def test_a_recurrent_trunk_decodes_without_a_cache():
    model = TrunkWithHeads(BILSTM, output_heads=(NextTokenHead(tied=False),)).build().eval()
    batch = pack(ROWS)
    logits_TV = model.decode(batch.tokens_T, batch.layout)
    torch.testing.assert_close(logits_TV, model(batch).by_head["next_token"])


TOKEN_LABELS = [(row, np.where(np.arange(len(row)) % 2, IGNORED, row[0] % 3)) for row in ROWS]
LABELS = [(row, [number % 3]) for number, row in enumerate(ROWS)]
TRAINED = {
    "token labels of a BiLSTM": (
        TrunkWithHeads(BILSTM, output_heads=(TokenLabelHead(3),)),
        TokenClassification(),
        TOKEN_LABELS,
    ),
    "attention pool over a Transformer": (
        change(SMALL, pool=AttentionPool(), output_heads=(LabelHead(3, dense="tanh"),)),
        Classification(),
        LABELS,
    ),
    "mean pool over a Transformer": (
        change(SMALL, pool=MeanPool(), output_heads=(LabelHead(3),)),
        Classification(),
        LABELS,
    ),
    "last state of a BiLSTM": (
        TrunkWithHeads(BILSTM, LastToken(), (LabelHead(3),)),
        Classification(),
        LABELS,
    ),
}


@pytest.mark.parametrize(("facts", "objective", "examples"), TRAINED.values(), ids=TRAINED)
def test_any_trunk_learns_with_any_pool_and_head(facts, objective, examples):
    model = change(facts, dropout=0.0, **_no_attention_dropout(facts)).build()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    batch, losses = objective.collate(examples), []
    for _ in range(3):
        loss, _ = objective(model, batch)
        optimiser.zero_grad()
        loss.backward()
        idle = [name for name, one in model.named_parameters() if one.grad is None]
        assert not idle
        optimiser.step()
        losses.append(loss.item())
    assert all(later < earlier for earlier, later in pairwise(losses))


def _no_attention_dropout(facts: TrunkWithHeads) -> dict[str, float]:
    return {"attention_dropout": 0.0} if facts.trunk.stack.attends else {}


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("vocab", [100, 128])
def test_compiled_vocabularies_are_padded_by_impossible_tokens(vocab, bias):
    """MACs have 128 outputs, also where the vocabulary has 100; gradients have its own size."""
    torch.manual_seed(2)
    layer = VocabularyLinear(8, vocab, bias=bias)
    states_ND = torch.randn(5, 8, requires_grad=True)
    sizes = []

    def look(graph, inputs):
        sizes.extend(node.meta["val"].shape[-1] for node in graph.graph.nodes if "mm" in node.name)
        return make_boxed_func(graph.forward)

    compiled = torch.compile(layer, backend=aot_autograd(fw_compiler=look))
    results, learned = [], (states_ND, *layer.parameters())
    for run in (layer, compiled):
        logits_NF = run(states_ND)
        loss, _ = smoothed_cross_entropy(logits_NF, torch.tensor([0, 3, 99, 7, IGNORED]), 0.1)
        gradients = torch.autograd.grad(loss, learned)
        results.append((logits_NF[:, :vocab], logits_NF.softmax(-1)[:, :vocab], loss, *gradients))
    torch.testing.assert_close(*results)
    assert sizes[0] == 128 == logits_NF.shape[1]
    assert (logits_NF[:, vocab:] == -torch.inf).all()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the exporter's own
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_exported_vocabularies_are_not_padded():
    layer, states_ND = VocabularyLinear(8, 100), torch.randn(5, 8)
    exported = torch.export.export(layer.eval(), (states_ND,)).module()
    assert exported(states_ND).shape == (5, 100)
    torch.testing.assert_close(exported(states_ND), layer(states_ND))


def test_vocabulary_layers_are_converted_for_inference():
    model = SMALL.with_heads(NextTokenHead()).build()
    converted = convert(model, "fp32")
    assert not isinstance(converted.heads["next_token"], nn.Linear)
    inputs = pack(ROWS)
    logits, expected = (one(inputs).by_head["next_token"] for one in (converted, model.eval()))
    torch.testing.assert_close(logits, expected)
