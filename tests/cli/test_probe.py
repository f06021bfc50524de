"""``regard probe``: tables, verdicts, charts and errors of small models on tiny files."""

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from regard.inside.probes import linear_probe
from regard.views.pages import records_in
from small_bert import model as small_bert
from small_probes import write_pairs, write_treebank
from verb import run

SVG = "{http://www.w3.org/2000/svg}"
SETS = ("train", "dev", "test")
NAMES = ("small", "other")


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    monkeypatch.setattr(linear_probe, "STEPS", 8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Two encoders, a treebank and pairs, each three times."""
    folder = tmp_path_factory.mktemp("probes")
    for seed, name in enumerate(NAMES):
        small_bert("states", seed).save(folder / name)
    for times, name in zip((6, 2, 4), SETS, strict=True):
        write_treebank(folder / f"{name}.conllu", times)
        write_pairs(folder / f"{name}.txt")
    return folder


def files(folder: Path, suffix: str = "conllu") -> list[object]:
    return [part for name in SETS for part in (f"--{name}", folder / f"{name}.{suffix}")]


@pytest.mark.slow
def test_every_layer_is_printed_with_its_controls(folder, tmp_path):
    html, svg = tmp_path / "probe.html", tmp_path / "probe.svg"
    models = folder / "small", folder / "other"
    printed = run("probe", *models, *files(folder), "--html", html, "--svg", svg).stdout
    lines = [line.split() for line in printed.partition("\nfirst ")[0].splitlines()]
    rows = [line for line in lines if line[:1] in (["small"], ["other"])]
    layers = ["0", "1", "2", "mix", "majority"]
    assert [row[:2] for row in rows] == [[name, layer] for name in NAMES for layer in layers]
    assert {len(row) for row in rows} == {11}
    assert "● small   ○ random weights   ▲ control task   △ majority by form" in printed
    assert "small: 72 examples to train, 24 dev, 48 test" in printed
    assert "small: the expected layer of the mix is" in printed
    root = ElementTree.fromstring(svg.read_text())
    texts = [each.text for each in root.iter(f"{SVG}text")]
    for name in NAMES:
        assert name in texts and f"{name}: tags" in texts
    assert texts.count("random weights") == texts.count("control task") == 2
    (shown,) = records_in(html.read_text())
    assert len(shown.json["charts"]) == 2 and any("no verdict" in n for n in shown.json["notes"])
    assert "majority" in [row[1] for row in shown.json["table"]["rows"]]


def test_json_has_numbers_and_verdicts(folder):
    command = ("probe", folder / "small", *files(folder), "--layers", "0,2", "--json")
    first, second = (run(*command).stdout for _ in range(2))
    assert first == second
    rows = [json.loads(line) for line in first.splitlines()]
    layers = [row for row in rows if "layer" in row]
    assert [row["layer"] for row in layers] == [0, 2, "mix", "majority"]
    for row in layers[:2]:
        assert row["low"] <= row["accuracy"] <= row["high"]
        assert row["random low"] <= row["random"] <= row["random high"]
        assert row["selectivity"] == pytest.approx(row["accuracy"] - row["control"])
    assert sum(row["weight"] for row in layers[:2]) == pytest.approx(1)
    # The same sentences are in all sets, and every form has one tag there.
    assert layers[-1]["accuracy"] == 1 and layers[0]["accuracy"] == 1
    assert {row["verdict"] for row in rows if "verdict" in row} <= {"above", "below", "no verdict"}


@pytest.mark.parametrize(
    "task, suffix, count",
    [("arcs", "conllu", 84), ("arc-labels", "conllu", 48), ("pairs", "txt", 3)],
)
def test_pairs_of_words_are_probed(folder, task, suffix, count):
    command = ("probe", folder / "small", *files(folder, suffix), "--task", task, "--layers", 1)
    printed = run(*command).stdout
    assert f"small: {count} examples to train" in printed


def test_fewer_examples_are_drawn_with_a_limit(folder):
    printed = run("probe", folder / "small", *files(folder), "--limit", 20, "--layers", 1).stdout
    (counts,) = re.findall(r"small: (\d+) examples to train, (\d+) dev, (\d+) test", printed)
    assert all(16 < int(count) <= 20 for count in counts)


@pytest.mark.parametrize(
    "options, message",
    [
        (["--column", "upps"], "column upps: not one of form, lemma, upos"),
        (["--column", "11"], "train.conllu:3: no column 11, counted from 0: the line has 10"),
        (["--column", "feats"], "train.conllu: has only the label '_'; a probe needs two or more"),
        (["--layers", "0,x"], "--layers '0,x': give numbers with commas between them"),
        (["--layers", "3"], "layers must be"),
        (["--test", "missing.conllu"], "missing.conllu: "),
        (["--task", "arcs", "--column", "upos"], "the task arcs has no column of tags"),
        (["--task", "pairs"], "train.conllu"),
        (["--svg", "probe.html"], "--svg probe.html: the name ends in .html; use --html"),
    ],
)
def test_mistakes_are_refused_in_one_line(folder, options, message):
    refused = run("probe", folder / "small", *files(folder), *options, code=2)
    assert message in refused.stderr and refused.stderr.count("\n") == 1
    assert not refused.stdout


def test_a_test_file_is_needed(folder):
    refused = run("probe", folder / "small", *files(folder)[:4], code=2)
    assert "Missing option '--test'." in refused.stderr
