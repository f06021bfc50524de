"""``regard stream`` and ``regard patch``: what they print, write and refuse."""

import csv
import io
import json

import pytest

import regard
from regard.views.pages import records_in
from small_bert import model as small_bert
from small_gpt import write_gpt2
from small_images import small_vit, write_images
from verb import run

CLEAN, CORRUPTED = "The old man", "The dog man"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stream")
    write_gpt2(folder / "gpt2")
    small_bert("one").save(folder / "one")
    small_bert("words").save(folder / "words")
    small_vit(depth=2).save(folder / "vit")
    write_images(folder / "images", 2, folders=1)
    return folder


def test_contributions_in_every_form(folders, tmp_path):
    files = tmp_path / "page.html", tmp_path / "map.svg"
    command = "stream", folders / "gpt2", CLEAN, "--device", "cpu"
    text = run(*command, "--html", files[0], "--svg", files[1]).stdout
    assert text.startswith(f"{CLEAN}\nlogit of ") and "layer 1" in text
    (shown,) = records_in(files[0].read_text())
    assert shown.kind == "contributions" and files[1].read_text().startswith("<svg")
    record = json.loads(run(*command, "--json").stdout)
    rows = list(csv.DictReader(io.StringIO(run(*command, "--format", "csv").stdout)))
    values = [float(row["contribution"]) for row in rows]
    assert sum(values) == pytest.approx(record["logit"], abs=1e-4)
    assert [row["component"] for row in rows] == [
        each["component"] for each in record["components"]
    ]
    model = regard.load(folders / "gpt2", "cpu")
    logits = model.logits([CLEAN])[0][-1]
    assert record["logit"] == pytest.approx(logits.max().item(), abs=1e-4)
    assert model.tokenizer.words.pieces([int(logits.argmax())]) == [record["target"]]


def test_the_lens_in_every_form(folders):
    command = "stream", folders / "gpt2", CLEAN, "--lens", "--device", "cpu"
    head, *rows = run(*command).stdout.splitlines()
    assert head.split()[:3] == ["layer", "0", "The"] and len(rows) == 3
    record = json.loads(run(*command, "--json").stdout)
    assert record["layers"] == ["embedding", "layer 0", "layer 1"]
    assert record["rank"][-1] == [1] * len(record["tokens"])
    assert run(*command, "--format", "markdown").stdout.count("|") > 20


def test_a_mask_and_a_pair_of_labels(folders):
    mask = "stream", folders / "words", "the old [MASK] came", "--json", "--device", "cpu"
    assert json.loads(run(*mask).stdout)["position"] == 4
    label = "stream", folders / "one", "the cat", "--target", "good", "--against", "bad"
    assert "logit of 'good' - logit of 'bad'" in run(*label).stdout


def test_patches_in_every_form(folders, tmp_path):
    command = "patch", folders / "gpt2", CLEAN, CORRUPTED, "--device", "cpu"
    page = tmp_path / "page.html"
    text = run(*command, "--html", page).stdout
    assert text.startswith(f"{CLEAN} → {CORRUPTED}\nstates patched; logit of")
    (shown,) = records_in(page.read_text())
    assert "▁old/▁dog" in shown.json["grids"][0]["columns"]
    record = json.loads(run(*command, "--json").stdout)
    assert record["maps"][0]["effects"][-1][-1] == pytest.approx(1, abs=1e-2)
    rows = list(csv.DictReader(io.StringIO(run(*command, "--format", "csv").stdout)))
    assert float(rows[-1]["value"]) == pytest.approx(1, abs=1e-2)
    heads = json.loads(run(*command, "--at", "head_outputs", "--json").stdout)
    assert heads["maps"][0]["columns"] == ["head 0", "head 1"]
    layer = json.loads(run(*command, "--at", "head_outputs", "--layer", 1, "--json").stdout)
    assert layer["maps"][0]["rows"] == ["head 0", "head 1"]
    paths = json.loads(run(*command, "--into", "1,0", "--json").stdout)
    assert paths["at"].startswith("paths into layer 1, head 0")


def test_images(folders):
    one, other = sorted((folders / "images").rglob("*.png"))
    done = run("stream", folders / "vit", one, "--against", "left", "--target", "right")
    assert "logit of 'right' - logit of 'left'" in done.stdout
    assert "0,0" in run("patch", folders / "vit", one, other, "--format", "csv").stdout


def test_a_translator_reads_one_translation_with_both_inputs(small_run):
    command = small_run / "run" / "model", "dog cow owl", "--device", "cpu"
    record = json.loads(run("stream", *command, "--second", "owl cow dog", "--json").stdout)
    assert record["position"] == 0
    done = run("patch", *command, "dog owl owl", "--second", "owl cow dog", "--json")
    assert [each["map"] for each in json.loads(done.stdout)["maps"]] == ["source", "target"]
    own = regard.load(command[0], "cpu").translate(["dog cow owl"])[0][0].text
    done = run("patch", *command, "dog owl owl", "--json")
    assert done.stdout == run("patch", *command, "dog owl owl", "--second", own, "--json").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("stream", CLEAN, "--target", "zzz"), "target: 'zzz' is 3 tokens"),
        (("stream", CLEAN, "--lens", "--token", 1), "--token: cannot be used with --lens"),
        (("stream", CLEAN, "--token", 99), "token must be at most 2, not 99"),
        (("stream", CLEAN, "--svg", "page.html"), "the name ends in .html; use --html"),
        (("stream", " "), "the text is empty"),
        (("patch", CLEAN, "The man"), "must have the same number of tokens, not 3"),
        (("patch", CLEAN, CLEAN), "on both inputs: choose another target"),
        (("patch", CLEAN, CORRUPTED, "--into", "1"), "--into: '1' is not LAYER,HEAD, such as 5,1"),
        (("patch", CLEAN, CORRUPTED, "--into", "0,1"), "its layer must be at least 1, not 0"),
        (("patch", CLEAN, CORRUPTED, "--at", "cross_outputs"), "this model has no cross_outputs"),
        (("patch", CLEAN, CORRUPTED, "--layer", 1), "only head_outputs have a map of one layer"),
    ],
)
def test_what_is_refused_in_one_line(folders, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    verb, *rest = arguments
    done = run(verb, folders / "gpt2", *rest, code=2)
    assert message in done.stderr and len(done.stderr.splitlines()) == 1
    assert not done.stdout and not [*tmp_path.iterdir()]
