"""The verbs, as people call them."""

import json
import re
import tomllib
from importlib.resources import files

import pytest
from sacrebleu import BLEU, CHRF

from regard.api import load
from regard.generation.beam import Beam
from regard.models.papers import LINEAGE
from regard.views.pages import records_in
from verb import run


@pytest.fixture(scope="module")
def model(small_run):
    return small_run / "run" / "model"


def test_the_version_is_printed():
    assert run("--version").stdout.startswith("regard 0.")


def test_translate_keeps_lines_and_reads_standard_input(model, small_run):
    text = "dog cow\n\nowl\n"
    from_input = run("translate", model, stdin=text)
    (small_run / "in.txt").write_text(text)
    from_file = run("translate", model, small_run / "in.txt", "--batch-size", 1)
    assert from_input.stdout == from_file.stdout
    assert len(from_input.stdout.splitlines()) == 3
    assert from_input.stdout.splitlines()[1] == ""
    assert "log p / ((5+n)/6)^0.6" in from_input.stderr


def test_translate_best_and_json(model):
    done = run("translate", model, "--best", 2, "--json", stdin="dog cow\nowl\n")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["line"] for line in lines] == [1, 1, 2, 2]
    assert lines[0]["score"] >= lines[1]["score"]
    assert sum(lines[0]["logprobs"]) == pytest.approx(lines[0]["logprob"], abs=1e-4)


def test_translate_names_its_engine(model, monkeypatch):
    on = ("translate", model, "--device", "cpu", "--json")
    done = run(*on, "--engine", "torch", "--precision", "int8", stdin="dog")
    record = json.loads(done.stdout)
    assert (record["precision"], record["engine"]) == ("int8", "torch")
    monkeypatch.setattr("regard.generation.cpp.failure", lambda: "there is no C++ compiler")
    record = json.loads(run(*on, stdin="dog").stdout)
    assert (record["precision"], record["engine"]) == ("fp32", "torch")
    done = run(*on, "--engine", "cpp", stdin="dog", code=2)
    assert done.stderr.splitlines()[-1] == "regard: engine cpp: there is no C++ compiler"


@pytest.mark.parametrize(
    "options",
    [
        ("--search", "greedy"),
        ("--search", "sample", "--top-k", 3, "--temperature", 0.7, "--seed", 4),
        ("--length", "mean", "--beam", 3, "--coverage", 0.1, "--no-repeat", 2, "--finished", 2),
    ],
)
def test_translate_searches(model, options):
    assert run("translate", model, *options, stdin="dog cow\n").stdout.count("\n") == 1


def test_translate_exactly_reports_search_errors(model):
    text = "dog cow\n\nowl\n"
    options = ("--beam", 1, "--length", "none", "--json")
    beam = run("translate", model, *options, stdin=text)
    exact = run("translate", model, *options, "--search", "exact", stdin=text)
    pairs = [
        (json.loads(one), json.loads(other))
        for one, other in zip(beam.stdout.splitlines(), exact.stdout.splitlines(), strict=True)
    ]
    assert [best["line"] for _, best in pairs] == [1, 2, 3]
    assert all(best["score"] >= one["score"] or not one["finished"] for one, best in pairs)
    missed = sum(best["tokens"] != one["tokens"] for one, best in pairs)
    empty = sum(not best["tokens"] for _, best in (pairs[0], pairs[2]))
    report = exact.stderr.splitlines()[-1]
    assert report.startswith(f"{missed} of 2 sentences: search error of a beam of 1, mean score ")
    assert f"{empty} optima are empty; 0 sentences not proven" in report


def test_translate_exactly_says_what_it_could_not_prove(model):
    options = ("--search", "exact", "--length", "mean", "--max-active", 1)
    exact = run("translate", model, *options, stdin="dog cow\nowl\n")
    assert (
        exact.stdout == run("translate", model, "--length", "mean", stdin="dog cow\nowl\n").stdout
    )
    assert "line 2: not proven, more than 1 prefixes are active" in exact.stderr
    assert exact.stderr.endswith("0 optima are empty; 2 sentences not proven\n")
    for option in (("--best", 2), ("--coverage", 0.1)):
        refused = run("translate", model, "--search", "exact", *option, stdin="owl\n", code=2)
        assert "cannot be used with --search exact" in refused.stderr


