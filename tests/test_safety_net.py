"""The safety net catches what it is there for: one ulp, one gradient, one missing entry."""

import json
import os
import subprocess
import sys
from copy import deepcopy
from math import inf, nextafter
from pathlib import Path

import pytest
import torch
from torch import nn

from safety import weights
from safety_net import main

ENTRIES = ("classify-last", "verb-predict-last")


def recorded(path: Path) -> dict:
    command = [sys.executable, str(Path(__file__).with_name("safety_net.py")), "record", str(path)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([*command, "--only", *ENTRIES], env=environment, check=True, timeout=120)
    return json.loads(path.read_text())


def written() -> dict:
    """A record as the recorder writes it."""
    losses = [[(0.7 - step / 100).hex(), (0.1).hex()] for step in range(30)]
    tensors = {"head.weight": ["0f" * 10, (1.5).hex()], "head.bias": ["a7" * 10, (0.25).hex()]}
    run = {"loss": losses, "gradients": tensors, "weights": tensors, "exact": True}
    verb = {"said": ["owl", "label: owl 0.9"], "exact": True}
    return deepcopy({"entries": dict(zip(ENTRIES, (run, verb), strict=True))})


@pytest.fixture(
    scope="module", params=["written", pytest.param("recorded", marks=pytest.mark.slow)]
)
def record(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict:
    """A record made up, and one that takes some seconds."""
    if request.param == "written":
        return written()
    return recorded(tmp_path_factory.mktemp("net") / "record.json")


def differences(base: dict, new: dict, folder: Path, capsys: pytest.CaptureFixture) -> list[str]:
    """What is printed of two records; the exit code says whether they differ."""
    files = [folder / "base.json", folder / "new.json"]
    for file, content in zip(files, (base, new), strict=True):
        file.write_text(json.dumps(content))
    code = main(["compare", *map(str, files)])
    *lines, total = capsys.readouterr().out.splitlines()
    assert code == bool(lines)
    assert total.startswith(f"{len(base['entries']) - len(lines)} of {len(base['entries'])} ")
    return lines


@pytest.mark.slow
def test_two_records_of_the_same_code_are_the_same(tmp_path):
    one, again = (recorded(tmp_path / name) for name in ("one.json", "again.json"))
    assert sorted(again["entries"]) == sorted(ENTRIES)
    assert again == one


def test_a_record_holds_gradients_losses_weights_and_answers(record, tmp_path, capsys):
    run, said = record["entries"]["classify-last"], record["entries"]["verb-predict-last"]["said"]
    assert len(run["loss"]) == 30
    assert run["gradients"].keys() == run["weights"].keys()
    assert any(one.startswith("label: ") for one in said)
    assert differences(record, record, tmp_path, capsys) == []


def test_one_ulp_in_a_loss_is_found(record, tmp_path, capsys):
    planted = deepcopy(record)
    loss = planted["entries"]["classify-last"]["loss"][17]
    loss[0] = nextafter(float.fromhex(loss[0]), inf).hex()
    (line,) = differences(record, planted, tmp_path, capsys)
    assert line.startswith("classify-last: loss 17 0: ")


def test_one_other_gradient_is_found(record, tmp_path, capsys):
    planted = deepcopy(record)
    planted["entries"]["classify-last"]["gradients"]["head.weight"][0] = "0" * 20
    (line,) = differences(record, planted, tmp_path, capsys)
    assert line.startswith("classify-last: gradients head.weight ")


def test_another_answer_is_found(record, tmp_path, capsys):
    planted = deepcopy(record)
    planted["entries"]["verb-predict-last"]["said"][0] += "?"
    (line,) = differences(record, planted, tmp_path, capsys)
    assert line.startswith("verb-predict-last: said 0: ")


def test_an_entry_that_fails_is_reported(record, tmp_path, capsys):
    planted = deepcopy(record)
    planted["entries"]["verb-predict-last"] = {"exact": True, "failed": "BadInput: no such option"}
    (line,) = differences(record, planted, tmp_path, capsys)
    assert line == "verb-predict-last: failed: BadInput: no such option"


def test_a_missing_entry_is_reported(record, tmp_path, capsys):
    planted = deepcopy(record)
    del planted["entries"]["verb-predict-last"]
    assert differences(record, planted, tmp_path, capsys) == ["verb-predict-last: missing"]


@pytest.mark.parametrize(("share", "lines"), [(1e-7, 0), (1e-5, 1)])
def test_clipped_runs_agree_to_a_tolerance(record, tmp_path, capsys, share, lines):
    clipped = deepcopy(record)
    clipped["entries"]["classify-last"]["exact"] = False
    planted = deepcopy(clipped)
    loss = planted["entries"]["classify-last"]["loss"][3]
    loss[0] = (float.fromhex(loss[0]) * (1 + share)).hex()
    for digest in planted["entries"]["classify-last"]["weights"].values():
        digest[0] = "0" * 20  # bits may differ; norms, by which they are compared, do not
    assert len(differences(clipped, planted, tmp_path, capsys)) == lines


def test_renamed_split_and_joined_parameters_have_their_first_values(monkeypatch):
    monkeypatch.setattr(weights, "RENAMED", [])
    first = nn.ModuleDict({"qkv": nn.Linear(4, 6), "up": nn.Linear(4, 2), "down": nn.Linear(4, 2)})
    weights.set_weights(first)
    rules = [
        (r"([qkv])\.(.*)", lambda found: f"qkv.{found[2]}[{'qkv'.index(found[1])}/3]"),
        (r"both\.(.*)", r"up.\1|down.\1"),
    ]
    monkeypatch.setattr(weights, "RENAMED", rules)
    parts = {name: nn.Linear(4, 2) for name in "qkv"}
    second = nn.ModuleDict({**parts, "both": nn.Linear(4, 4)})
    weights.set_weights(second)
    found = weights.as_at_first(weights.named(second))
    assert found.keys() == weights.named(first).keys()
    for name, tensor in weights.named(first).items():
        assert torch.equal(found[name], tensor)
