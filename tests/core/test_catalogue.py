"""Catalogues import a value when it is looked up, and nothing before."""

import subprocess
import sys
from collections.abc import Iterator, Mapping

import pytest

from regard.core.catalogue import Catalogue, Entry, entries

OURS = {"half": Entry("fractions:Fraction", "a number"), "none": Entry("no.such.module:Value")}


class Installed(Mapping[str, Entry]):
    """A second source, which notes each time that it is asked."""

    def __init__(self, **entries: Entry):
        self.entries, self.asked = entries, list[str]()

    def __getitem__(self, name: str) -> Entry:
        return self.entries[name]

    def __contains__(self, name: object) -> bool:
        self.asked.append(str(name))
        return name in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


def test_a_value_is_imported_when_it_is_looked_up():
    code = """
import sys
from regard.core.catalogue import Catalogue, Entry
table = Catalogue({"hint": Entry("colorsys:rgb_to_hsv", "colours"), "none": Entry("no.such:X")})
assert [*table] == ["hint", "none"] and len(table) == 2 and "hint" in table
assert table.entry("hint").about == "colours" and table.entry("hint").module == "colorsys"
assert table.get("colorsys:rgb_to_hsv") is None and "colorsys" not in sys.modules
assert table["hint"](1, 1, 1) == (0.0, 0.0, 1) and "colorsys" in sys.modules
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_name_without_an_entry_is_a_key_error_and_a_missing_module_is_not():
    table = Catalogue[object](OURS)
    for name in ("fractions:Fraction", "fractions", ""):
        with pytest.raises(KeyError, match=repr(name)):
            table[name]
    with pytest.raises(ModuleNotFoundError):
        table["none"]
    with pytest.raises(ModuleNotFoundError):
        table.get("none")


def test_a_second_source_is_asked_for_names_that_the_first_does_not_have():
    installed = Installed(half=Entry("decimal:Decimal"), acme=Entry("decimal:Context"))
    table = Catalogue[type](OURS, installed)
    assert table["half"].__name__ == "Fraction" and table.entry("half").about == "a number"
    assert installed.asked == []
    assert table["acme"].__name__ == "Context" and installed.asked == ["acme"]
    assert [*table] == ["half", "none", "acme"] and len(table) == 3
    assert "acme" in table and "other" not in table and table.get("other") is None


def test_entries_have_the_names_of_their_attributes():
    made = entries({"os.path": ("join", "split")})
    assert made == {"join": Entry("os.path:join"), "split": Entry("os.path:split")}
    assert Catalogue[object](made)["join"] is __import__("os").path.join
