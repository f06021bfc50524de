"""Several files as the input of a verb or of ``regard.bulk``: one run, in their order."""

import csv
import fcntl
import json
import os

import pytest

import regard
from regard.experiments.bulk.line_source import LineSource
from small_bert import model as small_bert
from small_gpt import write_gpt2
from small_images import small_vit, write_images
from verb import run


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert") / "model"
    small_bert("one").save(folder)
    return folder


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder ``texts`` of three files, one of them empty, in the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts").mkdir()
    for name, content in {"a": "the cat\nthe boat\n", "b": "", "c": "the storm\n"}.items():
        (tmp_path / "texts" / f"{name}.txt").write_text(content)
    return tmp_path


NAMES = [["texts/a.txt", "texts/b.txt", "texts/c.txt"], ["texts/*.txt"], ["texts"]]


@pytest.mark.parametrize("names", NAMES, ids=["list", "pattern", "folder"])
@pytest.mark.parametrize("verb", ["predict", "embed"])
def test_files_are_read_one_after_the_other(classifier, here, verb, names):
    (here / "all.txt").write_text("the cat\nthe boat\nthe storm\n")
    assert run(verb, classifier, *names).stdout == run(verb, classifier, "all.txt").stdout
    records = [
        json.loads(line) for line in run(verb, classifier, *names, "--json").stdout.split("\n")[:-1]
    ]
    places = [(record["file"], record["line"]) for record in records]
    assert places == [("texts/a.txt", 1), ("texts/a.txt", 2), ("texts/c.txt", 1)]


@pytest.mark.parametrize("pattern", ["texts/*", "**/*.txt"])
def test_patterns_leave_out_hidden_files_unless_they_name_them(classifier, here, pattern):
    expected = run("embed", classifier, *NAMES[0]).stdout
    for name in ("_SUCCESS", ".part.crc", "_temporary/d.txt", ".cache/e.txt", "_f.txt"):
        (here / "texts" / name).parent.mkdir(exist_ok=True)
        (here / "texts" / name).write_text("the gulls\n")
    assert run("embed", classifier, pattern).stdout == expected
    alone = run("embed", classifier, "texts/_f.txt").stdout
    assert run("embed", classifier, "texts/_*.txt").stdout == alone
    assert run("embed", classifier, "texts/_temp*/*").stdout == alone
    refused = run("embed", classifier, "texts/.cache/_*", code=2).stderr
    assert "texts/.cache/_*: no file matches this pattern" in refused


@pytest.mark.parametrize("verb", ["translate", "generate", "score"])
def test_models_of_language_read_several_files(small_run, here, verb):
    model = small_run / "run" / "model" if verb == "translate" else write_gpt2(here / "gpt")
    options = ("--max-new-tokens", 2, "--temperature", 2) if verb == "generate" else ()
    (here / "all.txt").write_text("the cat\nthe boat\nthe storm\n")
    expected = run(verb, model, "all.txt", *options).stdout
    assert run(verb, model, "texts/*", *options).stdout == expected and expected.count("\n") == 3


def test_tables_of_several_files_are_one_table(classifier, here):
    (here / "a.csv").write_text("id,text\n1,the cat\n")
    (here / "b.csv").write_text('id,text\n2,"the\nboat"\n3,the storm\n')
    lines = run("predict", classifier, "a.csv", "b.csv").stdout.splitlines()
    assert lines[0] == "id,text,label,probability" and len(lines) == 5
    assert [line.split(",")[0] for line in lines[1:]] == ["1", "2", 'boat"', "3"]
    (here / "c.csv").write_text("text,id\nthe cat,1\n")
    refused = run("predict", classifier, "a.csv", "c.csv", code=2).stderr
    assert "c.csv: has other columns than a.csv" in refused
    for name in ("a", "b"):
        (here / f"{name}.jsonl").write_text(json.dumps({"text": "the cat", "id": name}) + "\n")
    records = run("predict", classifier, "a.jsonl", "b.jsonl").stdout.splitlines()
    assert [json.loads(record)["id"] for record in records] == ["a", "b"]


