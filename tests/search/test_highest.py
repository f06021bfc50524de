import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.search.highest import BLOCK, highest


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_equals_a_stable_sort_of_the_whole_row(data):
    V = data.draw(st.sampled_from([1, 3, BLOCK, 3 * BLOCK, 5 * BLOCK + 7, 1000]))
    count = data.draw(st.integers(1, 9))
    kinds = data.draw(st.sampled_from([2, 5, 10_000]))  # few kinds of values: many ties
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 10_000)))
    values = -torch.rand(kinds, generator=generator)
    logprobs_RV = values[torch.randint(kinds, (4, V), generator=generator)]
    found, index = highest(logprobs_RV, count)
    sorted_RV, order_RV = logprobs_RV.sort(dim=1, descending=True, stable=True)
    assert torch.equal(found, sorted_RV[:, :count])
    assert torch.equal(index, order_RV[:, :count])


def test_neighbours_in_float32_are_told_apart_at_the_far_end_of_a_vocabulary():
    one = torch.tensor(-1.0)
    logprobs_RV = torch.full((1, 250_000), -50.0)
    logprobs_RV[0, 0], logprobs_RV[0, -1] = one, torch.nextafter(one, torch.tensor(0.0))
    assert highest(logprobs_RV, 2)[1].tolist() == [[249_999, 0]]


def test_forbidden_entries_come_last():
    logprobs_RV = torch.full((1, 4 * BLOCK), -torch.inf)
    logprobs_RV[0, 200] = -2.0
    values, index = highest(logprobs_RV, 2)
    assert values.tolist() == [[-2.0, -torch.inf]] and index[0, 0] == 200
