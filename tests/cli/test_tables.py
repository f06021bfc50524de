"""Verbs read columns of tables, and print the tables again with result columns."""

import csv
import gzip
import io
import json
import os
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import regard
from regard.experiments.bulk.table_source import TableSource
from small_bert import SENTENCES, model
from verb import run

TEXTS = ("an owl, perhaps", 'no "bird"\nat all', "", "owl owl owl")
NAMES = ["id", "text", "label"]
TEXT = {"text": "The storm came in"}
RESULTS = {  # of each kind of model: a row, and its result columns
    "one": (TEXT, ["label", "probability"]),
    "several": (TEXT, ["labels"]),
    "number": (TEXT, ["value"]),
    "tags": (TEXT, ["tags"]),
    "answer": ({"question": "Who?", "context": "The storm came in"}, ["answer", "probability"]),
    "choose": ({"first": "The", "choices": ["storm", "came"]}, ["choice", "probability"]),
}


@pytest.fixture(scope="module")
def owls(owl_run):
    return owl_run / "run" / "model"


@pytest.fixture(scope="module")
def translator(small_run):
    return small_run / "run" / "model"


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    for kind in ("words", "states", *RESULTS):
        model(kind).save(folder / kind)
    return folder


def write_csv(path, delimiter=",", names=NAMES, texts=TEXTS, encoding="utf-8"):
    file = io.StringIO()
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    writer.writerows([names, *([number, text, "no"] for number, text in enumerate(texts, 1))])
    path.write_bytes(file.getvalue().encode(encoding))
    return path


def cells_of(text, delimiter=","):
    return [*csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)]


@pytest.mark.parametrize(
    ("delimiter", "encoding", "options"),
    [
        (",", "utf-8", ()),
        (";", "utf-16", ("--column", "text")),
        ("|", "utf-8-sig", ("--column", 1)),
    ],
)
def test_predict_keeps_all_columns(owls, tmp_path, delimiter, encoding, options):
    """The header is no text; the gold label keeps its name; a text may have several lines."""
    path = write_csv(tmp_path / "test.csv", delimiter, encoding=encoding)
    done = run("predict", owls, path, *options)
    names, *rows = cells_of(done.stdout, delimiter)
    assert names == [*NAMES, "predicted_label", "probability"]
    expected = regard.load(owls).predict([text for text in TEXTS if text])
    labels = iter(expected)
    for number, (text, row) in enumerate(zip(TEXTS, rows, strict=True), start=1):
        assert row[:3] == [str(number), text, "no"]
        prediction = next(labels) if text else None
        assert row[3] == (prediction.label if prediction else "")
        if prediction:
            assert float(row[4]) == pytest.approx(prediction.probability, rel=1e-6)
    assert ("reads text" in done.stderr) is not options


def test_json_has_everything(owls, tmp_path):
    path = write_csv(tmp_path / "test.csv.gz")
    path.write_bytes(gzip.compress(path.read_bytes()))
    first, *_ = map(json.loads, run("predict", owls, path, "--json").stdout.splitlines())
    assert first["label"] == "no" and first["id"] == "1"
    assert {"predicted_label", "probability", "probabilities", "cut"} <= first.keys()
    lines = tmp_path / "test.jsonl"
    lines.write_text('{"id": 7, "text": "an owl", "more": [1, {"a": null}]}\n\n{"text": null}\n')
    first, empty, last = run("predict", owls, lines).stdout.splitlines()
    assert json.loads(first).items() >= {"id": 7, "more": [1, {"a": None}]}.items()
    assert [*json.loads(first)] == ["id", "text", "more", "label", "probability"]
    assert empty == ""
    assert json.loads(last) == {"text": None, "label": None, "probability": None}
    deep = tmp_path / "deep.jsonl"
    deep.write_text('{"in": {"en": "an owl"}}\n')
    assert "label" in json.loads(run("predict", owls, deep, "--column", "in.en").stdout)


