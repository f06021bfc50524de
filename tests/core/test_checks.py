"""Checks of whole numbers: of what type, and within which limits."""

import numpy as np
import pytest

from regard.core.checks import check_whole, is_whole
from regard.core.errors import BadInput


@pytest.mark.parametrize("value", [0, -3, 10**30, np.int64(7), np.uint8(7)])
def test_whole_numbers(value):
    assert is_whole(value)
    assert is_whole(value, int(value), int(value))
    assert not is_whole(value, int(value) + 1)
    assert not is_whole(value, None, int(value) - 1)


@pytest.mark.parametrize("value", [True, False, np.True_, 1.0, float("nan"), "1", None, [1]])
def test_other_values_are_none(value):
    assert not is_whole(value)
    with pytest.raises(BadInput, match="n must be a whole number"):
        check_whole("n", value, 0)


def test_limits_are_named():
    assert check_whole("n", np.int64(3), 3, 3) == 3
    with pytest.raises(BadInput, match="n must be at least 4, not 3"):
        check_whole("n", 3, 4)
    with pytest.raises(BadInput, match="n must be at most 2, not 3"):
        check_whole("n", 3, 0, 2)
