import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from naive import LENGTHS
from regard.core.layout import Layout
from regard.layers.relative_score import sinusoid
from regard.models.embedding import LearnedPositions
from regard.models.positions import SinusoidPositions


@given(st.integers(1, 9), st.sampled_from([10_000.0, 1_000.0, 2.0]))
def test_sinusoids_are_sine_and_cosine_of_growing_wavelengths(width, base):
    found = sinusoid(torch.arange(6), width, base)
    for position in range(6):
        for dimension in range(width):
            angle = position / base ** (2 * (dimension // 2) / width)
            wanted = math.cos(angle) if dimension % 2 else math.sin(angle)
            assert found[position, dimension] == pytest.approx(wanted, abs=1e-5)


def test_late_positions_are_as_exact_as_early_ones():
    found = sinusoid(torch.tensor([511]), 512)[0]
    wanted = [math.sin(511 / 10_000 ** (i / 512)) for i in range(0, 512, 2)]
    torch.testing.assert_close(found[0::2], torch.tensor(wanted), rtol=0, atol=1e-7)


@given(st.integers(1, 9))
def test_halves_are_the_same_numbers_in_another_order(width):
    positions = torch.tensor([-3, 0, 2, 7])
    woven = sinusoid(positions, width)
    halves = sinusoid(positions, width, halves=True)
    assert torch.equal(halves, torch.cat([woven[:, 0::2], woven[:, 1::2]], dim=1))


def test_wavelengths_run_from_two_pi_to_the_base():
    for pair in range(64):
        wavelength = 2 * math.pi * 10_000 ** (2 * pair / 128)
        start, turned = sinusoid(torch.tensor([0.0, wavelength]), 128)[:, 2 * pair : 2 * pair + 2]
        torch.testing.assert_close(start, turned, atol=1e-4, rtol=0)


@given(LENGTHS)
def test_every_row_counts_from_its_own_start(lengths):
    for part in (SinusoidPositions(4, base=100.0), LearnedPositions(8, 4)):
        alone = torch.cat([part(Layout.ragged([length])) for length in lengths])
        assert torch.equal(part(Layout.ragged(lengths)), alone)


@pytest.mark.parametrize(
    "part",
    [SinusoidPositions(6), SinusoidPositions(6, halves=True), LearnedPositions(9, 6)],
    ids=["sinusoid", "halves", "learned"],
)
def test_a_row_that_starts_late_continues_where_it_left_off(part):
    whole = part(Layout.rectangle(1, 9))
    late = part(Layout.rectangle(2, 3, start=6))
    torch.testing.assert_close(late, whole[6:].repeat(2, 1), rtol=0, atol=1e-6)


def test_positions_may_be_free():
    free = replace(Layout.ragged([3]), start=None, positions_T=torch.tensor([7, 0, 7]))
    found = SinusoidPositions(4)(free)
    assert torch.equal(found[0], found[2]) and not torch.equal(found[0], found[1])
    table = LearnedPositions(8, 4)
    assert torch.equal(table(free), table.weight[[7, 0, 7]])


def test_sinusoids_have_nothing_to_learn_or_to_store():
    assert not SinusoidPositions(4).state_dict()


def test_learned_positions_end_somewhere():
    table = LearnedPositions(4, 2)
    assert table(Layout.rectangle(1, 2, start=2)).shape == (2, 2)
    with pytest.raises(ValueError, match="position 4 is out of range: 4 positions are learned"):
        table(Layout.ragged([2, 5]))
    with pytest.raises(ValueError, match="position 4 is out of range"):
        table(Layout.rectangle(1, 1, start=4))


LAYOUTS = {
    "ragged": Layout.ragged([3, 0, 1]),
    "full": Layout.rectangle(2, 3),
    "started": Layout.rectangle(2, 2, start=1),
    "ragged rectangle": Layout.rectangle(2, 3, lengths_B=torch.tensor([3, 1])),
    "free": replace(Layout.ragged([3]), start=None, positions_T=torch.tensor([2, 0, 2])),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_positions_with_an_offset_begin_behind_it(layout):
    """As BART and RoBERTa keep them: the first two vectors are not used."""
    plain, offset = LearnedPositions(3, 4), LearnedPositions(3, 4, offset=2)
    assert offset.weight.shape == (5, 4)
    with torch.no_grad():
        plain.weight.copy_(offset.weight[2:])
    assert torch.equal(offset(layout), plain(layout))
    assert torch.equal(offset(Layout.ragged([1])), offset.weight[2:3])
    offset(layout).sum().backward()
    assert not offset.weight.grad[:2].any()


def test_an_offset_does_not_move_the_limit():
    table = LearnedPositions(3, 4, offset=2)
    assert table.limit == 3
    for layout in (Layout.ragged([4]), Layout.rectangle(1, 4), Layout.rectangle(1, 1, start=3)):
        with pytest.raises(ValueError, match="position 3 is out of range: 3 positions are learned"):
            table(layout)