def test_translate_with_other_models(model, small_run, tmp_path):
    text = "dog cow\n\nowl\n"
    alone = run("translate", model, stdin=text)
    together = run("translate", model, "--ensemble", model, "--ensemble", model, stdin=text)
    assert together.stdout == alone.stdout
    changes = ("--set", "train.steps=1", "--set", "text.vocab=300")
    paths = ("--data", small_run, "--out", tmp_path / "other")
    run("train", small_run / "small.toml", *paths, *changes)
    other = tmp_path / "other" / "model"
    refused = run("translate", model, "--ensemble", other, stdin=text, code=2)
    assert "model 2 of the ensemble has another target vocabulary" in refused.stderr
    refused = run("translate", model, "--ensemble", model, "--coverage", 0.1, stdin=text, code=2)
    assert "attention weights" in refused.stderr


def test_translate_prefix(model, small_run):
    (small_run / "begin.txt").write_text("owl\n")
    done = run("translate", model, "--prefix", small_run / "begin.txt", stdin="dog cow owl\n")
    assert done.stdout.startswith("owl")
    done = run("translate", model, "--prefix", small_run / "begin.txt", stdin="dog\ncow\n", code=2)
    fewer = f"standard input:2: no prefix for this line: {small_run / 'begin.txt'} has 1 lines"
    assert fewer in done.stderr
    (small_run / "many.txt").write_text("dog\ncow\nowl\n")
    more = ("--prefix", small_run / "many.txt", "--out", small_run / "none.de")
    done = run("translate", model, *more, stdin="dog\ncow\n", code=2)
    assert "many.txt:3: no text for this prefix: standard input has 2 lines" in done.stderr
    assert not (small_run / "none.de").exists()
    run("translate", model, *more, stdin="dog\ncow\nowl\n")
    assert len((small_run / "none.de").read_text().splitlines()) == 3


def test_scores_are_written_to_a_file(model, small_run):
    printed = run("score", model, stdin="dog\tcow\n").stdout
    done = run("score", model, "--out", small_run / "scores", stdin="dog\tcow\n")
    assert (small_run / "scores").read_text() == printed and done.stdout == ""


def test_score(model):
    plain = run("score", model, stdin="dog cow\tcow dog\n")
    record = json.loads(run("score", model, "--json", stdin="dog cow\tcow dog\n").stdout)
    assert float(plain.stdout) == pytest.approx(record["logprob"], abs=1e-4)
    assert sum(record["logprobs"]) == pytest.approx(record["logprob"])
    assert record["tokens"][-1] == "</s>"
    assert "standard input:1" in run("score", model, stdin="no tab here\n", code=2).stderr


def test_evaluate_prints_signatures_and_cost(model, small_run):
    done = run("evaluate", model, small_run / "small.toml", "--data", small_run, "--interval")
    for part in ("BLEU", "chrF2", "TER", "nrefs:1|", "parameters", "device-seconds"):
        assert part in done.stdout
    record = json.loads(
        run("evaluate", model, small_run / "small.toml", "--data", small_run, "--json").stdout
    )
    assert record["signatures"]["BLEU"].startswith("nrefs:1|")
    asked = ("evaluate", model, small_run / "small.toml", "--data", small_run, "--labels")
    assert run(*asked, code=2).stderr.endswith("has no labels\n")


