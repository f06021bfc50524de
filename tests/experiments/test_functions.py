"""What verbs do, from Python: the same results, from folders and from loaded models."""

import json

import pytest

import regard
from regard.core.errors import BadInput
from regard.experiments import ablation_runs, conversions, input_views, run_listing, text_search
from regard.experiments.new_recipe import write_recipe
from regard.experiments.options import LoadOptions, MeasureOptions
from regard.experiments.options.inspecting import (
    AttributionOptions,
    ContributionOptions,
    LookOptions,
)
from regard.experiments.options.measuring import AblationOptions, MiningOptions, RetrievalOptions
from regard.experiments.preparation import prepare
from regard.experiments.recipe_texts import RecipeList
from regard.experiments.word_vectors import similarity, steer
from small_bert import SENTENCES
from small_bert import model as small_bert
from small_gpt import write_gpt2
from verb import run

ON_CPU = LoadOptions(device="cpu")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder")
    small_bert("states").save(folder / "model")
    (folder / "texts.txt").write_text("".join(f"{text}\n" for text in SENTENCES))
    for name, texts in {"queries": SENTENCES[:2], "corpus": SENTENCES}.items():
        lines = [json.dumps({"_id": f"{n}", "text": text}) for n, text in enumerate(texts)]
        (folder / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return folder


@pytest.fixture(scope="module")
def gpt(tmp_path_factory):
    return write_gpt2(tmp_path_factory.mktemp("gpt2") / "model")


def test_a_loaded_model_ranks_as_its_folder_does(encoder):
    files = encoder / "queries.jsonl", encoder / "corpus.jsonl"
    told, model = [], regard.load(encoder / "model", "cpu")
    ranking = text_search.retrieve(
        model, *files, RetrievalOptions(top=2), on_event=lambda event: told.extend(event.lines())
    )
    done = run("retrieve", encoder / "model", *files, "--top", 2, "--device", "cpu")
    assert f"{ranking}\n" == done.stdout and "\n".join(told) + "\n" == done.stderr
    assert [len(hits) for hits in ranking.documents.values()] == [2, 2]
    with pytest.raises(BadInput, match="needs --qrels"):
        text_search.retrieve(model, *files, RetrievalOptions(interval=True))


def test_mined_pairs_have_lines_and_tables(encoder):
    mined = text_search.mine(
        encoder / "model", str(encoder / "texts.txt"), None, MiningOptions(top=3), ON_CPU
    )
    done = run("mine", encoder / "model", encoder / "texts.txt", "--top", 3, "--json")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [*mined.records()] == records == [vars(pair) for pair in mined.pairs]
    assert next(iter(mined.lines("csv"))) == "score,first,second,first_line,second_line"


def test_views_of_one_input(gpt):
    model, text = regard.load(gpt, "cpu"), "The old man reads"
    seen = input_views.look_at(model, text, LookOptions(layer=0, head=1))
    assert seen.source.maps[0].weights.shape[:2] == model.look(text).maps[0].weights.shape[:2]
    done = run("look", gpt, text, "--layer", 0, "--head", 1, "--json", "--device", "cpu")
    assert [*seen.lines("json")] == done.stdout.splitlines()
    shares = input_views.explain_logit(model, text, ContributionOptions())
    assert f"{shares}" == f"{input_views.explain_logit(gpt, text, ContributionOptions(), ON_CPU)}"
    with pytest.raises(BadInput, match="cannot be used with --lens"):
        input_views.explain_logit(model, text, ContributionOptions(lens=True, target="x"))
    without = AttributionOptions(without=["head 0.1"])
    (table,) = input_views.predict_without(model, text, without).tables()
    assert table.rows and table.names[0] == "target"


def test_conversions_say_what_they_wrote(gpt, tmp_path):
    told = []
    converted = conversions.convert(
        gpt, tmp_path / "to", "regard", check=True, on_event=lambda event: told.append(str(event))
    )
    assert converted.is_written and converted.differences.largest < 1e-5
    assert told[-1] == f"wrote {tmp_path / 'to'}" and (tmp_path / "to" / "config.json").is_file()
    formats = run("convert", gpt, "--list-formats").stdout
    assert f"{conversions.list_formats(gpt)}\n" == formats
    with pytest.raises(BadInput, match="attention: only graphs have it; add to onnx"):
        conversions.convert(gpt, tmp_path / "other", "hf", attention="all")


def test_a_failed_check_writes_nothing(gpt, tmp_path, monkeypatch):
    monkeypatch.setattr(conversions, "LIMIT", -1.0)
    told = []
    converted = conversions.convert(
        gpt, tmp_path / "to", "regard", check=True, on_event=told.append
    )
    assert not converted.is_written and not (tmp_path / "to").exists()
    assert told[-1].error and "not written: differs by" in told[-1].text


def test_ablation_writes_and_returns_the_same(small_run, tmp_path):
    model, recipe = str(small_run / "run" / "model"), small_run / "small.toml"
    options, out = AblationOptions(layers=True, limit=3), tmp_path / "out.jsonl"
    result = ablation_runs.ablate(
        model, recipe, options, MeasureOptions(device="cpu"), data=small_run, out=out
    )
    assert [json.loads(line) for line in out.read_text().splitlines()] == [*result.records()]
    assert len(result.ablation.scores) == 4
    with pytest.raises(BadInput, match="resume: needs out FILE"):
        ablation_runs.ablate(model, recipe, options, MeasureOptions(), resume=True)
    with pytest.raises(BadInput, match="choose one of them"):
        _ = AblationOptions(heads=True, layers=True).kind


def test_curves_and_prepared_sets(small_run, tmp_path):
    (tmp_path / "run").mkdir()
    events = [{"event": "train", "step": step, "loss": 1 / step} for step in (1, 2)]
    lines = "".join(f"{json.dumps(event)}\n" for event in events)
    (tmp_path / "run" / "metrics.jsonl").write_text(lines)
    drawn = run_listing.curves([tmp_path / "run"])
    assert drawn.tables()[0].rows == drawn.curves.last_values and "step" in str(drawn)
    with pytest.raises(BadInput, match="only los: no figure is called so; did you mean 'loss'"):
        run_listing.curves([tmp_path / "run"], only=["los"])
    prepared = prepare(small_run / "small.toml", small_run, tmp_path / "prepared")
    again = run(
        *("prepare", small_run / "small.toml", "--data", small_run),
        *("--out", tmp_path / "prepared"),
    )
    assert f"{prepared}\n" == again.stdout and {*prepared.sets} == {"train", "dev"}


def test_recipes_are_written_and_listed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"the film is {'good' if n % 2 else 'bad'} {n},{n % 2}" for n in range(40)]
    (tmp_path / "reviews.csv").write_text("\n".join(["text,label", *lines]) + "\n")
    written = write_recipe([tmp_path / "reviews.csv"], start=None)
    assert (tmp_path / written.path).read_text() == written.recipe
    assert str(written).splitlines() == [f"{name:<12}{text}" for name, text in written.facts]
    with pytest.raises(BadInput, match=r"reviews.toml: exists already; give another out, or force"):
        write_recipe([tmp_path / "reviews.csv"])
    assert [row[0] for row in RecipeList.built_in().tables()[0].rows].count("tour") == 1


