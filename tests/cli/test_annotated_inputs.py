"""Files of annotated examples as inputs: words in columns, SQuAD, and columns of training."""

import gzip
import json
from pathlib import Path

import pytest

from regard.models.folders.folder import read as read_folder
from small_bert import SENTENCES, model
from verb import run

WORDS = [sentence.rstrip(".").split() for sentence in SENTENCES[:3]]
SUFFIXES = ("conll", "iob2", "txt")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("tuned")

    def of(kind, **notes):
        path = place / "-".join((kind, *map(str, notes.values())))
        if not path.exists():
            tuned = model(kind)
            tuned.notes.update(notes)
            tuned.save(path)
        return path

    return of


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def predict(*arguments, code=0):
    return run("predict", *arguments, "--device", "cpu", code=code)


def records(*arguments):
    return [json.loads(line) for line in predict(*arguments, "--json").stdout.splitlines()]


def tags_of(sentences):
    return [[word.tag for word in tagged.words] for tagged in model("tags").predict(sentences)]


LAYOUTS = {  # of a word and its tag
    "tag last": lambda word, tag: f"{word} {tag}",
    "tabs": lambda word, tag: f"{word}\tX\t{tag}",
    "tag first": lambda word, tag: f"{tag}\t{word}",
    "numbered": lambda word, tag: f"1 {word} {tag}",
}


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_tags_stand_beside_the_words(folder, desk, layout, suffix):
    line = LAYOUTS[layout]
    rows = [[line(word, "B-PER" if i == 0 else "O") for i, word in enumerate(s)] for s in WORDS]
    text = "-DOCSTART- O\n\n" + "\n\n".join(map("\n".join, rows)) + "\n"
    Path(f"in.{suffix}").write_text(text)
    done = predict(folder("tags"), f"in.{suffix}")
    between = "\t" if "\t" in rows[0][0] else " "
    expected = iter(tag for tags in tags_of(WORDS) for tag in tags)
    lines = [
        row if not row or row.startswith("-DOC") else f"{row}{between}{next(expected)}"
        for row in text.splitlines()
    ]
    assert done.stdout.splitlines() == lines
    assert f"in.{suffix}: CoNLL, reads words of column" in done.stderr


def test_a_word_on_each_line_is_enough(folder, desk):
    Path("in.conll").write_text("\n\n".join(map("\n".join, WORDS)))
    lines = predict(folder("tags"), "in.conll").stdout.split("\n\n")
    for words, tags, block in zip(WORDS, tags_of(WORDS), lines, strict=True):
        pairs = zip(words, tags, strict=True)
        assert block.strip().splitlines() == [f"{word} {tag}" for word, tag in pairs]


def conllu(words):
    rows = [f"{number}\t{word}\t_\tX\tXX\t_\t0\troot\t_\t_" for number, word in enumerate(words, 1)]
    return "\n".join([f"# text = {' '.join(words)}", "1-2\tab\t_\t_\t_\t_\t_\t_\t_\t_", *rows])


@pytest.mark.parametrize(("notes", "column"), [({}, 3), ({"tag_column": 4}, 4)])
def test_tags_of_conllu_stand_in_their_column(folder, desk, notes, column):
    Path("in.conllu").write_text("\n\n".join(map(conllu, WORDS)) + "\n\n")
    done = predict(folder("tags", **notes), "in.conllu")
    before, after = Path("in.conllu").read_text().splitlines(), done.stdout.splitlines()
    expected = iter(tag for tags in tags_of(WORDS) for tag in tags)
    for old, new in zip(before, after, strict=True):
        cells = old.split("\t")
        if cells[0].isdigit():
            cells[column] = next(expected)
        assert new == "\t".join(cells)
    assert f"tags are printed in column {column}" in done.stderr


def test_json_and_entities_of_columns(folder, desk):
    Path("in.conll").write_text("\n\n".join("\n".join(f"{w} O" for w in s) for s in WORDS))
    found = records(folder("tags"), "in.conll")
    firsts = [1 + sum(len(words) + 1 for words in WORDS[:number]) for number in range(len(WORDS))]
    assert [record["line"] for record in found] == firsts
    assert [[word["text"] for word in record["words"]] for record in found] == WORDS
    printed = predict(folder("tags"), "in.conll", "--entities").stdout.splitlines()
    tagged = model("tags").predict(WORDS)
    assert printed == ["\t".join(f"{e.text}/{e.label}" for e in one.entities) for one in tagged]


def test_stopped_and_several_files(folder, desk):
    Path("a.conll").write_text("one O\ntwo O\n")
    Path("b.conll").write_text("one O\n\ncat\n")
    done = predict(folder("tags"), "a.conll", "b.conll", "--out", "out.conll")
    assert len(Path("out.conll").read_text().splitlines()) == 5 and not done.stdout
    bad = predict(folder("tags"), "b.conll", "c.conll", code=2)
    assert "c.conll" in bad.stderr


