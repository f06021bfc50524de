"""Checkpoints are whole or absent."""

import json
import os
import zlib
from dataclasses import fields
from pathlib import Path

import pytest
import torch

from regard.core.errors import BadInput
from regard.data.batches.sampler import Cursor
from regard.training.checkpoint import (
    ADDED,
    Checkpoints,
    RunProgress,
    load_optimiser,
    optimiser_tensors,
)
from regard.training.optimiser import ModelOptimiser
from regard.training.recipe.tables import OptimiserConfig


@pytest.fixture
def checkpoints(tmp_path):
    return Checkpoints(tmp_path / "checkpoints")


def save(checkpoints, step, value=0.0):
    checkpoints.save(RunProgress(step=step), {"model": {"w": torch.full((3,), value)}})


def test_round_trip(checkpoints):
    progress = RunProgress(7, Cursor(1, 2, 3), 10, 2.5, 1.0, 0.3, 5, 1, settings={"torch": "x"})
    weights = {"w": torch.randn(4)}
    checkpoints.save(progress, {"model": weights})
    found, tensors = checkpoints.load(7)
    assert found == progress
    assert torch.equal(tensors["model"]["w"], weights["w"])


@pytest.mark.parametrize("at", [0, 17, -1])
def test_changed_bits_are_found_in_every_block(checkpoints, monkeypatch, at):
    monkeypatch.setattr("regard.core.files.BLOCK", 16)
    save(checkpoints, 1)
    path = checkpoints.folder / "step-00000001" / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    with pytest.raises(BadInput, match=r"model\.safetensors: damaged \(its checksum differs\)"):
        checkpoints.load(1)


def test_what_has_no_name_yet_is_no_checkpoint(checkpoints):
    save(checkpoints, 1)
    (checkpoints.folder / ".step-00000002.tmp").mkdir()
    assert checkpoints.steps() == [1]
    save(checkpoints, 3)
    assert not list(checkpoints.folder.glob(".*"))  # leftovers are swept


def test_a_failed_write_leaves_the_last_good_one(checkpoints, monkeypatch):
    save(checkpoints, 1, 1.0)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("regard.weights.files.save_file", full)
    with pytest.raises(BadInput, match=r"No space left on device.*last good checkpoint: step 1"):
        save(checkpoints, 2)
    monkeypatch.undo()
    assert checkpoints.steps() == [1]
    assert not list(checkpoints.folder.glob(".*"))
    assert checkpoints.load(1)[1]["model"]["w"].tolist() == [1.0, 1.0, 1.0]


def test_prune_keeps_the_listed_checkpoints(checkpoints):
    for step in (1, 2, 3):
        save(checkpoints, step)
    checkpoints.prune([2, 9])
    assert checkpoints.steps() == [2]


@pytest.mark.parametrize("removed", [0, 1, 2])  # files, before the process dies
def test_a_checkpoint_removed_halfway_is_none(checkpoints, monkeypatch, removed):
    for step in (1, 2, 3):
        save(checkpoints, step)

    def dies(folder, **_):
        for path in sorted(Path(folder).iterdir())[:removed]:
            path.unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("regard.training.checkpoint.shutil.rmtree", dies)
        checkpoints.prune([3])
    whole = checkpoints.steps()
    assert len(whole) == 2 and all(checkpoints.load(step) for step in whole)
    checkpoints.sweep()
    places = {checkpoints.place(step) for step in whole}
    assert {*checkpoints.folder.iterdir()} == places


def test_average_is_the_mean(checkpoints):
    for step, value in ((1, 1.0), (2, 2.0), (3, 6.0)):
        save(checkpoints, step, value)
    assert checkpoints.average([1, 2, 3])["w"].tolist() == [3.0, 3.0, 3.0]


