"""A ladder end to end: several models, one table."""

import csv
import json
import re
from importlib import import_module

import pytest

import regard
from regard.api import load
from regard.core.errors import BadInput
from regard.training.recipe import read
from small import RECIPE, write_corpus
from small_documents import RECIPE as ANIMALS
from small_tuning import write_tuning
from verb import run

RUNGS = """
[[rung]]
name = "no attention"
model = { paper = "sutskever", size = "laptop", change = { width = 16, embedding = 16 } }
train = { steps = 4 }

[[rung]]
name = "Bahdanau"
model = { paper = "bahdanau", size = "laptop", change = { width = 16, embedding = 16, maxout = 8 } }
optimiser = { rate = 0.02 }
expect = { score = 0.0, tolerance = 1.0, source = "it cannot be less" }

[[rung]]
name = "Transformer"
model = { size = "laptop", change = { width = 16, inner = 32, depth = 1, heads = 2 } }
"""

LEARNED = 'position = "learned", "source.longest" = 3'


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder)
    for name in ("dev", "test"):
        lines = [line.split() for line in (folder / f"{name}.src").read_text().splitlines()]
        links = [
            " ".join(f"{i}-{len(words) - 1 - i}" for i in range(len(words))) for words in lines
        ]
        (folder / f"{name}.links").write_text("".join(f"{one}\n" for one in links))
    start, end = RECIPE.index("[model]"), RECIPE.index("[batches]")
    test = 'target = "test.tgt" }\n'
    text = (RECIPE[:start] + RECIPE[end:]).replace("steps = 12", "steps = 6")
    text = text.replace("beam = 2", 'beam = 1\nlength = "none"\nalpha = 0.0')
    links = 'links = { dev = "dev.links", test = "test.links" }\n'
    (folder / "ladder.toml").write_text(text.replace(test, test + links) + RUNGS)
    return folder


def test_rungs_say_what_differs(corpus):
    recipe = read(corpus / "ladder.toml")
    one, two, three = (recipe.at(rung) for rung in recipe.rung)
    assert (one.train.steps, two.train.steps, three.train.steps) == (4, 6, 6)
    assert (one.optimiser.rate, two.optimiser.rate) == (0.01, 0.02)
    assert (one.model.paper, three.model.paper) == ("sutskever", "transformer")
    assert one.data == two.data == three.data and not one.rung
    assert [rung.name for rung in recipe.only(["Bahdanau"]).rung] == ["Bahdanau"]
    known = "'no attention', 'Bahdanau', 'Transformer'"
    with pytest.raises(BadInput, match=f"no rung is called 'Badanau'; there are {known}"):
        recipe.only(["Badanau"])
    with pytest.raises(BadInput, match="is not a ladder"):
        recipe.at(recipe.rung[0]).only(["Bahdanau"])


def test_settings_reach_every_rung(corpus):
    settings = ["train.steps=3", "optimiser.rate=0.5", "batches.rows=7"]
    recipe = read(corpus / "ladder.toml", settings)
    for one in map(recipe.at, recipe.rung):
        assert (one.train.steps, one.optimiser.rate, one.batches.rows) == (3, 0.5, 7)
    with pytest.raises(BadInput, match=r"setting model.size=big: every rung .* its own model"):
        read(corpus / "ladder.toml", ["model.size=big"])


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("steps = 4", "stepz = 4", r"rung 'no attention': unknown key 'train.stepz'; did you mean"),
        ("rate = 0.02", "rate = -1", "rung 'Bahdanau': optimiser.rate"),
        ('name = "Bahdanau"', 'nam = "Bahdanau"', "rung.1.name is missing|'rung.1.nam'"),
    ],
)
def test_rungs_are_typed_and_closed(corpus, tmp_path, before, after, said):
    path = tmp_path / "ladder.toml"
    path.write_text((corpus / "ladder.toml").read_text().replace(before, after))
    with pytest.raises(BadInput, match=said) as caught:
        read(path)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_seeds_of_every_rung(corpus, tmp_path):
    out = tmp_path / "out"
    told = ("train", corpus / "ladder.toml", "--data", corpus, "--out", out, "--device", "cpu")
    told += ("--set", "train.steps=2", "--set", "train.seed=5", "--seeds", 2)
    told += ("--rung", "no attention", "--rung", "Transformer", "--format", "csv")
    rows = [*csv.DictReader(run(*told).stdout.splitlines())]
    assert [row["model"] for row in rows] == ["no attention", "Transformer"]
    assert all(float(row["low"]) <= float(row["BLEU"]) <= float(row["high"]) for row in rows)
    folders = [f"{name}-seed-{seed}" for name in ("no-attention", "transformer") for seed in (5, 6)]
    assert sorted(path.name for path in out.iterdir()) == folders
    for name in folders:
        stored = json.loads((out / name / "recipe.json").read_text())
        assert stored["train"]["seed"] == int(name[-1])


