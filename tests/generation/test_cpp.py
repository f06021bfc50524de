"""Decoding in C++: what the module computes, a row with the same bits in any batch."""

import copy
import ctypes
import re
import subprocess
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from naive import SEED
from regard import generation
from regard.core import machine
from regard.core.batch import pack
from regard.core.layout import Layout
from regard.generation import EAGER, Beam, Constraints, Greedy, Prompts, cpp
from regard.generation.cpp import CppEngine, obstacle
from regard.layers.attend import Dot, ScaledDot, WindowMask, attend, causal, earlier
from regard.layers.cpp import build
from regard.layers.linear.int8 import quantised, round_, scales
from regard.layers.relative_bias import BiasedDot
from regard.layers.rotary import LinearScaling, Llama3Scaling
from regard.models.embedding import AnyPosition, Learned
from regard.models.facts import change
from regard.models.heads import NextTokenHead
from regard.models.papers import bahdanau, gpt2
from regard.models.papers.transformer import BASE
from regard.models.positions import Relative, Rotary


@dataclass(frozen=True)
class Bias(AnyPosition):
    """A bias by bucket of distance that all layers share, as in T5."""

    def scores(self, heads, masks):
        return [BiasedDot(heads.count, 8, 10, causal=masks[0] == causal)] * len(masks)


SMALL = change(BASE, width=20, heads=2, inner=22, depth=2, vocab=37)
WITHOUT_BIAS = {"qkv_bias": False, "output_bias": False, "mlp_bias": False}
PRE_RMS = {"norm": "pre", "final_norm": True, "norm_kind": "rms", "eps": 1e-3}
T5 = change(
    change(SMALL, position=Bias(), scaled=False, scaled_scores=False),
    **{**WITHOUT_BIAS, **PRE_RMS, "tie": "none"},
)
LLAMA = change(
    change(gpt2.SMALL, width=24, heads=4, inner=20, depth=2, vocab=37, position=Rotary(16)),
    **{**WITHOUT_BIAS, **PRE_RMS, "gated": True, "activation": "swish", "kv_heads": 2},
).with_heads(NextTokenHead(tied=False))
KINDS = {
    "post": SMALL,
    "pre": change(SMALL, norm="pre", final_norm=True),
    "gelu": change(SMALL, activation="gelu", tie="none", head_bias=True),
    "swish": change(SMALL, activation="swish", key=5, value=7),
    "gelu by tanh": change(SMALL, activation="gelu-tanh", norm="pre", final_norm=True),
    "gelu by sigmoid": change(SMALL, activation="gelu-sigmoid", norm="pre", final_norm=True),
    "learned": change(SMALL, position=Learned(12), width=16, inner=64),
    "shared layers": change(SMALL, shared_groups=1),
    "layer norm without bias": change(SMALL, norm_kind="layer-no-bias"),
    "layer norm without bias, pre": change(
        SMALL, norm_kind="layer-no-bias", norm="pre", final_norm=True
    ),
    "RMS norm, post": change(SMALL, norm_kind="rms", eps=0.1),
    "fewer keys of the source": change(SMALL, heads=4, kv_heads=2, key=6, value=9),
    "large values": change(SMALL, heads=4, kv_heads=1, key=2, value=40),
    "T5": T5,
    "T5 1.1": change(T5, key=7, gated=True, activation="gelu-tanh"),
    "bias in a window": change(T5, **{"target.windows": (3,)}),
    "Llama": LLAMA,
    "one head of keys": change(LLAMA, kv_heads=1, key=10, value=5),
    "part of a head turned": change(LLAMA, position=Rotary(16, turned=0.5), key=16),
    "linear scaling": change(LLAMA, position=Rotary(16, scaling=LinearScaling(4.0))),
    "Llama 3": change(LLAMA, position=Rotary(16, 20.0, scaling=Llama3Scaling(8.0, 1.0, 4.0, 40))),
    "Mistral": change(LLAMA, windows=(4,)),
    "windows by layer": change(
        LLAMA, windows=(0, 3), position=Rotary(16, base=500.0, local_base=20.0)
    ),
    "Qwen": change(LLAMA, qkv_bias=True),
    "gated by gelu": change(LLAMA, activation="gelu", mlp_bias=True, heads=2),
    "gated by relu": change(LLAMA, activation="relu", inner=150, heads=3, kv_heads=3),
}
SOURCES = [[1, 2, 3, 4], [5], [6, 7], [8, 9, 10], [11] * 6]

pytestmark = pytest.mark.native("compiler")