def test_several_parquet_files_are_one(classifier, here):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    for name, texts in {"a": ["the cat", "the boat"], "b": ["the storm"]}.items():
        parquet.write_table(
            arrow.table({"text": texts, "of": [name] * len(texts)}), f"{name}.parquet"
        )
    run("predict", classifier, "*.parquet", "--out", "out.pq")
    rows = parquet.read_table("out.pq").to_pylist()
    assert [(row["text"], row["of"]) for row in rows] == [
        ("the cat", "a"),
        ("the boat", "a"),
        ("the storm", "b"),
    ]
    assert all(row["label"] for row in rows)
    parquet.write_table(arrow.table({"text": ["the cat"], "of": [1]}), "c.parquet")
    refused = run("predict", classifier, "*.parquet", "--out", "new.pq", code=2).stderr
    assert "c.parquet: has other columns than a.parquet" in refused


EMPTY = {"a.csv": "", "b.csv": "text,id\n", "d.csv": "\n", "a.jsonl": "", "d.jsonl": "\n"}


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
@pytest.mark.parametrize("options", [(), ("--column", "text")], ids=["found", "named"])
def test_empty_parts_of_a_table_give_no_rows(classifier, here, suffix, options):
    parts = here / "parts"
    parts.mkdir()
    row = json.dumps({"text": "the cat", "id": 1}) if suffix == "jsonl" else "text,id\nthe cat,1"
    contents = {**EMPTY, f"c.{suffix}": f"{row}\n", f"e.{suffix}": f"{row}\n"}
    for name, content in contents.items():
        if name.endswith(suffix):
            (parts / name).write_text(content)
    for name in ("_SUCCESS", ".part.crc"):
        (parts / name).write_text("")
    call = ("predict", classifier, *options, "--batch-size", 1)
    expected = run(*call, parts / f"c.{suffix}").stdout.splitlines(True)
    assert run(*call, "parts").stdout.splitlines(True) == [*expected, expected[-1]]
    assert run(*call, "parts", "--json").stdout.count("\n") == 2
    report = regard.bulk(
        classifier, "parts", task="predict", out=f"out.{suffix}", device="cpu", workers=0
    )
    assert (report.inputs, report.bad) == (2, 0)
    refused = run("predict", classifier, f"parts/a.{suffix}", code=2).stderr
    assert refused.endswith(f"parts/a.{suffix}: the table has no rows\n")
    both = (f"parts/a.{suffix}", f"parts/d.{suffix}")
    assert f"a.{suffix}: the table has no rows" in run("predict", classifier, *both, code=2).stderr


def test_empty_parquet_parts_give_no_rows(classifier, here):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    for name, texts in {"a": [], "b": ["the cat", "the boat"], "c": []}.items():
        table = arrow.table({"text": arrow.array(texts, arrow.string())})
        parquet.write_table(table, f"{name}.parquet")
    run("predict", classifier, "*.parquet", "--out", "out.pq")
    assert parquet.read_table("out.pq").column("text").to_pylist() == ["the cat", "the boat"]


def linked(kind, file):
    """Another name of a file."""
    if kind != "itself":
        link = file.with_name("link" + file.suffix)
        link.hardlink_to(file) if kind == "hard link" else link.symlink_to(file.name)
        return link
    return file


@pytest.mark.parametrize("options", [(), ("--workers", 2), ("--resume",)], ids=str)
@pytest.mark.parametrize("kind", ["itself", "hard link", "symbolic link"])
@pytest.mark.parametrize("names", NAMES, ids=["list", "pattern", "folder"])
def test_results_do_not_replace_an_input(here, names, kind, options):
    """Before a model is loaded: there is none."""
    out = linked(kind, here / "texts" / "c.txt")
    refused = run("predict", "no-model", *names, "--out", out, *options, code=2).stderr
    assert refused.startswith(f"regard: --out {out}: texts/") and refused.count("\n") == 1
    assert refused.endswith(".txt is read, and would be lost; name another file\n")
    assert (here / "texts" / "c.txt").read_text() == "the storm\n"


@pytest.mark.parametrize(
    "call",
    [
        *((verb, "m", "a.txt") for verb in ("translate", "generate", "embed", "score", "fill")),
        ("translate", "m", "b.txt", "--prefix", "a.txt"),
        ("translate", "m", "a.txt", "--document"),
        ("generate", "m", "--fields", "a.txt"),
        ("score", "m", "a.txt", "--whole"),
        ("predict", "m", "b.txt", "--edits", "a.txt"),
        ("sweep", "nbest.jsonl", "b.txt", "a.txt"),
        ("steer", "m", "--plus", "b.txt", "--minus", "a.txt"),
    ],
    ids=" ".join,
)
def test_no_verb_writes_over_what_it_reads(here, call):
    (here / "a.txt").write_text("the cat\n")
    refused = run(*call, "--out", "a.txt", code=2).stderr
    assert refused == "regard: --out a.txt: a.txt is read, and would be lost; name another file\n"