def test_a_recipe_without_rungs_is_no_ladder():
    with pytest.raises(BadInput, match="has no rungs; train it by regard"):
        regard.ladder("tour")


def test_one_table_of_all_rungs(corpus, tmp_path):
    out = tmp_path / "out"
    arguments = ("train", corpus / "ladder.toml", "--data", corpus, "--out", out, "--device", "cpu")
    apart = run(*arguments, "--rung", "Bahdanau")
    assert apart.stdout.splitlines()[1].startswith("Bahdanau ")
    assert not (out / "ladder.json").exists() and "not all rungs" in apart.stderr
    again = run(*arguments, code=2)
    assert again.stderr == (
        f"regard: {out / 'bahdanau'}: already has a run; "
        "resume it, overwrite it, or choose another folder\n"
    )
    done = run(*arguments, "--resume")
    assert "nothing to resume yet" in done.stderr and "all steps done" in done.stderr
    lines = done.stdout.splitlines()
    head, *rows = lines[:4]
    assert head.split()[:2] == ["model", "BLEU"]
    assert [row.split("  ")[0] for row in rows] == ["no attention", "Bahdanau", "Transformer"]
    assert "nrefs:1|case:mixed|eff:no|tok:13a" in done.stdout and "greedy search" in done.stdout
    assert "expected: BLEU 0" in done.stdout and ": reached" in done.stdout
    records = json.loads((out / "ladder.json").read_text())["rungs"]
    assert [one["aer"] is None for one in records] == [True, False, False]
    for one in records:
        assert one["cost"]["parameters"] > 0 and one["cost"]["training_flops"] > 0
        assert sum(bucket["sentences"] for bucket in one["by length"]) == 12
    (_, *scores) = csv.reader((out / "ladder.csv").read_text().splitlines())
    assert [float(row[1]) for row in scores] == [one["BLEU"] for one in records]
    assert (out / "ladder.svg").read_text().startswith("<svg")
    assert "<table>" in (out / "ladder.html").read_text()
    again = regard.ladder(corpus / "ladder.toml", corpus, out, resume=True, device="cpu")
    assert again is not None and f"{again}\n" == done.stdout and again.reached
    kept = json.loads((out / "bahdanau" / "model" / "config.json").read_text())
    assert "alignment" in kept["notes"]


def test_scores_are_made_in_the_precision_that_verbs_have(corpus, tmp_path, monkeypatch):
    loaded, module = [], import_module("regard.experiments.ladder")
    monkeypatch.setattr(module, "load", lambda *given, **how: loaded.append(how) or load(*given))
    asked = ("train", corpus / "ladder.toml", "--data", corpus, "--out", tmp_path / "run")
    run(*asked, "--rung", "Bahdanau", "--device", "cpu", "--set", "train.steps=1")
    assert loaded == [{"precision": "auto"}]