def test_tabs_without_a_header_are_lines_as_before(owls, tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("an owl is here\nno bird\n")
    lines = run("predict", owls, path).stdout.splitlines()
    assert [line.count("\t") for line in lines] == [1, 1]
    path.write_text("id\ttext\n1\tan owl\n")
    head, row = run("predict", owls, path).stdout.splitlines()
    assert head == "id\ttext\tlabel\tprobability" and row.startswith("1\tan owl\t")


def test_pairs_are_two_columns(bert, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("n,Premise,Hypothesis\n1,The storm,came in\n")
    names, row = cells_of(run("predict", bert / "one", path).stdout)
    options = ("--column", "Premise", "--column", 2)
    assert cells_of(run("predict", bert / "one", path, *options).stdout) == [names, row]
    (expected,) = model("one").predict([("The storm", "came in")])
    assert row[3] == expected.label
    refused = run("predict", bert / "one", path, *options, "--column", "n", code=2)
    assert "--column: this model reads 1 or 2 of them, not 3" in refused.stderr


@pytest.mark.parametrize("kind", RESULTS)
def test_every_task_has_its_columns(bert, tmp_path, kind):
    row, columns = RESULTS[kind]
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"id": 3, **row}) + "\n")
    (line,) = run("predict", bert / kind, path).stdout.splitlines()
    record = json.loads(line)
    assert [*record] == ["id", *row, *columns]
    assert None not in [record[column] for column in columns]
    assert record["id"] == 3 and {**record, **row} == record


