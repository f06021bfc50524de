"""Logits of next tokens, changed by token and by what has been written."""

import math

import pytest
import torch

from regard.core.errors import BadInput
from regard.generation.greedy import Greedy
from regard.generation.logit_bias import NO_BIAS, LogitBias
from regard.generation.sample import Sample


def test_numbers_are_added_to_logits_before_the_softmax():
    logits_RV = torch.randn(2, 6, generator=torch.Generator().manual_seed(0))
    written_RL = torch.tensor([[1, 1, 4], [0, 5, 2]])
    bias = LogitBias(((3, 2.0), (1, -100.0)), presence=0.5, frequency=0.25)
    expected_RV = logits_RV.clone()
    expected_RV[:, 3] += 2
    expected_RV[:, 1] -= 100
    expected_RV[0, 1] -= 0.5 + 2 * 0.25
    expected_RV[0, 4] -= 0.75
    expected_RV[1, [0, 5, 2]] -= 0.75
    logprobs_RV = logits_RV.log_softmax(-1)
    changed_RV = bias.logprobs(logprobs_RV, written_RL)
    torch.testing.assert_close(changed_RV, expected_RV.log_softmax(-1))
    torch.testing.assert_close(logprobs_RV, logits_RV.log_softmax(-1))  # unchanged


def test_tokens_are_looked_at_once_and_not_at_each_step():
    looks = []

    class Pairs(tuple):
        def __iter__(self):
            looks.append(1)
            return super().__iter__()

    bias = LogitBias(Pairs((token, -1.0) for token in range(9)))
    none_RL, before = torch.zeros(2, 0, dtype=torch.long), len(looks)
    for _ in range(4):  # the vocabulary has no tokens 6 to 8
        changed_RV = bias.logprobs(torch.zeros(2, 6).log_softmax(-1), none_RL)
        torch.testing.assert_close(changed_RV, torch.zeros(2, 6).log_softmax(-1))
    assert len(looks) == before + 1
    double_RV = bias.logprobs(torch.zeros(2, 10, dtype=torch.float64), none_RL)
    assert double_RV[0, 9] - double_RV[0, 8] == pytest.approx(1.0)


def test_a_step_without_written_tokens():
    logprobs_RV = torch.zeros(1, 4).log_softmax(-1)
    changed_RV = LogitBias(presence=2).logprobs(logprobs_RV, torch.zeros(1, 0, dtype=torch.long))
    torch.testing.assert_close(changed_RV, logprobs_RV)


def test_rules_are_named():
    bias = LogitBias(((3, 2.0),), 0.5, -1)
    rules = "logit bias of 1 tokens, presence penalty 0.5, frequency penalty -1"
    assert str(Greedy(logit_bias=bias)) == f"greedy search, {rules}"
    assert rules in str(Sample(logit_bias=bias))
    assert not NO_BIAS and bias


@pytest.mark.parametrize("wrong", [{"by_token": ((-1, 1.0),)}, {"presence": math.inf}])
def test_wrong_numbers_are_refused(wrong):
    with pytest.raises(BadInput):
        LogitBias(**wrong)