def test_bad_lines_of_the_test_set_can_be_left_out(corpus, tmp_path):
    for path in corpus.glob("*.*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    recipe = tmp_path / "ladder.toml"
    recipe.write_text(re.sub(r"(?m)^links = .*\n", "", recipe.read_text()))
    count = len((tmp_path / "test.src").read_text().splitlines())
    for name, line in (("src", "\n"), ("tgt", "owl\n")):
        with (tmp_path / f"test.{name}").open("a") as file:
            file.write(line)
    asked = ("train", recipe, "--data", tmp_path, "--out", tmp_path / "run", "--rung", "Bahdanau")
    assert f"test.src:{count + 1}" in run(*asked, code=2).stderr
    assert not (tmp_path / "run").exists()
    assert "Bahdanau" in run(*asked, "--skip-bad").stdout


def test_what_is_wrong_is_reported_before_anything_is_trained(corpus, tmp_path):
    text = (corpus / "ladder.toml").read_text()
    for before, after, said in (
        ('name = "Transformer"', 'name = "BAHDANAU"', "two rungs of the ladder have the same name"),
        ("test.links", "train.src", "lines for 12 pairs"),
        ("heads = 2", "heads = 3", "rung 'Transformer': "),
        ("depth = 1", "widht = 1", "rung 'Transformer': model.change.widht: no fact"),
        ("heads = 2 }", f"heads = 2, {LEARNED} }}", "rung 'Transformer': batches.longest: "),
        ('"train.src"', '"trane.src"', "trane.src"),
        ('"dev.tgt"', '"deaf.tgt"', "deaf.tgt"),
        ('"train.src"', '"-"', "cannot be standard input"),
    ):
        assert before in text
        (tmp_path / "ladder.toml").write_text(text.replace(before, after))
        arguments = (tmp_path / "ladder.toml", "--data", corpus, "--out", tmp_path / "out")
        (line,) = run("train", *arguments, "--device", "cpu", code=2).stderr.splitlines()
        assert said in line
        assert not (tmp_path / "out").exists()


MODELS = """
[[rung]]
name = "narrow"
model = {{ paper = "bert", size = "tiny", change = {{ {sizes} }} }}

[[rung]]
name = "wide"
model = {{ paper = "bert", size = "tiny", change = {{ {sizes}, inner = 64 }} }}
expect = {{ metric = "{metric}", score = 0.0, tolerance = 1.0, source = "it cannot be less" }}
"""
SIZES = "width = 16, depth = 1, heads = 2, longest = 48"


@pytest.mark.parametrize(
    ("kind", "metric", "others"),
    [("one", "accuracy", 2), ("tags", "F1", 3)],
    ids=["labels", "tags"],
)
def test_encoders_are_compared_by_the_metrics_of_their_task(tmp_path, kind, metric, others):
    recipe, out = write_tuning(tmp_path, kind), tmp_path / "out"
    text, rest = recipe.read_text().split("[model]")[0], recipe.read_text().split("[batches]")[1]
    rungs = MODELS.format(sizes=SIZES, metric=metric)
    recipe.write_text(f"{text}[batches]{rest}{rungs}")
    settings = {"train.steps": 2, "train.metric": metric}
    ladder = regard.ladder(recipe, tmp_path, out, settings=settings, device="cpu")
    (table,) = ladder.tables()
    assert table.names[:2] == ["model", metric] and table.names[-1] == "tokens/s"
    assert [row[0] for row in table.rows] == ["narrow", "wide"]
    assert not {"AER", "BLEU"} & {*table.names}
    for result in ladder.results:
        model = regard.load(out / result.name / "model", "cpu")
        (scores,) = regard.evaluate(model, recipe, tmp_path).tests.values()
        stored = {score.name: score.value for score in (result.score, *result.scores)}
        assert stored == {score.name: pytest.approx(score.value) for score in scores.scores}
        assert result.scores and result.score.name == metric
    records = json.loads((out / "ladder.json").read_text())["rungs"]
    assert [record[metric] for record in records] == [row[1] for row in table.rows]
    assert not (out / "ladder.svg").exists() and "<table>" in (out / "ladder.html").read_text()


def test_objectives_without_a_score_have_no_ladder(tmp_path):
    head, tail = ANIMALS.split("[model]")[0], ANIMALS.split("[batches]")[1]
    recipe = tmp_path / "ladder.toml"
    recipe.write_text(f"{head}[batches]{tail}{MODELS.format(sizes=SIZES, metric='perplexity')}")
    with pytest.raises(BadInput, match="no score on a test set to compare models by"):
        read(recipe)
