"""The comparison of pre-training objectives: its recipes, its plan, and all of it at tiny size."""

import gzip
import json
import lzma
import random
from importlib.resources import files
from math import inf
from pathlib import Path

import pytest
import torch

import regard
from regard.models.facts import change
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer
from regard.training.recipe import read, task_of
from regard.training.recipe_files import find
from small_documents import KINDS

COLA = "gj04\t{label}\t\t{text}\n"
MRPC = "{label}\t1\t2\t{text}\t{other}\n"


def write_gzip(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as file:
        file.write(text)


def write_data(root):
    """Books and tasks about animals, where the recipes look for them."""
    draw = random.Random(3)

    def words():
        return draw.choices(KINDS[draw.choice(sorted(KINDS))], k=draw.randint(2, 6))

    books = root / "text" / "gutenberg" / "books.jsonl.xz"
    books.parent.mkdir(parents=True)
    with lzma.open(books, "wt") as file:
        for _ in range(12):
            text = "\n".join(f"The {' '.join(words())}." for _ in range(40))
            file.write(json.dumps({"text": text}) + "\n")
    tasks = root / "understanding"
    for name, count in (("train", 1_064), ("dev", 16)):
        rows = [{"text": " ".join(words()), "other": "x", "label": i % 2} for i in range(count)]
        sst2 = "sentence\tlabel\n" + "".join(f"{row['text']}\t{row['label']}\n" for row in rows)
        write_gzip(tasks / f"glue/SST-2/{name}.tsv.gz", sst2)
        write_gzip(tasks / f"glue/CoLA/{name}.tsv.gz", "".join(COLA.format(**r) for r in rows))
        head = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
        mrpc = head + "".join(MRPC.format(**row) for row in rows)
        write_gzip(tasks / f"glue/MRPC/{name}.tsv.gz", mrpc)
    for name in ("train", "testa", "testb"):
        tagged = [
            [f"{word} NN I-NP {'I-LOC' if word == 'seal' else 'O'}" for word in words()]
            for _ in range(24)
        ]
        text = "".join("\n".join(lines) + "\n\n" for lines in tagged)
        write_gzip(tasks / f"conll2003/eng.{name}.gz", text)
    return root


def test_recipes_cost_the_same():
    from objectives import OBJECTIVES

    costs = {}
    for name in OBJECTIVES:
        recipe = read(find(f"objectives-{name}"))
        task, rows = task_of(recipe), [(128,)] * 256
        facts = change(task.resolve(Path()).facts, vocab=16_000)
        costs[name] = recipe.train.steps * task.flops(facts, rows)
    assert max(costs.values()) < 1.02 * min(costs.values())


def test_recipes_differ_in_objectives_and_steps_only():
    from objectives import OBJECTIVES

    def rest(name):
        content = read(find(f"objectives-{name}")).model_dump()
        del content["train"]["steps"], content["about"], content["objective"]
        return content

    def stack(name):
        facts = task_of(read(find(f"objectives-{name}"))).resolve(Path()).facts.trunk.stack
        named = ("width", "depth", "heads", "inner", "activation", "dropout", "attention_dropout")
        return {fact: getattr(facts, fact) for fact in named}

    *of_bert, of_xlnet = OBJECTIVES
    assert all(rest(name) == rest(OBJECTIVES[0]) for name in of_bert)
    assert {**rest(of_xlnet), "model": 0} == {**rest(OBJECTIVES[0]), "model": 0}
    assert stack(of_xlnet) == stack(OBJECTIVES[0])


def line(task, encoder, seed, rate, dev, score=50.0):
    run = {"task": task, "encoder": encoder, "seed": seed, "rate": rate, "dev": dev}
    return {"stage": "tune", **run, "scores": {"accuracy": score, "F1": score}}


def test_the_first_seed_chooses_the_rate(tmp_path):
    from objectives import Results, Tuning, TuningPlan

    results = Results(tmp_path / "results.jsonl")
    plan = TuningPlan(["none"], ["glue-sst2"], [1, 2], [0.1, 0.2])
    assert [one.rate for one in plan.ready(results)] == [0.1, 0.2]
    results.add(line("glue-sst2", "none", 1, 0.1, dev=80.0))
    assert [*plan.ready(results)] == [Tuning("glue-sst2", "none", 1, 0.2)]
    results.add(line("glue-sst2", "none", 1, 0.2, dev=70.0))
    assert [*plan.ready(results)] == [Tuning("glue-sst2", "none", 2, 0.1)]
    results.add(line("glue-sst2", "none", 2, 0.1, dev=60.0))
    assert not [*plan.ready(Results(results.path))]


def test_intervals_are_those_of_scipy():
    from objectives_table import difference, estimate
    from scipy import stats  # takes a second

    a, b = [84.2, 85.0, 84.1], [80.5, 81.9, 80.0]
    low, high = stats.t.interval(0.95, 2, loc=0, scale=stats.sem(a))
    assert estimate(a).margin == pytest.approx(high) == pytest.approx(-low)
    welch = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    found = difference(a, b)
    assert found.mean - found.margin == pytest.approx(welch.low)
    assert found.mean + found.margin == pytest.approx(welch.high)
    assert estimate([1.0]).margin == inf


def test_of_equal_rates_the_lower_one_is_chosen():
    from objectives_table import best_rate

    runs = [line("glue-sst2", "none", 1, rate, dev=80.0) for rate in (0.2, 0.1, 0.3)]
    assert best_rate(runs) == 0.1


def test_tables_show_runs_at_the_chosen_rate():
    from objectives_table import tables

    runs = [line("glue-sst2", "none", 1, 3e-4, dev=70.0, score=99.0)]
    for seed in (1, 2, 3):
        runs.append(line("glue-sst2", "none", seed, 1e-4, dev=80.0, score=80.0 + seed))
        runs.append(line("glue-sst2", "spans", seed, 1e-4, dev=80.0, score=84.0 + seed))
    text = tables(runs)
    assert "| none | 82.0 ± 2.5 |" in text and "| spans + boundary | +4.0 ± 2.3 |" in text


def test_variants_have_rows_of_their_own():
    from objectives_table import tables

    names = ("spans@optimiser.rate=1e-3", "none", "spans")
    text = tables([line("glue-sst2", name, 1, 1e-4, dev=80.0) for name in names])
    rows = [row.split(" | ")[0] for row in text.partition("\n\n")[0].splitlines()[2:]]
    assert rows == ["| none", "| spans + boundary", "| spans + boundary, optimiser.rate=1e-3"]


def test_the_results_of_papers_are_those_measured(capsys):
    from objectives import main

    assert main(["records"]) == 0
    assert capsys.readouterr().out == (files("regard.models.papers") / "measured.toml").read_text()


def run_stage(stage, root, *options):
    from objectives import main

    places = ["--data", str(root), "--work", str(root / "work")]
    places += ["--results", str(root / "results.jsonl"), "--device", "cpu", "--workers", "0"]
    return main([stage, *places, "--tiny", *options])


@pytest.mark.slow
def test_an_encoder_goes_through_all_stages_once(tmp_path, capsys):
    from objectives import Results

    write_data(tmp_path)
    few = ["--seeds", "1", "--rates", "1e-3", "--tasks", "glue-sst2"]
    few += ["--encoders", "replaced-tokens", "none"]
    assert run_stage("all", tmp_path, *few) == 0
    lines = Results(tmp_path / "results.jsonl").lines
    assert [one["encoder"] for one in lines] == ["replaced-tokens", "replaced-tokens", "none"]
    assert lines[0]["steps"] == lines[0]["of"] and lines[0]["cost"]["training_flops"] > 0
    assert run_stage("all", tmp_path, *few) == 0
    assert Results(tmp_path / "results.jsonl").lines == lines
    assert run_stage("table", tmp_path) == 0
    assert "| replaced tokens |" in capsys.readouterr().out


@pytest.mark.slow
def test_variants_are_pretrained_beside_each_other(tmp_path):
    from objectives import Results

    write_data(tmp_path)
    few = ["--seeds", "1", "--rates", "1e-3", "--tasks", "glue-mrpc", "--set", "train.seed=2"]
    few += ["--encoders", "permutation-lm"]
    assert run_stage("prepare", tmp_path) == 0
    assert run_stage("pretrain", tmp_path, *few, "permutation-lm@optimiser.rate=1e-3") == 0
    assert run_stage("tune", tmp_path, *few) == 0
    lines = Results(tmp_path / "results.jsonl").lines
    names = ["permutation-lm@train.seed=2", "permutation-lm@optimiser.rate=1e-3@train.seed=2"]
    stages = [("pretrain", names[0]), ("pretrain", names[1]), ("tune", names[0])]
    assert [(one["stage"], one["encoder"]) for one in lines] == stages
    first, second = (regard.load(tmp_path / "work" / name / "model", "cpu") for name in names)
    assert first.paper.name == "XLNet" and first.tokenizer.template.template.summary == "last"
    books = EncoderTokenizer.load(tmp_path / "work" / "books" / "text")
    assert first.tokenizer.words.fingerprint == books.words.fingerprint
    weights = [one.module.state_dict()["trunk.embed.token.weight"] for one in (first, second)]
    assert not torch.equal(*weights)


def test_an_unknown_objective_is_refused(capsys):
    from objectives import main

    with pytest.raises(SystemExit):
        main(["pretrain", "--encoders", "masked-ml"])
    assert "no objective 'masked-ml': masked-lm, " in capsys.readouterr().err


@pytest.mark.slow
def test_every_encoder_can_be_tuned_for_every_task(tmp_path):
    from objectives import NONE, OBJECTIVES, TASKS, Results

    write_data(tmp_path)
    assert run_stage("all", tmp_path, "--seeds", "1", "--rates", "1e-3") == 0
    lines = Results(tmp_path / "results.jsonl").lines
    tuned = {(one["encoder"], one["task"]) for one in lines if one["stage"] == "tune"}
    assert tuned == {(encoder, task) for encoder in (*OBJECTIVES, NONE) for task in TASKS}
