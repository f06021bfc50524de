"""``regard prune``: curves, a smaller folder, and what is refused."""

import json
import re
from shutil import rmtree

import pytest
import torch

import regard
from regard import BadInput
from regard.experiments.ablation_runs import ScoredSet
from regard.inside.heads.importance import head_importance
from regard.inside.pruning import gates
from regard.training.recipe import read, task_of
from regard.training.run_events import with_dev_as_test
from small import RECIPE
from small_tuning import write_tuning
from verb import run


@pytest.fixture(scope="module")
def arguments(small_run):
    return small_run / "run" / "model", small_run / "small.toml", "--data", small_run


def prune(arguments, *options, code=0):
    return run("prune", *arguments, "--device", "cpu", *options, code=code)


QUICK = ("--limit", 3, "--inputs", 8)


def test_the_curve_has_each_site_and_all_together(arguments, tmp_path, monkeypatch):
    monkeypatch.setattr("regard.experiments.pruning_runs.SHARES", (0.5, 0.9))
    options = ("--seeds", 1, "--json", "--svg", tmp_path / "c.svg", "--html", tmp_path / "c.html")
    done = prune(arguments, *QUICK, *options)
    records = [*map(json.loads, done.stdout.splitlines())]
    assert [record["heads of"] for record in records[::2]] == ["cross", "encoder", "decoder", "all"]
    assert [record["share"] for record in records[:2]] == [0.5, 0.9]
    removed = [record["removed"] for record in records]
    assert removed == [2, 3, 2, 3, 2, 3, 6, 11]  # one head stays
    assert {"BLEU", "change", "random", "low", "high", "least", "most"} <= {*records[0]}
    names = [f"c-{site}.svg" for site in ("all", "cross", "decoder", "encoder")]
    assert sorted(path.name for path in tmp_path.glob("*.svg")) == names
    assert (tmp_path / "c.html").read_text().count("<svg") == 4


@pytest.mark.parametrize(
    "method", [("--by-layer",), ("--rounds", 3), ("--method", "gates", "--epochs", 1)], ids=str
)
def test_a_smaller_model_is_written(arguments, tmp_path, method):
    out = tmp_path / "less"
    options = ("--share", 0.5, "--sites", "encoder,cross", "--seeds", 0, "--out", out)
    done = prune(arguments, *QUICK, *options, *method)
    lines = done.stdout.splitlines()
    assert lines[1].split()[:3] == ["all", "50%", "4"]
    assert any(line.startswith("whole") and line.split()[1] == "12" for line in lines)
    assert any(line.startswith("pruned") and line.split()[1] == "8" for line in lines)
    sites = {site.name: sum(site.heads) for site in regard.load(out, "cpu").facts.attention_sites}
    assert sites["decoder"] == 4 and sites["encoder"] + sites["cross"] == 4
    assert run("translate", out, "--device", "cpu", stdin="dog cow\n").stdout.count("\n") == 1
    (line,) = prune(arguments, *options, code=2).stderr.splitlines()
    assert line == f"regard: --out {out}: is not empty; choose another folder"


def test_weights_are_trained_while_gates_close(arguments, tmp_path, monkeypatch):
    monkeypatch.setattr("regard.inside.pruning.gates.START", 0.0)
    monkeypatch.setattr("regard.inside.pruning.gates.RATE", 3.0)  # the first step closes some
    out = tmp_path / "less"
    options = ("--method", "gates", "--train-weights", 0.001, "--epochs", 1, "--seeds", 0)
    done = prune(arguments, *QUICK, *options, "--out", out, "--json")
    before, row, whole, pruned = map(json.loads, done.stdout.splitlines())
    assert before["removed"] == before["share"] == 0 and before["random"] is None
    assert before["BLEU"] - before["change"] == pytest.approx(row["BLEU"] - row["change"])
    (closed,) = re.findall(r"gates: ([\d.]+)% of the heads are closed", done.stderr)
    assert 0 < row["removed"] == round(float(closed) / 100 * whole["heads"]) < 12
    assert whole["heads"] - pruned["heads"] == row["removed"]
    model, smaller = (regard.load(folder, "cpu") for folder in (arguments[0], out))
    name = "target.blocks.0.mlp.up.weight"
    assert not torch.equal(model.module.state_dict()[name], smaller.module.state_dict()[name])
    assert smaller._loaded.notes["weights"].endswith("then trained with gates")
    assert prune(arguments, *QUICK, *options, "--share", 0.5, "--json").stdout.count("\n") == 2
    monkeypatch.setattr("regard.inside.pruning.gates.START", -5.0)
    (line,) = prune(arguments, *QUICK, *options, code=2).stderr.splitlines()[-1:]
    assert line == "regard: --penalty 0.01: closes all heads; choose a lower one"