def test_a_redirected_input_is_not_replaced(here):
    kept = os.dup(0)
    try:
        with (here / "texts" / "a.txt").open() as file:
            os.dup2(file.fileno(), 0)
        refused = run("predict", "no-model", "--out", "texts/a.txt", code=2).stderr
    finally:
        os.dup2(kept, 0)
        os.close(kept)
    assert refused.startswith("regard: --out texts/a.txt: standard input is read, and would be")


def test_a_stopped_output_is_no_input(classifier, here):
    for name in ("out.txt.partial", "out.jsonl.partial"):
        (here / "texts" / name).write_text("the cat\n")
    fault = "out.txt.partial is read, and would be lost"
    refused = run("predict", "no-model", "texts", "--out", "texts/out.txt", "--resume", code=2)
    assert fault in refused.stderr
    with pytest.raises(regard.BadInput, match=r"^out texts/out.jsonl: texts/out.jsonl.partial is"):
        regard.bulk(classifier, "texts", task="predict", out="texts/out.jsonl")


@pytest.fixture
def stopped(classifier, here, monkeypatch):
    """A command that was stopped after 2 of 3 lines, with its file of results."""
    monkeypatch.setattr(LineSource.__init__, "__defaults__", (2, False))
    (here / "in.txt").write_bytes(b"the cat\nthe boat\n\xff\n")
    command = ("embed", classifier, "in.txt", "--pool", "mean", "--out", "out.txt")
    run(*command, "--resume", code=2)
    (here / "in.txt").write_text("the cat\nthe boat\nthe storm\n")
    return command, here / "out.txt"


def test_what_differs_is_named_as_it_was_typed(classifier, stopped, here):
    command, out = stopped

    def differs(*more):
        error = run(*command, "--resume", *more, code=2).stderr
        return error.partition("(differs in: ")[2].partition(")")[0]

    (here / "other.txt").write_text("the cat\n")
    assert differs("--pool", "max", "--no-normalise") == "--pool, --normalise"
    assert differs("other.txt") == "FILE"
    assert differs("--workers", 1) == "--workers or --ray"
    state = here / "out.txt.partial.json"
    state.write_text("{")
    error = run(*command, "--resume", code=2).stderr
    assert "json: not JSON (" in error
    assert error.endswith("); remove out.txt.partial to begin anew\n")
    (here / "out.txt.partial").unlink()
    run(*command, "--resume")
    assert out.exists() and not state.exists()


def test_a_whole_run_removes_what_a_stopped_one_left(stopped, here):
    command, out = stopped
    with (here / "out.txt.partial").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert "out.txt.partial: in use by another run" in run(*command, code=2).stderr
    assert not out.exists()
    run(*command)
    assert not [*here.glob("out.txt.*")] and out.read_text().count("\n") == 3
    assert "has no run to continue" in run(*command, "--resume", code=2).stderr


def test_a_changed_call_of_bulk_is_named_in_python(classifier, here, monkeypatch):
    monkeypatch.setattr(LineSource.__init__, "__defaults__", (2, False))
    (here / "in.txt").write_bytes(b"the cat\nthe boat\n\xff\n")
    given = {"task": "predict", "out": "out.jsonl", "device": "cpu", "workers": 0}
    with pytest.raises(regard.BadInput, match="not UTF-8"):
        regard.bulk(classifier, "in.txt", skip_bad=False, **given)
    with pytest.raises(regard.BadInput, match=r"\(differs in: dataset, max_length\); remove it"):
        regard.bulk(classifier, "texts/a.txt", max_length=9, **given)


@pytest.mark.parametrize("name", ["max_length", "batch_size"])
def test_bulk_checks_its_numbers(classifier, here, name):
    for value in (0, -1, 1.5):
        with pytest.raises(regard.BadInput, match=f"^{name} must be "):
            regard.bulk(classifier, "texts", task="predict", out="out.jsonl", **{name: value})


def test_generate_reads_tables(here):
    model = write_gpt2(here / "gpt")
    (here / "a.csv").write_text("id,text\n1,the cat\n2,the boat\n")
    options = ("--max-new-tokens", 2)
    lines = run("generate", model, "a.csv", *options).stdout.splitlines()
    assert lines[0] == "id,text,generated,score" and lines[2].startswith("2,the boat,")
    record = run("generate", model, "a.csv", "--json", "--column", "text", *options).stdout
    assert json.loads(record.splitlines()[1])["id"] == "2"
    refused = run("generate", model, "a.csv", "--column", "text", "--stream", code=2).stderr
    assert "--column: cannot be used with --stream" in refused


