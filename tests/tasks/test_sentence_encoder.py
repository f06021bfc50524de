"""Sentence encoders end to end: losses, metrics, folders that embed as they were trained."""

import json

import numpy as np
import pytest
import torch

import regard
from regard.core.errors import BadInput
from regard.training.loop import train
from regard.training.loop.events import DevEvent, ReportEvent
from regard.training.recipe import read
from regard.training.run import prepare
from small_runs import ALONE
from small_tuning import RECIPE, write_start
from verb import run

NOUNS = ("owl", "cow", "dog", "pig", "fox", "hen", "ant", "bee")
PLACES = ("barn", "hill", "lake", "tree")
COSINE = '[embedding]\nloss = "cosine"\nrange = [0, 5]'


def sentence(noun, place, form):
    forms = f"there is a {noun} in the {place}", f"in the {place} we saw one {noun}"
    return forms[form]


def write(folder, kind, table=None):
    """Files of pairs (with a score, or without one) or triplets, with a recipe beside them."""
    things = [(noun, place) for noun in NOUNS for place in PLACES]
    lines = []
    for number, (noun, place) in enumerate(things):
        anchor, like = sentence(noun, place, 0), sentence(noun, place, 1)
        other_noun, other_place = things[(number + 5) % len(things)]
        other = sentence(other_noun, other_place, 1)
        record = {"anchor": anchor, "positive": like, "negative": other}
        if kind == "cosine":
            alike = (noun == other_noun) + (place == other_place)
            lines += [
                {"a": anchor, "b": like, "score": 5},
                {"a": anchor, "b": other, "score": alike},
            ]
        else:
            lines.append(record)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    for name in ("train", "dev", "test"):
        (folder / f"{name}.jsonl").write_text(text)
    keys = {
        "cosine": ', options = { texts = ["a", "b"], score = "score" }',
        "in-batch-negatives": "",
        "triplets": ', options = { texts = ["anchor", "positive", "negative"] }',
    }
    tables = table or (COSINE if kind == "cosine" else f'[embedding]\nloss = "{kind}"')
    metric = "Spearman" if kind == "cosine" else "MRR"
    how = {"task": "embed", "ending": "jsonl", "tables": tables, "metric": metric}
    recipe = folder / "sentences.toml"
    recipe.write_text(RECIPE.format(**how, options=keys[kind], reader='reader = "jsonl"'))
    return recipe


def events(recipe, out, *settings, resume=False):
    job = prepare(read(recipe, settings), out, ALONE, data=recipe.parent, resume=resume)
    try:
        done = [*train(job.job, resume=resume)]
        job.finish(done[-1].progress)
    finally:
        job.release()
    return done


@pytest.mark.thinned
@pytest.mark.parametrize("kind", ["cosine", "in-batch-negatives", "triplets"])
def test_it_learns_and_the_folder_embeds_as_trained(kind, tmp_path):
    recipe = write(tmp_path, kind)
    done = events(recipe, tmp_path / "run", "train.steps=30", "train.evaluate_every=10")
    dev = [event.verdict.figures for event in done if isinstance(event, DevEvent)]
    metric = "Spearman" if kind == "cosine" else "MRR"
    assert dev[-1]["loss"] < dev[0]["loss"] and {metric, "loss"} < {*dev[0]}
    losses = [event.loss for event in done if isinstance(event, ReportEvent)]
    assert np.mean(losses[-5:]) < 0.7 * np.mean(losses[:5])
    folder = tmp_path / "run" / "model"
    model = regard.load(folder, "cpu")
    assert model.notes["embedding"] == {
        **{"pool": "mean", "normalise": True, "longest": 40, "lower": False}
    }
    texts = [sentence("owl", "barn", 0), sentence("owl", "barn", 1)]
    vectors = model.embed(texts)
    torch.testing.assert_close(vectors.norm(dim=-1), torch.ones(2))
    states = [state.mean(0) for state in model.encode(texts)]
    expected = torch.nn.functional.normalize(torch.stack(states), dim=-1)
    torch.testing.assert_close(vectors, expected)
    best = max(figures[metric] for figures in dev)
    printed = run("evaluate", folder, recipe, "--data", tmp_path).stdout
    assert f"{metric} {best:.2f}" in printed


@pytest.mark.slow
def test_resuming_is_exact(tmp_path):
    recipe = write(tmp_path, "in-batch-negatives")

    def losses(out, steps, resume=False):
        done = events(recipe, tmp_path / out, f"train.steps={steps}", resume=resume)
        return [event.loss for event in done if isinstance(event, ReportEvent)]

    whole = losses("whole", 6)
    assert losses("parts", 3) + losses("parts", 6, resume=True) == whole