def test_evaluate_decodes_and_measures_as_the_recipe_says(model, small_run):
    """Another length rule, exponent, tokeniser or case gives what they give by hand."""
    texts = (small_run / "test.src").read_text().splitlines()
    references = [(small_run / "test.tgt").read_text().splitlines()]
    small, seen = (small_run / "small.toml").read_text(), []
    for length, alpha, tokenize, lower in (
        ("gnmt", 0.6, "13a", False),
        ("power", 4.0, "13a", False),
        ("gnmt", 4.0, "13a", False),
        ("gnmt", 0.6, "char", True),
    ):
        decode = f'beam = 2\nlength = "{length}"\nalpha = {alpha}\n'
        measure = f'[measure]\ntokenize = "{tokenize}"\nlowercase = {str(lower).lower()}\n'
        recipe = small_run / "decode.toml"
        recipe.write_text(small.replace("beam = 2\n", decode) + measure)
        done = run("evaluate", model, recipe, "--data", small_run, "--json", "--device", "cpu")
        record = json.loads(done.stdout)
        found = load(model, "cpu").translate(texts, Beam(2, length=length, alpha=alpha))
        by_hand = [one[0].text for one in found]
        bleu = BLEU(tokenize=tokenize, lowercase=lower).corpus_score(by_hand, references)
        chrf = CHRF(lowercase=lower).corpus_score(by_hand, references)
        assert record["BLEU"] == pytest.approx(bleu.score)
        assert record["chrF2"] == pytest.approx(chrf.score)
        assert f"tok:{tokenize}" in record["signatures"]["BLEU"]
        assert f"case:{'lc' if lower else 'mixed'}" in record["signatures"]["BLEU"]
        seen.append((record["BLEU"], record["chrF2"]))
    assert len(set(seen)) == 4  # each of them makes a difference


@pytest.mark.parametrize(("score", "code", "word"), [(0, 0, "reached"), (100, 1, "NOT reached")])
def test_the_expected_score_is_checked(model, small_run, score, code, word):
    recipe = small_run / f"promise{score}.toml"
    promise = f'[expect]\nscore = {score}\ntolerance = 0.0\nsource = "a test"\n'
    recipe.write_text((small_run / "small.toml").read_text() + promise)
    done = run("evaluate", model, recipe, "--data", small_run, code=code)
    assert f": {word}" in done.stdout


def test_align(model, small_run):
    files = (small_run / "test.src", small_run / "test.tgt")
    done = run("align", model, *files)
    lines = done.stdout.splitlines()
    assert len(lines) == 12
    assert all(re.fullmatch(r"(\d+-\d+( \d+-\d+)*)?", line) for line in lines)
    gold = small_run / "gold"
    gold.write_text(done.stdout)
    assert "aer 0.0000" in run("align", model, *files, "--gold", gold).stderr
    gold.write_text("99-0\n" * 12)
    assert "gold:1" in run("align", model, *files, "--gold", gold, code=2).stderr
    gold.write_text("0-0\n")
    assert "1 lines for 12" in run("align", model, *files, "--gold", gold, code=2).stderr
    assert "layers 0-1" in run("align", model, *files, "--layer", 7, code=2).stderr
    last = run("align", model, *files, "--layer", -1, "--head", -1)
    assert "layer 1, head 1" in last.stderr


def test_look(model, tmp_path, monkeypatch):
    page, drawing = tmp_path / "look.html", tmp_path / "look.svg"
    monkeypatch.setattr("sys.argv", ["regard", "look", "a model", "dog cow"])
    done = run("look", model, "dog cow", "--html", page, "--svg", drawing)
    assert "dog" in done.stdout
    assert page.read_text().lstrip().lower().startswith("<!doctype html>")
    (shown,) = records_in(page.read_text())
    source = {"command": "regard look 'a model' 'dog cow'", "model": str(model)}
    assert shown.json["source"] == source
    assert drawing.read_text().startswith("<svg")
    record = json.loads(run("look", model, "dog cow", "--json", "--map", "encoder").stdout)
    assert record["columns"] == ["dog", "cow", "⟨end⟩"]
    assert "no map called 'nose'" in run("look", model, "dog", "--map", "nose", code=2).stderr
    assert "no such head" in run("look", model, "dog", "--head", 9, code=2).stderr
    assert "no layer 9; there are 0 to 1" in run("look", model, "dog", "--layer", 9, code=2).stderr
    assert "the text is empty" in run("look", model, " ", code=2).stderr


