"""Semantic roles from files to frames: a task that learns who eats whom."""

import json
import random
import tomllib
from dataclasses import replace

import numpy as np
import pytest

import regard
from regard.core.batch import IGNORED
from regard.core.errors import BadInput
from regard.training.recipe import make_recipe, task_of
from small_bert import model as small_bert
from small_bert import vocabulary
from small_tuning import write_tuning
from verb import run as verb

ANIMALS = ["owl", "dog", "cow", "pig"]
HE = {"paper": "he", "size": "laptop"}
HE["change"] = {"width": 24, "embedding": 24, "depth": 2, "indicator": 8, "stack.dropout": 0.0}


def sentence(draw: random.Random) -> dict:
    """ "eats" has an eater on its left and food on its right, "by" turns them round."""
    left, right = draw.choice(ANIMALS), draw.choice(ANIMALS)
    if draw.random() < 0.3:
        return {"tokens": [left, right], "predicates": []}
    if draw.random() < 0.5:
        words, labels = [left, "eats", right, "cat"], [[0, 0, "A0"], [2, 3, "A1"]]
    else:
        words, labels = [left, "eats", "by", right], [[0, 0, "A1"], [2, 3, "A0"]]
    return {"tokens": words, "predicates": [{"index": 1, "args": [*labels, [1, 1, "V"]]}]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, draw = tmp_path_factory.mktemp("roles"), random.Random(1)
    write_tuning(folder, "numbers")
    for name, count in (("train", 96), ("dev", 24), ("test", 24)):
        lines = (json.dumps(sentence(draw)) + "\n" for _ in range(count))
        (folder / f"{name}.jsonl").write_text("".join(lines))
    return folder


def recipe_of(folder, model=None, **roles):
    recipe = tomllib.loads((folder / "owls.toml").read_text())
    recipe |= {"task": "roles", "roles": roles}
    recipe.pop("labels")
    recipe["train"] |= {"metric": "F1", "steps": 40, "evaluate_every": 20}
    if model is not None:
        recipe["model"], recipe["text"]["kind"] = model, "words"
    return recipe


@pytest.mark.thinned
@pytest.mark.parametrize("mark", ["segment", "pair", "he"])
def test_a_labeller_learns_and_is_saved(folder, tmp_path, mark):
    recipe = recipe_of(folder, **({} if mark == "he" else {"mark": mark}))
    if mark == "he":
        recipe = recipe_of(folder, HE)
    events = list(regard.train(recipe, data=folder, out=tmp_path / "run"))
    figures = [event.verdict.figures for event in events if type(event).__name__ == "DevEvent"]
    assert figures[-1]["F1"] > 90 and figures[-1]["predicate F1"] > 90
    model = regard.load(tmp_path / "run" / "model", "cpu")
    assert model.predict(["owl eats pig cat"])[0].line == "[A0 owl] [V eats] [A1 pig cat]"
    assert model.predict([("owl eats by pig", [1])])[0].line == "[A1 owl] [V eats] [A0 by pig]"
    assert model.predict(["owl pig"])[0].frames == ()
    if mark != "segment":
        return
    lines = "owl eats pig cat\n\ncow dog\nowl eats by pig\t1\n"
    printed = verb("predict", tmp_path / "run" / "model", stdin=lines).stdout.splitlines()
    assert printed == ["[A0 owl] [V eats] [A1 pig cat]", "", "", "[A1 owl] [V eats] [A0 by pig]"]
    printed = verb("predict", tmp_path / "run" / "model", folder / "test.jsonl", "--json").stdout
    records = [json.loads(line) for line in printed.splitlines()]
    inputs = [json.loads(line) for line in (folder / "test.jsonl").read_text().splitlines()]
    for record, given in zip(records, inputs, strict=True):
        assert record["predicates"] == given["predicates"]  # beside those that are predicted
        words = [(each["index"], each["word"]) for each in record["predicted_predicates"]]
        assert words == [
            (each["index"], given["tokens"][each["index"]]) for each in given["predicates"]
        ]
    task = task_of(make_recipe(recipe, "owls"))
    results = task.test_scores(model, task.read(task.tables.data.test, folder), True)
    assert [score.name for score in results.scores] == [
        *("precision", "recall", "F1", "perfect frames", "predicate F1")
    ]
    assert all(score.interval is not None for score in results.scores)
    assert {score.label for score in results.of_labels} == {"A0", "A1"}


def test_rows_and_targets(folder):
    task = task_of(make_recipe(recipe_of(folder), "owls"))
    examples = task.read(task.tables.data.train, folder)
    example = next(one for one in examples if one.frames and "by" in one.words)
    reading, labels = vocabulary(), task.label_set(examples)
    assert {*labels.names} == {"O", *(f"{m}-{x}" for m in "BI" for x in ("A0", "A1", "V"))}
    marked, unmarked = task.encode(reading, labels, [example])
    ids = reading.pieces(example.words)
    lengths = [*map(len, ids)]
    starts = [1 + sum(lengths[:n]) for n in range(len(lengths))]
    tags = ["B-A1", "B-V", "B-A0", "I-A0"]
    for (row, targets), expected in ((marked, tags), (unmarked, ["O", "B-V", "O", "O"])):
        assert [labels.names[targets[start]] for start in starts] == expected
        assert (np.delete(targets, starts) == IGNORED).all()
        assert len(row.tokens) == sum(lengths) + 2
    begin = starts[1]
    assert [*np.flatnonzero(marked[0].segments)] == [*range(begin, begin + lengths[1])]
    assert not np.any(unmarked[0].segments)
    (only,) = task_of(make_recipe(recipe_of(folder, predicates="given"), "owls")).encode(
        reading, labels, [example]
    )
    assert [*only[1]] == [*marked[1]]


def test_labels_that_training_lacks_have_no_target_and_are_missed(folder):
    task = task_of(make_recipe(recipe_of(folder, predicates="given"), "owls"))
    examples = task.read(task.tables.data.train, folder)
    labels = task.label_set([one for one in examples if "by" in one.words])
    example = next(one for one in examples if one.frames)
    (frame,) = example.frames
    other = tuple(span._replace(label=span.label.replace("A0", "AM")) for span in frame.arguments)
    changed = replace(example, frames=(replace(frame, arguments=other),))
    ((_, targets),) = task.encode(vocabulary(), labels, [changed])
    assert "B-AM" not in labels.names
    assert np.count_nonzero(targets != IGNORED) < len(example.words)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"roles.mark": "star"}, "roles.mark"),
        ({"roles.predicates": "guessed"}, "roles.predicates"),
        (
            {"model.paper": "lin", "model.size": "laptop", "model.change": {}},
            "roles.mark: Lin does",
        ),
        ({"train.metric": "BLEU"}, "metric"),
    ],
)
def test_bad_settings_are_refused(folder, tmp_path, settings, message):
    with pytest.raises(BadInput, match=message):
        list(regard.train(recipe_of(folder), settings=settings, data=folder, out=tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_sentences_without_predicates_are_refused(folder, tmp_path):
    data = {name: [(["dog", "owl"], [])] * 3 for name in ("train", "dev", "test")}
    with pytest.raises(BadInput, match=r"data\.train: no sentence has a predicate"):
        list(regard.train(recipe_of(folder), data=data, out=tmp_path / "run"))


def test_a_tagger_is_not_scored_as_a_labeller(folder, tmp_path):
    task = task_of(make_recipe(recipe_of(folder), "owls"))
    examples = task.read(task.tables.data.test, folder)
    with pytest.raises(BadInput, match="was not trained for task 'roles'"):
        task.test_scores(small_bert("tags"), examples)