ATTEND = """
#include "attention.h"
extern "C" void attend_all(const float *q, const float *k, const float *v, const float *bias,
                           int64_t length, int64_t key, int64_t value, int64_t heads, float scale,
                           float *weights, float *out) {
    for (int64_t h = 0; h < heads; h++) {
        auto of = [=](int64_t size) { return [=](int64_t s) { return s * heads * size; }; };
        attend(q + h * key, k + h * key, v + h * value, bias ? bias + h * length : nullptr, length,
               key, value, scale, weights, out + h * value, of(key), of(value));
    }
}
"""


@pytest.fixture(scope="module")
def compiled_attend(tmp_path_factory):
    """The header that takes the softmax over keys, alone."""
    source = tmp_path_factory.mktemp("attend") / "attend.cpp"
    source.write_text(ATTEND)
    made = source.with_suffix(".so")
    command = [str(machine.compiler()), *build.compiler_flags(), f"-I{build.FOLDER}", str(source)]
    subprocess.run([*command, "-o", str(made)], check=True, timeout=build.SECONDS)
    return ctypes.CDLL(str(made)).attend_all


@settings(max_examples=50, deadline=None)
@given(
    length=st.integers(0, 70),
    key=st.integers(1, 20),
    value=st.integers(1, 20),
    heads=st.integers(1, 3),
    large=st.sampled_from([0.1, 1.0, 30.0]),
    score=st.sampled_from([Dot(), ScaledDot()]),
    biased=st.booleans(),
    seed=SEED,
)
def test_the_softmax_over_keys_is_attend_s(
    compiled_attend, length, key, value, heads, large, score, biased, seed
):
    """One query; a query that may see nothing gets zeros."""
    torch.manual_seed(seed)
    q, k, v = (
        torch.randn(n, heads, size) for n, size in ((1, key), (length, key), (length, value))
    )
    q *= large
    bias_HS = large * biased * torch.randn(heads, length)
    queries, keys = Layout.ragged([1]), Layout.ragged([length])

    def biased_score(*inputs):
        return score(*inputs) + bias_HS[None, :, None]

    wanted = attend(biased_score, q, k, v, queries=queries, keys=keys)
    found, weights = torch.full((1, heads, value), torch.nan), torch.empty(max(length, 1))
    pointers = [ctypes.c_void_p(one.data_ptr()) for one in (q, k, v, bias_HS)]
    pointers[3] = pointers[3] if biased else None
    sizes = [ctypes.c_int64(one) for one in (length, key, value, heads)]
    results = [ctypes.c_void_p(one.data_ptr()) for one in (weights, found)]
    compiled_attend(*pointers, *sizes, ctypes.c_float(score.scale(key)), *results)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


def built(name: str, seed: int = 0):
    torch.manual_seed(seed)
    model = KINDS[name].build().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    for module in model.modules():
        if isinstance(module, BiasedDot):
            module.draw_vectors(2.0)
    return model


def opened(model, engine, sources=SOURCES, capacity=16):
    """A state that begins with sources or, of a language model, with these as prompts."""
    if model.cross_attention is None:
        prompts = Prompts.of(sources)
        return generation.open_state(model, prompts=prompts, capacity=capacity, engine=engine)
    return generation.open_state(model, pack(sources), capacity=capacity, engine=engine)


@pytest.mark.thinned
@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=10, deadline=None)
@given(happens=st.lists(st.none() | st.lists(st.integers(0, 9), min_size=1, max_size=9)), seed=SEED)
@torch.inference_mode()
def test_steps_and_picks_are_those_of_the_module(name, happens, seed):
    model = built(name, seed)
    plain, native = opened(model, EAGER), opened(model, CppEngine(model, "fp32"))
    for picked in [*happens, None][-10:]:
        if picked is None:
            tokens_R = torch.randint(0, 37, (plain.rows,))
            found = native.step(tokens_R)
            torch.testing.assert_close(found, plain.step(tokens_R), rtol=1e-4, atol=1e-5)
        else:
            index_R = torch.tensor([number % plain.rows for number in picked])
            plain.select_rows(index_R)
            native.select_rows(index_R)
            assert native.rows == plain.rows


def in_8_bits(model):
    """A copy in which every layer that the code takes rounds as the code says it does."""
    native = CppEngine(model, "int8")
    for module in native.packed_layers:
        bytes_FD, scale_F = quantised(module.weight.detach())

        def forward(x, bytes_FD=bytes_FD, scale_F=scale_F, bias=module.bias):
            scale_T1 = scales(x)
            sums = round_(x / scale_T1) @ bytes_FD.float().T
            y = sums * scale_F * scale_T1
            return y if bias is None else y + bias

        module.forward = forward
    return model