def test_papers():
    text = run("papers").stdout
    assert "63,082,496" in text and "65,000,000" in text
    changed = run("papers", "transformer:base", "transformer:big").stdout
    assert "source.stack.width" in changed and "1024" in changed
    assert "did you mean 'base'" in run("papers", "transformer:bas", "x:y", code=2).stderr
    records = [json.loads(line) for line in run("papers", "--json").stdout.splitlines()]
    counts = {(one["paper"], one["size"]): one["parameters"] for one in records}
    assert counts["Transformer", "base"] == 63_082_496
    assert counts["Sutskever", "base"] == 384_064_000
    assert [one["year"] for one in records] == sorted(one["year"] for one in records)


def test_papers_says_what_changed():
    records = [
        json.loads(line) for line in run("papers", "BERT", "RoBERTa", "--json").stdout.splitlines()
    ]
    changed = {one["fact"]: (one["BERT"], one["RoBERTa"]) for one in records}
    assert changed["tokenizer"] == ("wordpiece", "byte-bpe")
    assert changed["objectives"] == ("masked-lm + next-sentence", "masked-lm")
    assert changed["trunk.embed.segments"] == (2, 1)
    assert run("papers", "bert", "bert:base").stdout == "nothing differs\n"
    sizes = run("papers", "electra:small", "electra:base").stdout
    assert re.search(r"replaced-tokens.generator +0.25 +0.333333\n", sizes)
    encoders = run("papers", "transformer", "bert").stdout
    assert "source, target" in encoders and "stack.activation" in encoders


def test_papers_shows_one_paper_and_what_it_builds_on():
    sizes, changed = run("papers", "RoBERTa").stdout.split("\n\n")
    assert "124,645,632" in sizes and "BERT " not in sizes
    assert changed == run("papers", "BERT", "RoBERTa").stdout
    records = [
        json.loads(line) for line in run("papers", "bert:large", "--json").stdout.splitlines()
    ]
    assert {"paper", "size"} < records[0].keys() and "bert:large" in records[-1]
    assert "fact" not in run("papers", "cho").stdout
    assert "at most two models" in run("papers", "bert", "gpt", "cho", code=2).stderr


def test_papers_prints_results_of_the_papers_and_ours(tmp_path):
    text = run("papers", "transformer", "--results").stdout
    assert re.search(r"big .*English-German +28.4 +arXiv:1706.03762, table 2", text)
    assert re.search(r"ours, base .*BLEU +41.0 +regard train multi30k-en-de --data", text)
    assert "BERT" in run("papers", "--results").stdout
    text = run("papers", "spanbert", "electra", "--results").stdout
    source = "python bench/objectives.py all"
    for objective in ("spans \\+ boundary", "replaced tokens"):
        assert re.search(f"ours, .*{objective} .*SST-2 accuracy +[0-9.]+ +{source}", text)
    text = run("papers", "bert", "--results").stdout
    assert re.search("ours, fine-tuned .*accuracy +88.4 +regard train distil-sst2", text)
    page = tmp_path / "new" / "papers.html"
    assert f"wrote {page}" in run("papers", "--html", page).stderr
    assert page.read_text().startswith("<!doctype html>")
    assert "--html: writes all papers" in run("papers", "bert", "--html", page, code=2).stderr


def test_recipes():
    assert "tour" in run("recipes").stdout
    assert run("recipes", "tour").stdout.startswith("# The tour")
    assert json.loads(run("recipes", "tour", "--json").stdout)["text"]["kind"] == "bpe"
    assert "no recipe is called" in run("recipes", "nothing", code=2).stderr


