"""Fused blocks for few rows: what they compute, which models they fit, and who uses them."""

import copy

import pytest
import torch
from torch import Tensor

from regard.core.batch import pack
from regard.generation.cuda_graph import FewRowsLinear, FusedBlock, GraphedDecoder, for_few_rows
from regard.layers.attend import causal
from regard.layers.kernels import few_rows
from regard.layers.rotary import Llama3Scaling
from regard.layers.static_kv_cache import StaticKVCache
from regard.models.facts import change
from regard.models.heads import NextTokenHead
from regard.models.papers import gpt, gpt2
from regard.models.papers.transformer import BASE
from regard.models.positions import Relative, Rotary
from regard.models.tokens import Tokens
from regard.models.transformer import Stack
from regard.models.trunk import Trunk
from regard.models.trunk_with_heads import TrunkWithHeads

SIZES = {"width": 16, "depth": 2, "heads": 2, "inner": 40, "vocab": 31, "longest": 24}
ODD = {"width": 66, "depth": 3, "heads": 3, "inner": 101, "vocab": 203, "longest": 24}
RELATIVE = Stack(width=16, depth=2, heads=2, inner=24, mask=causal, norm="pre", final_norm=True)
LLAMA = {
    **{"norm_kind": "rms", "gated": True, "activation": "swish", "kv_heads": 1},
    **{"qkv_bias": False, "output_bias": False, "mlp_bias": False, "position": Rotary(24)},
}
TODAY = {  # traits of today's models, each beside the others
    "Llama": LLAMA,
    "partly turned": {**LLAMA, "position": Rotary(24, turned=0.5), "kv_heads": 2},
    "Llama 3": {**LLAMA, "position": Rotary(24, scaling=Llama3Scaling(4.0, 1.0, 4.0, 8))},
    "Mistral": {**LLAMA, "windows": (3,)},
    "Qwen2": {**LLAMA, "windows": (0, 2), "qkv_bias": True},
    "layer norms without bias": {**LLAMA, "norm_kind": "layer-no-bias", "gated": False},
}
each_of_today = pytest.mark.parametrize("name", TODAY)
STEPS, CAPACITY = 9, 24


def language_model(device: str = "cpu", dtype: torch.dtype = torch.float32, **sizes):
    torch.manual_seed(0)
    facts = change(gpt2.SMALL, **(SIZES | sizes)).with_heads(NextTokenHead())
    model = facts.build().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model.to(device, dtype)


def cache_for(model, rows: int) -> StaticKVCache:
    device = next(model.parameters()).device
    cache = StaticKVCache(rows, 1, CAPACITY, 0, len(model.decoder.layers), device)
    cache.start()
    return cache


def fused_blocks(model) -> int:
    return sum(isinstance(block, FusedBlock) for block in model.decoder.blocks)


@torch.inference_mode()
def logits(model, cache: StaticKVCache, tokens_LR: Tensor) -> Tensor:
    """Those of every step; the tokens that are fed are given."""
    return torch.stack([model.decode(each, cache.queries, None, cache=cache) for each in tokens_LR])


def random_tokens(model, rows: int) -> Tensor:
    tokens_LR = torch.randint(model.output.out_features, (STEPS, rows))
    return tokens_LR.to(next(model.parameters()).device)


@pytest.fixture
def anywhere(monkeypatch):
    """Every linear layer fits, on any device and in any precision."""
    monkeypatch.setattr(few_rows, "fits", lambda layer: True)


@pytest.mark.parametrize("activation", few_rows.NAMES.values())
def test_a_fused_block_computes_what_the_block_does(anywhere, activation):
    model = language_model(activation=activation)
    cache = cache_for(model, 3)
    fused = for_few_rows(model, cache)
    assert fused_blocks(fused) == 2 and isinstance(fused.output, FewRowsLinear)
    tokens_LR = random_tokens(model, 3)
    wanted = logits(model, cache_for(model, 3), tokens_LR)
    torch.testing.assert_close(logits(fused, cache, tokens_LR), wanted, rtol=1e-5, atol=1e-5)


