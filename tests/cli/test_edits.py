"""``--edits FILE`` on the verbs that run a model: another result, with the hash of the edits."""

import json

import pytest

import regard
from regard.models.edits import read_edits
from small_gpt import write_gpt2
from verb import run

OFF = '[[edit]]\nkind = "layer-off"\nat = "{}.blocks.0"\n'


@pytest.fixture(scope="module")
def edits(tmp_path_factory):
    """Files of edits by side of the model."""
    folder = tmp_path_factory.mktemp("edits")
    files = {side: folder / f"{side}.toml" for side in ("trunk", "source", "target")}
    for side, file in files.items():
        file.write_text(OFF.format(side))
    return files


@pytest.fixture(scope="module")
def causal(tmp_path_factory):
    return write_gpt2(tmp_path_factory.mktemp("gpt2") / "model")


def records(*command, stdin):
    return [json.loads(line) for line in run(*command, "--json", stdin=stdin).stdout.splitlines()]


TEXT = "The old man reads\n"


@pytest.mark.parametrize("verb", ["generate", "score", "embed"])
def test_results_are_those_of_the_edited_model(causal, edits, verb):
    command = (verb, causal, "--device", "cpu")
    (plain,), (edited,) = (
        records(*command, *more, stdin=TEXT) for more in ((), ("--edits", edits["trunk"]))
    )
    given = read_edits(edits["trunk"])
    assert edited.pop("edits") == given.hash and "edits" not in plain
    keys = {"generate": "ids", "score": "logprob", "embed": "vector"}
    assert edited[keys[verb]] != plain[keys[verb]]
    model = regard.load(causal, "cpu").edited(given)
    if verb == "generate":
        assert edited["ids"] == [*model.generate(["The old man reads"])[0][0].hypothesis.tokens]
    if verb == "score":
        assert edited["logprob"] == pytest.approx(sum(model.score(["The old man reads"])[0]))


def test_a_note_names_the_file_and_the_hash(causal, edits):
    done = run("score", causal, "--edits", edits["trunk"], stdin=TEXT)
    expected = f"edits: {edits['trunk']}: 1 edit, hash {read_edits(edits['trunk']).hash}"
    assert expected in done.stderr.splitlines()


def test_the_attention_of_an_edited_model_is_shown(causal, tmp_path):
    file = tmp_path / "forced.toml"
    at = "trunk.blocks.1.attention.weights"
    file.write_text(f'[[edit]]\nkind = "force-row"\nat = "{at}"\nhead = 0\nrow = 2\ncolumn = 1\n')
    look = ("look", causal, "The old man reads", "--subwords", "--json")
    (plain,), (edited,) = (
        [json.loads(run(*look, *more).stdout)] for more in ((), ("--edits", file))
    )
    assert edited.pop("edits") == read_edits(file).hash
    assert plain != edited


@pytest.mark.parametrize("side", ["source", "target"])
def test_translations_and_their_score_are_edited(small_run, edits, side):
    model, recipe = small_run / "run" / "model", small_run / "small.toml"
    off = ("--edits", edits[side])
    text = "dog cow\nrat hen owl\n"
    plain, edited = (records("translate", model, *more, stdin=text) for more in ((), off))
    assert [one["logprobs"] for one in plain] != [one["logprobs"] for one in edited]
    assert {one["edits"] for one in edited} == {read_edits(edits[side]).hash}
    assert {one["engine"] for one in edited} <= {"torch", "cpp"}
    evaluate = ("evaluate", model, recipe, "--data", small_run)
    whole = run(*evaluate, "--json", code=None).stdout
    without = run(*evaluate, "--json", *off, code=None).stdout
    assert f"edits:{read_edits(edits[side]).hash}" in without and "edits:" not in whole


def test_a_classifier_is_evaluated_with_edits(owl_run, tmp_path):
    recipe = owl_run / "owls.toml"
    model = owl_run / "run" / "model"
    command = ("evaluate", model, recipe, "--data", owl_run, "--json")
    names = regard.load(model, "cpu").tape_names()
    file = tmp_path / "zero.toml"
    file.write_text(f'[[edit]]\nkind = "replace"\nat = "{names[0]}"\nvalue = 0.0\n')
    whole, without = (
        json.loads(run(*command, *more, code=None).stdout) for more in ((), ("--edits", file))
    )
    assert without["accuracy"] < whole["accuracy"]
    assert f"edits:{read_edits(file).hash}" in without["signatures"]["accuracy"]
    line = "owl dog cat\n"
    (record,) = records("predict", model, "--edits", file, stdin=line)
    assert record["edits"] == read_edits(file).hash


def test_edits_beside_a_model_are_not_applied(causal):
    beside = causal / "edits.toml"
    before = run("score", causal, stdin=TEXT)
    beside.write_text(OFF.format("trunk"))
    try:
        done = run("score", causal, stdin=TEXT)
    finally:
        beside.unlink()
    assert done.stdout == before.stdout and "edits.toml" not in before.stderr
    assert f"{beside} is not applied; to apply it, add --edits {beside}" in done.stderr


@pytest.mark.slow
def test_a_stopped_run_goes_on_only_with_the_same_edits(causal, tmp_path):
    lines, out, file = (tmp_path / name for name in ("lines.txt", "out.jsonl", "edits.toml"))
    file.write_text(OFF.format("trunk"))
    lines.write_bytes(TEXT.encode() * 5000 + b"\xff\n")  # the second window has a bad line
    command = ("embed", causal, lines, "--out", out, "--resume", "--edits", file)
    run(*command, code=2)
    assert out.with_name("out.jsonl.partial").exists()
    lines.write_bytes(TEXT.encode() * 5000 + b"man\n")
    file.write_text(OFF.format("trunk").replace("0", "1"))
    refused = run(*command, code=2)
    assert "edits" in refused.stderr and not out.exists()
    file.write_text(OFF.format("trunk"))
    assert "continues after" in run(*command).stderr
    assert {json.loads(line)["edits"] for line in out.read_text().splitlines()} == {
        read_edits(file).hash
    }


def test_what_cannot_be_edited_is_refused(causal, small_run, edits, tmp_path):
    bad = run("score", causal, "--edits", edits["source"], stdin=TEXT, code=2)
    assert "edit 1: at: this model has no 'source.blocks.0' for layer-off" in bad.stderr
    assert not bad.stdout
    missing = run("score", causal, "--edits", tmp_path / "none.toml", stdin=TEXT, code=2)
    assert "none.toml: cannot be read" in missing.stderr
    model = small_run / "run" / "model"
    for more in (("--workers", 1), ("--ensemble", model)):
        command = ("translate", model, "--edits", edits["target"], *more)
        done = run(*command, stdin="dog\n", code=2)
        assert done.stderr == f"regard: {more[0]}: cannot be used with --edits\n"