def test_gates_that_cannot_close_or_do_not_are_refused(arguments, tmp_path, monkeypatch):
    options = ("--method", "gates", "--train-weights", 0.001, "--penalty", 1000, "--seeds", 0)
    out = ("--out", tmp_path / "less")
    (line,) = prune(arguments, *QUICK, *options, *out, code=2).stderr.splitlines()
    advice = "give more --inputs or --epochs, or a --share"
    steps = "no gate can close in 5 steps, it needs about 44"
    assert line == f"regard: --train-weights: {steps}; {advice}"
    page = tmp_path / "page.html"
    done = prune(arguments, *QUICK, *options, "--share", 0.5, "--html", page)
    assert f"{steps}; heads go in the order of gates that are open" in done.stderr
    told = "heads of this model are removed, also in random orders"
    assert told in " ".join(done.stdout.split()) and page.read_text().count("<svg") == 1
    monkeypatch.setattr("regard.experiments.pruning_runs.least_steps", lambda: 5)
    *_, line = prune(arguments, *QUICK, *options, *out, code=2).stderr.splitlines()
    advice = "choose a higher one, more --inputs or more --epochs"
    assert line == f"regard: --penalty 1000: closes no head; {advice}"
    assert not out[1].exists()


def test_gates_close_in_the_least_number_of_steps():
    log_alpha = torch.tensor([gates.START], requires_grad=True)
    optimiser, steps = torch.optim.Adam([log_alpha], gates.RATE), 0
    while gates.gate_values(log_alpha).item() > 0:
        log_alpha.grad = torch.ones(1)
        optimiser.step()
        steps += 1
    assert steps == gates.least_steps()


def test_rounds_end_at_the_share(arguments, monkeypatch):
    measured = []

    def count(model, batches):
        measured.append(model)
        return head_importance(model, batches)

    monkeypatch.setattr("regard.experiments.pruning_runs.head_importance", count)
    done = prune(arguments, *QUICK, "--share", 0.25, "--rounds", 1000, "--seeds", 0)
    assert len(measured) == 3  # a quarter of 12 heads
    assert "1,000 rounds: there are 12 heads, and no more rounds than heads" in done.stderr


@pytest.mark.slow
def test_a_classifier_keeps_its_score_while_heads_close(tmp_path):
    recipe = write_tuning(tmp_path, "one")
    settings = {"train.steps": 150, "train.evaluate_every": 50, "train.checkpoint_every": 50}
    for _ in regard.train(recipe, tmp_path, tmp_path / "run", settings=settings, device="cpu"):
        pass
    arguments = (tmp_path / "run" / "model", recipe, "--data", tmp_path)
    options = ("--inputs", 96, "--penalty", 0.3, "--epochs", 30, "--seeds", 1, "--json")
    done = prune(arguments, "--method", "gates", "--train-weights", 0.003, *options)
    before, row = map(json.loads, done.stdout.splitlines())
    assert before["removed"] == 0 and before["accuracy"] >= 90
    assert row["removed"] >= 2  # of 4 heads
    assert row["accuracy"] >= 90 and row["change"] >= -5


