"""Pairs written as ``source ||| target``."""

import gzip

import pytest

from regard.core.errors import BadInput
from regard.data.readers.aligned_pairs import read_fast_align


def test_words_have_single_spaces(tmp_path):
    path = tmp_path / "pairs.txt.gz"
    path.write_bytes(gzip.compress(b"oh , oh !   ||| oh ,  oh !  \n2 .|||2 .\n"))
    assert read_fast_align(path) == [("oh , oh !", "oh , oh !"), ("2 .", "2 .")]


@pytest.mark.parametrize("line", ["a || b", "a ||| b ||| c", " ||| b", "a |||", ""])
def test_other_lines_are_named(tmp_path, line):
    path = tmp_path / "pairs.txt"
    path.write_text(f"a ||| b\n{line}\n")
    with pytest.raises(BadInput, match=r"pairs\.txt:2: expected 'source \|\|\| target'"):
        read_fast_align(path)
