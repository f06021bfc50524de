"""Classification through the same loop: it learns, goes on exactly, counts as the recipe says."""

import json
import shutil
from collections import Counter
from io import BytesIO, TextIOWrapper
from itertools import islice

import numpy as np
import pytest

from regard.core.errors import BadInput
from regard.data.batches.training_data import held_out_indices
from regard.inference.classifier import Classifier
from regard.metrics.classification import classification_scores
from regard.models.folders.folder import read as read_folder
from regard.tasks.labels import class_weights
from regard.text.label_sets import SingleLabelSet
from regard.training.loop import train
from regard.training.loop.events import DevEvent
from regard.training.metrics_log import MetricsLog
from regard.training.recipe import read, task_of
from regard.training.run import prepare
from small_labels import write_owls
from small_runs import ALONE, check_resume, losses


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("owls")
    write_owls(folder)
    return folder


def prepared(corpus, out, *settings, resume=False):
    recipe = read(corpus / "owls.toml", settings)
    return prepare(recipe, out, ALONE, data=corpus, resume=resume)


def test_it_leaves_a_model_with_labels_and_cost(owl_run):
    stored = read_folder(owl_run / "run" / "model")
    assert stored.labels.names == ("no", "owl")
    assert stored.facts.head("label").outputs == 2
    assert stored.notes["cost"]["training_flops"] > 0


def test_it_learns_a_keyword_as_the_development_set_says(corpus, tmp_path):
    run = prepared(corpus, tmp_path / "run", "train.steps=60", "train.report_every=20")
    journal = MetricsLog(run.out)
    verdicts = []
    for event in train(run.job):
        journal.write(event)
        if isinstance(event, DevEvent):
            verdicts.append(event.verdict)
    assert verdicts[-1].figures["accuracy"] > 95
    assert verdicts[-1].value == verdicts[-1].figures["accuracy"]
    lines = [json.loads(line) for line in (run.out / "metrics.jsonl").read_text().splitlines()]
    assert {"loss", "accuracy"} <= lines[-1].keys()
    assert 0 < max(line["fill"] for line in lines if line["event"] == "train") <= 1


@pytest.mark.parametrize("metric", ["loss", "accuracy", "macro-F1", "Matthews", "F1"])
def test_the_best_weights_are_chosen_by_the_measure_that_is_named(corpus, tmp_path, metric):
    """As `regard evaluate` measures it, on the development set."""
    settings = (f"train.metric={metric}", "labels.positive=owl", "labels.weights={owl=8}")
    run = prepared(corpus, tmp_path / "run", *settings, "train.steps=8")
    examples = run.job.evaluate.args[1].dataset.dev_examples
    verdict = run.job.evaluate(run.job.model.eval())
    classifier = Classifier(run.job.model, run.tokenizer, run.labels)
    said = [one.label for one in classifier.predict([one.texts[0] for one in examples])]
    names = [run.labels.name(one.labels[0]) for one in examples]
    scores = classification_scores(names, said, positive="owl")
    expected = {score.name: pytest.approx(score.value) for score in scores}
    assert {"loss": verdict.figures["loss"], **expected} == verdict.figures
    sign = -1 if metric == "loss" else 1
    assert verdict.value == sign * verdict.figures[metric]


def test_batches_may_be_mixed(corpus, tmp_path):
    """Long and short texts as they come; others have rows of like length."""
    spreads = []
    for name, mixed in (("a", "true"), ("b", "false")):
        run = prepared(corpus, tmp_path / name, f"batches.mixed={mixed}", "batches.rows=8")
        batches = (batch for _, batch in islice(run.job.sampler.batches(), 6))
        spreads.append(sum(np.ptp(batch.lengths) for batch in batches))
    assert spreads[0] > 2 * spreads[1]


@pytest.mark.parametrize("extra", [(), ("text.dropout=0.1", "data.dev={held_out=40}")])
def test_resume_is_exact(corpus, tmp_path, extra):
    check_resume(lambda out, resume: prepared(corpus, out, *extra, resume=resume), tmp_path, 8, 6)


def test_the_loss_is_the_mean_over_examples_however_a_step_is_cut(corpus, tmp_path):
    common = ("batches.tokens=100000", "model.change.dropout=0.0", "labels.weights={owl=3}")
    whole = prepared(corpus, tmp_path / "a", *common, "batches.rows=240")
    parts = prepared(corpus, tmp_path / "b", *common, "batches.rows=120", "batches.accumulate=2")
    assert losses(whole)[:4] == pytest.approx(losses(parts)[:4], abs=2e-5)


