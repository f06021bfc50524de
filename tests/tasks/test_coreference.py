"""Coreference end to end: small documents that gender decides, scores, folders, and refusals."""

import json
import random
from dataclasses import replace

import pytest
import torch

import regard
from regard.core.errors import BadInput
from regard.data.readers.by_task import read
from regard.data.readers.examples import CoreferenceExample, PronounQuestion
from regard.tasks.coreference import decision
from regard.training.recipe import make_recipe, task_of
from verb import run

NAMES = {"Ann": "she", "Eve": "she", "Bob": "he", "Tom": "he"}
RECIPE = {
    "task": "coreference",
    "data": {
        "train": {"reader": "jsonl", "file": "train.jsonl"},
        "dev": {"reader": "jsonl", "file": "dev.jsonl"},
        "test": {"reader": "jsonl", "file": "dev.jsonl"},
        "more_tests": {"pronouns": {"reader": "GAP", "file": "gap.tsv"}},
    },
    "text": {"kind": "words", "vocab": 50, "lower": True},
    "model": {"paper": "lee", "size": "laptop", "change": {"width": 16, "dropout": 0.0}},
    "coreference": {"widest": 2, "hidden": 32, "dropout": 0.0, "antecedents": 5},
    "batches": {"tokens": 300, "rows": 8, "longest": 100},
    "optimiser": {"rate": 0.005, "warmup": 1, "schedule": "constant"},
    "train": {
        "steps": 2,
        "precision": "fp32",
        "metric": "CoNLL-F1",
        "evaluate_every": 1000,
        "report_every": 1000,
    },
}


EVALUATED = """
task = "coreference"
about.title = "Small documents"
model.paper = "lee"
text.kind = "words"
optimiser.rate = 1e-3
train.steps = 1
[data]
train = { reader = "jsonl", file = "train.jsonl" }
dev = { reader = "jsonl", file = "dev.jsonl" }
test = { reader = "jsonl", file = "dev.jsonl" }
more_tests.pronouns = { reader = "GAP", file = "gap.tsv" }
"""


