"""SNLI in its three forms; pairs that people did not agree on are left out."""

import json
import re

import pytest

from regard.core.errors import BadInput
from regard.data.readers.by_task import read
from regard.data.readers.examples import LabelledExample
from regard.data.readers.fields import DropCounts

PAIRS = [
    ("A dog runs .", "It sleeps .", "contradiction"),
    ("A dog runs .", 'It is " big .', "-"),
    ("A dog runs .", "It moves .", "entailment"),
]


def sides(folder, suffix=".dev"):
    for name, column in zip(("s1", "s2", "labels"), zip(*PAIRS, strict=True), strict=True):
        (folder / f"{name}{suffix}").write_text("".join(f"{one}\n" for one in column))
    return folder / f"s1{suffix}"


def lines(folder):
    path = folder / "snli_1.0_dev.jsonl"
    keys = ("sentence1", "sentence2", "gold_label")
    records = [dict(zip(keys, pair, strict=True), annotator_labels=["x"]) for pair in PAIRS]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def table(folder):
    path = folder / "snli_1.0_dev.txt"
    rows = [f"{label}\t( a )\t{first}\t{second}\n" for first, second, label in PAIRS]
    path.write_text("gold_label\tparse\tsentence1\tsentence2\n" + "".join(rows))
    return path


@pytest.mark.parametrize("form", [sides, lines, table])
def test_every_form_gives_the_same(tmp_path, form):
    path, dropped = form(tmp_path), DropCounts()
    first = 2 if form is table else 1
    expected = [
        LabelledExample(f"{path}:{first}", PAIRS[0][:2], ("contradiction",)),
        LabelledExample(f"{path}:{first + 2}", PAIRS[2][:2], ("entailment",)),
    ]
    assert list(read("classify", "SNLI", path, dropped)) == expected
    assert dropped == {"without a gold label": 1}
    assert list(read("classify", "SNLI", path)) == expected


def test_what_is_wrong(tmp_path):
    path = sides(tmp_path)
    (tmp_path / "labels.dev").write_text("neutral\nmaybe\nneutral\n")
    known = "contradiction, entailment, neutral"
    message = f"{path}:2: the label is 'maybe', not one of {known}"
    with pytest.raises(BadInput, match=f"^{re.escape(message)}$"):
        list(read("classify", "SNLI", path))
    dropped = DropCounts()
    assert len(list(read("classify", "SNLI", path, dropped))) == 2
    assert dropped == {"with an unknown label": 1}
    (tmp_path / "labels.dev").write_text("neutral\n")
    with pytest.raises(BadInput, match=r"has 3, .*labels\.dev has 1"):
        list(read("classify", "SNLI", path))
    (tmp_path / "labels.dev").unlink()
    with pytest.raises(BadInput, match=r"labels\.dev: cannot be read"):
        list(read("classify", "SNLI", path))
    with pytest.raises(BadInput, match=r"SNLI is a file named s1\.\*, \*\.jsonl or \*\.txt$"):
        list(read("classify", "SNLI", tmp_path / "dev.tsv"))
    broken = tmp_path / "a.jsonl"
    broken.write_text('{"sentence1": "a"')
    with pytest.raises(BadInput, match=f"^{re.escape(str(broken))}:1: not JSON"):
        list(read("classify", "SNLI", broken))