def test_a_random_order_follows_its_seed(arguments):
    options = ("--method", "random", "--share", 0.5, "--seeds", 1, "--format", "csv", *QUICK)
    tables = [prune(arguments, *options, "--seed", seed).stdout for seed in (1, 1)]
    assert tables[0] == tables[1]
    row = dict(zip(*(line.split(",") for line in tables[0].splitlines()), strict=True))
    assert row["BLEU"] == row["random"]  # the first random order has the same seed


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--share", 1), "share: 1 leaves no head, or is below 0"),
        (("--share", -0.1), "share: -0.1 leaves no head, or is below 0"),
        (("--out", "less"), "--out: needs --share, or --train-weights"),
        (("--compare-training", "new"), "--compare-training: needs --share, or --train-weights"),
        (("--train-weights", 0.1), "--train-weights: needs --method gates"),
        (
            ("--method", "gates", "--train-weights", 0),
            "the learning rate of the weights must be above 0, not 0",
        ),
        (("--sites", "encoder,croß"), "sites: this model has no attention called 'croß'"),
        (("--method", "random", "--by-layer"), "--by-layer: needs --method importance"),
        (("--method", "random", "--rounds", 2), "--rounds: needs --method importance"),
        (("--epochs", 2), "--epochs: needs --method gates"),
        (("--method", "gates", "--penalty", 0), "penalty must be above 0"),
    ],
)
def test_bad_options_are_refused_in_one_line(arguments, options, reason):
    (line,) = prune(arguments, *options, "--limit", 1, "--inputs", 1, code=2).stderr.splitlines()
    assert line.startswith(f"regard: {reason}")


def test_recipes_and_models_that_do_not_fit_are_refused(arguments, owl_run, tmp_path):
    model, _, *data = arguments
    (line,) = prune((model, "no-such", *data), code=2).stderr.splitlines()
    assert "no recipe is called 'no-such'" in line
    pooled = owl_run / "run" / "model", owl_run / "owls.toml", "--data", owl_run
    (line,) = prune(pooled, code=2).stderr.splitlines()
    assert "heads cannot be removed; pool: only layers of a Transformer" in line


def test_examples_that_are_held_out_from_train_are_the_dev_set(arguments, tmp_path):
    model, _, *data = arguments
    held_out = tmp_path / "held-out.toml"
    lines = [line for line in RECIPE.splitlines() if not line.startswith("test =")]
    text = "\n".join(lines).replace('dev = { source = "dev.src", target = "dev.tgt" }', "DEV")
    held_out.write_text(text.replace("DEV", "dev = { held_out = 5 }"))
    options = ("--share", 0.5, "--method", "random", "--seeds", 0)
    assert "on 5 pairs" in prune((model, held_out, *data), *options).stdout
    scored = ScoredSet.of(read(held_out), data[1], 3, on_test=False)
    task = task_of(with_dev_as_test(read(held_out)))
    assert scored.examples == task.read_held_out(5, data[1])[:3] and scored.name == "dev"
    with pytest.raises(BadInput, match=r"data\.test: the recipe names no test set"):
        ScoredSet.of(read(held_out), data[1], None, on_test=True)


@pytest.mark.slow
def test_the_recipe_is_trained_with_the_heads_that_stay(arguments, tmp_path):
    run, out = tmp_path / "run", tmp_path / "less"
    options = ("--share", 0.5, "--seeds", 0, "--compare-training", run, "--json", *QUICK)
    done = prune(arguments, *options, "--out", out)
    point, _, _, whole, pruned, trained = map(json.loads, done.stdout.splitlines())
    assert [row["model"] for row in (whole, pruned, trained)] == [
        "whole",
        "pruned",
        "trained with these heads",
    ]
    assert pruned["BLEU"] == point["BLEU"] and whole["heads"] == 12
    assert pruned["heads"] == trained["heads"] == 6
    assert pruned["parameters"] == trained["parameters"] < whole["parameters"]
    # The model was trained for more steps than its recipe says, and the table shows it.
    assert pruned["training tokens"] > trained["training tokens"] > 0
    tokens = f"{trained['training tokens']:,} tokens, the whole model on"
    assert f"trained on {tokens} {whole['training tokens']:,}" in done.stderr
    smaller, anew = (regard.load(folder, "cpu") for folder in (out, run / "model"))
    assert anew.facts.attention_sites == smaller.facts.attention_sites
    name = "target.blocks.0.mlp.up.weight"
    assert not torch.equal(smaller.module.state_dict()[name], anew.module.state_dict()[name])
    score = ScoredSet.of(read(arguments[1]), arguments[3], 3, on_test=False).score(anew)
    assert trained["BLEU"] == score[0].value
    (run / "recipe.json").rename(run / "other.json")
    (line,) = prune(arguments, *options, code=2).stderr.splitlines()
    assert line == f"regard: --compare-training {run}: is not empty; choose another folder"
    started = write_tuning(tmp_path, "one")
    text = started.read_text().replace('size = "tiny"', f'start = "{out}"')
    started.write_text(text.replace("[text]\nvocab = 90\nlower = true\n", ""))
    others = (arguments[0], started, *arguments[2:])
    options = ("--share", 0.5, "--compare-training", tmp_path / "other")
    (line,) = prune(others, *options, code=2).stderr.splitlines()
    assert line == "regard: --compare-training: the recipe has model.start, not random weights"


