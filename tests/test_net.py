"""The net of ``tests/net.py``: captures of one tree are the same, and what differs is reported."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from net.compare import compare, read_changes
from net.values import Masks, write_probe

SCRIPT = Path(__file__).with_name("net.py")


@pytest.fixture(scope="module")
def captured(tmp_path_factory):
    """Probes of every kind: text, numbers, a tensor, a refusal."""
    import torch

    folder = tmp_path_factory.mktemp("net") / "before"
    masks = Masks({"work": folder})
    values = {
        "calls/papers": "BERT 110M\nGPT-2 124M\n",
        "score": {"logprobs": [0.1, 0.25], "tokens": [3, 4]},
        "logits": [torch.arange(6.0).reshape(2, 3) / 7],
        "fill": {"error": f"BadInput: {folder}/x: no such file"},
    }
    for name, value in values.items():
        write_probe(folder / "families", name, value, masks)
    return folder


def differences(before: Path, after: Path, changes=()) -> list[str]:
    return compare(before, after, changes)[0]


def test_a_copy_has_no_difference(captured, tmp_path):
    shutil.copytree(captured, tmp_path / "after")
    assert compare(captured, tmp_path / "after", []) == ([], 4)


def test_a_changed_value_a_missing_and_a_new_probe_are_reported(captured, tmp_path):
    after = tmp_path / "after"
    shutil.copytree(captured, after)
    path = after / "families" / "score.json"
    path.write_text(path.read_text().replace((0.25).hex(), (0.2500000000000001).hex()))
    (after / "families" / "fill.json").unlink()
    (after / "families" / "calls" / "cite.txt").write_text("new\n")
    assert differences(captured, after) == [
        "families/calls/cite: new",
        "families/fill: missing",
        f"families/score: .logprobs[1]: '{(0.25).hex()}' → '{(0.2500000000000001).hex()}'",
    ]


def test_the_first_line_that_differs_is_shown(captured, tmp_path):
    after = tmp_path / "after"
    shutil.copytree(captured, after)
    (after / "families" / "calls" / "papers.txt").write_text("BERT 110M\nGPT-2 125M\n")
    (line,) = differences(captured, after)
    assert line == "families/calls/papers: line 2: 'GPT-2 124M' → 'GPT-2 125M'"


def test_one_bit_of_a_tensor_is_seen(tmp_path):
    import torch

    tensor = torch.arange(6.0)
    for name, bits in (("before", 0), ("after", 1)):
        changed = tensor.clone()
        changed.view(torch.int32)[5] += bits
        write_probe(tmp_path / name / "families", "logits", changed, Masks({}))
    assert len(differences(tmp_path / "before", tmp_path / "after")) == 1


def test_what_is_meant_to_differ_has_a_reason_and_is_left_out(captured, tmp_path):
    after, file = tmp_path / "after", tmp_path / "changed.toml"
    shutil.copytree(captured, after)
    (after / "families" / "calls" / "papers.txt").write_text("BERT 110M\nGPT2 124M\n")
    (after / "families" / "fill.json").unlink()
    rename = '[[changed]]\nprobe = "families/calls/*"\nold = "GPT-2"\nnew = "GPT2"\n'
    free = '[[changed]]\nprobe = "families/fill"\nreason = "fill is gone"\n'
    file.write_text(f'{rename}reason = "another name"\n{free}')
    assert differences(captured, after, read_changes(file)) == []
    (after / "families" / "calls" / "papers.txt").write_text("BERT 110M\nGPT2 125M\n")
    assert len(differences(captured, after, read_changes(file))) == 1
    file.write_text(f'{rename}reason = ""\n')
    with pytest.raises(SystemExit, match="reason is missing"):
        read_changes(file)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("step 4  1,234 tok/s  2m", "step 4 RATE  2m"),
        ("after 0.9s of training", "after TIME of training"),
        ("written 2026-01-02 10:11:12", "written DATE"),
        ("http://127.0.0.1:8123/v1", "http://127.0.0.1:PORT/v1"),
        ('{"seconds": 0.31, "step": 3}', '{"seconds": TIME, "step": 3}'),
        ("/tmp/x/y/model: 3 layers", "<work>/model: 3 layers"),
        ("BLEU 33.4, 12 layers, 1e-3", "BLEU 33.4, 12 layers, 1e-3"),
    ],
)
def test_only_what_differs_from_run_to_run_is_masked(text, masked):
    assert Masks({"work": Path("/tmp/x/y")}).text(text) == masked


@pytest.mark.slow
def test_the_same_tree_captured_twice_has_no_difference(tmp_path):
    """The part of exports and help, from inputs of a single small model."""
    inputs = tmp_path / "inputs"
    models = SCRIPT.parent / "safety" / "frozen" / "models"
    for name in ("hf-gpt2", "regard-luong"):
        shutil.copytree(models / name, inputs / "models" / name)
        shutil.copy(models / f"{name}.json", inputs / "models")
    for name in ("papers", "mistakes"):
        (inputs / name).mkdir()
    (inputs / "complete").touch()
    for name in ("one", "two"):
        command = [sys.executable, SCRIPT, "capture", tmp_path / name, "--inputs", inputs]
        run = subprocess.run([*command, "--only", "names"], env={**os.environ}, timeout=300)
        assert run.returncode == 0
    lines, count = compare(tmp_path / "one", tmp_path / "two", [])
    assert lines == [] and count > 50
    exports = json.loads((tmp_path / "one" / "names" / "exports.json").read_text())
    assert "Model" in exports and "train" in exports
