"""Sections and their headings."""

import gzip

import pytest

from regard.core.errors import BadInput
from regard.data.readers.fields import DropCounts
from regard.data.readers.sources import Headings, read_pairs, title_of

TEXT = """ 
 = Otters = 
 
 Otters swim . 
 They = eat fish . 
 = = Life = = 
 = = = Young = = = 
 Pups play . 

 = = <unk> = = 
"""  # noqa: W291, W293


def test_pairs(tmp_path):
    path = tmp_path / "wiki.txt.gz"
    path.write_bytes(gzip.compress(("Before any heading .\n" + TEXT).encode()))
    assert [*read_pairs(Headings(str(path)))] == [
        (f"{path}:3", "Otters swim . They = eat fish .", "Otters"),
        (f"{path}:8", "Pups play .", "Young"),
    ]


@pytest.mark.parametrize("line", [b" = a = = ", b" == a == ", b" a = b ", b" = = ", b"", b" = a "])
def test_no_heading(line):
    assert title_of(line) is None


def test_a_heading_may_contain_an_equals_sign():
    assert title_of(b" = = E = mc = = ") == b"E = mc"


def test_bad_sections_are_reported_or_left_out(tmp_path):
    path = tmp_path / "wiki.txt"
    path.write_bytes(b" = A = \n \xff \n = B = \n fine \n = C = \n long long \n")
    with pytest.raises(BadInput, match=r"wiki.txt:2: not UTF-8"):
        [*read_pairs(Headings(str(path)))]
    dropped = DropCounts()
    assert [it[2] for it in read_pairs(Headings(str(path)), 5, dropped)] == ["B"]
    assert dropped == {"not UTF-8": 1, "too long": 1}
