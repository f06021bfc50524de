"""Texts longer than a row of a classifier: cut, read in windows or dropped, and counted."""

import json
import re
import shutil

import numpy as np
import pytest
import torch

import regard
from regard.core.errors import BadInput
from regard.inference.classifier import Classifier
from regard.training.loop import train
from regard.training.loop.events import StartEvent
from regard.training.recipe import read
from regard.training.run import prepare
from small_labels import RECIPE, write_owls
from small_runs import ALONE
from verb import run_line

SHORT, LONG, COUNT = 20, 12, 32  # short and long training texts, all
LONGEST = 32  # tokens of a row, as batches.longest of the recipe
BEGIN = " ".join(["dog"] * LONGEST)  # of a long text
LIN = """paper = "lin"
size = "laptop"
change = { width = 12, embedding = 12, dropout = 0.1 }
"""
BERT = """paper = "bert"
size = "tiny"
change = { width = 8, depth = 1, heads = 2, inner = 16 }
"""
LABELS = 'names = { 0 = "no", 1 = "owl" }'
OPTIONS = '{ texts = ["first", "second"], label = "score" }'
PAIRS = f'reader = "tsv", file = "pairs.tsv", options = {OPTIONS}'


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Owls, of which the training set has a dozen long texts; a table of pairs, with numbers."""
    folder = tmp_path_factory.mktemp("long")
    write_owls(folder, train=SHORT, held_out=6)
    table = folder / "train.tsv"
    table.write_text(table.read_text() + f"{BEGIN} owl\t1\n{BEGIN} cow\t0\n" * (LONG // 2))
    pairs = "".join(f"{BEGIN} owl{end}\tdog owl\t0.5\n" for end in ("", " cow"))
    (folder / "pairs.tsv").write_text("first\tsecond\tscore\n" + pairs * 4)
    of_bert = RECIPE.replace(LIN, BERT)
    (folder / "bert.toml").write_text(of_bert)
    pairs = re.sub(r'table = .*"label"]', PAIRS, of_bert).replace(LABELS, 'kind = "number"')
    (folder / "pairs.toml").write_text(pairs.replace('"accuracy"', '"loss"'))
    tuned = of_bert.replace(BERT, 'start = "begin/model"').replace("vocab = 320", "")
    (folder / "tuned.toml").write_text(tuned)
    return folder


def prepared(corpus, out, *settings, recipe="owls"):
    return prepare(read(corpus / f"{recipe}.toml", settings), out, ALONE, data=corpus)


def examples_of(run):
    """All encoded training examples."""
    dataset = run.job.sampler.dataset
    return dataset.read(0, np.arange(len(dataset)))


def lengths_of(run):
    return [len(row.tokens) for row, _ in examples_of(run)]


def start_lines(run):
    event = next(iter(train(run.job)))
    assert isinstance(event, StartEvent)
    return event.lines(2)


def test_long_texts_are_cut_by_default(corpus, tmp_path):
    run = prepared(corpus, tmp_path / "run")
    lengths = lengths_of(run)
    assert len(lengths) == COUNT and max(lengths) == LONGEST
    assert lengths.count(LONGEST) >= LONG
    assert f"long texts: {LONG} of {COUNT} have more than 32 tokens: cut (text.long)" in (
        start_lines(run)
    )
    assert run.job.sampler.epoch_batches() and not run.dropped


def test_dropped_texts_are_left_out_and_counted(corpus, tmp_path):
    run = prepared(corpus, tmp_path / "run", "text.long=drop")
    assert max(lengths_of(run)) > LONGEST
    rows = 0
    for cursor, batch in run.job.sampler.batches():
        rows += len(batch)
        if cursor.epoch:
            break
    assert rows == SHORT
    assert run.dropped == {"longer than 32 tokens": LONG}
    assert run.job.long_texts == f"{LONG} of {COUNT} have more than 32 tokens: dropped (text.long)"


def test_windows_hold_the_whole_text_each_with_its_label(corpus, tmp_path):
    run = prepared(corpus, tmp_path / "run", "text.long=windows", "text.stride=10")
    of_texts, read_rows = [], examples_of(run)
    text = run.tokenizer.words.encode(f"{BEGIN} owl")
    windows = [text[:32], text[22:54], text[44:76], text[66:98]]
    windows = windows[: next(i for i, own in enumerate(windows) if own[-1:] == text[-1:]) + 1]
    assert len(windows) > 1 and sum(map(len, windows)) - 10 * (len(windows) - 1) == len(text)
    for row, target in read_rows[SHORT:][: len(windows)]:
        of_texts.append((row.tokens.tolist(), [*target]))
    assert of_texts == [(own, [1]) for own in windows]
    remark = f"{LONG} of {COUNT} have more than 32 tokens: read in windows, "
    rows = len(read_rows) - SHORT
    assert run.job.long_texts == f"{remark}{rows:,} in all (text.long)"
    assert {run.job.objective.weight(example) for example in read_rows} == {1}


def test_nothing_is_said_of_texts_that_fit(corpus, tmp_path):
    """And rows are the same, whatever is done with long texts."""
    every = []
    for long in ("cut", "windows", "drop"):
        settings = (f"text.long={long}", "batches.longest=256")
        run = prepared(corpus, tmp_path / long, *settings)
        assert run.job.long_texts == ""
        assert not any("long texts" in line for line in start_lines(run))
        every.append(run.job.data)
    assert len({*every}) == 1


def test_a_dry_run_counts_long_texts(corpus):
    done = run_line(f"regard train {corpus}/owls.toml --data {corpus} --dry-run --device cpu")
    assert f"\nlong texts  {LONG} of {COUNT} have more than 32 tokens: cut" in done.output
    done = run_line(
        f"regard train {corpus}/owls.toml --data {corpus} --dry-run --device cpu "
        "--set batches.longest=256"
    )
    assert done.exit_code == 0 and "long texts" not in done.output


@pytest.fixture(scope="module")
def folders(corpus, tmp_path_factory):
    """Model folders by ``text.long``."""
    folder = tmp_path_factory.mktemp("models")
    for long in ("cut", "windows", "drop"):
        run = prepared(corpus, folder / long, f"text.long={long}", "train.steps=1")
        *_, end = train(run.job)
        run.finish(end.progress)
    return folder


def test_predictions_read_texts_as_training_did(folders):
    cut, windows, whole = (
        regard.load(folders / long / "model", "cpu") for long in ("cut", "windows", "drop")
    )
    text, other = f"{BEGIN} owl", f"{BEGIN} cow"
    assert cut.notes["long"] == "cut" and "stride" not in cut.notes
    assert cut.predict([text]) == cut.predict([other])
    assert whole.predict([text]) != whole.predict([other])
    ids = windows.tokenizer.words.encode(text)
    rows = [ids[start : start + 32] for start in range(0, len(ids) - 8, 24)]
    assert len(rows) > 1 and rows[-1][-1] == ids[-1]
    mean_V = torch.stack(windows.logits(rows)).double().mean(0)
    (prediction,) = windows.predict([text])
    expected = mean_V.softmax(0).tolist()
    assert [*prediction.probabilities.values()] == pytest.approx(expected, abs=1e-6)
    assert windows.predict(["dog", text, "cow"])[1].label == prediction.label
    together = windows.predictor.logits(["dog", text, "cow"])
    assert torch.allclose(together[1], mean_V, atol=1e-6)


def test_only_cut_texts_are_reported_as_cut(folders, tmp_path):
    lines = tmp_path / "lines.txt"
    lines.write_text(f"dog\n{BEGIN} owl\n")
    cut = run_line(f"regard predict {folders}/cut/model {lines} --json --device cpu")
    windows = run_line(f"regard predict {folders}/windows/model {lines} --json --device cpu")
    assert "more than 32 tokens" in cut.output
    assert windows.exit_code == 0 and "more than" not in windows.output


def test_a_folder_without_the_note_reads_texts_as_before(folders, tmp_path):
    """Models without special tokens read texts as a whole."""
    folder = tmp_path / "old"
    shutil.copytree(folders / "cut" / "model", folder)
    config = json.loads((folder / "config.json").read_text())
    del config["notes"]["long"]
    (folder / "config.json").write_text(json.dumps(config))
    model = regard.load(folder, "cpu")
    assert model.predict([f"{BEGIN} owl"]) != model.predict([f"{BEGIN} cow"])


def test_a_note_of_another_kind_is_refused(folders):
    model = regard.load(folders / "cut" / "model", "cpu")
    model.notes["long"] = "half"
    with pytest.raises(BadInput, match=r"notes\.long must be 'cut' or 'windows' or 'drop'"):
        model.predict(["dog"])


def test_pairs_and_numbers_in_windows(corpus, tmp_path):
    """The longer text is divided; each window has the shorter one, and the number."""
    run = prepared(corpus, tmp_path / "run", "text.long=windows", recipe="pairs")
    rows = examples_of(run)
    assert len(rows) > 8 and {float(target[0]) for _, target in rows} == {0.5}
    second = run.tokenizer.words.encode("dog owl")
    for row, _ in rows:
        assert len(row.tokens) <= LONGEST
        assert row.tokens[row.segments == 1].tolist()[:-1] == second
    model = Classifier(run.job.model.eval(), run.tokenizer, run.labels, 256, 32, "windows")
    (logits_V,) = model.logits([(f"{BEGIN} owl", "dog owl")])
    own = run.tokenizer.window_rows([(f"{BEGIN} owl", "dog owl")], 32)[0]
    of_rows = model.head_logits(model.head, own)
    assert len(of_rows) > 1
    assert torch.allclose(logits_V, torch.stack(of_rows).mean(0), atol=1e-6)


def test_a_teacher_predicts_the_text_of_each_window(corpus, folders, tmp_path):
    teacher = f"distillation.teacher={folders}/windows/model"
    run = prepared(corpus, tmp_path / "run", teacher, "text.long=windows")
    model = regard.load(folders / "windows" / "model", "cpu")
    (expected,) = model.predictor.logits([f"{BEGIN} owl"])
    rows = examples_of(run)[SHORT : SHORT + 2]
    for _, target in rows:
        assert target[0, 0] == 1
        assert target[0, 1:] == pytest.approx(expected.numpy(), abs=1e-5)


def test_bpe_dropout_cuts_what_it_draws(corpus, tmp_path):
    run = prepared(corpus, tmp_path / "cut", "text.dropout=0.9")
    assert max(lengths_of(run)) == LONGEST
    run = prepared(corpus, tmp_path / "drop", "text.dropout=0.9", "text.long=drop")
    assert max(lengths_of(run)) > LONGEST


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        (["text.stride=3"], r'stride cannot be used where text\.long is not "windows"'),
        (["text.long=windows", "text.dropout=0.1"], r"dropout cannot be used where text\.long is"),
        (["text.long=half"], r"text\.long"),
        (["text.long=windows", "text.stride=-1"], r"text\.stride"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(corpus, tmp_path, settings, fault):
    with pytest.raises(BadInput, match=fault):
        prepared(corpus, tmp_path / "run", *settings)


def test_images_are_not_long_texts():
    done = run_line("regard train digits --set text.long=windows --dry-run --device cpu")
    assert done.exit_code == 2
    assert "text.long cannot be used as 'windows' with model.paper = 'vit'" in done.output


def test_long_texts_of_a_fine_tuned_model(corpus):
    """``text.long`` stands beside ``model.start``; the limit of the tokenizer holds, too."""
    begin = prepared(corpus, corpus / "begin", "train.steps=1", recipe="bert")
    *_, end = train(begin.job)
    begin.finish(end.progress)
    run = prepared(corpus, corpus / "windows", "text.long=windows", recipe="tuned")
    assert "read in windows" in run.job.long_texts and max(lengths_of(run)) == LONGEST
    limited = corpus / "limited"
    shutil.copytree(corpus / "begin" / "model", limited)
    settings = json.loads((limited / "tokenizer_config.json").read_text())
    settings["model_max_length"] = 24
    (limited / "tokenizer_config.json").write_text(json.dumps(settings))
    run = prepared(corpus, corpus / "cut", "model.start=limited", recipe="tuned")
    assert "more than 24 tokens: cut" in run.job.long_texts and max(lengths_of(run)) == 24
    drop = ("model.start=limited", "text.long=drop")
    with pytest.raises(BadInput, match=r"batches\.longest: the tokenizer limits rows to 24 tokens"):
        prepared(corpus, corpus / "drop", *drop, recipe="tuned")
    with pytest.raises(BadInput, match=r"text .*beside model\.start"):
        prepared(corpus, corpus / "lower", "text.lower=true", recipe="tuned")


@pytest.mark.parametrize("long", ["cut", "windows", "drop"])
def test_characters_are_limited_only_by_a_recipe_that_says_so(corpus, tmp_path, long):
    table = tmp_path / "train.tsv"
    table.write_text((corpus / "train.tsv").read_text() + f"{'owl ' * 2_000}\t1\n")
    settings = (f"text.long={long}", f"data.train.table={table}")
    run = prepared(corpus, tmp_path / "run", *settings)
    assert f"{LONG + 1} of {COUNT + 1} have more than 32 tokens" in run.job.long_texts
    limit = "data.longest_characters=5000"
    with pytest.raises(BadInput, match=r"train.tsv:34: 8,000 characters, more than the 5,000"):
        prepared(corpus, tmp_path / "limited", *settings, limit)