@pytest.mark.slow
def test_a_chunked_run_is_that_of_the_whole_batch(tmp_path):
    recipe = write(tmp_path, "in-batch-negatives")
    same = "model.change={width=16, inner=32, depth=2, heads=2, longest=48, init_std=0.2, "
    same += '"stack.dropout"=0.0, attention_dropout=0.0}'
    settings = same, "train.steps=4", "batches.rows=32"

    def losses(out, *more):
        done = events(recipe, tmp_path / out, *settings, *more)
        return [event.loss for event in done if isinstance(event, ReportEvent)]

    assert losses("chunks", "embedding.chunk=3") == pytest.approx(losses("whole"), rel=1e-4)


def test_a_start_gives_its_weights_and_its_tokenizer(tmp_path):
    recipe = write(tmp_path, "cosine")
    start = write_start(tmp_path)
    model = regard.load(start, "cpu")
    settings = f"model.start={start}", "model.size=", "model.change=false", "text=false"
    events(recipe, tmp_path / "run", *settings, "optimiser.rate=1e-9", "train.steps=1")
    tuned = regard.load(tmp_path / "run" / "model", "cpu")
    texts = [sentence("owl", "barn", 0)]
    torch.testing.assert_close(tuned.embed(texts, normalise=False), model.embed(texts, pool="mean"))


def test_pairs_with_scores_are_positive_from_the_least_score_on(tmp_path):
    recipe = write(tmp_path, "cosine", "[embedding]\nleast_score = 5")
    job = prepare(read(recipe), tmp_path / "run", ALONE, data=tmp_path)
    assert len(job.job.sampler.dataset) == 32 and job.sizes["train"] == 64
    figures = job.job.evaluate(job.job.model.eval()).figures
    assert {*figures} == {"loss", "Pearson", "Spearman"} and np.isfinite(figures["loss"])
    job.release()


def test_examples_in_memory_and_pairs_of_two_files(tmp_path):
    recipe = write(tmp_path, "in-batch-negatives")
    pairs = [(record["anchor"], record["positive"]) for record in records(tmp_path / "train.jsonl")]
    for name, texts in zip(("a.txt", "b.txt"), zip(*pairs, strict=True), strict=True):
        (tmp_path / name).write_text("\n".join(texts) + "\n")
    files = {"data.train": {"source": "a.txt", "target": "b.txt"}}
    data = {"train": pairs, "dev": pairs, "test": pairs}
    for name, where, settings in (("m", data, {}), ("f", tmp_path, files)):
        settings = {"train.steps": 2, **settings}
        list(regard.train(recipe, data=where, out=tmp_path / name, settings=settings))
    texts = [pairs[0][0]]
    of_memory, of_files = (
        regard.load(tmp_path / name / "model", "cpu").embed(texts) for name in ("m", "f")
    )
    torch.testing.assert_close(of_memory, of_files)


def records(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("cosine", ["embedding.range=[0, 4]"], r"train.jsonl:1: the score 5 is not in embedding"),
        ("cosine", ["embedding.range=[5, 0]"], "range: the lowest score comes first"),
        ("cosine", ["embedding.scale=3"], "embedding.scale cannot be used with"),
        ("cosine", ["embedding.least_score=3"], "embedding.least_score cannot be used with"),
        ("triplets", ["embedding.range=[0, 5]"], "embedding.range cannot be used with"),
        ("in-batch-negatives", ["embedding.loss=cosine"], "no score; embedding.loss"),
        ("in-batch-negatives", ["embedding.loss=triplets"], "2 texts, but .* at least 3"),
        ("cosine", ["embedding.pool=pooled"], "embedding.pool"),
        ("cosine", ["train.metric=MRR"], "train.metric: 'MRR' is not measured here"),
    ],
)
def test_bad_recipes_are_refused_in_one_line(kind, settings, message, tmp_path):
    recipe = write(tmp_path, kind)
    with pytest.raises(BadInput, match=message) as refused:
        events(recipe, tmp_path / "run", "train.steps=1", "train.evaluate_every=1", *settings)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("", "it has a score: set embedding.least_score"),
        ("least_score = 6", "no training pair has a score of 6"),
    ],
)
def test_scores_need_a_least_score(table, message, tmp_path):
    recipe = write(tmp_path, "cosine", f"[embedding]\n{table}")
    with pytest.raises(BadInput, match=message):
        events(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()
