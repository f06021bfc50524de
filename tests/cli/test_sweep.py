"""n-best lists on the command line: how they are searched, stored and ranked again."""

import csv
import json
import shutil
from statistics import mean

import pytest

from regard.generation import Beam, Hypothesis, rescore
from regard.metrics.translation import bleu
from verb import run

SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:"


def records(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def model(small_run):
    return small_run / "run" / "model"


@pytest.fixture(scope="module")
def nbest(small_run, model):
    options = ("--beam", 6, "--best", 6, "--coverage", 0, "--json")
    path = small_run / "nbest.jsonl"
    path.write_text(run("translate", model, small_run / "test.src", *options).stdout)
    return path


def test_a_sweep_is_the_same_as_ranking_by_each_rule(small_run, nbest, tmp_path):
    reference = small_run / "test.tgt"
    options = ("--alpha", "0,0.5,1", "--coverage", "0,0.4", "--top", 0)
    done = run("sweep", nbest, reference, *options, "--json", "--out", tmp_path / "best")
    *tried, stored, oracle = records(done)
    assert len(tried) == 2 * (2 + 3 + 3)
    lists: dict[int, list] = {}
    for one in map(json.loads, nbest.read_text().splitlines()):
        assert one["n"] == len(one["logprobs"]) == len(one["tokens"]) + one["finished"]
        lists.setdefault(one["line"], []).append(one)
    references = [reference.read_text().splitlines()]
    for one in tried:
        rule = {name: one[name] for name in ("length", "alpha", "coverage")}
        chosen = [_first(found, rule) for found in lists.values()]
        score = bleu([best["text"] for best in chosen], references)
        assert one["BLEU"] == pytest.approx(score.value)
        assert one["signature"].startswith(SIGNATURE)
        assert 0 <= one["brevity_penalty"] <= 1
        assert one["mean_n"] == pytest.approx(mean(best["n"] for best in chosen))
    values = [one["BLEU"] for one in tried]
    assert values == sorted(values, reverse=True)
    firsts = [found[0]["text"] for found in lists.values()]
    assert stored["BLEU"] == pytest.approx(bleu(firsts, references).value)
    assert oracle["choice"].startswith("oracle") and oracle["signature"] == stored["signature"]
    written = (tmp_path / "best").read_text().splitlines()
    assert bleu(written, references).value == pytest.approx(values[0])


def _first(found, rule):
    """By ``rescore``, which is told nothing but what the file says; a token is a place here."""
    hypotheses = [
        Hypothesis(
            tokens=(number,),
            logprob=one["logprob"],
            score=0.0,
            logprobs=(0.0,) * one["n"],
            finished=one["finished"],
            coverage=one["coverage"],
        )
        for number, one in enumerate(found)
    ]
    (number,) = rescore(hypotheses, **rule)[0].tokens
    return found[number]


def test_the_table_has_the_best_first_and_the_signature(small_run, nbest):
    done = run("sweep", nbest, small_run / "test.tgt", "--top", 3)
    head, *rows, stored, oracle, signature = done.stdout.splitlines()
    assert head.split() == ["BLEU", "brevity", "mean", "n", "score"]
    assert len(rows) == 3 and "log p" in rows[0]
    assert stored.endswith("the first of each list, as stored")
    assert oracle.endswith("oracle: the highest sentence BLEU")
    assert signature.startswith(SIGNATURE)
    assert float(rows[0].split()[0]) >= float(rows[2].split()[0])
    assert done.stderr.startswith(f"{11 * 44} settings, 72 hypotheses of 12 sentences")


def test_intervals_with_the_option(small_run, nbest):
    done = run("sweep", nbest, small_run / "test.tgt", "--top", 1, "--interval")
    lines = done.stdout.splitlines()
    assert all("[" in line and "]" in line for line in lines[1:4])
    assert "|bs:1000|seed:12345|" in lines[-1]
    one, *_ = records(
        run("sweep", nbest, small_run / "test.tgt", "--top", 1, "--interval", "--json")
    )
    low, high = one["interval"]
    assert low <= one["BLEU"] <= high


def test_standard_input_and_several_references(small_run, nbest):
    reference = small_run / "test.tgt"
    done = run("sweep", "-", reference, reference, "--json", stdin=nbest.read_text())
    assert records(done)[0]["signature"].startswith("nrefs:2|")
    assert "once" in run("sweep", "-", "-", code=2, stdin="").stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--alpha", "0:1"), "--alpha 0:1: give from:to:step or a,b,c"),
        (("--alpha", "much"), "--alpha much: give from"),
        (("--alpha", "0:1:0"), "--alpha 0:1:0: give from"),
        (("--alpha", "1:0:0.5"), "needs 1 to 10000 numbers"),
        (("--alpha", "0:1:1e-9"), "needs 1 to 10000 numbers"),
        (("--alpha", "nan"), "needs 1 to 10000 numbers"),
        (("--alpha", "nan:1:1"), "--alpha nan:1:1: give from"),
        (("--coverage=-1",), "must not be below 0"),
        (("--tokenize", "inl"), "did you mean 'intl'"),
    ],
)
def test_options_that_make_no_sense_are_refused(small_run, nbest, options, said):
    refused = run("sweep", nbest, small_run / "test.tgt", *options, code=2)
    assert said in refused.stderr and len(refused.stderr.splitlines()) == 1
    assert refused.stdout == ""