@pytest.mark.parametrize("verb", ["predict", "score", "translate", "generate"])
def test_a_bad_line_of_several_files_is_named_and_skipped(small_run, classifier, here, verb):
    model = {"translate": small_run / "run" / "model", "predict": classifier}.get(verb)
    model = model or write_gpt2(here / "gpt")
    (here / "texts" / "c.txt").write_bytes(b"\xff\nthe storm\n")
    refused = run(verb, model, "texts", code=2)
    assert "texts/c.txt:1: not UTF-8" in refused.stderr and refused.stdout.count("\n") == 2
    done = run(verb, model, "texts", "--skip-bad", "--json")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(records) == 4 and "texts/c.txt:1: not UTF-8" in records[2]["error"]
    assert "1 of 4 inputs were skipped" in done.stderr


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_errors_stand_beside_the_rows_of_tables(classifier, here, suffix):
    rows = ["the cat", "the boat " * 40, "the storm"]
    table = here / f"in{suffix}"
    if suffix == ".csv":
        table.write_text("text\n" + "".join(f"{row}\n" for row in rows))
    elif suffix == ".jsonl":
        table.write_text("".join(json.dumps({"text": row}) + "\n" for row in rows))
    else:
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.table({"text": rows}), table)
    out = here / f"out{suffix}"
    report = regard.bulk(
        classifier, table, task="predict", out=out, device="cpu", max_length=20, workers=0
    )
    assert (report.inputs, report.bad) == (3, 1) and report.seconds > 0
    if suffix == ".csv":
        with out.open(newline="") as file:
            errors = [row["error"] for row in csv.DictReader(file)]
    elif suffix == ".jsonl":
        errors = [json.loads(line).get("error") for line in out.read_text().splitlines()]
    else:
        errors = parquet.read_table(out).column("error").to_pylist()
    assert [bool(error) for error in errors] == [False, True, False]
    assert "tokens, more than 20" in errors[1]


def test_bulk_reads_a_list_of_files(classifier, here):
    out = here / "out.jsonl"
    report = regard.bulk(
        classifier, ["texts/a.txt", "texts/c.txt"], task="embed", out=out, device="cpu", workers=0
    )
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(record["file"], record["line"]) for record in records] == [
        ("texts/a.txt", 1),
        ("texts/a.txt", 2),
        ("texts/c.txt", 1),
    ]
    assert report.inputs == 3
    with pytest.raises(regard.BadInput, match="dataset: an empty list"):
        regard.bulk(classifier, [], task="embed", out=here / "new.jsonl")


def test_a_run_of_several_files_is_resumed(classifier, here, monkeypatch):
    monkeypatch.setattr(LineSource.__init__, "__defaults__", (2, False))
    (here / "texts" / "d.txt").write_bytes(b"the cat\n\xff\n")
    command = ("predict", classifier, "texts", "--json", "--out", "out.jsonl", "--resume")
    assert "texts/d.txt:2: not UTF-8" in run(*command, code=2).stderr
    (here / "texts" / "d.txt").write_bytes(b"the cat\nthe boat\n")
    assert "continues after 4 inputs" in run(*command).stderr
    records = [json.loads(line) for line in (here / "out.jsonl").read_text().splitlines()]
    assert [record["file"][6] for record in records] == [*"aacdd"]


def test_images_of_several_folders_and_files(here):
    pytest.importorskip("PIL")
    small_vit().save(here / "vit")
    first, second = write_images(here / "one", 2), write_images(here / "two", 2)
    options = ("--workers", 0, "--device", "cpu", "--batch-size", 1)
    done = run("predict", "vit", "one", *second, *options).stdout
    paths = [line.split("\t")[0] for line in done.splitlines()]
    assert paths == [*(str(path.relative_to(here)) for path in first), *map(str, second)]
    report = regard.bulk(
        "vit", ["one", "two"], task="predict", out="out.jsonl", device="cpu", workers=0
    )
    assert report.inputs == 4 and not report.bad


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["*.csv"], "*.csv: no file matches this pattern"),
        (["texts/a.txt", "-"], "-: standard input cannot be read beside files"),
        (["texts/a.txt", "a.csv"], "texts/a.txt and a.csv: files of one call have one format"),
        (["texts/a.txt", "missing.txt"], "missing.txt: cannot be read"),
    ],
)
def test_what_cannot_be_read_together_is_refused(classifier, here, names, message):
    refused = run("predict", classifier, *names, code=2)
    assert message in refused.stderr.splitlines()[-1]


