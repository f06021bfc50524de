"""Word vectors from characters are computed once for each distinct word."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.core.layout import Layout
from regard.models import characters
from regard.models.characters import Characters, distinct_by_hash, distinct_words

WORDS = Characters(((1, 4), (2, 6)), longest=5, highways=1)
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def a_batch(device: str) -> torch.Tensor:
    """Twelve words, of which four are distinct."""
    distinct_NC = torch.randint(1, 261, (4, 5), generator=torch.Generator().manual_seed(1))
    return distinct_NC.repeat(3, 1).to(device)


@pytest.mark.parametrize("distinct", [distinct_words, distinct_by_hash])
@given(rows=st.lists(st.lists(st.integers(0, 260), min_size=3, max_size=3), max_size=20))
def test_distinct_words_are_those_of_a_set(distinct, rows: list[list[int]]) -> None:
    characters_TC = torch.tensor(rows, dtype=torch.long).view(-1, 3)
    words_NC, at_T = distinct(characters_TC)
    assert torch.equal(words_NC[at_T], characters_TC)
    assert len(words_NC) == len({tuple(row) for row in rows})


def test_words_with_the_same_hash_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(characters.torch, "randint", lambda *a, **k: torch.zeros(5).long())
    rows_TC = a_batch("cpu")
    words_NC, at_T = distinct_by_hash(rows_TC)
    assert torch.equal(words_NC[at_T], rows_TC)


@pytest.mark.parametrize("device", DEVICES)
def test_each_distinct_word_is_read_once(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = WORDS.build(8, 0.0).to(device)
    rows_TC = a_batch(device)
    layout = Layout.ragged([12], device)
    sizes: list[int] = []
    static = module.static
    monkeypatch.setattr(module, "static", lambda rows: sizes.append(len(rows)) or static(rows))
    vectors_TD = module(rows_TC, layout)
    vectors_TD.square().sum().backward()
    gradient = module.token.weight.grad.clone()
    module.zero_grad()
    expected_TD = static(rows_TC)
    expected_TD.square().sum().backward()
    assert sizes == [4]
    torch.testing.assert_close(vectors_TD, expected_TD, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(gradient, module.token.weight.grad, rtol=1e-4, atol=1e-5)