def test_bad_rows_are_named(folder, desk):
    Path("in.conll").write_text("one O\n\ncat O\nsea\n\ntwo O\n")
    refused = predict(folder("tags"), "in.conll", code=2)
    assert "in.conll:4: 1 columns where the sentence began with 2" in refused.stderr
    done = predict(folder("tags"), "in.conll", "--skip-bad", code=None)
    assert [len(line.split()) for line in done.stdout.splitlines()] == [3, 0, 2, 1, 0, 3]


def squad(questions):
    qas = [{"id": f"q{n}", "question": q, "answers": []} for n, (q, _) in enumerate(questions)]
    entries = zip(qas, questions, strict=True)
    paragraphs = [{"context": context, "qas": [entry]} for entry, (_, context) in entries]
    return json.dumps({"version": "1.1", "data": [{"title": "a", "paragraphs": paragraphs}]})


@pytest.mark.parametrize("name", ["in.json", "in.json.gz"])
def test_questions_of_squad(folder, desk, name):
    questions = [("Who mended the nets?", SENTENCES[0]), ("Who sings?", SENTENCES[1])]
    raw = squad(questions).encode()
    Path(name).write_bytes(gzip.compress(raw) if name.endswith("gz") else raw)
    answers = [answer.text for answer in model("answer").predict(questions)]
    printed = [line.split("\t") for line in predict(folder("answer"), name).stdout.splitlines()]
    assert [line[:2] for line in printed] == [["q0", answers[0]], ["q1", answers[1]]]
    found = records(folder("answer"), name)
    assert [(record["id"], record["answer"]["text"]) for record in found] == [
        (f"q{number}", text) for number, text in enumerate(answers)
    ]


REFUSED = {
    "in.conll": ("one", "words in columns (CoNLL), and this model reads texts"),
    "in.conllu": ("answer", "words in columns (CoNLL-U), and this model reads texts"),
    "squad.json": ("one", "questions about texts (SQuAD), which this model does not read"),
    "pairs.tmx": ("one", "a translation memory; name a file with a text on each line"),
    "list.json": ("one", "list.json:1: the line is not a JSON object"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_text_is_not_read_as_text(folder, desk, name):
    Path("in.conll").write_text("one O\n\ntwo O\n")
    Path("in.conllu").write_text(conllu(WORDS[0]))
    Path("squad.json").write_text(squad([("Who?", "Ada")]))
    Path("pairs.tmx").write_text("<tmx><body></body></tmx>")
    Path("list.json").write_text('["one", "two"]\n')
    kind, message = REFUSED[name]
    done = predict(folder(kind), name, code=2)
    assert message in done.stderr and not done.stdout and done.stderr.count("\n") == 1


TABLES = {
    "in.csv": "text,remark\nThe storm,a cat\n",
    "in.tsv": "text\tremark\nThe storm\ta cat\n",
    "in.jsonl": '{"text": "The storm", "remark": "a cat"}\n',
}


@pytest.mark.parametrize("name", TABLES)
def test_columns_of_training_are_remembered(folder, desk, name):
    Path(name).write_text(TABLES[name])
    known = predict(folder("one", columns=["remark"]), name)
    assert f"{name}: reads remark, as in training" in known.stderr
    assert f"{name}: reads text\n" in predict(folder("one"), name).stderr
    chosen = predict(folder("one", columns=["remark"]), name, "--column", "remark")
    assert known.stdout == chosen.stdout and "as in training" not in chosen.stderr
    gone = folder("one", columns=["gone"])
    assert read_folder(gone).notes["columns"] == ["gone"]
    assert f"{name}: reads text\n" in predict(gone, name).stderr


def test_a_table_without_a_header_is_read_by_the_numbers_of_training(folder, desk):
    Path("in.tsv").write_text("good\tThe storm came in\nbad\tMy cat sings\n")
    known = predict(folder("one", columns=[1]), "in.tsv")
    assert "in.tsv: reads 1, as in training" in known.stderr
    labels = [one.label for one in model("one").predict(["The storm came in", "My cat sings"])]
    assert [line.split("\t")[:3] for line in known.stdout.splitlines()] == [
        ["good", "The storm came in", labels[0]],
        ["bad", "My cat sings", labels[1]],
    ]


VERBS = ("attribute", "tree", "look", "stream")
COLUMNS = "Ada B-PER\nsings O\n\nshe O"


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_that_read_a_text_refuse_columns_and_files(desk, verb):
    """They would take the tags for words, or the name of the file for the text."""
    for name in ("in.conll", "in.txt", "in.conllu"):
        Path(name).write_text(conllu(WORDS[0]) if name.endswith("u") else COLUMNS)
        refused = run(verb, "model", name, code=2)
        assert f"{name}: a file, and this verb reads a text" in refused.stderr
        refused = run(verb, "model", Path(name).read_text(), code=2)
        form = "CoNLL-U" if name.endswith("u") else "CoNLL"
        assert f"the text is words in columns ({form})" in refused.stderr
        assert refused.stderr.count("\n") == 1
    Path("e.g").write_bytes(b"\0")
    for text in ("two lines\nof prose", "Ada sings", "e.g", "picture.png"):
        assert "no such folder" in run(verb, "model", text, code=2).stderr
