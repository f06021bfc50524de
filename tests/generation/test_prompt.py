"""Prompts of different lengths: a batch of them decodes as each does alone, in every engine."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from naive import SEED
from regard import generation
from regard.core.batch import SourceTarget, pack
from regard.core.errors import BadInput
from regard.generation import EAGER, Beam, Constraints, Greedy, Prompts, Sample, cpp
from regard.generation.cpp import PRECISIONS, CppEngine
from regard.generation.cuda_graph import CudaGraphEngine
from regard.layers.attend import causal
from regard.models.embedding import Learned
from regard.models.facts import change
from regard.models.heads import NextTokenHead
from regard.models.papers import bahdanau, gpt, gpt2, luong, zaremba
from regard.models.papers.transformer import BASE
from regard.models.positions import Relative, Rotary, Sinusoid
from regard.models.tokens import Tokens
from regard.models.transformer import Stack
from regard.models.trunk import Trunk
from regard.models.trunk_with_heads import TrunkWithHeads

EOS, VOCAB, CAPACITY = 2, 31, 24
STACK = Stack(width=16, depth=2, heads=2, inner=24, mask=causal, norm="pre", final_norm=True)
SIZES = {"width": 16, "depth": 2, "heads": 2, "inner": 40, "vocab": VOCAB, "longest": CAPACITY}
LSTM = {"width": 16, "embedding": 16, "vocab": VOCAB}
MODELS = {
    "GPT": change(gpt.BASE, **SIZES).with_heads(NextTokenHead()),
    "GPT-2": change(gpt2.SMALL, **SIZES).with_heads(NextTokenHead()),
    "Llama": TrunkWithHeads(
        Trunk(
            Tokens(VOCAB, Rotary(CAPACITY)),
            change(STACK, norm_kind="rms", kv_heads=1, gated=True, windows=(0, 4)),
        ),
        output_heads=(NextTokenHead(),),
    ),
    "sinusoid": TrunkWithHeads(
        Trunk(Tokens(VOCAB, Sinusoid()), STACK), output_heads=(NextTokenHead(),)
    ),
    "learned": TrunkWithHeads(
        Trunk(Tokens(VOCAB, Learned(CAPACITY)), change(STACK, activation="gelu")),
        output_heads=(NextTokenHead(tied=False, bias=True),),
    ),
    "relative": TrunkWithHeads(
        Trunk(Tokens(VOCAB, Relative(3)), STACK), output_heads=(NextTokenHead(),)
    ),
    "mix": change(gpt2.SMALL, **SIZES, mix=True).with_heads(NextTokenHead()),
    "layer": change(gpt2.SMALL, **SIZES, layer=1).with_heads(NextTokenHead()),
    "LSTM, mix": change(zaremba.MEDIUM, **LSTM, mix=True).with_heads(NextTokenHead()),
    "LSTM, layer": change(zaremba.MEDIUM, **LSTM, layer=1).with_heads(NextTokenHead()),
}
TRANSLATOR = change(BASE, width=16, heads=2, inner=24, depth=2, vocab=VOCAB)
RECURRENT = {
    "before": change(bahdanau.LAPTOP, vocab=VOCAB, width=8, embedding=8, maxout=6),
    "fed": change(luong.LAPTOP, vocab=VOCAB, width=8, embedding=8),
}
PROMPTS = [[1, 5, 6, 7, 8, 9], [1], [1, 4, 3], [3, 3, 4], [1, 7, 9, 30, 29, 28, 27, 26, 5]]
SOURCES = [[4, 5, 6], [7], [8, 9], [10, 11, 12, 13], [14, 15]]
SEARCHES = [Greedy(), Beam(3, best=2), Beam(2, length="none", no_repeat=2), Sample(count=3)]
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def built(facts, seed: int = 0, device: str = "cpu"):
    """A model whose distributions are sharp enough to differ."""
    torch.manual_seed(seed)
    model = facts.build().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
        model.output.weight *= 4
    return model.to(device)


def engines(model, name: str):
    if name == "cpp":
        return CppEngine(model, "fp32")
    return CudaGraphEngine() if name == "cuda-graph" else EAGER


def opened(model, prompts, sources=None, engine=EAGER):
    device = next(model.parameters()).device
    source = None if sources is None else pack(sources).to(device)
    prompts = Prompts.of(prompts, device)
    return generation.open_state(model, source, prompts=prompts, capacity=CAPACITY, engine=engine)


def run(search, model, prompts, sources, engine, ids):
    longest = [9 - i % 3 for i in ids]
    constraints = Constraints([row[-1] for row in prompts], EOS, longest, forbidden=(0, 1))
    with torch.inference_mode():
        return search(opened(model, prompts, sources, engine), constraints, ids=ids)


CPP = pytest.param("cpp", marks=pytest.mark.native("compiler"))
FIXED_BUFFERS = pytest.param("cuda-graph", id="fixed-buffers")  # captured on a GPU only


@pytest.mark.thinned
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("search", SEARCHES, ids=str)
@pytest.mark.parametrize("name", ["torch", CPP, FIXED_BUFFERS])
@pytest.mark.parametrize("sources", [None, SOURCES], ids=["prompts alone", "with a source"])
def test_a_ragged_batch_decodes_as_its_rows_alone(sources, name, search, device):
    if name == "cpp" and device == "cuda":
        pytest.skip("runs on a CPU")
    for facts in [TRANSLATOR] if sources else [MODELS["sinusoid"], MODELS["GPT"], MODELS["GPT-2"]]:
        model = built(facts, device=device)
        engine = engines(model, name)
        ids = list(range(len(PROMPTS)))
        together = run(search, model, PROMPTS, sources, engine, ids)
        for i in ids:
            source = None if sources is None else sources[i : i + 1]
            (alone,) = run(search, model, PROMPTS[i : i + 1], source, EAGER, [i])
            assert [one.tokens for one in together[i]] == [one.tokens for one in alone]
            for one, other in zip(together[i], alone, strict=True):
                assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
    if name == "cuda-graph" and not isinstance(search, Sample) and not search.no_repeat:
        assert len(engine.decoders) == 1  # it did run on the device


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("search", [Greedy(), Sample(count=3, seed=5)], ids=str)
def test_prompts_of_one_shape_are_read_into_the_same_buffers(search, device):
    """Later batches see nothing of earlier ones, which were longer or had more rows."""
    model, engine = built(MODELS["GPT-2"], device=device), CudaGraphEngine()
    batches = [PROMPTS[:3], [PROMPTS[4], [1], [2, 3]], [[1, 9], [4], [6, 7, 8]], [[5], [6], [7, 8]]]
    for batch in [*batches, *batches]:
        ids = list(range(len(batch)))
        results, expected = (run(search, model, batch, None, each, ids) for each in (engine, EAGER))
        tokens = [[[one.tokens for one in row] for row in rows] for rows in (results, expected)]
        assert tokens[0] == tokens[1]
    (decoder,) = engine.decoders.values()
    (prompts,) = decoder.prompts.values()
    assert prompts.read.calls == 2 * len(batches)
    assert (prompts.read.graph is not None) == (device == "cuda")


@pytest.mark.thinned
@pytest.mark.native("compiler")
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", ["GPT", "GPT-2", "Llama"])
@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_in_cpp_a_row_has_the_same_bits_in_any_batch(search, name, precision, monkeypatch):
    """And in any parts that prompts are read by."""
    model = built(MODELS[name])
    engine, ids = CppEngine(model, precision), list(range(len(PROMPTS)))
    together = run(search, model, PROMPTS, None, engine, ids)
    monkeypatch.setattr(cpp, "AT_ONCE", 3)
    for i in ids:
        (alone,) = run(search, model, PROMPTS[i : i + 1], None, engine, [i])
        assert together[i] == alone


@pytest.mark.native("compiler")
@pytest.mark.parametrize("name", ["GPT", "GPT-2", "Llama"])
@torch.inference_mode()
def test_int8_is_close_to_fp32(name):
    model = built(MODELS[name])
    exact, rounded = (opened(model, PROMPTS, engine=CppEngine(model, p)) for p in PRECISIONS)
    tokens_R = torch.tensor([row[-1] for row in PROMPTS])
    for _ in range(6):
        expected, found = exact.step(tokens_R), rounded.step(tokens_R)
        assert torch.cosine_similarity(found, expected).min() > 0.999
        tokens_R = expected.argmax(-1)


def in_full(model, sources, written):
    """Log-probabilities of the next token of each row, all computed anew."""
    target = pack(written)
    inputs = target if sources is None else SourceTarget(pack(sources), target)
    logits_TV = model(inputs).by_head["next_token"]
    return torch.stack([row[-1] for row in target.layout.split(logits_TV)]).log_softmax(-1)


CASES = [
    *((facts, None, name) for facts in MODELS.values() for name in ("torch", "cpp")),
    *((TRANSLATOR, SOURCES, name) for name in ("torch", "cpp")),
    *((facts, SOURCES, "torch") for facts in RECURRENT.values()),
]


@pytest.mark.thinned
@pytest.mark.parametrize(("facts", "sources", "name"), CASES)
@settings(max_examples=8, deadline=None)
@given(
    happens=st.lists(st.none() | st.lists(st.integers(0, 7), min_size=1, max_size=7), max_size=7),
    lengths=st.lists(st.integers(1, 6), min_size=5, max_size=5),
    seed=SEED,
)
@torch.inference_mode()
def test_steps_after_prompts_equal_the_whole(facts, sources, name, happens, lengths, seed):
    model = built(facts, seed)
    if name == "cpp" and generation.cpp.obstacle(model):
        pytest.skip("not supported in C++")
    written = [torch.randint(0, VOCAB, (length,)).tolist() for length in lengths]
    state = opened(model, written, sources, engines(model, name))
    now = None if sources is None else list(sources)
    tokens_R = torch.tensor([row[-1] for row in written])
    fed = False
    for selected in [*happens, None]:
        if selected is None:
            if fed:
                tokens_R = torch.randint(0, VOCAB, (state.rows,))
                written = [[*row, int(new)] for row, new in zip(written, tokens_R, strict=True)]
            fed = True
            found = state.step(tokens_R)
            torch.testing.assert_close(found, in_full(model, now, written), rtol=1e-4, atol=1e-4)
        else:
            index = [number % state.rows for number in selected]
            state.select_rows(torch.tensor(index))
            written, tokens_R = [written[i] for i in index], tokens_R[index]
            now = None if now is None else [now[i] for i in index]
            assert state.rows == len(index)


@torch.inference_mode()
def test_prompts_are_read_in_one_forward_pass(monkeypatch):
    model, calls = built(MODELS["sinusoid"]), []
    model.trunk.register_forward_hook(lambda _, inputs, __: calls.append(inputs[1]))
    state = opened(model, PROMPTS)
    assert not calls  # a graphed decoder would read them itself
    state.step(torch.tensor([row[-1] for row in PROMPTS]))
    prompts, step = calls
    assert prompts.known_lengths == [len(row) - 1 for row in PROMPTS] and not prompts.even
    assert step.tokens == len(PROMPTS)


@torch.inference_mode()
def test_rows_of_one_length_need_no_mask():
    """And those that are left when others have gone may be."""
    model = built(MODELS["sinusoid"])
    state = opened(model, PROMPTS)
    state.step(torch.tensor([row[-1] for row in PROMPTS]))
    assert state.cache.next_layout(state.device).start is None
    state.select_rows(torch.tensor([2, 3, 3]))
    assert state.cache.next_layout(state.device).start == state.cache.length == 3
    found = state.step(torch.tensor([5, 6, 7]))
    written = [[*PROMPTS[2], 5], [*PROMPTS[3], 6], [*PROMPTS[3], 7]]
    torch.testing.assert_close(found, in_full(model, None, written), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "name", ["torch", pytest.param("cpp", marks=pytest.mark.native("compiler"))]
)
@torch.inference_mode()
def test_prompts_that_do_not_fit_are_errors(name):
    model = built(MODELS["sinusoid"])
    engine = engines(model, name)
    with pytest.raises(BadInput, match="prompt 2 is empty"):
        Prompts.of([[1], []])
    with pytest.raises(ValueError, match="needs a source, prompts, or both"):
        generation.open_state(model, capacity=3, engine=engine)
    with pytest.raises(ValueError, match="2 prompts for 1 sources"):
        opened(model, [[1], [2]], [[3]], engine)
    for rows in ([[1] * 6], [[1] * 6, [1]]):
        with pytest.raises(ValueError, match="3 positions cannot hold 5"):
            prompts = Prompts.of(rows)
            state = generation.open_state(model, prompts=prompts, capacity=3, engine=engine)
            state.step(torch.ones(len(rows), dtype=torch.long))