def test_recipes_are_named_in_full(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    names = [json.loads(line)["recipe"] for line in run("recipes", "--json").stdout.splitlines()]
    shown = run("recipes").stdout
    first = [line.split()[0] for line in shown.splitlines() if line]
    assert [word for word in first if word in names] == names
    assert "…" not in shown


def test_examples_are_listed_apart():
    lines = run("recipes").stdout.splitlines()
    heading = lines.index("examples, without an expected score")
    listed = [line.split()[0] for line in lines[heading + 2 :]]
    records = map(json.loads, run("recipes", "--json").stdout.splitlines())
    assert [record["recipe"] for record in records if record["example"]] == listed
    assert "imdb-dai" in listed and "tour" not in listed
    assert run("recipes", "imdb-dai").stdout.startswith("# IMDB")


LONG = "x" * 100_000


@pytest.mark.parametrize(
    "arguments",
    [
        (LONG,),
        ("translate", LONG),
        ("translate", "MODEL", LONG),
        ("translate", "MODEL", "--device", LONG),
        ("translate", "MODEL", "--search", LONG),
        ("translate", "MODEL", "--beam", LONG),
        ("translate", "MODEL", "--prefix", LONG),
        ("translate", "MODEL", f"--{LONG}"),
        ("embed", "MODEL", "--pool", LONG),
        ("embed", "MODEL", "--out", LONG),
        ("look", "MODEL", "dog", "--map", LONG),
        ("align", "MODEL", LONG, LONG),
        ("train", LONG),
        ("train", "tour", "--budget", LONG),
        ("train", "tour", "--set", LONG),
        ("train", "tour", "--set", f"train.{LONG}=1"),
        ("train", "tour", "--set", f"train.steps={LONG}"),
        ("train", "tour", "--set", f"train.precision={LONG}"),
        ("recipes", LONG),
        ("papers", LONG, LONG),
        ("convert", LONG, "copy", "--to", "hf"),
        ("bleu", LONG, LONG),
    ],
    ids=lambda arguments: " ".join(one[:9] for one in arguments),
)
def test_a_message_repeats_little_of_a_long_value(arguments, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = [model if one == "MODEL" else one for one in arguments]
    said = run(*given, code=2, stdin="dog\n").stderr
    assert said and max(map(len, said.splitlines())) < 500
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "arguments",
    [
        ("translate", "nowhere"),
        ("train", "small.tml"),
        ("train", "tour", "--budget", "soon"),
        ("train", "tour", "--set", "nonsense"),
        ("train", "tour", "--data", "nowhere", "--out", "never"),
        ("look", "nowhere", "text"),
        ("evaluate", "nowhere", "tour"),
    ],
)
def test_bad_input_is_one_line_and_code_2(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(*arguments, code=2)
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("regard: ")
    assert not list(tmp_path.rglob("*.bin"))


def test_undecodable_input_names_the_line(model, tmp_path):
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"dog\n\xff\n")
    assert "bad.txt:2: not UTF-8" in run("translate", model, bad, code=2).stderr


def test_bad_lines_stop_training_or_are_counted(small_run, tmp_path):
    for side in ("src", "tgt"):
        lines = (small_run / f"train.{side}").read_text()
        (tmp_path / f"train.{side}").write_text(lines + ("\n" if side == "src" else "x\n"))
        for name in ("dev", "test"):
            (tmp_path / f"{name}.{side}").write_text((small_run / f"{name}.{side}").read_text())
    common = ("train", small_run / "small.toml", "--data", tmp_path, "--set", "train.steps=1")
    stopped = run(*common, "--out", tmp_path / "a", code=2)
    assert "train.src:121: empty text" in stopped.stderr
    assert "dropped: 1 empty" in run(*common, "--out", tmp_path / "b", "--skip-bad").stderr


def test_training_from_standard_input(small_run, tmp_path):
    sides = [(small_run / f"train.{side}").read_text().splitlines() for side in ("src", "tgt")]
    text = "".join(f"{source}\t{target}\n" for source, target in zip(*sides, strict=True))
    recipe = tmp_path / "piped.toml"
    files = '{ source = "train.src", target = "train.tgt" }'
    piped = '{ table = "-", columns = [0, 1] }'
    recipe.write_text((small_run / "small.toml").read_text().replace(files, piped))
    common = (recipe, "--data", small_run, "--out", tmp_path / "run", "--set", "train.steps=2")
    run("train", *common, stdin=text)
    again = run("train", *common[:-1], "train.steps=3", "--resume", stdin="")
    assert "resumed after step 2" in again.stderr


def test_words_that_wordpiece_lacks_are_named(small_run, tmp_path):
    changes = ("--set", "text.kind=wordpiece", "--set", "train.steps=1", "--set", "text.vocab=60")
    run("train", small_run / "small.toml", "--data", small_run, "--out", tmp_path / "w", *changes)
    done = run("translate", tmp_path / "w" / "model", stdin="dog\ncow Ωmega dog\n")
    assert "line 2: not in the vocabulary: Ωmega" in done.stderr
    assert "line 1" not in done.stderr


def test_a_tour_does_not_touch_what_is_not_a_tour(tmp_path):
    for name in ("corpus", "data", "model"):
        (tmp_path / "mine" / name).mkdir(parents=True)
        (tmp_path / "mine" / name / "file").write_text("precious")
    done = run("tour", "--quick", "--out", tmp_path / "mine", code=2)
    assert "has files that are not of a run" in done.stderr
    assert len(list((tmp_path / "mine").rglob("file"))) == 3


def test_a_printed_recipe_has_no_expected_score(tmp_path):
    text = run("recipes", "tour").stdout
    assert "[expect]" not in text
    (tmp_path / "mine").write_text(text)
    assert json.loads(run("recipes", tmp_path / "mine", "--json").stdout)["expect"] is None


@pytest.mark.slow
def test_any_encoding_will_do(model):
    from small import environment, regard

    plain = {**environment(), "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    done = regard("look", model, "dog cow", env=plain)
    assert done.returncode == 0, done.stderr


def test_n_best_lines_stay_parallel(model):
    done = run("translate", model, "--best", 3, stdin="dog\n\n \ncow\n")
    lines = done.stdout.split("\n")[:-1]
    assert len(lines) == 12
    assert lines[3:9] == [""] * 6


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--search", "greedy", "--best", 3), "--best: cannot be used with --search greedy"),
        (("--search", "sample", "--beam", 3), "--beam: cannot be used with --search sample"),
        (("--search", "published", "--top-p", 0.5), "--top-p: cannot be used with --search beam"),
        (("--top-p", 0.5), "--top-p: cannot be used with --search beam"),
        (("--coverage", "nan"), "coverage"),
        (("--search", "sample", "--temperature", "inf"), "temperature"),
        (("--search", "sample", "--seed", 10**23), "seed"),
        (("--search", "greedy", "--no-repeat", -1), "no_repeat must be at least 0"),
        (("--beam", 0), "at least 1"),
        (("--beam", 100_000), "the size of a beam must be at most 10,000, not 100000"),
        (("--best", 100_000), "best must be at most 10,000"),
        (("--finished", 1, "--best", 2), "finished must be at least best (2), not 1"),
    ],
)
def test_options_are_checked_before_a_model_is_loaded(tmp_path, options, said):
    assert said in run("translate", tmp_path / "none", *options, stdin="dog\n", code=2).stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--alpha", "nan"), "alpha must be"),
        (("--alpha", "1e308"), "alpha must be from -50 to 50, not 1e+308"),
        (("--length", "power", "--alpha", "1e308"), "alpha must be from -50 to 50"),
        (("--device", "foo"), "device foo"),
    ],
)
def test_options_that_make_no_sense_are_refused(model, options, said):
    assert said in run("translate", model, *options, stdin="dog\n", code=2).stderr


def test_resuming_nothing_says_that_it_begins(small_run, tmp_path):
    common = ("--data", small_run, "--out", tmp_path / "new", "--set", "train.steps=1")
    done = run("train", small_run / "small.toml", *common, "--resume")
    assert "nothing to resume yet" in done.stderr


@pytest.mark.parametrize("file", ["results.toml", "measured.toml"])
def test_every_paper_with_results_is_known(file):
    text = (files("regard.models.papers") / file).read_text(encoding="utf-8")
    assert set(tomllib.loads(text)) <= {paper.key for paper in LINEAGE}