def document(seed):
    """A woman and a man, a thing alone, and a sentence about one of them."""
    draw = random.Random(seed)
    first, second = draw.choice([("Ann", "Bob"), ("Tom", "Eve"), ("Eve", "Bob"), ("Tom", "Ann")])
    meant = draw.choice((0, 1))
    pronoun = NAMES[(first, second)[meant]]
    sentences = [[first, "saw", second, "."], ["Then", pronoun, "took", "the", "bus", "."]]
    clusters = [[[0, 0]], [[2, 2]], [[7, 8]]]
    clusters[meant].append([5, 5])
    return {"sentences": sentences, "clusters": clusters}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("coreference")
    for name, seeds in (("train", range(40)), ("dev", range(40, 52))):
        lines = (json.dumps(document(seed)) for seed in seeds)
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    columns = ["ID", "Text", *(f"{p}{s}" for p in ("Pronoun", "A", "B") for s in ("", "-offset"))]
    rows = [[*columns, "A-coref", "B-coref"]]
    for number, (first, second) in enumerate([("Ann", "Bob"), ("Tom", "Eve")] * 2):
        pronoun = NAMES[(first, second)[number // 2]]
        text = f"{first} saw {second} . Then {pronoun} took the bus ."
        parts = [(part, str(text.index(f"{part} "))) for part in (pronoun, first, second)]
        answers = [str(number // 2 == 0).upper(), str(number // 2 == 1).upper()]
        rows.append([f"x-{number}", text, *(cell for part in parts for cell in part), *answers])
    (folder / "gap.tsv").write_text("\n".join("\t".join(row) for row in rows))
    return folder


def recipe_with(**tables):
    return {**RECIPE, **{name: {**RECIPE.get(name, {}), **keys} for name, keys in tables.items()}}


def train(recipe, data, out):
    """The figures of the last evaluation."""
    events = list(regard.train(recipe, data=data, out=out))
    return [event.verdict.figures for event in events if type(event).__name__ == "DevEvent"][-1]


@pytest.fixture(scope="module")
def untrained(data, tmp_path_factory):
    """A run of two steps."""
    out = tmp_path_factory.mktemp("run") / "run"
    train(recipe_with(coreference={"singletons": True}), data, out)
    return out


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "run"
    recipe = recipe_with(coreference={"singletons": True}, train={"steps": 160})
    return out, train(recipe, data, out)


@pytest.mark.slow
def test_a_small_model_learns_clusters_and_singletons(trained, data, tmp_path):
    out, figures = trained
    assert figures["CoNLL-F1"] > 95 and figures["CoNLL-F1 (singletons)"] > 95
    model = regard.load(out / "model", "cpu")
    (result,) = model.predict(["Ann saw Bob. Then he took the bus."])
    assert result.line == "[Ann]1 saw [Bob]2. Then [he]2 took [the bus]3."
    (tmp_path / "in.txt").write_text("Ann saw Bob. Then she took the bus.\n\n")
    printed = run("predict", out / "model", tmp_path / "in.txt", "--device", "cpu").stdout
    assert printed == "[Ann]1 saw [Bob]2. Then [she]1 took [the bus]3.\n\n"
    (tmp_path / "small.toml").write_text(EVALUATED)
    arguments = ("evaluate", out / "model", tmp_path / "small.toml", "--data", data)
    scores = run(*arguments, "--device", "cpu").stdout
    for score in ("CoNLL-F1 100.00", "LEA (singletons) 100.00", "masculine F1 100.00", "bias 1.00"):
        assert score in scores


def test_a_text_and_its_words_have_the_same_clusters(untrained):
    model = regard.load(untrained / "model", "cpu")
    text = "Ann saw Bob. Then he took the bus."
    sentences = [["Ann", "saw", "Bob", "."], ["Then", "he", "took", "the", "bus", "."]]
    of_text, of_words = model.predict([text, sentences])
    assert of_text.sentences == tuple(map(tuple, sentences)) == of_words.sentences
    assert of_text.word_clusters == of_words.word_clusters
    for mention in (mention for cluster in of_text.clusters for mention in cluster):
        assert text[mention.start : mention.end] == mention.text
        assert mention.head in mention.text
    assert json.loads(json.dumps(of_words.record))["clusters"] == [
        [[start, end - 1] for start, end in cluster] for cluster in of_words.word_clusters
    ]


def test_results_do_not_depend_on_the_batch(untrained):
    model = regard.load(untrained / "model", "cpu")
    documents = [document(seed)["sentences"] for seed in range(6)]
    assert model.predict(documents) == [model.predict([each])[0] for each in documents]


def test_a_mention_joins_the_cluster_of_its_antecedent(untrained):
    resolver = regard.load(untrained / "model", "cpu").predictor
    kept, antecedents = torch.tensor([2, 5, 6, 9]), torch.tensor([-1, -1, 0, 2])
    scores = torch.zeros(10)
    alone = replace(resolver, single_above=None)
    assert alone._clusters(kept, antecedents, scores) == [[2, 6, 9]]
    assert resolver._clusters(kept, antecedents, scores) == [[2, 6, 9]]
    assert resolver._clusters(kept, antecedents, scores + 1) == [[2, 6, 9], [5]]


def test_a_tape_records_the_head_words(untrained):
    model, tape = regard.load(untrained / "model", "cpu"), regard.Tape("*head_word.weights")
    model.predict(["Ann saw Bob."], tape=tape)
    assert tape.records["heads.coreference.head_word.weights"].shape == (1, 1, 7, 6)


def test_bad_inputs_are_refused(untrained):
    model = regard.load(untrained / "model", "cpu")
    for bad, message in ((" ", "without words"), ([], "neither a text"), (["a"], "list of words")):
        with pytest.raises(BadInput, match=message):
            model.predict([bad])


def test_predict_writes_json_that_can_be_trained_on(untrained, tmp_path):
    (tmp_path / "in.txt").write_text("Ann saw Bob.\n")
    arguments = ("predict", untrained / "model", tmp_path / "in.txt", "--json", "--device", "cpu")
    record = json.loads(run(*arguments).stdout)
    assert record["line"] == 1 and record["sentences"] == [["Ann", "saw", "Bob", "."]]
    (tmp_path / "out.jsonl").write_text(json.dumps(record))
    (again,) = read("coreference", "jsonl", tmp_path / "out.jsonl")
    expected = [[[start, end - 1] for start, end in cluster] for cluster in again.clusters]
    assert sorted(record["clusters"]) == expected


def test_documents_in_a_table_of_json_lines_are_those_of_plain_lines(untrained, tmp_path):
    records = [document(seed) for seed in range(3)]
    text = "".join(json.dumps(record) + "\n" for record in [*records, {"sentences": [["Ann"]]}])
    for name in ("in.txt", "in.jsonl"):
        (tmp_path / name).write_text(text)

    def predicted(name, *options):
        done = run("predict", untrained / "model", tmp_path / name, *options, "--device", "cpu")
        return [*map(json.loads, done.stdout.splitlines())]

    of_lines, of_rows = predicted("in.txt", "--json"), predicted("in.jsonl", "--json")
    assert [row["predicted_clusters"] for row in of_rows] == [one["clusters"] for one in of_lines]
    assert [row["clusters"] for row in of_rows[:3]] == [record["clusters"] for record in records]
    assert predicted("in.jsonl", "--json", "--column", "sentences") == of_rows
    (tmp_path / "again.jsonl").write_text("\n".join(map(json.dumps, of_lines)))
    again = predicted("again.jsonl", "--json")
    assert [row["predicted_mentions"] for row in again] == [one["mentions"] for one in of_lines]
    (tmp_path / "text.jsonl").write_text('{"text": "Ann saw Bob."}\n')
    assert predicted("text.jsonl", "--json")[0]["sentences"] == [["Ann", "saw", "Bob", "."]]


def test_predict_draws_a_page(untrained, tmp_path):
    (tmp_path / "in.txt").write_text("Ann saw Bob.\nTom sat.\n")
    arguments = ("predict", untrained / "model", tmp_path / "in.txt", "--device", "cpu")
    run(*arguments, "--html", tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().count("<section>") == 2
    resumed = ("--html", tmp_path / "new.html", "--out", tmp_path / "out.txt", "--resume")
    refused = run(*arguments, *resumed, code=2)
    assert "--html: cannot be used with --resume" in refused.stderr
    assert not (tmp_path / "new.html").exists()


def test_given_mentions_are_the_only_ones(data, tmp_path):
    recipe = recipe_with(coreference={"mentions": "gold", "singletons": False})
    recipe["coreference"].pop("widest")
    train(recipe, data, tmp_path / "run")
    model = regard.load(tmp_path / "run" / "model", "cpu")
    example = CoreferenceExample("", (("Ann", "saw", "Bob", "and", "he", "sat"),), (((0, 1),),))
    assert model.predict([example])[0].clusters == ()
    with pytest.raises(BadInput, match="this model reads given mentions"):
        model.predict(["Ann saw Bob."])
    (tmp_path / "in.txt").write_text("Ann saw Bob.\n")
    refused = run("predict", tmp_path / "run" / "model", tmp_path / "in.txt", code=2)
    assert "in.txt:1: this model reads given mentions" in refused.stderr
    (tmp_path / "in.txt").write_text(' {"sentences": [["Ann", "saw", "Bob"]]}\n')
    refused = run("predict", tmp_path / "run" / "model", tmp_path / "in.txt", code=2)
    assert "in.txt:1: this model reads given mentions" in refused.stderr
    given = {**document(1), "speakers": [["x"] * 4, ["y"] * 6], "genre": "nw"}
    (tmp_path / "in.jsonl").write_text(json.dumps(given))
    (row,) = run("predict", tmp_path / "run" / "model", tmp_path / "in.jsonl").stdout.splitlines()
    assert {**json.loads(row), **given} == json.loads(row)
    (tmp_path / "in.jsonl").write_text(json.dumps(given | {"speakers": [["x"]]}))
    refused = run("predict", tmp_path / "run" / "model", tmp_path / "in.jsonl", code=2)
    assert "in.jsonl:1: 1 speakers of 10 words" in refused.stderr


@pytest.mark.slow
def test_questions_about_pronouns_are_learned_from_partial_clusters(data, tmp_path):
    files = {"reader": "GAP", "file": "gap.tsv"}
    recipe = recipe_with(train={"metric": "F1", "steps": 20})
    recipe["data"] = {"train": files, "dev": files}
    figures = train(recipe, data, tmp_path / "run")
    assert figures["loss"] < 0.1 and "CoNLL-F1" not in figures


def test_a_document_may_be_longer_than_the_positions_of_its_segments(data, tmp_path):
    model = {"paper": "bert", "size": "tiny", "change": {"longest": 16, "width": 16}}
    model["change"] |= {"heads": 2, "depth": 1, "inner": 16}
    text, segment = {"kind": "wordpiece", "vocab": 90}, {"segment": 16}
    recipe = recipe_with(model=model, text=text, coreference=segment)
    train(recipe, data, tmp_path / "run")
    recipe["coreference"]["segment"] = 17
    with pytest.raises(BadInput, match="rows of 17 tokens, but the encoder has 16 positions"):
        train(recipe, data, tmp_path / "other")


def test_long_documents_are_divided_in_training_and_resolved_whole(data, tmp_path):
    recipe = recipe_with(batches={"longest": 8, "tokens": 40})
    train(recipe, data, tmp_path / "run")
    model = regard.load(tmp_path / "run" / "model", "cpu")
    (result,) = model.predict(["Ann saw Bob. Then he took the bus."])
    assert [len(words) for words in result.sentences] == [4, 6]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"coreference": {"mentions": "gold"}}, 'coreference.widest .*mentions = "gold"'),
        ({"coreference": {"order": 0}}, "coreference.order"),
        ({"model": {"paper": "transformer", "size": "", "change": {}}}, "encoder-decoder"),
    ],
)
def test_recipes_that_do_not_fit_are_refused(data, tmp_path, tables, message):
    with pytest.raises(BadInput, match=message):
        list(regard.train(recipe_with(**tables), data=data, out=tmp_path / "run"))


PRONOUN, NAME_A, NAME_B = (9, 10), (0, 2), (3, 4)


@pytest.mark.parametrize(
    ("cluster", "predicted"),
    [
        ([PRONOUN, NAME_A], (True, False)),
        ([PRONOUN, (1, 2)], (True, False)),  # a part of the name
        ([PRONOUN, (0, 3)], (True, False)),  # a longer mention
        ([PRONOUN, (0, 5)], (True, False)),  # of both names, that of the first
        ([PRONOUN, (2, 5)], (False, True)),
        ([PRONOUN, (1, 3)], (False, False)),  # crosses it
        ([NAME_A, NAME_B], (False, False)),  # another cluster
        ([PRONOUN, NAME_A, NAME_B], (True, True)),
    ],
)
def test_a_mention_of_the_pronouns_cluster_stands_for_a_name(cluster, predicted):
    question = PronounQuestion(PRONOUN, (NAME_A, NAME_B), (True, False), "feminine")
    assert decision(question, [cluster]).predicted == predicted


def test_look_shows_the_head_words_of_mentions(data, tmp_path):
    train(recipe_with(train={"steps": 40}), data, tmp_path / "run")
    model = regard.load(tmp_path / "run" / "model", "cpu")
    text = "Ann saw Bob . Then she took the bus ."
    (resolved,) = model.predict([text])
    view = model.look(text)
    (shown,) = view.maps
    assert shown.name == "head-word" and shown.keys == tuple(text.split())
    assert view.summary == resolved.line and view.to_json() and view.svg() and view.html()
    assert len(shown.queries) == len(resolved.mentions) > 0
    for weights, (number, mention) in zip(shown.weights[0, 0], resolved.mentions, strict=True):
        assert f"{mention.text} ({number})" in shown.queries
        assert weights.sum() == pytest.approx(1, abs=1e-5)
        assert not weights[: mention.first].any() and not weights[mention.last + 1 :].any()
        assert shown.keys[weights.argmax()] == mention.head
    with pytest.raises(BadInput, match="subwords cannot be used with a coreference model"):
        model.look(text, subwords=True)


def test_mentions_that_are_not_learned_are_counted(untrained, tmp_path):
    records = [document(seed) for seed in range(4)]
    records[0]["clusters"].append([[3, 4]])  # across two sentences
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, records)))
    task = task_of(make_recipe(recipe_with(), "coref"))
    examples = task.read(task.tables.data.train, tmp_path)
    count = sum(len(cluster) for example in examples for cluster in example.clusters)
    reading = regard.load(untrained / "model", "cpu").tokenizer
    _, remark = task.encode_training(reading, None, examples)
    assert remark == f"1 of {count} mentions reach across sentences or rows: they are not learned"
    small = task_of(make_recipe(recipe_with(coreference={"segment": 3}), "coref"))
    _, remark = small.encode_training(reading, None, examples)
    assert remark.startswith("coreference.segment: rows of 3 tokens divide sentences in ")
    assert "mentions reach across" in remark
    assert small.encode_training(reading, None, examples)[0]


def test_a_mention_is_no_wider_than_a_row():
    recipe = recipe_with(coreference={"widest": 10**6}, batches={"longest": 50})
    assert task_of(make_recipe(recipe, "coref")).head_facts.widest == 50