def test_average_reads_the_weights_alone_and_names_what_is_missing(checkpoints):
    tensors = {"model": {"w": torch.ones(3)}, "optimiser": {"w/step": torch.ones(1)}}
    checkpoints.save(RunProgress(step=1), tensors)
    (checkpoints.place(1) / "optimiser.safetensors").write_bytes(b"not looked at")
    assert checkpoints.average([1])["w"].tolist() == [1.0, 1.0, 1.0]
    checkpoints.save(RunProgress(step=2), {"optimiser": tensors["optimiser"]})
    with pytest.raises(BadInput, match=r"step-00000002: model\.safetensors is missing"):
        checkpoints.average([1, 2])


@pytest.mark.parametrize("name", ["state.json", "model.safetensors"])
def test_a_damaged_file_is_named(checkpoints, name):
    save(checkpoints, 1)
    (checkpoints.place(1) / name).write_bytes(b"{}")
    with (
        pytest.raises(BadInput, match=name.replace(".", r"\."))
        if name != "state.json"
        else (pytest.raises(BadInput, match=r"state\.json: damaged"))
    ):
        checkpoints.load(1)


def change_state(place, progress, checksums=(), *, renewed=True):
    """Change state.json and renew its own checksum, so that other checks must notice the change."""
    path = place / "state.json"
    content = json.loads(path.read_text())
    content["progress"] |= progress
    if renewed:
        written = json.dumps(content["progress"], sort_keys=True).encode()
        content["checksums"]["progress"] = zlib.crc32(written)
    content["checksums"] |= checksums
    path.write_text(json.dumps(content))


STATE = RunProgress(7, Cursor(1, 2, 3), 10, 2.5, 1.0, 0.3, 5, 1, settings={"torch": "x"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("step", -5),
        ("step", 21),
        ("step", "7"),
        ("step", True),
        ("step", 7.0),
        ("step", None),
        ("cursor", None),
        ("cursor", [1, 2, 3]),
        ("cursor", {"epoch": 1, "window": 2, "batch": "3"}),
        ("tokens", "many"),
        ("tokens", 1 << 70),
        ("flops", float("nan")),
        ("seconds", -1.0),
        ("seconds", float("inf")),
        ("best", "high"),
        ("best", float("nan")),
        ("best_step", 8),
        ("stale", []),
        ("settings", []),
        ("settings", "x"),
        ("unreported", 5),
        ("unreported", {"losses": []}),
        ("other", 1),
    ],
)
def test_a_state_that_cannot_be_is_one_line_that_names_the_value(checkpoints, name, value):
    checkpoints.save(STATE, {"model": {"w": torch.ones(3)}})
    change_state(checkpoints.place(7), {name: value})
    of_steps = {"best_step": "step 7, expected 7; best step 8, expected at most 7"}
    of_steps["step"] = f"step {value}, expected 7; best step 5, expected at most 7"
    said = rf"progress\.{name}[.:].*|{of_steps.get(name, 'no step')}"
    with pytest.raises(BadInput, match=rf"state\.json: damaged \(({said})\)(;|$)") as caught:
        checkpoints.load(7)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tokens", 11),
        ("cursor", {"epoch": 1, "window": 2}),
        ("cursor", {"epoch": 1, "window": 2, "batch": -3}),
    ],
)
def test_another_state_than_was_written_is_damaged(checkpoints, name, value):
    checkpoints.save(STATE, {"model": {"w": torch.ones(3)}})
    change_state(checkpoints.place(7), {name: value}, renewed=False)
    with pytest.raises(BadInput, match=r"state\.json: damaged \(its checksum differs\)(;|$)"):
        checkpoints.load(7)


@pytest.mark.parametrize("name", [field.name for field in fields(RunProgress)])
def test_a_state_that_lacks_something_is_one_line(checkpoints, name):
    checkpoints.save(STATE, {"model": {"w": torch.ones(3)}})
    path = checkpoints.place(7) / "state.json"
    content = json.loads(path.read_text())
    del content["progress"][name]
    path.write_text(json.dumps(content))
    fault = "its checksum differs" if name in ADDED else f"{name} is missing"
    with pytest.raises(BadInput, match=rf"state\.json: damaged \({fault}\)"):
        checkpoints.load(7)


