"""Searches without branching: streams of tokens, stop tests, and rules against repetition."""

import pytest
import torch

from regard.core.errors import BadInput
from regard.generation import Beam, Constraints, Exact, Greedy, Sample
from regard.generation.constraints import Repetition, RuleRows, penalise
from regard.generation.step import SearchBatch

from .toy import BOS, EOS, Toy

SEARCHES = [Greedy(), Sample(count=3, seed=2)]
LIMITS = Constraints(BOS, EOS, 9)


def collected(search, toy, stop_test=None):
    """What a stream returns, and the tokens of each hypothesis that it gave on the way."""
    stream, tokens = search.stream(toy.open(range(5)), LIMITS, stop_test=stop_test), {}
    while True:
        try:
            step = next(stream)
        except StopIteration as end:
            return end.value, tokens
        for number, token in zip(step.rows, step.tokens, strict=True):
            tokens.setdefault(number, []).append(token)


@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_a_stream_gives_the_tokens_of_the_search(search):
    toy = Toy(3, vocabulary=4)
    found, tokens = collected(search, toy)
    assert found == search(toy.open(range(5)), LIMITS)
    whole = [[*one.tokens, EOS] if one.finished else [*one.tokens] for n in found for one in n]
    assert sorted(whole) == sorted(tokens.values())


@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_a_stop_test_ends_a_hypothesis_after_the_token(search):
    toy = Toy(3, vocabulary=4)
    free = search(toy.open(range(5)), LIMITS)
    stopped, _ = collected(search, toy, lambda tokens: tokens[-1] == 2)
    assert any(2 in one.tokens for n in free for one in n)
    expected = [
        one.tokens[: one.tokens.index(2) + 1] if 2 in one.tokens else one.tokens
        for n in free
        for one in n
    ]
    assert sorted(one.tokens for n in stopped for one in n) == sorted(expected)
    for one in (one for n in stopped for one in n):
        assert one.finished == (2 not in one.tokens and len(one.tokens) < 9)
        assert len(one.logprobs) == len(one.tokens) + one.finished


@pytest.mark.parametrize("search", [Beam(2), Exact()], ids=str)
def test_a_search_that_branches_cannot_stream(search):
    with pytest.raises(BadInput, match=f"{type(search).__name__} cannot stream"):
        next(search.stream(Toy(0).open([0]), LIMITS))


def test_the_penalty_is_that_of_transformers():
    transformers = pytest.importorskip("transformers")
    processor = transformers.RepetitionPenaltyLogitsProcessor(1.7)
    seen_RL = torch.tensor([[3, 3, 0], [-1, 5, 2]])
    logits_RV = torch.randn(2, 7, generator=torch.Generator().manual_seed(0))
    expected = torch.cat([processor(torch.tensor([row]), one[None]) for row, one in (
        ([3, 0], logits_RV[0]), ([5, 2], logits_RV[1]))])  # fmt: skip
    logprobs_RV = logits_RV.log_softmax(-1)
    normaliser_R = logits_RV.logsumexp(-1)
    rows = RuleRows(torch.arange(2), seen_RL, 2, lambda: normaliser_R)
    found = penalise(Repetition(penalty=1.7), logprobs_RV, rows)
    torch.testing.assert_close(found, expected.log_softmax(-1))
    of_beams = Repetition(penalty=1.7, of_logits=False)
    found = penalise(of_beams, logprobs_RV, rows)
    torch.testing.assert_close(found[0, [0, 3]], 1.7 * logprobs_RV[0, [0, 3]])
    torch.testing.assert_close(found[1, [0, 3]], logprobs_RV[1, [0, 3]])


def test_prompts_of_any_length_come_before_the_hypotheses():
    batch = SearchBatch(Toy(0).open([0, 1]), LIMITS, None, [0, 1], prompts=[[4, 5, 6], [7]])
    rules = batch.rules(Repetition(no_repeat=2))
    assert rules.history_RS.tolist() == [[4, 5, 6], [-1, -1, 7]]
    rules.select_rows(torch.tensor([1, 0]))
    rules.advance(torch.tensor([8, 9]))
    assert rules.history_RS.tolist() == [[-1, -1, 7, 8], [4, 5, 6, 9]]
    once = batch.rules(Repetition(no_repeat=1))
    logprobs_RV = once.logprobs(torch.zeros(2, 9), batch.state.normaliser, torch.arange(2), 0)
    assert [row.isinf().nonzero()[:, 0].tolist() for row in logprobs_RV] == [[4, 5, 6], [7]]
    assert batch.repeated(2).prompts == [[4, 5, 6], [4, 5, 6], [7], [7]]


@pytest.mark.parametrize("penalty", [0, -1.0, float("inf"), float("nan"), "1"])
def test_penalties_that_make_no_sense(penalty):
    for search in (Greedy, Beam, Sample):
        with pytest.raises(BadInput, match="repetition penalty"):
            search(repetition_penalty=penalty)
