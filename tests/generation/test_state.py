"""A state for search: one token after another gives what the whole gives at once."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from naive import SEED
from regard import generation
from regard.core.batch import SourceTarget, pack
from regard.core.layout import Layout
from regard.generation import DecodingState
from regard.models.embedding import Learned
from regard.models.facts import change
from regard.models.papers.transformer import BASE

FACTS = change(BASE, width=8, heads=2, inner=12, depth=2, vocab=13)
PICKED = st.lists(st.integers(0, 5), min_size=1, max_size=5)
HAPPENS = st.lists(st.none() | PICKED, max_size=6)  # a step, or rows to pick
SOURCES = [[1, 2, 3, 4], [5], [6, 7]]


def opened(model, sources: list[list[int]], attention: bool = False) -> DecodingState:
    return generation.open_state(model, pack(sources), capacity=8, attention=attention)


def in_full(model, sources: list[list[int]], written: list[list[int]]):
    """Log-probabilities of the next token of each row, all computed anew."""
    source, target = pack(sources), pack(written)
    logits_TV = model(SourceTarget(source, target)).by_head["next_token"]
    return torch.stack([row[-1] for row in target.layout.split(logits_TV)]).log_softmax(-1)


@pytest.mark.parametrize(
    "facts",
    [
        FACTS,
        change(FACTS, norm="pre", final_norm=True),
        change(FACTS, position=Learned(8)),
        change(FACTS, shared_groups=1),
    ],
)
@settings(max_examples=8)
@given(happens=HAPPENS, seed=SEED)
@torch.inference_mode()
def test_steps_and_picks_equal_the_whole(facts, happens, seed):
    torch.manual_seed(seed)
    model = facts.build().eval()
    state, sources = opened(model, SOURCES), list(SOURCES)
    written: list[list[int]] = [[] for _ in sources]
    for picked in [*happens, None]:
        if picked is None:
            tokens_R = torch.randint(0, 13, (state.rows,))
            found = state.step(tokens_R)
            written = [[*row, int(token)] for row, token in zip(written, tokens_R, strict=True)]
            wanted = in_full(model, sources, written)
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
        else:
            index = [number % state.rows for number in picked]
            state.select_rows(torch.tensor(index))
            sources, written = [sources[i] for i in index], [written[i] for i in index]
            assert state.rows == len(index)


@torch.inference_mode()
def test_several_tokens_may_be_fed_at_once():
    model = FACTS.build().eval()
    written = torch.randint(0, 13, (3, 5))
    state = opened(model, SOURCES)
    for start, end in ((0, 2), (2, 4)):
        layout = Layout.rectangle(3, end - start, start=start)
        tokens_T = written[:, start:end].flatten()
        model.decode(tokens_T, layout, state.source, cache=state.cache)
        assert state.cache.length == end
    wanted = in_full(model, SOURCES, written.tolist())
    torch.testing.assert_close(state.step(written[:, 4]), wanted, rtol=1e-4, atol=1e-5)


@torch.inference_mode()
def test_probabilities_sum_to_one_in_single_precision():
    state = opened(FACTS.build().eval().bfloat16(), SOURCES)
    logprobs_RV = state.step(torch.tensor([1, 1, 1]))
    assert logprobs_RV.dtype == torch.float32
    torch.testing.assert_close(logprobs_RV.exp().sum(-1), torch.ones(3))
    assert state.device == logprobs_RV.device


@torch.inference_mode()
def test_attention_is_recorded_on_request():
    model = FACTS.build().eval()
    state, silent = opened(model, SOURCES, attention=True), opened(model, SOURCES)
    tokens_R = torch.tensor([1, 2, 3])
    torch.testing.assert_close(state.step(tokens_R), silent.step(tokens_R))
    weights_RS = state.attention()
    assert weights_RS.shape == (3, 4)
    assert weights_RS.isnan().tolist() == [
        [False] * 4,
        [False] + [True] * 3,
        [False] * 2 + [True] * 2,
    ]
    torch.testing.assert_close(weights_RS.nansum(-1), torch.ones(3))
    assert weights_RS[1, 0] == 1


@torch.inference_mode()
def test_attention_keeps_its_width_when_the_longest_row_leaves():
    state = opened(FACTS.build().eval(), SOURCES, attention=True)
    state.step(torch.tensor([1, 1, 1]))
    state.select_rows(torch.tensor([2, 1]))
    state.step(torch.tensor([1, 1]))
    weights_RS = state.attention()
    assert weights_RS.shape == (2, 4)
    assert weights_RS.isnan().sum(-1).tolist() == [2, 3]


def test_attention_that_was_not_recorded_is_an_error():
    state = opened(FACTS.build().eval(), SOURCES)
    with pytest.raises(ValueError, match="without recording attention"):
        state.attention()


@torch.inference_mode()
def test_a_state_has_a_fixed_capacity():
    source = pack([[1]])
    state = generation.open_state(FACTS.build().eval(), source, capacity=2)
    for _ in range(2):
        state.step(torch.tensor([1]))
    with pytest.raises(ValueError, match="cannot hold 3"):
        state.step(torch.tensor([1]))


@pytest.mark.gpu
@torch.inference_mode()
def test_steps_on_cuda_are_those_of_the_cpu():
    model = change(FACTS, width=32, inner=64).build().eval()
    source, index_R = pack(SOURCES), torch.tensor([2, 0, 0, 1])
    tokens = torch.randint(0, 13, (3, 4))
    found = []
    for device in ("cpu", "cuda"):
        model.to(device)
        moved = source.to(device)
        state = generation.open_state(model, moved, capacity=4, attention=True)
        assert state.device.type == device
        state.select_rows(index_R.to(device))
        steps = []
        for tokens_R in tokens.to(device):
            steps += [state.step(tokens_R), state.attention()]
            state.select_rows(torch.tensor([1, 0, 3, 2], device=device))
        found.append([step.cpu() for step in steps])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4, equal_nan=True)
