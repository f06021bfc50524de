"""A ladder's table, drawing and page."""

import xml.etree.ElementTree as ElementTree

from regard.metrics.translation import LengthBucket, MetricScore
from regard.studies.ladder import Ladder, LadderResult


def score(value: float) -> MetricScore:
    return MetricScore("BLEU", value, "nrefs:1|case:mixed|eff:no|tok:13a")


def result(name: str, *values: float, aer: float | None = None) -> LadderResult:
    buckets = [
        LengthBucket(n * 5, n * 5 + 4, 10, n * 5 + 2.0, score(v)) for n, v in enumerate(values)
    ]
    cost = {"parameters": 12_345.0, "training_flops": 1e9, "tokens": 500.0, "device_seconds": 2.0}
    return LadderResult(name, score(sum(values) / len(values)), buckets, aer, cost)


LADDER = Ladder(
    "A <ladder>", [result("no attention", 30, 10), result("R&D", 40, 38, aer=0.2)], "greedy"
)


def test_every_row_has_a_cell_for_every_column():
    for one in LADDER.results:
        assert len(one.cells()) == len(LADDER.columns)
    assert LADDER.columns[2:4] == ["0–4 words", "5–9"]
    assert LADDER.results[0].cells()[4] == "–"
    assert LADDER.results[1].cells()[4:] == ["0.200", "12,345", "1e+09", "250"]
    assert "nrefs:1" in LADDER.notes[0] and "greedy" in LADDER.notes[0]


def test_the_drawing_is_well_formed_and_has_a_line_for_every_model():
    root = ElementTree.fromstring(LADDER.svg())
    name = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f".//{name}polyline")) == 2
    assert len(root.findall(f".//{name}circle")) == 4
    texts = {one.text for one in root.iter(f"{name}text")}
    assert {"no attention", "R&D", "0–4", "5–9", "A <ladder>"} <= texts


def test_the_page_is_self_contained_and_safe():
    page = LADDER.html()
    assert "A &lt;ladder&gt;" in page and "<ladder>" not in page
    assert "R&amp;D" in page and "prefers-color-scheme: dark" in page
    assert "<script" not in page and "var(--ink)" in page
    assert "src=" not in page and "href=" not in page