def test_rows_before_a_quote_that_is_never_closed_are_written(classifier, here):
    (here / "in.csv").write_text('id,text\n1,the cat\n2,the boat\n3,"the storm\n4,the cat\n')
    report = regard.bulk(
        classifier, "in.csv", task="predict", out="out.csv", device="cpu", workers=0
    )
    assert (report.inputs, report.bad) == (3, 1)
    with (here / "out.csv").open(newline="") as file:
        rows = [*csv.DictReader(file)]
    assert [bool(row["label"]) for row in rows] == [True, True, False]
    assert rows[2]["error"].startswith("in.csv:4: a quote that is never closed")
    assert "4,the cat" in rows[2]["id"]
    refused = run("predict", classifier, "in.csv", code=2)
    assert refused.stdout.count("\n") == 3 and "in.csv:4: a quote that is nev" in refused.stderr


def test_bulk_in_this_process_has_statistics(classifier, here):
    (here / "in.txt").write_text("the cat\n\nthe boat\n")
    report = regard.bulk(
        classifier, "in.txt", task="predict", out="out.jsonl", device="cpu", workers=0
    )
    assert str(report).startswith("2 results of 3 inputs, 0 bad, 1 blank, 0 cut, ")
    assert report.sums["tokens"] > 0
    with pytest.raises(regard.BadInput, match="workers"):
        regard.bulk(classifier, "in.txt", task="predict", out="new.jsonl", workers=-1)


def test_vectors_in_json_lines_have_errors(classifier, here):
    (here / "in.txt").write_bytes(b"the cat\n\xff\n")
    run("embed", classifier, "in.txt", "--skip-bad", "--out", "out.jsonl")
    first, second = map(json.loads, (here / "out.jsonl").read_text().splitlines())
    assert "error" not in first and "in.txt:2: not UTF-8" in second["error"]


def test_messages_of_bulk_have_the_words_of_python(classifier, here):
    def refused(**changes):
        given = {"task": "predict", "out": "new.csv", "device": "cpu", "workers": 0, **changes}
        with pytest.raises(regard.BadInput) as error:
            regard.bulk(classifier, given.pop("dataset", "a.csv"), **given)
        assert not (here / str(given["out"])).exists() or given["out"] == "a.csv"
        return str(error.value)

    (here / "a.csv").write_text("id,text\n1,the cat\n2,the boat the boat\n")
    assert refused(columns=["nope"]) == "columns nope: a.csv has no such column, but id, text"
    assert refused(columns=["id", "text", "id"]).startswith("columns: this model reads 1")
    assert refused(out="new.tsv") == "out: new.tsv: the results of a.csv are a .csv or .jsonl file"
    assert refused(max_length=2, skip_bad=False).endswith("or raise max_length")
    assert refused(options={"pol": 2}).startswith("predict has no option 'pol'; known: ")
    assert refused(task="predit") == "task: there is no 'predit'; did you mean 'predict'?"
    known = refused(out="new.doc").rpartition("choose one of ")[2].split(", ")
    assert len(known) == len({*known}) and ".jsonl" in known
    assert refused(out="a.csv") == "a.csv: is complete; remove it, or choose another"
    done = {"task": "predict", "out": "b.csv", "device": "cpu", "workers": 0, "max_length": 4}
    regard.bulk(classifier, "a.csv", **done)
    assert "or raise max_length" in (here / "b.csv").read_text()
    with pytest.raises(regard.BadInput, match=r"^b.csv: is complete; remove it, or choose another"):
        regard.bulk(classifier, "a.csv", **done)


def test_an_empty_line_is_no_result_of_a_translator(small_run, here):
    (here / "in.txt").write_text("the cat\n \nthe boat\n")
    model = small_run / "run" / "model"
    report = regard.bulk(
        model, "in.txt", task="translate", out="out.jsonl", device="cpu", workers=0
    )
    assert str(report).startswith("2 results of 3 inputs, 0 bad, 1 blank, 0 cut, ")
    assert report.sums["count score"] == 2
    assert len((here / "out.jsonl").read_text().splitlines()) == 3
