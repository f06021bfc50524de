import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.generation.candidates import BLOCK, _lean, topk


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_equals_a_stable_sort_of_the_whole_row(data):
    V = data.draw(st.sampled_from([1, 3, BLOCK, 3 * BLOCK, 5 * BLOCK + 7, 1000]))
    count = data.draw(st.integers(1, 9))
    kinds = data.draw(st.sampled_from([2, 5, 10_000]))  # few kinds of values: many ties
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 10_000)))
    values = -torch.rand(kinds, generator=generator)
    logprobs_RV = values[torch.randint(kinds, (4, V), generator=generator)]
    found, index = topk(logprobs_RV, count)
    sorted_RV, order_RV = logprobs_RV.sort(dim=1, descending=True, stable=True)
    assert torch.equal(found, sorted_RV[:, :count])
    assert torch.equal(index, order_RV[:, :count])


def test_neighbours_in_float32_are_told_apart_at_the_far_end_of_a_vocabulary():
    one = torch.tensor(-1.0)
    logprobs_RV = torch.full((1, 250_000), -50.0)
    logprobs_RV[0, 0], logprobs_RV[0, -1] = one, torch.nextafter(one, torch.tensor(0.0))
    assert topk(logprobs_RV, 2)[1].tolist() == [[249_999, 0]]


def test_forbidden_entries_come_last():
    logprobs_RV = torch.full((1, 4 * BLOCK), -torch.inf)
    logprobs_RV[0, 200] = -2.0
    values, index = topk(logprobs_RV, 2)
    assert values.tolist() == [[-2.0, -torch.inf]] and index[0, 0] == 200


def test_what_a_captured_graph_reads_is_never_freed():
    """Other vocabularies, however many, do not push the tensors of one out."""
    first = _lean(1_000, torch.device("cpu"))
    for V in range(1_001, 1_021):
        _lean(V, torch.device("cpu"))
    assert _lean(1_000, torch.device("cpu")) is first


@pytest.mark.gpu
def test_a_captured_graph_outlives_other_vocabularies():
    logprobs_RV = torch.randn(3, 70_000, device="cuda").log_softmax(-1)
    wanted = topk(logprobs_RV, 4)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = topk(logprobs_RV, 4)
    for V in range(70_001, 70_021):
        topk(torch.zeros(1, V, device="cuda"), 4)
    junk = [torch.full((70_000,), -1.0, device="cuda", dtype=torch.double) for _ in range(64)]
    graph.replay()
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)
    assert len(junk) == 64