def test_vectors_are_scored_and_steer(gpt, tmp_path):
    (tmp_path / "vectors").write_text("storm 1 0\ncame 0.9 0.1\ncat 0 1\nsailor 0.1 0.9\n")
    (tmp_path / "pairs").write_text("storm came 9\nstorm cat 1\nstorm sailor 2\n")
    scores = similarity(str(tmp_path / "vectors"), [str(tmp_path / "pairs")])
    assert scores.words == 4 and scores.scores[0].score == pytest.approx(100)
    for name, text in {"plus": "The old man laughs.\n", "minus": "A dog barks.\n"}.items():
        (tmp_path / name).write_text(text)
    files = str(tmp_path / "plus"), str(tmp_path / "minus")
    edit = steer(regard.load(gpt, "cpu"), *files, tmp_path / "joy.safetensors", runs=ON_CPU)
    (tmp_path / "joy.toml").write_text(f"{edit}\n")
    edited = regard.load(gpt, "cpu").edited(regard.read_edits(tmp_path / "joy.toml"))
    assert edited.logits(["The"])[0].shape == regard.load(gpt, "cpu").logits(["The"])[0].shape
    with pytest.raises(BadInput, match="name 'a:b': a name has no colon"):
        steer(gpt, *files, tmp_path / "x.safetensors", name="a:b", runs=ON_CPU)
