"""Articles of fields from a recipe to ``regard generate --fields``."""

import json
from pathlib import Path

import pytest

import regard
from regard.models.papers import grover
from regard.text.field_template import FieldTemplate
from verb import run

EXAMPLES = Path(regard.__file__).parent / "recipes" / "examples"
SMALL = "{ width = 32, depth = 1, heads = 2, inner = 64, longest = 160, init_std = 0.08 }"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The model of the recipe after a few steps, and what it printed."""
    out = tmp_path_factory.mktemp("grover") / "run"
    quick = ("train.steps=6", "train.evaluate_every=6", f"model.change={SMALL}")
    sets = [word for key in quick for word in ("--set", key)]
    done = run("train", "grover-articles", "--data", EXAMPLES, "--out", out, *sets)
    return out / "model", done


def written(model, tmp_path, content, field, *more, code=0, name="fields.json"):
    (tmp_path / name).write_text(content)
    order = ("generate", model, "--fields", tmp_path / name, "--write", field)
    return run(*order, "--max-new-tokens", "8", *more, code=code)


def test_the_recipe_trains_a_model_of_fields(trained):
    model = regard.load(trained[0], "cpu")
    assert model.paper is grover.PAPER
    assert model.notes["fields"] == ["domain", "date", "authors", "headline", "body"]
    assert {*FieldTemplate().special_tokens} < {*model.tokenizer.words.pieces(range(600))}
    assert "bits_per_byte" in trained[1].stderr


def test_the_vocabulary_is_learned_from_texts_without_names_of_fields(trained):
    pieces = regard.load(trained[0], "cpu").tokenizer.words.pieces(range(600))
    assert "▁Arden" in pieces and not {"headline", "authors"} & {*pieces}


RECORD = {"domain": "harbour-post.example", "authors": ["Ada Brandt", "Ivo Lund"]}


def test_one_field_of_each_record_is_written(trained, tmp_path):
    lines = f"{json.dumps(RECORD)}\n{{}}\n"
    several = written(trained[0], tmp_path, lines, "body", "--json", name="a.jsonl").stdout
    records = [json.loads(line) for line in several.splitlines()]
    assert [record["line"] for record in records] == [1, 2]
    model = regard.load(trained[0], "cpu")
    words = model.tokenizer.words
    texts = {**RECORD, "authors": "Ada Brandt, Ivo Lund"}
    for record, given in zip(records, (texts, {}), strict=True):
        prompt = model.generator.fields.prompt(words, given, "body")
        prompt = model.tokenizer.template.separated(prompt)
        (expected,) = model.generate([prompt], max_new_tokens=8)
        end = words.number("<|/body|>")
        ids = [*expected[0].hypothesis.tokens]
        assert record["ids"] == ids[: ids.index(end) if end in ids else len(ids)]


def test_an_output_is_continued(trained, tmp_path):
    lines = "".join(json.dumps({"date": f"May {day}"}) + "\n" for day in (1, 2, 3))
    out = ("--out", tmp_path / "out.txt", "--resume")
    written(trained[0], tmp_path, lines, "body", *out)
    once = written(trained[0], tmp_path, lines, "body").stdout
    assert (tmp_path / "out.txt").read_text() == once and len(once.splitlines()) == 3


@pytest.mark.parametrize("form", [json.dumps, lambda record: json.dumps([record], indent=2)])
def test_a_file_may_be_an_object_or_a_list(trained, tmp_path, form):
    once = written(trained[0], tmp_path, json.dumps(RECORD) + "\n", "date").stdout
    assert written(trained[0], tmp_path, form(RECORD), "date").stdout == once
    assert len(once.splitlines()) == 1


def test_a_text_ends_with_its_field(trained, tmp_path):
    """The token after the field is EOS here: a model that knows no other writes nothing."""
    model = regard.load(trained[0], "cpu")
    end = model.tokenizer.words.number("<|/date|>")
    norm, vectors = model.module.trunk.norm, model.module.trunk.embed.token.weight
    norm.weight.data.zero_()  # all states are those of the end
    norm.bias.data.copy_(vectors[end] * 1_000)
    model.save(tmp_path / "ends", "regard")
    done = written(tmp_path / "ends", tmp_path, json.dumps(RECORD), "date", "--json")
    record = json.loads(done.stdout)
    assert record["text"] == "" and record["ended"] == "eos" and record["finished"]
    other = json.loads(
        written(tmp_path / "ends", tmp_path, json.dumps(RECORD), "body", "--json").stdout
    )
    assert other["ended"] == "length"


@pytest.mark.parametrize(
    ("content", "field", "message"),
    [
        ('{"titel": "x"}', "body", "fields.json:1: no field is called 'titel'"),
        ('{"date": null}', "body", "fields.json:1: the field 'date' has no text: fill it or"),
        ('{"date": "May"}\n{"date": ""}', "body", "fields.json:2: the field 'date' has no text"),
        ('{"date": 3}', "body", "fields.json:1: the field 'date' is not text"),
        ('{"body": "x"}', "body", "fields.json:1: the field 'body' is to be written: remove it"),
        ('["x"]', "body", "fields.json:1: the line is not a JSON object"),
        ("{", "body", "fields.json:1: not JSON"),
        ("{}", "bod", "no field is called 'bod'"),
    ],
)
def test_bad_records_are_one_clear_line(trained, tmp_path, content, field, message):
    done = written(trained[0], tmp_path, content, field, code=2)
    said = [line for line in done.stderr.splitlines() if message in line]
    assert len(said) == 1


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--fields", "a.json"), "--fields FILE and --write FIELD: each needs the other"),
        (("--write", "body"), "--fields FILE and --write FIELD: each needs the other"),
        (("--fields", "a", "--write", "b", "--stream"), "--stream: cannot be used with --fields"),
        (("x.txt", "--fields", "a", "--write", "b"), "FILE: cannot be used with --fields"),
    ],
)
def test_options_that_do_not_fit(trained, more, message):
    assert message in run("generate", trained[0], *more, code=2).stderr


@pytest.mark.parametrize("content", ["", "\n \n", "[]"])
def test_a_file_without_records_is_refused(trained, tmp_path, content):
    done = written(trained[0], tmp_path, content, "body", code=2)
    assert "has no record" in done.stderr and not done.stdout


def test_a_model_of_texts_has_no_fields(tmp_path):
    (tmp_path / "a.txt").write_text("the sea\n\na storm\n\nthe harbour\n")
    run(
        *("train", "grover-articles", "--data", tmp_path, "--out", tmp_path / "run"),
        *("--set", "data.train.documents=a.txt", "--set", "data.dev.held_out=1"),
        *("--set", "objective.fields=false", "--set", "objective.causal-lm.rows=documents"),
        *("--set", "text.vocab=270"),
        *("--set", "train.steps=1", "--set", f"model.change={SMALL}"),
    )
    done = written(tmp_path / "run" / "model", tmp_path, "{}", "body", code=2)
    assert "this model was not trained on records of fields" in done.stderr
    run(
        *("train", "grover-articles", "--data", EXAMPLES, "--out", tmp_path / "tuned"),
        *("--set", f"model.start={tmp_path / 'run' / 'model'}", "--set", "model.size="),
        *("--set", "model.change={}", "--set", "text=false", "--set", "train.steps=1"),
    )
    tuned = regard.load(tmp_path / "tuned" / "model", "cpu")
    start = regard.load(tmp_path / "run" / "model", "cpu")
    assert len(tuned.tokenizer.words) == len(start.tokenizer.words) + 10
    assert tuned.facts.sizes["tokens"] == len(tuned.tokenizer.words)
    assert written(tmp_path / "tuned" / "model", tmp_path, "{}", "body").stdout.count("\n") == 1


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.txt": "text"}, "a.txt: fields can only be read from JSON lines"),
        ({"a.jsonl": '{"body": "x"}\n{"body": 3}\n'}, "a.jsonl:2: the field 'body' is not text"),
    ],
)
def test_documents_that_are_no_records(tmp_path, files, message):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
        data = f"data.train.documents={name}"
        order = ("train", "grover-articles", "--data", tmp_path, "--out", tmp_path / "run")
        assert message in run(*order, "--set", data, code=2).stderr
