"""A ladder's table, drawing and page."""

import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from regard.experiments.ladder import Ladder, LadderResult
from regard.metrics.translation import LengthBucket, MetricScore


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
    names, (first, second) = LADDER.table.names, LADDER.table.texts
    assert len(first) == len(second) == len(names)
    assert names[2:4] == ["0–4 words", "5–9"]
    assert first[4] == "–"
    assert second[4:] == ["0.200", "12,345", "1e+09", "250"]
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
    assert "R&amp;D" in page and "color-scheme: light dark" in page
    assert "<script" not in page and "var(--ink)" in page
    assert "src=" not in page and "href=" not in page


def test_several_seeds_have_means_and_intervals():
    runs = [result("one", 30, 10), result("one", 34, 14), result("two", 40, 38, aer=0.2)]
    runs.append(result("two", 44, 42, aer=0.4))
    seeds = [replace(run, seed=1 + n % 2) for n, run in enumerate(runs)]
    ladder = Ladder("seeds", seeds, "greedy")
    table = ladder.table
    rows = [dict(zip(table.names, row, strict=True)) for row in table.rows]
    assert [row["model"] for row in rows] == ["one", "two"]
    assert [row["BLEU"] for row in rows] == [22, 41]
    assert rows[0]["deviation"] == pytest.approx(np.std([20, 24], ddof=1))
    low, high = scipy.stats.t.interval(0.95, 1, 22, scipy.stats.sem([20, 24]))
    assert (rows[0]["low"], rows[0]["high"]) == pytest.approx((low, high), rel=1e-4)
    assert [row["0–4 words"] for row in rows] == [32, 42]
    assert rows[0]["AER"] is None and rows[1]["AER"] == pytest.approx(0.3)
    assert "means of 2 seeds" in ladder.notes[-1]
    assert ladder.figures["means"] == rows
    assert [run["seed"] for run in ladder.figures["rungs"]] == [1, 2, 1, 2]
    root = ElementTree.fromstring(ladder.svg())
    assert len(root.findall(".//{http://www.w3.org/2000/svg}polyline")) == 2


def test_one_seed_has_no_means():
    assert "means" not in LADDER.figures and "seed" not in LADDER.figures["rungs"][0]
    assert len(LADDER.notes) == 2
