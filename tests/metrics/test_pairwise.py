"""All pairs at once against sacreBLEU, one pair after the other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU, CHRF

from regard.metrics.pairwise import UTILITIES

METRICS = {"chrf": CHRF(), "bleu": BLEU(effective_order=True)}
WORD = st.sampled_from(["a", "ab", "the", "cat", "cats", ",", "sat.", "é"])
TEXTS = st.lists(st.lists(WORD, max_size=9).map(" ".join), min_size=1, max_size=5)


@pytest.mark.parametrize("name", METRICS)
@settings(max_examples=80)
@given(TEXTS, TEXTS)
def test_every_pair_scores_as_in_sacrebleu(name, hypotheses, references):
    found = UTILITIES[name](hypotheses, references)
    expected = [
        [METRICS[name].sentence_score(one, [other]).score for other in references]
        for one in hypotheses
    ]
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("name", METRICS)
def test_the_same_text_is_perfect_and_an_empty_one_worthless(name):
    found = UTILITIES[name](["the cat sat .", ""], ["the cat sat .", ""])
    np.testing.assert_allclose(found, [[100, 0], [0, 0]])


@pytest.mark.parametrize("name", METRICS)
def test_matches_are_clipped(name):
    (twice, often), (once,) = ["a a", "a a a a"], ["a"]
    found = UTILITIES[name]([twice, often], [once])
    assert 0 < found[1, 0] < found[0, 0] < 100
