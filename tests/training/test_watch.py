"""Reports on heads while a model is trained: one line at each evaluation, without a seam."""

import json

import pytest
import torch

import regard
from regard import BadInput
from regard.inside.heads.watch_heads import REPEATED, random_rows
from regard.training.distributed import World
from regard.training.loop.events import SaveEvent, WatchEvent
from regard.training.recipe import read
from regard.training.run import prepare
from regard.training.run_events import run_events
from regard.weights.files import weights_of
from small import write_corpus
from small_documents import write_animals
from small_gpt import TEXTS, small_gpt2
from verb import run

ALONE = World(0, 1, torch.device("cpu"))
CAUSAL = {
    'size = "tiny"\n': 'size = "small"\n',
    'paper = "bert"': 'paper = "gpt-2"',
    "vocab = 110": "vocab = 290",
    'kind = "wordpiece"\n': "",
    "lower = true": "",
    "[model]": "[objective.causal-lm]\n[model]",
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder)
    return folder


def prepared(corpus, out, *settings, resume=False, watch=True):
    watches = {"heads": regard.watch_heads} if watch else {}
    recipe = read(corpus / "small.toml", settings)
    return prepare(recipe, out, ALONE, data=corpus, resume=resume, watch=watches)


def lines_of(out):
    """The reports in a run folder, without the seconds that they took."""
    lines = (out / "watch" / "heads.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert all(record.pop("seconds") >= 0 for record in records)
    return records


@pytest.mark.parametrize("extra", [(), ("train.ema=0.5",)])
def test_a_line_is_the_report_of_the_checkpoint(corpus, tmp_path, extra):
    begun = prepared(corpus, tmp_path / "run", *extra)
    *events, ended = run_events(begun)
    begun.finish(ended.progress)
    records = lines_of(tmp_path / "run")
    assert [record["step"] for record in records] == [0, 6, 12]
    best = next(line for line in records if line["step"] == ended.progress.best_step)
    (log,) = [e.figures for e in events if e.figures.get("event") == "dev"][-1:]
    assert records[-1]["loss"] == log["loss"]
    model = regard.load(tmp_path / "run" / "model", "cpu")
    sources, targets = (
        (corpus / f"dev.{side}").read_text().splitlines() for side in ("src", "tgt")
    )
    inputs = [*zip(sources, targets, strict=True)]
    assert regard.watch_heads(model, inputs)["heads"] == best["heads"]
    assert {head["site"] for head in best["heads"]} == {"encoder", "decoder", "cross"}
    assert records[0]["heads"] != records[-1]["heads"]


def test_watching_changes_no_weight(corpus, tmp_path):
    models = []
    for watch in (True, False):
        own = prepared(corpus, tmp_path / str(watch), watch=watch)
        [*run_events(own)]
        models.append(weights_of(own.job.model))
    one, other = models
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert not (tmp_path / "False" / "watch").exists()


@pytest.mark.slow
@pytest.mark.parametrize("stop", ["before the first checkpoint", "after a report"])
def test_a_resumed_run_has_each_line_once(corpus, tmp_path, stop):
    straight = prepared(corpus, tmp_path / "a")
    [*run_events(straight)]
    first = prepared(corpus, tmp_path / "b")
    for event in run_events(first):  # as if the process were killed there
        late = isinstance(event, WatchEvent) and event.progress.step == 6
        if late or (isinstance(event, WatchEvent) and stop.startswith("before")):
            break
    path = tmp_path / "b" / "watch" / "heads.jsonl"
    path.write_text(path.read_text() + '{"step": 6, "lo')  # cut off
    first.lock.release()
    second = prepared(corpus, tmp_path / "b", resume=True)
    [*run_events(second, resume=True)]
    assert lines_of(tmp_path / "b") == lines_of(tmp_path / "a")


def test_the_report_comes_before_the_checkpoint_of_its_step(corpus, tmp_path):
    """So that a run that resumes from the checkpoint has the line."""
    kinds = [
        (type(event), event.progress.step)
        for event in run_events(prepared(corpus, tmp_path / "run"))
        if isinstance(event, WatchEvent | SaveEvent)
    ]
    for step in (0, 6, 12):
        assert kinds.index((WatchEvent, step)) < kinds.index((SaveEvent, step))


@pytest.mark.parametrize("held_out", [True, False])
def test_a_causal_model_reads_random_tokens_twice(tmp_path, held_out):
    write_animals(tmp_path)
    recipe = tmp_path / "animals.toml"
    files = {} if held_out else {"held_out = 4": 'documents = "animals.txt"'}
    for before, after in {**CAUSAL, **files}.items():
        recipe.write_text(recipe.read_text().replace(before, after))
    run("train", recipe, "--data", tmp_path, "--out", tmp_path / "run", "--watch", "heads")
    records = lines_of(tmp_path / "run")
    assert [record["step"] for record in records] == [0, 6, 12]
    for record in records:
        assert len(record["heads"]) == 2 and record["notes"][0].endswith(" inputs")
        assert all(
            0 <= head["induction"] <= 1 and head["importance"] > 0 for head in record["heads"]
        )


def test_random_rows_have_the_tokens_of_texts():
    model = small_gpt2().inspected
    texts = [model.read(text) for text in TEXTS[:1]]
    rows = random_rows(model, texts)
    seen = {*texts[0]["trunk"].row.tokens}
    assert len(rows) == REPEATED
    for row in rows:
        ids = [*row["trunk"].row.tokens]
        half = len(ids) // 2
        assert ids[:half] == ids[half:] and len({*ids}) == half == min(24, len(seen))
        assert {*ids} <= seen
    again = random_rows(model, texts)
    assert [r["trunk"].row.tokens for r in rows] == [r["trunk"].row.tokens for r in again]


def test_long_texts_are_truncated_to_the_positions_of_the_model():
    model = small_gpt2()
    report = regard.watch_heads(model, [("The old man reads a book. " * 50,)])
    assert report["notes"][0] == "1 inputs" and len(report["heads"]) == 4


def test_a_model_without_attention_is_refused_and_leaves_nothing(corpus, tmp_path):
    out, text = tmp_path / "run", (corpus / "small.toml").read_text()
    recipe = tmp_path / "recurrent.toml"
    changed = text.replace('size = "laptop"', 'paper = "sutskever"')
    recipe.write_text(changed.replace("inner = 32, depth = 1, heads = 2", "embedding = 16"))
    options = ("--data", corpus, "--out", out, "--watch", "heads")
    refused = run("train", recipe, *options, code=2)
    (line,) = refused.stderr.splitlines()[-1:]
    assert line == "regard: watch heads: this model has no attention to report on"
    assert not out.exists()


def test_a_model_without_numbers_is_refused_and_leaves_nothing(corpus, tmp_path):
    out = tmp_path / "run"
    options = ("--data", corpus, "--out", out, "--watch", "numbers")
    refused = run("train", corpus / "small.toml", *options, code=2)
    assert "an encoder-decoder or a model of images has none" in refused.stderr
    assert not out.exists()


def test_own_watches(corpus, tmp_path):
    def count(model, inputs):
        return {"parameters": sum(p.numel() for p in model.module.parameters()), "n": len(inputs)}

    events = regard.train(corpus / "small.toml", corpus, tmp_path / "run", watch={"size": count})
    reports = [event for event in events if isinstance(event, WatchEvent)]
    lines = (tmp_path / "run" / "watch" / "size.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [event.record for event in reports]
    assert reports[0].record["parameters"] > 0 and reports[0].record["n"] == 12
    for watch, wrong in (
        ({"../x": count}, "not a name"),
        ({"x": 1}, "function"),
        ("heads", "dict"),
    ):
        with pytest.raises(BadInput, match=wrong):
            regard.train(corpus / "small.toml", corpus, tmp_path / "new", watch=watch)