@pytest.mark.slow
def test_a_training_that_was_stopped_is_resumed(arguments, tmp_path):
    run = tmp_path / "run"
    options = ("--share", 0.5, "--seeds", 0, "--compare-training", run, "--json", *QUICK)
    whole = prune(arguments, *options)
    last = max((run / "checkpoints").iterdir(), key=lambda path: int(re.sub(r"\D", "", path.name)))
    rmtree(last)
    rmtree(run / "model")
    again = prune(arguments, *options)
    assert again.stdout == whole.stdout and (run / "model" / "config.json").is_file()
    first, second = (len(re.findall(r"^step ", done.stderr, re.M)) for done in (whole, again))
    assert 0 < second < first
    (line,) = prune(arguments, *options, "--share", 0.25, code=2).stderr.splitlines()[-1:]
    assert "was started with another recipe (differs in: model.change)" in line


@pytest.mark.slow
def test_keys_of_the_recipe_are_changed_as_in_training(small_run, tmp_path):
    recipe, changed = small_run / "small.toml", {"model.change.width": 32, "train.steps": 2}
    for _ in regard.train(recipe, small_run, tmp_path / "run", settings=changed, device="cpu"):
        pass
    arguments = (tmp_path / "run" / "model", recipe, "--data", small_run)
    options = (*QUICK, "--share", 0.5, "--seeds", 0, "--compare-training", tmp_path / "new")
    assert "source.stack.width is 16, not 32" in prune(arguments, *options, code=2).stderr
    given = [part for key, value in changed.items() for part in ("--set", f"{key}={value}")]
    done = prune(arguments, *options, *given, "--json")
    _, whole, _, trained = map(json.loads, done.stdout.splitlines())
    assert whole["training tokens"] == trained["training tokens"] > 0
    assert "tokens, the whole model" not in done.stderr


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (("depth = 2", "depth = 3"), "source.stack.depth is 3, not 2; target.stack.depth is 3, no"),
        (("width = 16", "width = 32"), "source.stack.width is 32, not 16; "),
        (("heads = 2", "heads = 4"), "source.stack.heads is 4, not 2; "),
    ],
)
def test_a_recipe_of_another_model_is_refused_first(arguments, tmp_path, settings, reason):
    other = tmp_path / "other.toml"
    other.write_text(arguments[1].read_text().replace(*settings))
    options = ("--share", 0.5, "--compare-training", tmp_path / "new", "--out", tmp_path / "less")
    refused = prune((arguments[0], other, *arguments[2:]), *options, code=2)
    (line,) = refused.stderr.splitlines()
    assert line.startswith(f"regard: --compare-training: the recipe is of another model: {reason}")
    assert not refused.stdout and {*tmp_path.iterdir()} == {other}


def test_results_are_printed_before_the_recipe_is_trained(arguments, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise BadInput("stopped")

    monkeypatch.setattr("regard.experiments.pruning_runs.train_run", fail)
    options = ("--share", 0.5, "--seeds", 0, "--compare-training", tmp_path / "new", "--json")
    done = prune(arguments, *options, *QUICK, "--html", tmp_path / "curve.html", code=2)
    assert json.loads(done.stdout)["removed"] == 6 and (tmp_path / "curve.html").is_file()


def test_training_with_fewer_heads_from_the_start(small_run, tmp_path):
    sizes = {"width": 16, "inner": 32, "depth": 2, "heads": 2}
    counts = {"source.heads_by_layer": [1, 2], "target.cross_heads_by_layer": [0, 2]}
    settings = {"model.change": sizes | counts, "train.steps": 2}
    for _ in regard.train(small_run / "small.toml", small_run, tmp_path / "run", settings=settings):
        pass
    sites = regard.load(tmp_path / "run" / "model", "cpu").facts.attention_sites
    assert {site.name: site.heads for site in sites} == {
        "encoder": (1, 2),
        "decoder": (2, 2),
        "cross": (0, 2),
    }