@pytest.mark.thinned
@pytest.mark.parametrize("name", KINDS)
@torch.inference_mode()
def test_int8_rounding_is_as_documented(name):
    model = built(name)
    native = opened(model, CppEngine(model, "int8"))
    exact = opened(built(name), EAGER)
    rounded = opened(in_8_bits(model), EAGER)
    equal = list[torch.Tensor]()
    for tokens_R in torch.randint(0, 37, (5, len(SOURCES))):
        found, wanted = native.step(tokens_R), rounded.step(tokens_R)
        far = (exact.step(tokens_R) - wanted).abs().mean()
        difference_R = (found - wanted).abs().mean(1)
        assert difference_R.max() < far
        equal.append(difference_R < 0.01 * far)
    # A rare tie falls to the other side where activations differ in their last bit.
    assert torch.stack(equal).float().mean() > 0.8


@pytest.mark.parametrize("kind", ["fp32", "int8"])
@pytest.mark.parametrize("copies", [1, 3, 30])
@pytest.mark.parametrize("name", ["pre", "T5 1.1", "Mistral"])
@torch.inference_mode()
def test_a_row_has_the_same_bits_in_any_batch(name, kind, copies):
    model = built(name)
    engine = CppEngine(model, kind)
    alone, together = (opened(model, engine, SOURCES[:1]) for _ in "ab")
    together.select_rows(torch.zeros(copies * 5, dtype=torch.long))
    for token in (3, 9, 4, 21):
        one = alone.step(torch.tensor([token]))
        others = torch.randint(0, 37, (copies * 5,))
        others[copies * 2] = token
        many = together.step(others)
        assert torch.equal(many[copies * 2], one[0])
        together.select_rows(torch.full((copies * 5,), copies * 2))


@pytest.mark.parametrize("kind", ["fp32", "int8"])
@torch.inference_mode()
def test_searches_do_not_notice(kind):
    model = built("post")
    limits = Constraints(1, 2, 9, forbidden=(0, 1))
    for search in (Greedy(), Beam(3, best=2)):
        found = search(opened(model, CppEngine(model, kind)), limits)
        one_by_one = [
            search(opened(model, CppEngine(model, kind), [one]), limits)[0] for one in SOURCES
        ]
        assert [[h.tokens for h in one] for one in found] == [
            [h.tokens for h in one] for one in one_by_one
        ]
        if kind == "fp32":
            plain = search(opened(model, EAGER), limits)
            assert [[h.tokens for h in one] for one in found] == [
                [h.tokens for h in one] for one in plain
            ]


@pytest.mark.parametrize("kind", ["fp32", "int8"])
@torch.inference_mode()
def test_many_rows_are_all_computed(kind):
    model = built("post")
    state = opened(model, CppEngine(model, kind))
    state.select_rows(torch.arange(1_100) % 5)
    logprobs_RV = state.step(torch.full((1_100,), 3))
    assert torch.equal(logprobs_RV, logprobs_RV[:5].repeat(220, 1))


@torch.inference_mode()
def test_what_is_no_number_stays_none():
    for kind in ("fp32", "int8"):
        model = built("gelu")
        model.target.embed.token.weight[7, 3] = torch.nan
        logprobs_RV = opened(model, CppEngine(model, kind)).step(torch.tensor([7, 8, 9, 7, 1]))
        assert logprobs_RV.isnan().all(-1).tolist() == [True, False, False, True, False]


@torch.inference_mode()
def test_it_says_when_it_is_full():
    model = built("post")
    state = opened(model, CppEngine(model, "fp32"), capacity=2)
    for _ in range(2):
        state.step(torch.ones(5, dtype=torch.long))
    with pytest.raises(ValueError, match="cannot hold 3"):
        state.step(torch.ones(5, dtype=torch.long))


CAUSAL = change(gpt2.SMALL, width=8, heads=2, inner=8, depth=2, vocab=9, longest=8)
OBSTACLES = [
    (change(bahdanau.LAPTOP, vocab=10, width=4, embedding=4), "layers other than blocks"),
    (change(SMALL, **{"target.mask": WindowMask(1, 1)}), "a window with keys after the query"),
    (change(CAUSAL, first_norm=False), "norm: none"),
    (change(SMALL, **{"target.position": Relative(2)}), "score: DistanceDot"),
    (change(CAUSAL, position=Relative(2)), "score: DistanceDot"),
    (change(CAUSAL, activation="tanh"), "activation: tanh"),
    (change(CAUSAL, mix=True), "a head on other states than the last"),
    (change(CAUSAL, layer=1), "a head on other states than the last"),
]


