"""Induction scores of attention made by hand."""

import numpy as np
import pytest

from regard.core.errors import BadInput
from regard.inside.attention.induction import InductionScores, follows_earlier

IDS = [7, 3, 9, 5, 7, 3, 9, 5]


def attention(ids):
    """Three heads: one induces, one attends to the token before, one to all tokens alike."""
    length = len(ids)
    uniform = np.tri(length) / np.arange(1, length + 1)[:, None]
    previous, induction = np.zeros((2, length, length))
    for query in range(length):
        previous[query, max(query - 1, 0)] = 1
        earlier = [key + 1 for key in range(query - 1) if ids[key] == ids[query]]
        induction[query, earlier[-1] if earlier else 0] = 1
    return np.stack([uniform, previous, induction])


def test_the_induction_head_has_one_and_the_others_what_they_attend_to():
    scores = InductionScores.of("a", IDS, (attention(IDS), attention(IDS)[1:2]))
    uniform = np.mean([1 / (query + 1) for query in range(4, 8)])
    np.testing.assert_allclose(scores.layers[0], [uniform, 0, 1])
    assert scores.layers[1].tolist() == [0]
    assert scores.tokens == 4 and scores.uniform == pytest.approx(uniform)
    assert scores.highest(2) == [(0, 2, 1.0), (0, 0, pytest.approx(uniform))]


def test_every_earlier_occurrence_counts_and_a_token_does_not_follow_itself():
    after = follows_earlier([1, 2, 1, 1, 3])
    assert np.argwhere(after).tolist() == [[2, 1], [3, 1]]
    after = follows_earlier([1, 2, 1, 3, 1])
    assert np.argwhere(after).tolist() == [[2, 1], [4, 1], [4, 3]]


def test_it_prints_all_layers_and_heads_and_leaves_missing_heads_blank():
    scores = InductionScores.of("a b", IDS, (attention(IDS), attention(IDS)[1:2]))
    lines = scores.text(100).splitlines()
    assert "mean of 4 tokens; uniform attention: 0.159" in lines[1]
    (first,) = (line for line in lines if line.startswith("layer 0 "))
    (second,) = (line for line in lines if line.startswith("layer 1 "))
    assert first.endswith("··██") and second == "layer 1 ··"
    assert "layer 0, head 2: 1.000" in lines
    shown = scores.view_record()
    (grid,) = shown.json["grids"]
    assert shown.array(grid["values"])[0, 2] == 1
    assert shown.array(grid["exists"]).tolist() == [[1, 1, 1], [1, 0, 0]]
    assert scores.to_json()["induction"][1] == [0.0]


def test_a_text_without_repetition_and_a_choice_are_refused():
    with pytest.raises(BadInput, match="occurs twice"):
        InductionScores.of("a", [1, 2, 2], (attention([1, 2, 2]),))
    with pytest.raises(BadInput, match="do not choose any"):
        InductionScores.of("a", IDS, (attention(IDS),)).choose(head=1)