@each_of_today
def test_a_fused_block_computes_the_parts_of_todays_models(anywhere, name):
    model = language_model(**TODAY[name])
    cache = cache_for(model, 3)
    fused = for_few_rows(model, cache)
    assert fused_blocks(fused) == 2
    tokens_LR = random_tokens(model, 3)
    whole = model(pack(tokens_LR.T.tolist())).by_head["next_token"].unflatten(0, (3, -1))
    found = logits(fused, cache, tokens_LR).transpose(0, 1)
    torch.testing.assert_close(found, whole, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("read", [{"mix": True}, {"layer": 1}], ids=str)
def test_a_head_reads_the_layers_of_fused_blocks(anywhere, read):
    model = language_model(**read)
    cache, tokens_LR = cache_for(model, 3), random_tokens(model, 3)
    fused = for_few_rows(model, cache)
    assert fused_blocks(fused) == 2
    whole = model(pack(tokens_LR.T.tolist())).by_head["next_token"].unflatten(0, (3, -1))
    found = logits(fused, cache, tokens_LR).transpose(0, 1)
    torch.testing.assert_close(found, whole, rtol=1e-5, atol=1e-5)


def test_parameters_are_shared_and_the_model_is_not_changed(anywhere):
    model = language_model()
    names = list(model.state_dict())
    fused = for_few_rows(model, cache_for(model, 1))
    assert set(map(id, fused.parameters())) == set(map(id, model.parameters()))
    assert fused_blocks(model) == 0 and list(model.state_dict()) == names


def test_what_does_not_fit_is_the_model_itself(anywhere):
    translator = change(BASE, width=16, heads=2, inner=24, depth=2, vocab=31).build().eval()
    post_norm = change(gpt.BASE, **SIZES).with_heads(NextTokenHead()).build().eval()
    relative = Trunk(Tokens(31, Relative(3)), RELATIVE)
    by_distance = TrunkWithHeads(relative, output_heads=(NextTokenHead(),)).build().eval()
    for model in (translator, post_norm, by_distance, language_model().train()):
        assert for_few_rows(model, cache_for(model, 1)) is model


def test_a_cpu_has_no_fused_blocks():
    model = language_model()
    assert for_few_rows(model, cache_for(model, 1)) is model


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [1, 2, 16])
@pytest.mark.parametrize("sizes", [SIZES, ODD, {**SIZES, "width": 128, "inner": 512}])
def test_fused_logits_are_those_of_the_blocks(sizes, rows):
    """Each in half precision, against single precision: about as far from it."""
    model = language_model("cuda", torch.bfloat16, **sizes)
    cache = cache_for(model, rows)
    fused = for_few_rows(model, cache)
    assert fused_blocks(fused) == sizes["depth"]
    tokens_LR = random_tokens(model, rows)
    exact = logits(copy.deepcopy(model).float(), cache_for(model, rows), tokens_LR)
    blocks = logits(model, cache_for(model, rows), tokens_LR)
    ours = logits(fused, cache, tokens_LR)
    off, ours_off = ((each.float() - exact).norm() / exact.norm() for each in (blocks, ours))
    assert ours_off <= 1.5 * off + 1e-3


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [1, 3, 16, 40])
@each_of_today
def test_fused_logits_of_todays_models_are_those_of_the_blocks(name, rows):
    model = language_model(
        "cuda", torch.bfloat16, **{**ODD, "width": 72, **TODAY[name], "kv_heads": 1}
    )
    cache = cache_for(model, rows)
    fused = for_few_rows(model, cache)
    assert fused_blocks(fused) == ODD["depth"]
    tokens_LR = random_tokens(model, rows)
    exact = logits(copy.deepcopy(model).float(), cache_for(model, rows), tokens_LR)
    blocks = logits(model, cache_for(model, rows), tokens_LR)
    ours = logits(fused, cache, tokens_LR)
    off, ours_off = ((each.float() - exact).norm() / exact.norm() for each in (blocks, ours))
    assert ours_off <= 1.5 * off + 1e-3


class NextNumber:
    """Selects the number after each token, and keeps the logits."""

    def __init__(self, tokens_R: Tensor, vocab: int):
        self.logits_RV = torch.zeros(len(tokens_R), vocab, device="cuda")
        self.tokens_R = tokens_R

    def select(self, logits_RV: Tensor) -> tuple[Tensor, None]:
        self.logits_RV.copy_(logits_RV)
        return (self.tokens_R + 1) % logits_RV.shape[1], None


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [1, 5])
@torch.inference_mode()
def test_a_captured_step_is_the_eager_one(rows):
    model = language_model("cuda", torch.bfloat16, **ODD)
    device = torch.device("cuda")
    selector = NextNumber(torch.zeros(rows, dtype=torch.long, device=device), ODD["vocab"])
    decoder = GraphedDecoder(model, selector, (rows, 1, CAPACITY, 0), device)
    selector.tokens_R = decoder.tokens_R
    assert fused_blocks(decoder.stepped) == ODD["depth"] and fused_blocks(model) == 0
    decoder.start(None, None)
    steps = []
    for _ in range(STEPS):  # the first two are eager
        decoder.step()
        steps.append(selector.logits_RV.clone())
    assert decoder.step.graph is not None
    cache = cache_for(model, rows)
    tokens_LR = torch.arange(STEPS, device=device)[:, None].expand(-1, rows)
    eager = logits(for_few_rows(model, cache), cache, tokens_LR)
    assert torch.equal(torch.stack(steps), eager.float())


@pytest.mark.gpu
def test_single_precision_runs_the_model():
    model = language_model("cuda", torch.float32)
    assert for_few_rows(model, cache_for(model, 1)) is model