def test_a_state_of_an_earlier_version_is_read(checkpoints):
    checkpoints.save(STATE, {"model": {"w": torch.ones(3)}})
    path = checkpoints.place(7) / "state.json"
    content = json.loads(path.read_text())
    for name in ADDED:
        del content["progress"][name]
    written = json.dumps(content["progress"], sort_keys=True).encode()
    content["checksums"]["progress"] = zlib.crc32(written)
    path.write_text(json.dumps(content))
    assert checkpoints.load(7)[0] == STATE


@pytest.mark.parametrize(
    ("checksums", "fault"),
    [
        (None, "checksums: "),
        ({}, "its checksum differs"),
        ({"model.safetensors": "x"}, r"checksums\.model\.safetensors: "),
    ],
)
def test_checksums_must_be_there(checkpoints, checksums, fault):
    save(checkpoints, 1)
    path = checkpoints.place(1) / "state.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "checksums": checksums}))
    with pytest.raises(BadInput, match=rf"state\.json: damaged \({fault}"):
        checkpoints.load(1)


@pytest.mark.parametrize("name", ["../other.safetensors", "/other.safetensors", "a/b.safetensors"])
def test_files_outside_of_the_folder_are_not_looked_at(checkpoints, name):
    save(checkpoints, 1)
    (checkpoints.folder / "other.safetensors").touch()
    change_state(checkpoints.place(1), {}, {name: 0})
    with pytest.raises(BadInput, match=r"damaged \(checksums of files outside the folder\)"):
        checkpoints.load(1)


def test_everything_is_on_the_disk_before_a_checkpoint_gets_its_name(checkpoints, monkeypatch):
    """What the system still holds in memory would be lost with the power."""
    synced, renamed = [], []
    fsync, rename = os.fsync, Path.rename

    def note_fsync(handle):
        synced.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        fsync(handle)

    def note_rename(path, target):
        renamed.append(list(synced))
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(Path, "rename", note_rename)
    save(checkpoints, 1)
    (before,) = renamed
    assert [name.split(".")[0] for name in before[:2]] == ["model", "state"]
    assert before[2:] == [".step-00000001.tmp"]
    assert synced[3:] == ["checkpoints"]


@pytest.mark.parametrize("kind", ["adam", "adamw", "relative-adamw", "adafactor", "sgd"])
def test_an_optimiser_goes_on_bit_for_bit(kind):
    def built():
        torch.manual_seed(1)
        model = torch.nn.Linear(3, 2)
        updates = ModelOptimiser(model, OptimiserConfig(kind=kind, rate=0.1))
        return model, updates.optimiser

    def step(model, optimiser, number):
        model(torch.full((1, 3), float(number))).sum().backward()
        optimiser.step()
        optimiser.zero_grad()

    model, optimiser = built()
    for number in range(4):
        step(model, optimiser, number)
        if number == 1:
            weights = {k: v.clone() for k, v in model.state_dict().items()}
            moments = {k: v.clone() for k, v in optimiser_tensors(model, optimiser).items()}
    again, resumed = built()
    again.load_state_dict(weights)
    load_optimiser(again, resumed, moments, "there")
    for number in (2, 3):
        step(again, resumed, number)
    assert all(
        torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True)
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda kept: kept.pop("weight/exp_avg"), "weight/exp_avg is missing"),
        (lambda kept: kept.update({"weight/other": torch.ones(1)}), "weight/other is unknown"),
        (
            lambda kept: kept.update({"bias/exp_avg": torch.ones(7)}),
            "the optimiser moment bias/exp_avg does not fit",
        ),
        (
            lambda kept: kept.update(
                {f"owl/{key}": torch.ones(1) for key in ("step", "exp_avg", "exp_avg_sq")}
            ),
            "the optimiser moments of owl do not fit",
        ),
    ],
)
def test_moments_that_do_not_fit_are_refused(change, said):
    model = torch.nn.Linear(3, 2)
    optimiser = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimiser.step()
    kept = optimiser_tensors(model, optimiser)
    change(kept)
    with pytest.raises(BadInput, match=f"there: {said}"):
        load_optimiser(model, optimiser, kept, "there")