@pytest.mark.parametrize(("facts", "reason"), OBSTACLES, ids=lambda one: str(one)[:40])
def test_it_says_in_one_line_what_it_does_not_support(facts, reason):
    lines = obstacle(facts.build())
    assert re.fullmatch(f"the C\\+\\+ decoder does not support {reason}.*", lines)


def test_it_refuses_what_no_facts_describe():
    model = built("T5")
    model.target.blocks[1].cross.score = BiasedDot(2, 8, 10, causal=False)
    assert str(obstacle(model)).endswith("does not support a position bias of cross-attention")
    model = built("Llama")
    model.trunk.blocks[1].attention.mask = earlier
    assert str(obstacle(model)).endswith("does not support a window with keys after the query")


@pytest.mark.parametrize("name", KINDS)
def test_it_supports_these(name):
    assert obstacle(built(name)) is None


def test_what_it_supports_needs_a_compiler(monkeypatch):
    models = [built("post"), CAUSAL.with_heads(NextTokenHead()).build()]
    assert [obstacle(model) for model in models] == [None, None]
    assert obstacle(copy.deepcopy(models[1])) is None
    monkeypatch.setattr(cpp, "failure", lambda: "there is no C++ compiler")
    assert [obstacle(model) for model in models] == ["there is no C++ compiler"] * 2


@torch.inference_mode()
def test_attention_is_recorded_by_the_module():
    model = built("post")
    engine = CppEngine(model, "fp32")
    state = generation.open_state(model, pack(SOURCES), capacity=4, engine=engine, attention=True)
    state.step(torch.ones(5, dtype=torch.long))
    assert state.attention().shape == (5, 6)


def compiled_anew():
    """The library, or why there is none, asked as if for the first time."""
    return build._result.__wrapped__()


def test_a_compiler_compiles_the_code_and_says_why_if_it_does_not(monkeypatch, tmp_path):
    assert build.failure() is None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    broken = tmp_path / "decoder.cpp"
    broken.write_text("int f( {\n")
    monkeypatch.setattr(build, "SOURCE", broken)
    assert "decoder.cpp:1:" in compiled_anew()


@pytest.mark.slow
def test_without_a_compiler_there_is_no_code(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name, value in (("CXX", "no-such-compiler"), ("CXX", "false"), ("REGARD_HIDE", "compiler")):
        with monkeypatch.context() as patched:
            patched.setenv(name, value)
            assert "compile" in compiled_anew()
    assert not isinstance(compiled_anew(), str)
    (kept,) = (tmp_path / "regard").iterdir()
    torn = kept.read_bytes()[:20_000]
    kept.unlink()  # the process may still use it
    kept.write_bytes(torn)  # a torn file is not loaded
    assert build._compiled("c++").read_bytes() != kept.read_bytes() or kept.stat().st_size > 20_000


def test_compiled_code_that_others_could_change_is_not_loaded(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(build, "SOURCE", tmp_path / "short.cpp")
    build.SOURCE.write_text("int one = 1;\n")
    kept = build._compiled("c++")
    assert kept.parent == tmp_path / "regard" and build._compiled("c++") == kept
    before = kept.stat().st_mtime_ns
    kept.chmod(0o777)
    assert build._compiled("c++").stat().st_mtime_ns > before  # compiled anew
    (tmp_path / "regard").chmod(0o777)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert build._compiled("c++").parent == tmp_path / ".cache" / "regard"


@pytest.mark.skipif(not machine.has("avx2"), reason="needs a processor with AVX2")
def test_hidden_instructions_are_not_compiled_for(monkeypatch):
    """And what was compiled for one set is not taken for another."""
    compiler = str(machine.compiler())
    monkeypatch.delenv("REGARD_HIDE", raising=False)
    assert "-march=native" in build.compiler_flags()
    keys = [build._key(compiler)]
    for hidden, flag in (("avx512", "-march=x86-64-v3"), ("avx2", "-march=x86-64-v2")):
        monkeypatch.setenv("REGARD_HIDE", hidden)
        assert flag in build.compiler_flags()
        keys.append(build._key(compiler))
    monkeypatch.setenv("REGARD_HIDE", "bf16")
    assert ("-DNO_AMX" in build.compiler_flags()) and "-march=native" in build.compiler_flags()
    assert len(set(keys)) == 3