def test_vectors_are_a_column_or_a_file(bert, tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text(f"id\ttext\n1\t{SENTENCES[0]}\n2\t\n")
    out = tmp_path / "out.tsv"
    run("embed", bert / "states", path, "--out", out)
    head, first, last = out.read_text().splitlines()
    assert head == "id\ttext\tvector" and last == "2\t\t"
    expected = model("states").embed([SENTENCES[0]]).numpy()[0]
    assert np.allclose(json.loads(first.split("\t")[2]), expected, atol=1e-6)
    run("embed", bert / "states", path, "--out", tmp_path / "a.npy")
    stored = np.load(tmp_path / "a.npy")
    assert np.allclose(stored[0], expected, atol=1e-6) and not stored[1].any()


@pytest.mark.parametrize("head", ["", "en\tde\n", "DE\tEN\n"])
def test_translate_reads_the_source_of_two_texts(translator, tmp_path, head):
    path = tmp_path / "a.tsv"
    path.write_text(f"{head}dog cow\tcow dog\ncow cow\tdog dog\ndog dog\tcow cow dog\n")
    done = run("translate", translator, path)
    rows = [line.split("\t") for line in done.stdout.splitlines()[bool(head) :]]
    lines = run("translate", translator, stdin="dog cow\ncow cow\ndog dog\n").stdout
    assert [row[2] for row in rows] == lines.splitlines()
    assert f"{path}: reads {head[:2] or 0}\n" in done.stderr


def test_translate_asks_which_column_is_the_text(translator, tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("1\tdog cow\n2\tcow\n")
    done = run("translate", translator, path, code=2)
    assert "which column is the text? Add --column, one of: 0, 1" in done.stderr
    assert not done.stdout
    path.write_text("dog cow\ncow\n")
    plain = run("translate", translator, stdin=path.read_text()).stdout
    assert run("translate", translator, path).stdout == plain


def test_translate_score_and_fill(translator, bert, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,src,tgt\n7,dog cow,cow dog\n8,cow,dog\n")
    names, *rows = cells_of(run("translate", translator, path, "--best", 2).stdout)
    assert names == ["id", "src", "tgt", "translation", "score"]
    assert [row[0] for row in rows] == ["7", "7", "8", "8"]
    lines = run("translate", translator, "--best", 2, stdin="dog cow\ncow\n").stdout
    assert [row[3] for row in rows] == lines.splitlines()
    names, *rows = cells_of(run("score", translator, path).stdout)
    assert names == ["id", "src", "tgt", "logprob", "perplexity"]
    lines = run("score", translator, stdin="dog cow\tcow dog\ncow\tdog\n").stdout.splitlines()
    assert [f"{float(row[3]):.4f}" for row in rows] == lines
    path.write_text("text\nThe [MASK] came.\n")
    names, row = cells_of(run("fill", bert / "words", path, "--top", 2).stdout)
    (expected,) = model("words").fill(["The [MASK] came."], top=2)
    assert names == ["text", "filled", "words"] and row[1] == expected.text
    assert json.loads(row[2]) == [[fill.word for fill in expected.blanks[0]]]


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        (
            "a.csv",
            "id,Kommentar,Urteil\n1,so was,gut\n",
            (),
            "a.csv: which column is the text? Add --column, one of: id, Kommentar, Urteil",
        ),
        ("a.csv", "x,y\nz,w\n", (), "which column is the text? Add --column, one of: 0, 1"),
        ("a.jsonl", '{"foo": 1}\n', (), "which column is the text? Add --column, one of: foo"),
        ("a.csv", "id,text\n1,a\n", ("--column", "txt"), "txt: a.csv has no such column, but id"),
        ("a.csv", "id,text\n1,a\n", ("--column", "7"), "--column 7: "),
        ("a.jsonl", '{"a": "b", "c": "d"}\n', (), "Add --column, one of: a, c"),
        ("a.jsonl", '{"text": 1.5}\n', (), "a.jsonl:1: the value of 'text' is not text"),
        ("a.jsonl", "{\n", (), "a.jsonl:1: not JSON ("),
        ("a.csv", 'id,text\n1,"a"b\n', (), "a.csv:2: not CSV ("),
        ("a.csv", "id,text\n1,a,b\n", (), "a.csv:2: 3 cells, and the first line has 2; quote"),
        ("a.csv", 'id,text\n1,"a\n', (), "a.csv:2: a quote that is never closed; close it, or"),
        ("a.csv", "", (), "a.csv: the table has no rows"),
        (
            "a.csv",
            "id,text\n1,a\n",
            ("--out", "b.jsonl"),
            "the results of {} are a .csv file; name",
        ),
        ("a.csv", "id,text\n1,a\n", ("--out", "b.csv", "--json"), "are a .jsonl file; leave out"),
        (
            "a.parquet",
            "PAR1",
            (),
            "Parquet is written to a file; add --out FILE.parquet, or --json",
        ),
        ("a.parquet", "PAR1", ("--json",), "a.parquet: Parquet needs pyarrow: pip install"),
    ],
)
def test_bad_tables_are_named_in_one_line(
    owls, tmp_path, monkeypatch, name, content, options, message
):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(content)
    done = run("predict", owls, name, *options, code=2)
    complaint = done.stderr.splitlines()[-1]
    assert message.format(name) in complaint and complaint.startswith("regard: ")
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert not done.stdout or done.stdout.startswith("id")


def test_bad_rows_may_be_skipped(owls, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('id,text\n1,an owl\n2,"a"b\n3,owl\n')
    done = run("predict", owls, path, "--skip-bad")
    names, *rows = cells_of(done.stdout)
    assert [len(row) for row in rows] == [len(names)] * 3
    assert names[-1] == "error" and [row[-1] for row in (rows[0], rows[2])] == ["", ""]
    assert rows[1][:4] == ['2,"a"b', "", "", ""] and "a.csv:3: not CSV" in rows[1][4]
    assert "a.csv:3: not CSV" in done.stderr and "1 of 3 inputs were skipped" in done.stderr


def test_columns_of_other_inputs_are_refused(owls, translator, tmp_path):
    refused = run("predict", owls, "--column", "text", stdin="text\na\n", code=2)
    assert "--column: name a file; standard input has no suffix" in refused.stderr
    os.mkfifo(tmp_path / "pipe.csv")
    pipe = run("predict", owls, tmp_path / "pipe.csv", "--column", "text", code=2)
    assert "pipe.csv: cannot be read (not a regular file)" in pipe.stderr
    path = tmp_path / "a.txt"
    path.write_text("text;n\nan owl;1\n")
    assert run("predict", owls, path, "--column", "text").stdout.startswith("text;n;label;prob")
    whole = run("score", translator, path, "--whole", "--column", "a", code=2)
    assert "--column: cannot be used with --whole" in whole.stderr
    prefix = run("translate", translator, path, "--prefix", path, "--column", "a", code=2)
    assert "--column: cannot be used with --prefix" in prefix.stderr


def test_a_stopped_table_is_continued(owls, tmp_path, monkeypatch):
    """The file is the same as without the stop, with one header."""
    path, out = tmp_path / "a.csv", tmp_path / "out.csv"
    lines = [f'{number},"owl\n{number}"\n' for number in range(8)]
    path.write_text("id,text\n" + "".join(lines))
    whole = run("predict", owls, path).stdout
    monkeypatch.setattr(TableSource.__init__, "__defaults__", (3, False))
    path.write_text("id,text\n" + "".join(lines[:6]) + '6,"a"b\n' + lines[7])
    command = ("predict", owls, path, "--out", out, "--resume")
    assert "a.csv:14: not CSV" in run(*command, code=2).stderr
    partial = tmp_path / "out.csv.partial"
    assert partial.exists() and not out.exists()
    path.write_text("id,text\n" + "".join(lines))
    assert "continues after" in run(*command).stderr
    assert cells_of(out.read_text())[:1] == [["id", "text", "label", "probability"]]
    assert [row[:3] for row in cells_of(out.read_text())] == [row[:3] for row in cells_of(whole)]


def test_parquet_keeps_its_types(owls, tmp_path, monkeypatch):
    """With a stand-in for pyarrow, which records what it is asked for."""
    records = [{"id": 1, "text": "an owl", "day": None}, {"id": 2, "text": "no", "day": None}]
    columns = {}

    class Stored(SimpleNamespace):
        def append_column(self, name, values):
            columns[name] = values
            return self

    fake = ModuleType("pyarrow.parquet")
    batch = SimpleNamespace(to_pylist=lambda: records)
    fake.ParquetFile = lambda path: SimpleNamespace(iter_batches=lambda: iter([batch]))
    fake.read_table = lambda path: SimpleNamespace(take=lambda rows: Stored(rows=rows))
    fake.write_table = lambda table, file: file.write(b"PAR1" + json.dumps(table.rows).encode())
    arrow = ModuleType("pyarrow")
    arrow.array = list
    monkeypatch.setitem(sys.modules, "pyarrow", arrow)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", fake)
    path, out = tmp_path / "a.parquet", tmp_path / "b.parquet"
    path.write_bytes(b"PAR1")
    run("predict", owls, path, "--out", out)
    assert out.read_bytes() == b"PAR1[0, 1]"
    expected = regard.load(owls).predict(["an owl", "no"])
    assert columns["label"] == [prediction.label for prediction in expected]
    assert [*columns] == ["label", "probability"]
    out.unlink()
    assert "--resume: " in run("predict", owls, path, "--out", out, "--resume", code=2).stderr
    run("predict", owls, path, "--out", tmp_path / "b.jsonl", "--resume", "--json")
    assert len((tmp_path / "b.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize("verb", ["predict", "embed", "score", "translate", "fill"])
def test_the_form_of_a_table_can_be_declared(bert, owls, translator, tmp_path, verb):
    """A comma in a text and bytes that are no UTF-8 would be taken for another form."""
    models = {"predict": owls, "embed": owls, "score": bert / "words", "fill": bert / "words"}
    texts = ["schöne owl, [MASK]", "an owl, a [MASK]"]
    plain = tmp_path / "plain.csv"
    plain.write_text("".join(f'"{text}",1\n' for text in texts))
    declared = tmp_path / "declared.txt"
    rows = "".join(f"{text}|1\n" for text in texts)
    declared.write_bytes(rows.encode("cp437"))
    model = models.get(verb, translator)
    expected = cells_of(run(verb, model, plain, "--column", 0).stdout)
    form = ("--delimiter", "|", "--encoding", "cp437")
    printed = cells_of(run(verb, model, declared, "--column", 0, *form).stdout, "|")
    assert [row[0] for row in printed] == texts and printed == expected


def test_a_tab_can_be_written_as_in_python(owls, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text\tlabel\nan owl, or so\tno\n")
    (names, row) = cells_of(run("predict", owls, path, "--delimiter", r"\t").stdout, "\t")
    assert names[:2] == ["text", "label"] and row[:2] == ["an owl, or so", "no"]


@pytest.mark.parametrize("verb", ["predict", "embed"])
def test_lines_can_have_another_encoding(owls, tmp_path, verb):
    (tmp_path / "a.txt").write_text("schöne owl\nowl\n")
    (tmp_path / "b.txt").write_bytes("schöne owl\nowl\n".encode("utf-16"))
    expected = run(verb, owls, tmp_path / "a.txt").stdout
    assert run(verb, owls, tmp_path / "b.txt", "--encoding", "utf-16").stdout == expected


@pytest.mark.slow
def test_a_parquet_file_that_pyarrow_wrote(owls, tmp_path):
    """Without a stand-in for pyarrow: see CONTRIBUTING.md."""
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    texts = ["an owl, perhaps", "", "owl owl", None]
    table = arrow.table({"id": [1, 2, 3, 4], "body": texts, "size": [0.5, None, 1.5, 2.0]})
    source, out = tmp_path / "texts.parquet", tmp_path / "results.parquet"
    parquet.write_table(table, source)
    run("predict", owls, source, "--column", "body", "--out", out)
    written = parquet.read_table(out)
    assert written.select(table.column_names).equals(table)
    predictions = regard.load(owls).predict([text for text in texts if text])
    labels = [prediction.label for prediction in predictions]
    assert written["label"].to_pylist() == [labels[0], None, labels[1], None]
    probabilities = written["probability"].to_pylist()
    assert probabilities[0] == pytest.approx(predictions[0].probability) and not probabilities[1]
    lines = run("predict", owls, source, "--column", "body", "--json").stdout.splitlines()
    assert [json.loads(line)["label"] for line in lines] == [labels[0], None, labels[1], None]
