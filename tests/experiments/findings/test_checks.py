"""Every check as a verb on small models: a verdict with its page, or the reason why not."""

import json
from pathlib import Path

import pytest

from regard.experiments.findings import FINDINGS
from regard.inside.probes import linear_probe
from small_agreement import language_model
from small_bert import SENTENCES
from small_bert import model as small_bert
from small_elmo import write_elmo
from small_images import small_vit, write_images
from small_labels import write_owls
from small_probes import write_pairs, write_treebank
from verb import run

OUTCOMES = ("reproduced", "not reproduced", "cannot be shown")


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    monkeypatch.setattr(linear_probe, "STEPS", 4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Small models and their data."""
    folder = tmp_path_factory.mktemp("checks")
    language_model().save(folder / "lstm")
    small_bert("one").save(folder / "classifier")
    small_vit(depth=4).save(folder / "vit")
    write_images(folder / "images", 12)
    (folder / "bank").mkdir()
    for name in ("train", "dev", "test"):
        write_treebank(folder / "bank" / f"{name}.conllu", 8)
    (folder / "texts.txt").write_text("".join(f"{text}\n" for text in SENTENCES) * 3)
    return folder


def check(name: str, model: Path, *more: object) -> dict:
    """Record of a check, whose exit code follows from the verdict."""
    done = run("check", name, "--model", model, *more, "--json", code=None)
    record = json.loads(done.stdout)
    assert done.exit_code == (0 if record["verdict"] == "reproduced" else 1)
    assert record["verdict"] in OUTCOMES and record["reason"]
    return record


def measured(record: dict, page: Path) -> dict:
    """A record with figures, whose page has the command, the hashes and a drawing."""
    content = page.read_text()
    assert record["figures"] and len(record["data"]["sha256"]) == 12
    for part in (record["model"]["sha256"], record["data"]["sha256"], "regard check", "<svg"):
        assert part in content
    return record


def test_agreement_of_a_language_model(folder, tmp_path):
    page = tmp_path / "page.html"
    record = measured(check("verb-agreement", folder / "lstm", "--out", page), page)
    assert "without attractors" in record["ours"] and record["figures"][0]["nearest noun"]
    assert "no language model" in check("verb-agreement", folder / "classifier")["reason"]


def test_distance_of_attention_in_images(folder, tmp_path):
    page = tmp_path / "page.html"
    more = ("--data", folder / "images", "--limit", 11, "--out", page)
    record = measured(check("attention-distance", folder / "vit", *more), page)
    assert record["data"]["name"] == "11 images of images" and len(record["figures"]) == 4
    reason = check("attention-distance", folder / "classifier", *more[:2])["reason"]
    assert reason.startswith("it reads no images")
    few = check("attention-distance", folder / "vit", *more[:3], 9)
    assert few["verdict"] == "cannot be shown" and few["reason"].startswith("9 images are too few")


def test_rollout_of_a_classifier(folder, tmp_path):
    page = tmp_path / "page.html"
    more = ("--data", folder / "texts.txt", "--limit", 10, "--out", page)
    record = measured(check("rollout", folder / "classifier", *more), page)
    assert [row["compared with"] for row in record["figures"]] == [
        "leave-one-out",
        "gradient × input",
    ]
    few = check("rollout", folder / "classifier", *more[:3], 9)
    assert few["verdict"] == "cannot be shown" and few["reason"].startswith("9 texts")
    assert check("rollout", folder / "lstm", *more[:2])["reason"] == "it is no classifier of texts"


def test_layers_that_cannot_be_compared(folder):
    bank = ("--data", folder / "bank")
    record = check("layer-order", folder / "classifier", *bank)
    assert record["reason"] == "it has fewer than three layers of self-attention"
    record = check("layer-senses", folder / "classifier", *bank, *bank)
    assert record["reason"].startswith("it is not a language model of two recurrent layers")


def test_order_of_layers(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("regard.experiments.findings.probed_layers.DRAWS", 2)
    small_bert("states", depth=3).save(tmp_path / "deep")
    page = tmp_path / "page.html"
    more = ("--data", folder / "bank", "--limit", 20, "--out", page)
    record = measured(check("layer-order", tmp_path / "deep", *more), page)
    shares = [float(record["figures"][0][f"layer {layer}"]) for layer in range(4)]
    assert sum(shares) == pytest.approx(1, abs=0.01)


@pytest.mark.slow
def test_layers_of_an_elmo(folder, tmp_path):
    pytest.importorskip("h5py")
    write_elmo(tmp_path / "elmo")
    for name in ("train", "dev", "test"):
        write_pairs(tmp_path / f"{name}.data.txt")
    page = tmp_path / "page.html"
    more = ("--data", folder / "bank", "--data", tmp_path, "--out", page)
    record = measured(check("layer-senses", tmp_path / "elmo", *more), page)
    assert [row["task"] for row in record["figures"]] == ["parts of speech", "word senses"]


def test_shifted_alignment_of_a_translator(folder, small_run, tmp_path):
    translator = small_run / "run" / "model"
    pairs, gold, page = (tmp_path / name for name in ("pairs.txt", "gold.txt", "page.html"))
    pairs.write_text("dog cow owl ||| owl cow dog\n" * 12)
    gold.write_text("1-3 2-2 3-1\n" * 12)  # counted from 1
    more = ("--data", pairs, "--data", gold, "--out", page)
    record = measured(check("shifted-alignment", translator, *more), page)
    assert [row["reading"] for row in record["figures"]] == ["plain", "shifted"] * 2
    gold.write_text("0-2 1-1 2-0\n" * 12)
    again = check("shifted-alignment", translator, *more)
    assert again["figures"] == record["figures"]
    for path in (pairs, gold):
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:9]))
    few = check("shifted-alignment", translator, *more)
    assert few["reason"] == "9 pairs are too few: 10 or more are needed"
    assert "no cross-attention" in check("shifted-alignment", folder / "lstm", *more[:4])["reason"]


@pytest.mark.slow
def test_gates_and_pruning_of_a_translator(folder, small_run, tmp_path, monkeypatch):
    monkeypatch.setattr("regard.experiments.findings.head_pruning.EXAMPLES", 16)
    translator, page = small_run / "run" / "model", tmp_path / "page.html"
    more = ("--recipe", small_run / "small.toml", "--data", small_run, "--limit", 10)
    for name in ("head-gates", "head-pruning"):
        record = measured(check(name, translator, *more, "--out", page), page)
        assert record["data"]["name"] == "train.src, train.tgt, dev.src, dev.tgt"
        assert "in random orders" in record["ours"] and record["figures"][0]["heads of"]
        few = check(name, translator, *more[:-1], 9)
        assert "too few" in few["reason"]
    assert check("head-gates", folder / "classifier", *more)["reason"].startswith("it is no transl")


def test_heads_that_cannot_be_removed(folder, tmp_path):
    recipe = write_owls(tmp_path)
    more = ("--recipe", recipe, "--data", tmp_path)
    reason = check("head-pruning", folder / "lstm", *more)["reason"]
    assert reason == "this model has no attention heads to remove"


def test_every_finding_is_checked_here_or_beside():
    texts = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert [each.name for each in FINDINGS if each.name not in texts] == []