def test_classes_can_weigh_unlike(corpus, tmp_path):
    given = prepared(corpus, tmp_path / "a", "labels.weights={owl=3}").job.objective
    assert given.weights == (1.0, 3.0)
    lines = (corpus / "train.tsv").read_text().splitlines()
    unlike = tmp_path / "unlike"
    unlike.mkdir()
    for name in ("dev", "test"):
        (unlike / f"{name}.tsv").write_text((corpus / f"{name}.tsv").read_text())
    owls = [line for line in lines[1:] if line.endswith("1")]
    rest = [line for line in lines[1:] if line.endswith("0")]
    (unlike / "train.tsv").write_text("\n".join([lines[0], *owls[:20], *rest[:60]]) + "\n")
    recipe = read(corpus / "owls.toml", ["labels.weights=balanced"])
    balanced = prepare(recipe, tmp_path / "b", ALONE, data=unlike).job.objective
    assert balanced.weights == pytest.approx((80 / (2 * 60), 80 / (2 * 20)))


def test_balanced_weights_of_tags_are_those_of_scikit_learn():
    """Tags that no word of the training set has weigh 1, and change no other weight."""
    from sklearn.utils.class_weight import compute_class_weight

    tags = SingleLabelSet(("O", "B-PER", "I-PER", "B-LOC", "B-MISC"))
    occurring = [0] * 20 + [1] * 4 + [3] * 2
    present, expected = np.array([0, 1, 3]), np.ones(5)
    expected[present] = compute_class_weight("balanced", classes=present, y=occurring)
    weights = class_weights(tags, "balanced", occurring, complete=False)
    assert weights == pytest.approx(expected)
    assert sum(weights[tag] for tag in occurring) == pytest.approx(len(occurring))
    with pytest.raises(BadInput, match="no example has the label 'I-PER'"):
        class_weights(tags, "balanced", occurring)


def test_what_is_held_out_is_never_learned_from(corpus, tmp_path):
    runs = [
        prepared(corpus, tmp_path / str(seed), "data.dev={held_out=40}", f"train.seed={seed}")
        for seed in (1, 2)
    ]
    texts = [line.split("\t") for line in (corpus / "train.tsv").read_text().splitlines()[1:]]
    for run in runs:
        data, encode = run.job.evaluate.args[1].dataset, run.tokenizer.words.encode
        assert len(data.dev) == len({one.where for one in data.dev_examples}) == 40
        drawn = run.job.sampler.dataset.read(0, np.arange(200))
        assert len(run.job.sampler.dataset) == 200
        rows = Counter((*row.tokens, *target) for row, target in (*drawn, *data.dev))
        assert rows == Counter((*encode(text), int(label)) for text, label in texts)
    splits = [[one.where for one in run.job.evaluate.args[1].dataset.dev_examples] for run in runs]
    assert splits[0] == splits[1]  # the same for every seed


def test_held_out_examples_are_read_again_as_training_split_them(corpus, tmp_path):
    """A label with one example stays in training, so another example is held out for it."""
    folder = tmp_path / "rare"
    shutil.copytree(corpus, folder)
    lines = (folder / "train.tsv").read_text().splitlines()
    held_out, first = held_out_indices(240, 40)[1], 1
    lines[first + held_out[0]] = "hoot\trare"
    (folder / "train.tsv").write_text("\n".join(lines) + "\n")
    recipe = read(folder / "owls.toml", ["data.dev={held_out=40}"])
    run = prepare(recipe, tmp_path / "run", ALONE, data=folder)
    dev = run.job.evaluate.args[1].dataset.dev_examples
    again = task_of(recipe).read_held_out(40, folder)
    assert [one.where for one in again] == [one.where for one in dev]
    assert "hoot" not in [one.texts[0] for one in again]


def test_texts_are_cut_anew_in_each_epoch_where_merges_are_dropped(corpus, tmp_path):
    run = prepared(corpus, tmp_path / "run", "text.dropout=0.3")
    dataset, every = run.job.sampler.dataset, np.arange(240)
    rows = [[[*row.tokens] for row, _ in dataset.read(epoch, every)] for epoch in (0, 0, 1)]
    assert rows[0] == rows[1] != rows[2]
    decode = run.tokenizer.decode
    assert [decode(ids) for ids in rows[0]] == [decode(ids) for ids in rows[2]]
    assert [one for _, one in dataset.read(0, every)] == [one for _, one in dataset.examples]


