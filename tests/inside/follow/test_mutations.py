"""A fault in the source of a layer fails the check at its step, and at no earlier one."""

import inspect
import sys
from importlib import import_module
from textwrap import dedent

import pytest

from regard.layers.recurrent.cells import CELLS
from small_follow import computation

ATTEND, BLOCK = "regard.layers.attend:", "regard.layers.block:"
RNN = "regard.layers.recurrent."
MUTATIONS = [
    (ATTEND + "ScaledDot.scale", "math.sqrt(size)", "size", "bert", "layer 0/attention/scores"),
    (
        ATTEND + "Score.forward",
        'add_scores(scores_BHLS, tape("bias", bias))',
        '(tape("bias", bias), scores_BHLS)[1]',
        "t5",
        "encoder layer 0/attention/scores",
    ),
    (ATTEND + "attend", "mask(queries, keys) &", "", "gpt2", "layer 0/attention/mask"),
    (
        ATTEND + "WindowMask.__call__",
        "ahead <= self.right",
        "ahead <= self.right + 1",
        "gpt2",
        "layer 0/attention/mask",
    ),
    (ATTEND + "masked_softmax", "dim=-1", "dim=-2", "bert", "layer 0/attention/weights"),
    (
        ATTEND + "attend",
        "dropped_BHLS, v)",
        "dropped_BHLS.flip(1), v)",
        "bert",
        "layer 0/attention/head_outputs",
    ),
    (
        BLOCK + "Residual.forward",
        "x_TD + added_TD",
        "x_TD - added_TD",
        "bert",
        "layer 0/attention/sum",
    ),
    (BLOCK + "RMSNorm.forward", "self.eps", "self.eps + 0.1", "llama", "layer 0/attention/normed"),
    (
        BLOCK + "Mlp._activated",
        "self.activation(gate_TF) * up_TF",
        "gate_TF * self.activation(up_TF)",
        "llama",
        "layer 0/mlp/inner",
    ),
    (BLOCK + "Mlp.forward", "self.down(", "-self.down(", "bert", "layer 0/mlp/output"),
    (
        "regard.models.tokens:Embedding.forward",
        "x_TD * self.scale",
        "x_TD / self.scale",
        "translator",
        "encoder embed/token",
    ),
    (
        "regard.models.positions:SinusoidPositions._vectors",
        "self.base",
        "2 * self.base",
        "translator",
        "encoder embed/position",
    ),
    (
        "regard.layers.relative_bias:BiasedDot.bucket",
        "first + torch.where",
        "torch.where",
        "t5",
        "encoder layer 0/attention/bias",
    ),
    (
        "regard.layers.rotary:turn",
        "[-second, first]",
        "[second, first]",
        "llama",
        "layer 0/attention/queries",
    ),
    (
        "regard.layers.rotary:Rotation.frequencies",
        "even / self.size",
        "even / (2 * self.size)",
        "llama",
        "layer 0/attention/queries",
    ),
    (
        "regard.layers.attention:HeadsModule.join",
        ".flatten(1))",
        ".flip(1).flatten(1))",
        "bert",
        "layer 0/attention/output",
    ),
    (
        "regard.layers.attention:Heads.split_values",
        "(-1, self.key))",
        "(-1, self.key)).flip(1)",
        "bert",
        "layer 0/attention/queries",
    ),
    (
        "regard.models.patches:PatchEmbedding._patches",
        "0, 2, 4, 1, 3, 5",
        "0, 4, 2, 1, 3, 5",
        "vit",
        "embed/patches",
    ),
    (
        "regard.models.pools:FirstTokenModule.forward",
        "torch.tanh",
        "torch.sin",
        "bert-label",
        "pooled",
    ),
    (
        "regard.models.label_heads:MLMHeadModule.forward",
        "self.activation(self.dense(states_ND))",
        "self.dense(states_ND)",
        "bert",
        "mlm/dense",
    ),
    (
        "regard.models.encoder_decoder:EncoderDecoderModule._logits",
        "* self.output_scale",
        "/ self.output_scale",
        "t5",
        "logits",
    ),
    (RNN + "cells:lstm_cell", "keep * c_RD", "c_RD", "zaremba", "layer 0/cells"),
    (RNN + "cells:gru_cell", "(1 - update_RD) * new_RD", "new_RD", "zaremba-gru", "layer 0/output"),
    (ATTEND + "Additive.between", "torch.tanh", "torch.sin", "bahdanau", "decoder cross/scores"),
    (
        RNN + "rnn_attention:Attentional.forward",
        "[context_TD, state_TD]",
        "[state_TD, context_TD]",
        "luong-dot",
        "decoder combined",
    ),
    (RNN + "rnn_attention:Maxout.forward", "amax", "amin", "bahdanau", "decoder maxout"),
]


@pytest.mark.parametrize(("place", "before", "after", "name", "step"), MUTATIONS)
def test_a_fault_is_found_at_its_step(place, before, after, name, step, monkeypatch):
    module_name, _, path = place.partition(":")
    module = import_module(module_name)
    owner_name, _, function_name = path.rpartition(".")
    owner = getattr(module, owner_name) if owner_name else module
    original = getattr(owner, function_name)
    source = dedent(inspect.getsource(original))
    assert before in source, place
    names = dict(vars(module))
    exec(source.replace(before, after), names)
    monkeypatch.setattr(owner, function_name, names[function_name])
    for other in [module for key, module in sys.modules.items() if key.startswith("regard.layers")]:
        if getattr(other, function_name, None) is original:
            monkeypatch.setattr(other, function_name, names[function_name])
    for key in [key for key, cell in CELLS.items() if cell is original]:
        monkeypatch.setitem(CELLS, key, names[function_name])
    report = computation(name).check()
    assert report.failed and report.failed[0].step == step, str(report)
