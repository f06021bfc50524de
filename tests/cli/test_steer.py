"""``regard steer``: the mean difference of states, as a file of edits."""

import json

import pytest
import torch
from safetensors.torch import load_file

import regard
from small_gpt import write_gpt2
from verb import run

PLUS, MINUS = ["The old man laughs.", "The girl reads"], ["A dog barks at the man,"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_gpt2(tmp_path_factory.mktemp("gpt2") / "model")


@pytest.fixture
def command(folder, tmp_path):
    for name, texts in {"plus": PLUS, "minus": MINUS}.items():
        (tmp_path / f"{name}.txt").write_text("\n\n".join(texts) + "\n")
    files = [part for name in ("plus", "minus") for part in (f"--{name}", tmp_path / f"{name}.txt")]
    return ("steer", folder, *files, "--out", tmp_path / "steer.safetensors")


@pytest.mark.parametrize("layer", [0, -1])
def test_the_vector_is_the_mean_difference(command, folder, layer, tmp_path):
    done = run(*command, "--layer", layer, "--scale", 4, "--name", "joy")
    edits = tmp_path / "joy.toml"
    edits.write_text(done.stdout)
    (vector,) = load_file(tmp_path / "steer.safetensors").values()
    model, block = regard.load(folder, "cpu"), layer % 2
    first, second = (
        torch.stack([state.mean(0) for state in model.encode(texts, layer=block + 1)]).mean(0)
        for texts in (PLUS, MINUS)
    )
    torch.testing.assert_close(vector, first - second)
    record = json.loads(
        run(*command, "--layer", layer, "--scale", 4, "--name", "joy", "--json").stdout
    )
    assert record["at"] == f"trunk.blocks.{block}.output"
    edited = model.edited(regard.read_edits(edits))
    states, plain = (each.encode(PLUS, layer=block + 1) for each in (edited, model))
    for after, before in zip(states, plain, strict=True):
        torch.testing.assert_close(after, before + 4 * vector)


def test_bad_input_is_refused(command, tmp_path):
    assert "layer must be at most 1, not 5" in run(*command, "--layer", 5, code=2).stderr
    assert (
        "--name 'a:b': a name has no colon"
        in run(*command, "--layer", 0, "--name", "a:b", code=2).stderr
    )
    (tmp_path / "minus.txt").write_text("\n")
    done = run(*command, "--layer", 0, code=2)
    assert "--minus" in done.stderr and "no texts; write one on each line" in done.stderr
    assert not (tmp_path / "steer.safetensors").exists()