def test_bad_input_is_one_line_with_its_place(small_run, model, nbest, tmp_path):
    reference, bad = small_run / "test.tgt", tmp_path / "bad.jsonl"
    bad.write_text(nbest.read_text().replace('"logprob"', '"log"'))
    assert "bad.jsonl:1: 'logprob' is missing" in run("sweep", bad, reference, code=2).stderr
    short = "".join(nbest.read_text().splitlines(keepends=True)[:6])
    bad.write_text(short)
    refused = run("sweep", bad, reference, "--out", tmp_path / "out", code=2)
    assert "line counts differ: 1 in" in refused.stderr
    assert not (tmp_path / "out").exists()
    plain = run("translate", model, "--best", 2, "--json", stdin="dog\n")
    assert all("coverage" not in one for one in records(plain))
    bad.write_text(plain.stdout)
    (tmp_path / "one").write_text("dog\n")
    assert "log p" in run("sweep", bad, tmp_path / "one").stdout
    refused = run("sweep", bad, tmp_path / "one", "--coverage", "0:1:0.5", code=2)
    assert "--coverage 0:1:0.5: is not stored" in refused.stderr


def test_diverse_lists(model):
    text, options = "dog cow owl\n\nowl\n", ("--beam", 2, "--best", 4, "--json")
    done = run("translate", model, "--groups", 4, "--diversity", 2, *options, stdin=text)
    assert "4 groups of diversity 2, each a beam of 2, 4 best: score = " in done.stderr
    lists = [[one for one in records(done) if one["line"] == line] for line in (1, 2, 3)]
    assert [len(found) for found in lists] == [4, 1, 4]
    for found in (lists[0], lists[2]):
        assert len({tuple(one["tokens"]) for one in found}) == 4
        assert found == sorted(found, key=lambda one: (not one["finished"], -one["score"]))
    default = run("translate", model, "--groups", 4, "--diversity", 0.5, "--best", 4, stdin=text)
    assert len(default.stdout.splitlines()) == 12
    alone = run("translate", model, *options, stdin=text)
    assert run("translate", model, "--groups", 1, *options, stdin=text).stdout == alone.stdout
    assert lists[0] != [one for one in records(alone) if one["line"] == 1]


@pytest.mark.parametrize("stop", ["transformers", "transformers-early", "transformers-never"])
def test_transformers_rules_by_name(model, stop):
    options = ("--beam", 5, "--stop", stop, "--length", "power", "--alpha", 1, "--best", 2)
    text = "dog cow\n\nowl\n"
    done = run("translate", model, *options, stdin=text)
    assert "score = log p / n^1 (p: probability of the text, n: its tokens)\n" in done.stderr
    tree = run("tree", model, "dog cow", *options[:-2])
    assert "ends when 5 are finished" in " ".join(tree.stdout.split())
    assert len(done.stdout.splitlines()) == 6
    assert done.stdout == run("translate", model, *options, "--batch-size", 1, stdin=text).stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--diversity", 1), "--diversity: needs --groups"),
        (("--groups", 0), "groups must be at least 1"),
        (("--groups", 2, "--diversity", "nan"), "diversity must be at least 0"),
        (("--search", "greedy", "--stop", "transformers"), "--stop: cannot be used"),
        (("--search", "exact", "--groups", 2), "--groups: cannot be used"),
        (("--stop", "transformers", "--finished", 3), "finished and early cannot be used"),
        (("--stop", "transformers", "--best", 9), "best must be at most the size of the beam"),
    ],
)
def test_searches_that_make_no_sense_are_refused(model, options, said):
    assert said in run("translate", model, *options, stdin="dog\n", code=2).stderr


def test_help_has_an_example():
    text = run("sweep", "--help").stdout
    assert "Example:" in text and "regard sweep nbest.jsonl" in text


def test_the_best_rule_is_kept_with_the_model(small_run, tmp_path):
    model = shutil.copytree(small_run / "run" / "model", tmp_path / "model")
    before = json.loads((model / "config.json").read_text())
    stored = run("translate", model, small_run / "dev.src", "--best", 4, "--beam", 4, "--json")
    (tmp_path / "nbest.jsonl").write_text(stored.stdout)
    asked = ("sweep", tmp_path / "nbest.jsonl", small_run / "dev.tgt", "--alpha", "0.3,1.7")
    best, *_ = records(run(*asked, "--json"))
    done = run(*asked, "--save", model)
    assert f"saved with {model}: " in done.stderr
    after = json.loads((model / "config.json").read_text())
    expected = {"beam": 2, "length": best["length"], "alpha": best["alpha"]}
    assert after["notes"]["decode"] == expected
    before["notes"].pop("decode"), after["notes"].pop("decode")
    assert before == after
    beam = Beam(2, length=best["length"], alpha=best["alpha"])
    assert f"score = {beam.formula}" in run("translate", model, stdin="dog\n").stderr


def test_a_rule_that_cannot_be_kept_is_reported(small_run, nbest, tmp_path):
    model = small_run / "run" / "model"
    asked = ("sweep", nbest, small_run / "test.tgt", "--save")
    assert "nowhere" in run(*asked, tmp_path / "nowhere", code=2).stderr
    before = (model / "config.json").read_bytes()
    refused = run(*asked, model, "--coverage", "0.5", code=2)
    assert "--save: no setting without a coverage penalty" in refused.stderr
    assert (model / "config.json").read_bytes() == before


@pytest.mark.parametrize("options", [(), ("--interval",)])
def test_a_sweep_as_a_table(small_run, nbest, options):
    command = ("sweep", nbest, small_run / "test.tgt", "--top", 3, *options)
    rows = [*csv.DictReader(run(*command, "--format", "csv").stdout.splitlines())]
    told = records(run(*command, "--json"))
    assert [float(row["BLEU"]) for row in rows] == [one["BLEU"] for one in told]
    assert [row["score"] for row in rows] == [one["choice"] for one in told]
    assert ("low" in rows[0]) == bool(options)
