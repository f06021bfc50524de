"""Prefixes end to end: an encoder-decoder learns answers and labels, from scratch or from spans."""

import json

import pytest
import torch

import regard
from regard.core.errors import BadInput
from regard.generation import Greedy
from regard.training.loop import train
from regard.training.loop.events import ReportEvent
from regard.training.recipe import read, task_of
from regard.training.run import prepare
from small import WORDS
from small_gpt import write_gpt2
from small_runs import ALONE
from small_spans import write_prefix, write_spans
from verb import run as run_verb

LEARNS = {
    "model.change": {"width": 32, "inner": 64, "depth": 1, "heads": 2, "dropout": 0.0},
    "train.steps": 160,
    "train.smoothing": 0.0,
    "train.evaluate_every": 160,
    "train.checkpoint_every": 160,
}
LABELS = {"0": "small animal", "1": "large animal"}
LABELLED = [(word, str(int(len(word) > 3))) for word in WORDS]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_prefix(tmp_path_factory.mktemp("prefix"))


@pytest.fixture(scope="module")
def copied(corpus, tmp_path_factory):
    """A model that repeats a word, and its events."""
    out, copies = tmp_path_factory.mktemp("copied") / "run", [(word, word) for word in WORDS]
    data = {"train": copies * 4, "dev": copies, "test": copies}
    events = [*regard.train(corpus, data, out, settings=LEARNS, device="cpu")]
    return regard.load(out / "model", "cpu"), events


@pytest.fixture(scope="module")
def labelled(corpus, tmp_path_factory):
    """A folder of a model that tells long words from short ones, its data and its events."""
    folder = tmp_path_factory.mktemp("labelled")
    rows = "".join(f"{word}\t{label}\n" for word, label in LABELLED)
    for name, times in (("train", 4), ("dev", 1), ("test", 1)):
        (folder / f"{name}.tsv").write_text(rows * times)
    tables = {
        f"data.{name}": {"table": f"{name}.tsv", "columns": [0, 1]}
        for name in ("train", "dev", "test")
    }
    settings = {**LEARNS, **tables, "prompt.prefix": "size of:", "prompt.labels": LABELS}
    events = [*regard.train(corpus, folder, folder / "run", settings=settings, device="cpu")]
    return folder, settings, events


def scores_of(events):
    (scores,) = [event.scores for event in events if hasattr(event, "scores")]
    return {score.name: score.value for score in scores}


def test_it_learns_answers_and_stops(copied):
    model, events = copied
    reports = [event.loss for event in events if isinstance(event, ReportEvent)]
    assert reports[-1] < 0.3 * reports[0]
    for word, (best, *_) in zip(WORDS, model.translate(WORDS), strict=True):
        assert best.text == word and best.hypothesis.finished
    scores = scores_of(events)
    assert scores["exact match"] == 100 and scores["TER"] == 0
    assert "accuracy" not in scores


def test_the_prefix_is_put_before_texts_and_not_before_ids(copied):
    model, _ = copied
    words = model.tokenizer.source
    (row,) = model.translator.read_rows(["cow owl"])
    assert row == [*words.encode("reverse words: cow owl"), words.eos]
    assert model.translator.read_rows([row]) == [row]
    assert model.translate([row], Greedy())[0][0] == model.translate(["cow owl"], Greedy())[0][0]
    counted = model.translator.token_count("cow owl", 0)
    assert counted == len(row)


def test_rows_of_training_are_rows_of_inference(corpus, tmp_path):
    recipe = read(corpus, ["prompt.longest=2"])
    run = prepare(recipe, tmp_path / "run", ALONE, data=corpus.parent)
    words, objective = run.tokenizer.source, run.job.objective
    text, answer = words.encode("cow owl fox"), words.encode("fox owl")
    assert len(text) > 2
    batch = objective.collate([(text, answer)])
    source = [*words.encode("reverse words:"), *text[:2], words.eos]
    assert batch.inputs.source.tokens_T.tolist() == source
    assert batch.inputs.target.tokens_T.tolist() == [words.pad, *answer]
    assert batch.targets["next_token"].tolist() == [*answer, words.eos]
    assert objective.length((text, answer)) == (len(source), len(answer) + 1)
    assert words.bos == words.pad == 0 and words.eos == 1
    run.release()


def test_labels_are_written_as_words_and_parsed_back(labelled):
    folder, _settings, events = labelled
    scores = scores_of(events)
    assert scores["accuracy"] == scores["exact match"] == 100
    model = regard.load(folder / "run" / "model", "cpu")
    predicted = model.predict(WORDS)
    assert [value.label for value in predicted] == [label for _, label in LABELLED]
    assert [value.text for value in predicted] == [LABELS[label] for _, label in LABELLED]
    assert all(0 < value.probability <= 1 for value in predicted)
    assert model.translate(["cow"])[0][0].text == LABELS["0"]
    assert "predict" in model.components


def test_the_verbs_predict_and_evaluate_labels(labelled, corpus, tmp_path):
    folder, settings, _ = labelled
    (tmp_path / "words.txt").write_text("cow\n\nlion\n")
    model = str(folder / "run" / "model")
    output = run_verb("predict", model, str(tmp_path / "words.txt")).stdout.splitlines()
    assert [line.split("\t")[0] for line in output] == ["0", "", "1"]
    records = run_verb("predict", model, str(tmp_path / "words.txt"), "--json").stdout
    first, empty, last = map(json.loads, records.splitlines())
    assert (first["label"], first["text"]) == ("0", LABELS["0"])
    assert empty["label"] is None and last["label"] == "1"
    task = task_of(read(corpus, settings))
    wrong = [("here", "cow", LABELS["0"]), ("here", "lion", LABELS["0"])]
    scored = task.test_scores(regard.load(model, "cpu"), wrong)
    values = {score.name: score.value for score in scored.scores}
    assert values["accuracy"] == 50 and scored.confusion.classes == ["0", "1"]


