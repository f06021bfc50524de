"""A4: every score and weight of every layer can be read and edited, and reading changes nothing."""

import pytest
import torch
from torch import Tensor

from regard.core.batch import SourceTarget, pack
from regard.core.tape import NULL_TAPE, Tape
from regard.layers import attention
from regard.layers.attend import attend
from regard.layers.kernels import fast_attend
from regard.models.edits import forced_row, without_head
from regard.models.encoder_decoder import EncoderDecoderModule
from regard.models.facts import change
from regard.models.papers.transformer import BASE

DEPTH, HEADS = 2, 2
FACTS = change(BASE, width=8, heads=HEADS, inner=12, depth=DEPTH, vocab=13, dropout=0.0)
SOURCE, TARGET = pack([[1, 2, 3, 4], [5], [6, 7]]), pack([[1, 2], [3, 4, 5], [6]])
LAYERS = [
    f"{side}.blocks.{number}.{part}"
    for side, parts in (("source", ["attention"]), ("target", ["attention", "cross"]))
    for number in range(DEPTH)
    for part in parts
]


OF_ATTENTION = ("queries", "keys", "values", "scores", "weights", "head_outputs", "output")


def logits(model: EncoderDecoderModule, tape=NULL_TAPE, source=SOURCE) -> Tensor:
    return model(SourceTarget(source, TARGET), tape=tape).by_head["next_token"]


@pytest.fixture(params=["post", "pre"])
def model(request) -> EncoderDecoderModule:
    return change(FACTS, norm=request.param, final_norm=request.param == "pre").build()


def test_everything_has_a_name(model):
    tape = Tape("*")
    logits(model, tape)
    within = {f"{layer}.{what}" for layer in LAYERS for what in OF_ATTENTION}
    blocks = {layer.rsplit(".", 1)[0] for layer in LAYERS}
    parts = ("mlp.inner", "mlp.output", "output")
    around = {f"{block}.{what}" for block in blocks for what in parts}
    vectors = ("embed.token", "embed.position", "embed.output", "output")
    ends = {f"{side}.{what}" for side in ("source", "target") for what in vectors}
    within |= {f"{layer}.{what}" for layer in LAYERS for what in ("mask", "sum", "normed")}
    post = model.source.blocks[0].mlp_residual.post
    around |= {f"{block}.mlp.{'sum' if post else 'normed'}" for block in blocks}
    assert set(tape.records) == within | around | ends | {"logits"}


@pytest.mark.thinned
@pytest.mark.parametrize("layer", [*LAYERS, "*"])
@pytest.mark.parametrize("what", OF_ATTENTION[:-1])
def test_the_recorded_path_is_the_fast_path(model, layer, what):
    fast, tape = logits(model), Tape(f"{layer}.{what}")
    recorded = logits(model, tape)
    assert len(tape.records) == (len(LAYERS) if layer == "*" else 1)
    torch.testing.assert_close(recorded, fast, rtol=1e-5, atol=1e-5)
    towards = torch.randn_like(fast)
    parameters = list(model.parameters())
    wanted = torch.autograd.grad((fast * towards).sum(), parameters)
    found = torch.autograd.grad((recorded * towards).sum(), parameters)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layer", LAYERS)
def test_only_the_recorded_layer_leaves_its_kernel(model, layer, monkeypatch):
    calls = []

    def counted(*args, tape=NULL_TAPE, **named):
        calls.append(tape.path if tape.live else "without a kernel")
        return attend(*args, tape=tape, **named)

    monkeypatch.setattr(attention, "attend", counted)
    monkeypatch.setattr(fast_attend, "attend", counted)
    logits(model, Tape(f"{layer}.weights"))
    assert calls == [f"{layer}."]


def test_weights_are_of_real_keys_and_sum_to_one(model):
    tape = Tape("*.weights")
    logits(model, tape)
    for name, weights_BHLS in tape.records.items():
        queries = SOURCE.layout if name.startswith("source") else TARGET.layout
        keys = TARGET.layout if name.startswith("target") and "cross" not in name else SOURCE.layout
        assert weights_BHLS.shape == (3, HEADS, queries.longest, keys.longest)
        for row, (length, seen) in enumerate(zip(queries.lengths, keys.lengths, strict=True)):
            real = weights_BHLS[row, :, :length]
            assert (real[:, :, seen:] == 0).all()
            torch.testing.assert_close(real.sum(-1), torch.ones(HEADS, length))


@pytest.mark.thinned
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("head", range(HEADS))
def test_a_head_off_is_a_model_without_its_columns_of_w_o(model, layer, head):
    tape = Tape(f"{layer}.weights", edits={f"{layer}.weights": without_head(head)})
    edited, whole = logits(model, tape), logits(model)
    assert (tape.records[f"{layer}.weights"][:, head] == 0).all()
    size = 8 // HEADS
    with torch.no_grad():
        o = model.get_submodule(layer).o.weight
        o[:, head * size : (head + 1) * size] = 0
    torch.testing.assert_close(edited, logits(model), rtol=1e-5, atol=1e-5)
    assert not torch.allclose(edited, whole, atol=1e-3)


def test_a_forced_row_and_an_edit_of_scores_have_an_effect(model):
    whole = logits(model)
    name = "target.blocks.1.cross"
    forced = Tape(f"{name}.weights", edits={f"{name}.weights": forced_row(0, 1, 3)})
    assert not torch.allclose(logits(model, forced)[1], whole[1])
    assert forced.records[f"{name}.weights"][0, 0, 1].tolist() == [0, 0, 0, 1]
    flat = Tape(f"{name}.weights", edits={f"{name}.scores": lambda name, scores: scores * 0})
    logits(model, flat)
    torch.testing.assert_close(
        flat.records[f"{name}.weights"][0, :, 0], torch.full((HEADS, 4), 0.25)
    )


def test_a_value_may_be_patched_from_another_run(model):
    donor = Tape("source.output")
    logits(model, donor)
    changed = pack([[9, 9, 9, 9], [8], [8, 8]])
    assert not torch.allclose(logits(model, source=changed), logits(model))
    patch = Tape(edits={"source.output": lambda name, value: donor.records[name]})
    torch.testing.assert_close(logits(model, patch, changed), logits(model))