def test_standard_input_is_copied_so_that_a_run_can_be_resumed(corpus, tmp_path, monkeypatch):
    lines = (corpus / "train.tsv").read_bytes()
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(lines)))
    first = prepared(corpus, tmp_path / "run", "data.train.table=-")
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"")))
    second = prepared(corpus, tmp_path / "run", "data.train.table=-", resume=True)
    assert first.job.data == second.job.data and len(second.job.sampler.dataset) == 240


def test_a_step_costs_what_its_texts_cost(corpus, tmp_path):
    run = prepared(corpus, tmp_path / "run")
    assert run.job.flops([(7,), (3,)]) == run.facts.training_flops([(7,), (3,)])


def test_the_trunk_can_be_a_transformer(corpus, tmp_path):
    settings = (
        "model.size=last",
        "model.source=transformer:laptop",
        "model.change={width=16, inner=32, heads=2, depth=1}",
    )
    run = prepared(corpus, tmp_path / "run", *settings)
    assert len(losses(run)) == 12
    assert not run.job.eager


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["model.paper=transformer"], "model.paper: transformer is an encoder-decoder"),
        (["model.paper=lin", "model.size=huge"], "no size 'huge'"),
        (["model.change.outputs=4"], "follows from the labels"),
        (["model.change.trunk.vocab=4"], "follows from text.vocab"),
        (["model.target=transformer:base"], "model.target: models of this task have no decoder"),
        (["model.change.score=dott"], "did you mean 'dot'"),
        (["data.test.columns=[0, 'lable']"], "no column 'lable'"),
    ],
)
def test_what_cannot_be_built_is_reported_before_anything_is_written(
    corpus, tmp_path, settings, said
):
    with pytest.raises(BadInput, match=said):
        prepared(corpus, tmp_path / "run", *settings)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            ["labels.weights={eagle=2}"],
            r"labels.weights: no label is called 'eagle'; known: no, owl",
        ),
        (["data.dev={held_out=240}"], "leaves no training examples"),
        (["labels.positive=eagle"], r"labels.positive: no label is called 'eagle'"),
        (
            ["train.metric=F1"],
            r"train.metric: 'F1' is not measured here; choose one of loss, accuracy",
        ),
        (["train.metric=Pearson"], r"train.metric: 'Pearson' is not measured here"),
        (["labels.names={0='owl', 1='owl'}"], "at least two labels"),
    ],
)
def test_labels_that_make_no_sense_are_refused(corpus, tmp_path, settings, said):
    with pytest.raises(BadInput, match=said):
        prepared(corpus, tmp_path / "run", *settings)


def test_a_label_that_cannot_be_learned_is_named_by_its_line(corpus, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    for name in ("train", "dev", "test"):
        (other / f"{name}.tsv").write_text((corpus / f"{name}.tsv").read_text())
    with (other / "test.tsv").open("a") as file:
        file.write("dog\t7\n")
    recipe = read(corpus / "owls.toml")
    with pytest.raises(BadInput, match=r"test\.tsv:42: no label is called '7'; known: no, owl"):
        prepare(recipe, tmp_path / "run", ALONE, data=other)


def test_a_translation_recipe_needs_a_translator(corpus, tmp_path):
    text = (corpus / "owls.toml").read_text().replace('task = "classify"', "")
    text = text.split("[labels]")[0] + "[model]" + text.split("[model]")[1]
    (tmp_path / "wrong.toml").write_text(text.replace('metric = "accuracy"', ""))
    with pytest.raises(BadInput, match=r"model\.paper: lin:laptop is not an encoder-decoder"):
        prepare(read(tmp_path / "wrong.toml"), tmp_path / "run", ALONE, data=corpus)


def test_another_task_is_another_run(corpus, tmp_path):
    out = tmp_path / "run"
    list(train(prepared(corpus, out).job))
    kept = json.loads((out / "recipe.json").read_text())
    (out / "recipe.json").write_text(json.dumps({**kept, "task": "translate"}))
    with pytest.raises(BadInput, match=r"differs in: task"):
        prepared(corpus, out, resume=True)
