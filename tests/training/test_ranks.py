"""How a step is shared out: every row exactly once, and alike for all."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.training.ranks import Ranks

CPU = torch.device("cpu")


@given(world=st.integers(1, 6), accumulate=st.integers(1, 6), rows=st.integers(1, 9))
def test_every_row_is_someones_and_nobodys_twice(world, accumulate, rows):
    step = [[(batch, row) for row in range(rows)] for batch in range(accumulate)]
    shares = [Ranks(rank, world, CPU).share(step) for rank in range(world)]
    rows_of = [row for share in shares for _, part in share for row in part]
    assert sorted(rows_of) == sorted(row for batch in step for row in batch)
    assert len({len(share) for share in shares}) == 1  # as many turns for each: none waits alone


@given(world=st.integers(1, 4), turns=st.integers(1, 3))
def test_whole_batches_keep_their_numbers(world, turns):
    """So dropout, which is keyed by the number, falls as in one process."""
    step = [[batch] for batch in range(world * turns)]
    for rank in range(world):
        for number, part in Ranks(rank, world, CPU).share(step):
            assert part == [number]