def test_other_words_than_those_of_labels_are_no_label(labelled, corpus):
    _folder, settings, _ = labelled
    task = task_of(read(corpus, settings))
    assert task.single_label and task.prompt.label_of(" small animal ") == "0"
    assert task.prompt.label_of("small") is None
    assert "accuracy" in task.metrics
    assert "accuracy" not in task_of(read(corpus)).metrics


def test_a_label_that_the_recipe_does_not_know_is_named(labelled, corpus, tmp_path):
    _folder, settings, _ = labelled
    (tmp_path / "train.tsv").write_text("cow\t0\nlion\t2\n")
    for name in ("dev", "test"):
        (tmp_path / f"{name}.tsv").write_text("cow\t0\n")
    said = r"train.tsv:2: '2' is not a label of prompt.labels \(0, 1\)"
    with pytest.raises(BadInput, match=said):
        prepare(read(corpus, settings), tmp_path / "run", ALONE, data=tmp_path)


def started(folder, **settings):
    begin = {"model.start": str(folder), "model.size": None, "text": False, "model.change": {}}
    return begin | settings


@pytest.fixture(scope="module")
def spans(tmp_path_factory):
    """The folder of a model that was pre-trained by span corruption."""
    folder = tmp_path_factory.mktemp("spans")
    [*regard.train(write_spans(folder), folder, folder / "run", device="cpu")]
    return folder / "run" / "model"


def test_it_starts_from_span_corruption(corpus, spans, tmp_path):
    given = regard.load(spans, "cpu")
    run = prepare(read(corpus, started(spans)), tmp_path / "begun", ALONE, data=corpus.parent)
    before, now = given.module.state_dict(), run.job.model.state_dict()
    assert before.keys() == now.keys()
    assert all(torch.equal(before[name], now[name]) for name in before)
    assert run.tokenizer.source.fingerprint == given.tokenizer.source.fingerprint
    run.release()
    settings = started(spans, **{"train.steps": 2, "train.evaluate_every": 2})
    [*regard.train(corpus, corpus.parent, tmp_path / "run", settings=settings, device="cpu")]
    tuned = regard.load(tmp_path / "run" / "model", "cpu")
    assert tuned.tokenizer.encoder.files == given.tokenizer.encoder.files


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"prompt.task_token": "<to-de>"}, "prompt.task_token cannot .* encoder-decoder: .*prefix"),
        ({"prompt.labels": {"a": "x", "b": "x"}}, "prompt: labels: two labels have the same words"),
        ({"text.kind": "bpe"}, "text.kind cannot be used as 'bpe' .*t5-unigram"),
        ({"text.vocab": 100}, "text.vocab: a vocabulary of 100 has no room for pieces"),
        ({"prompt.prefix": "a " * 40}, "none of 120 examples is at most 32 tokens long"),
    ],
    ids=str,
)
def test_keys_that_do_not_fit_are_refused(corpus, settings, said, tmp_path):
    with pytest.raises(BadInput, match=said):
        run = prepare(read(corpus, settings), tmp_path / "run", ALONE, data=corpus.parent)
        [*train(run.job)]


def test_a_causal_model_has_no_prefix(corpus, tmp_path):
    gpt = {"model.paper": "gpt-2", "model.size": "small", "model.change": {}}
    with pytest.raises(BadInput, match=r"prompt.prefix cannot be used .*prompt.task_token"):
        prepare(read(corpus, gpt), tmp_path / "run", ALONE, data=corpus.parent)


def test_starts_that_do_not_fit_are_refused(corpus, spans, copied, tmp_path):
    write_gpt2(tmp_path / "gpt")
    with pytest.raises(BadInput, match=r"prompt.prefix cannot be used"):
        prepare(read(corpus, started(tmp_path / "gpt")), tmp_path / "a", ALONE, data=corpus.parent)
    cases = {
        "model.layers: model.start is an encoder-decoder": {"model.layers": [0]},
        "source.blocks.0.* has another shape": {"model.change": {"inner": 48}},
        "model.change.vocab cannot be set": {"model.change": {"vocab": 48}},
    }
    for said, settings in cases.items():
        with pytest.raises(BadInput, match=said):
            recipe = read(corpus, started(spans, **settings))
            prepare(recipe, tmp_path / "b", ALONE, data=corpus.parent)
    translator = tmp_path / "c"
    [*regard.train(corpus.with_name("small.toml"), corpus.parent, translator, device="cpu")]
    with pytest.raises(BadInput, match=r"its tokenizer has no sentinels: .* has 'translation'"):
        recipe = read(corpus, started(translator / "model"))
        prepare(recipe, tmp_path / "d", ALONE, data=corpus.parent)


def test_a_model_of_another_prefix_is_refused(corpus, copied):
    model, _ = copied
    task = task_of(read(corpus, {"prompt.prefix": "translate:"}))
    with pytest.raises(BadInput, match=r"trained with the prompt .*reverse words.*not .*translate"):
        task.test_scores(model, [("here", "cow", "cow")])
