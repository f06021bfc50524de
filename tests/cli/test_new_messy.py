"""``regard new`` on data as people have it: each file is recognised, or refused in one line."""

import json
import tomllib
from pathlib import Path

import pytest

from regard.data.file_formats import LONGEST, format_of, sample_lines, words_format
from small_tuning import write_start
from verb import run

SUBJECTS = "The old man", "A young woman", "My sister", "The dog", "Angela"
OBJECTS = "a book", "the film", "an apple", "the letter", "Paris", "two owls"
TEXTS = [f"{subject} sees {thing} für uns" for subject in SUBJECTS for thing in OBJECTS]
LABELS = ["good" if "owls" in text or "dog" in text else "bad" for text in TEXTS]
SHORT = ("--set", "train.steps=2", "--set", "train.precision=fp32", "--device", "cpu")
LINE_ENDS = {"unix": "\n", "windows": "\r\n", "old mac": "\r"}


def table(between, texts=TEXTS, labels=LABELS):
    rows = [f"{text}{between}{label}\n" for text, label in zip(texts, labels, strict=True)]
    return f"text{between}label\n" + "".join(rows)


def columns(line):
    return "\n\n".join(
        "\n".join(line(word, "B-LOC" if word == "Paris" else "O") for word in text.split())
        for text in TEXTS
    )


def json_lines(texts=TEXTS, labels=LABELS):
    pairs = zip(texts, labels, strict=True)
    return "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in pairs)


def memory(*languages):
    units = [
        "<tu>"
        + "".join(
            f'<tuv xml:lang="{name}"><seg>{text} <ph>code</ph>&amp; {name}</seg></tuv>\n'
            for name in languages
        )
        + "</tu>\n"
        for text in TEXTS
    ]
    head = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n'
    header = f'<tmx version="1.4"><header srclang="{languages[0]}"/><body>\n'
    return f"{head}{header}{''.join(units)}</body></tmx>\n"


def squad():
    paragraphs = [
        {
            "context": text,
            "qas": [
                {
                    "id": f"q{number}",
                    "question": "Who sees?",
                    "answers": [{"text": text.split(" sees")[0], "answer_start": 0}],
                }
            ],
        }
        for number, text in enumerate(TEXTS)
    ]
    return json.dumps({"version": "1.1", "data": [{"title": "a", "paragraphs": paragraphs}]})


def recipe_of(name, *options):
    printed = run("new", name, *options, "--out", "first.toml")
    return printed, tomllib.loads(Path("first.toml").read_text())


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("end", LINE_ENDS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        *[("a.csv", table(",")), ("a.tsv", table("\t")), ("a.txt", table("\t"))],
        *[("a.jsonl", json_lines()), ("a.conll", columns("{} {}".format))],
        *[("a.iob", columns("{1}\t{0}".format)), ("words.txt", columns("{1} {0}".format))],
    ],
)
def test_line_ends_and_encodings(desk, name, text, encoding, end):
    is_words = not text.startswith(("text", "{"))
    Path(name).write_bytes(text.replace("\n", LINE_ENDS[end]).encode(encoding))
    if is_words and encoding == "latin-1":
        done = run("new", name, code=2)
        assert "not UTF-8" in done.stderr and "iconv -f WINDOWS-1252" in done.stderr
        return
    done, recipe = recipe_of(name)
    assert recipe["task"] == ("tag" if is_words else "classify")
    expected = "'O' 206 (97.6%)" if is_words else "'bad' 20 (66.7%), 'good' 10 (33.3%)"
    assert "train 30" in done.stdout and expected in done.stdout, done.stdout


TRAINED = {
    "tag first": ("in.conll", columns("{1} {0}".format), "tag"),
    "numbered words": ("in.conll", columns("1 {} {}".format), "tag"),
    "translation memory": ("in.tmx", memory("en-US", "de"), "translate"),
    "translation memory by content": ("in.xml", memory("en", "de"), "translate"),
    "SQuAD": ("in.json", squad(), "answer"),
    "long texts": (
        "in.csv",
        table(",", [f"{text} {'and so on ' * 400}" for text in TEXTS]),
        "classify",
    ),
    "rare label": ("in.csv", table(",", TEXTS, ["rare", "rare", *["usual"] * 28]), "classify"),
}


@pytest.mark.thinned
@pytest.mark.parametrize("kind", TRAINED)
def test_messy_data_trains_as_it_is(desk, kind):
    name, text, task = TRAINED[kind]
    Path(name).write_text(text)
    _, recipe = recipe_of(name)
    assert recipe["task"] == task
    trained = run("train", "first.toml", *SHORT)
    assert Path("runs/first/model/config.json").is_file(), trained.output
    if kind == "tag first":
        notes = json.loads(Path("runs/first/model/config.json").read_text())["notes"]
        assert (notes["columns"], notes["tag_column"]) == ([1], 0)


def test_columns_of_words_and_tags(desk):
    for text, options in [
        (columns("{} {}".format), None),
        (columns("{1} {0}".format), {"word": 1, "tag": 0}),
        (columns("7 {} X {}".format), None),  # not a count of words
        (columns("1 {} X {}".format), {"word": 1}),
        (columns("{1}\tX\t{0}".format), {"word": 2, "tag": 0}),
    ]:
        Path("in.conll").write_text(text)
        run("new", "in.conll", "--out", "first.toml", "--force")
        train = tomllib.loads(Path("first.toml").read_text())["data"]["train"]
        assert train.get("options") == options


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 150_000, 1_000_000])
@pytest.mark.parametrize("before", ["", "\n", "\n \n"])
def test_one_long_line_is_a_text(desk, size, end, before):
    """The sample of a file ends within it: nothing of it is left out then."""
    text = before + ("the owls see a dog " * (size // 18 + 1))[: size - 1] + "." + end
    Path("in.txt").write_text(text)
    assert format_of(Path("in.txt")) == "text"
    assert max(map(len, sample_lines("in.txt"))) == LONGEST
    Path("in.json").write_text('{"data": [{' + " " * size)
    assert format_of(Path("in.json")) == "SQuAD"


PROSE = {
    "two lines": "the cat\na dog\n",
    "the same end": "the cat\n\na cat\n",
    "three lines": "Hello there\n\nBye there\n\nOh there\n",
    "three words": "I see you\n\nwe hear you\n",
    "tabs": "one\tgood\n\ntwo\tgood\n",
    "many endings": "\n\n".join(f"word{n} end{n}" for n in range(30)),
}


@pytest.mark.parametrize("text", PROSE.values(), ids=PROSE)
def test_few_lines_of_prose_are_no_columns(desk, text):
    Path("in.txt").write_text(text)
    assert words_format("in.txt") == ""


FEW = ["Paris B-LOC\nis O\n\nLyon B-LOC\n", "go O\nno O\n", "B-LOC\tParis\nO\tis\n\nO\tit\n"]


@pytest.mark.parametrize("text", FEW)
def test_few_lines_with_tags_of_entities_are_columns(desk, text):
    Path("in.txt").write_text(text)
    assert words_format("in.txt") == "CoNLL"


def test_languages_of_a_memory(desk):
    Path("two.tmx").write_text(memory("de", "en-GB"))
    done, recipe = recipe_of("two.tmx")
    assert recipe["data"]["train"] == {"tmx": "two.tmx", "columns": ["de", "en-GB"]}
    assert "source: de; target: en-GB" in done.stdout
    Path("three.tmx").write_text(memory("de", "en", "fr"))
    refused = run("new", "three.tmx", code=2)
    assert "no two columns of languages (de, en, fr); name the two" in refused.stderr
    chosen = ("--column", "fr", "--column", "de", "--force")
    _, recipe = recipe_of("three.tmx", *chosen)
    assert recipe["data"]["train"]["columns"] == ["fr", "de"]


def test_what_is_not_used_is_said(desk):
    Path("texts/more").mkdir(parents=True)
    for number, text in enumerate(TEXTS):
        Path(f"texts/{number}.txt").write_text(text)
    Path("texts/notes.md").write_text("about")
    Path("texts/more/table.pdf").write_text("about")
    done, recipe = recipe_of("texts")
    assert recipe["task"] == "pretrain" and "train 30" in done.stdout
    assert "not used    more/table.pdf, notes.md: only files .txt are read\n" in done.stdout


def test_malformed_rows_are_named(desk):
    Path("in.csv").write_text(table(",") + "one, two,good\n")
    done, _ = recipe_of("in.csv")
    assert "1 of too many cells (the first: in.csv:32: 3 cells" in done.stdout
    Path("in.txt").write_text(columns("{} {}".format) + "\n\nalone\nParis O\n")
    done, recipe = recipe_of("in.txt", "--force")
    assert recipe["task"] == "tag"
    assert "1 of uneven columns (the first: in.txt:" in done.stdout


def test_one_label_for_nearly_all(desk):
    texts = [f"{text} {number}" for number, text in enumerate(TEXTS * 4)]
    Path("in.csv").write_text(table(",", texts, ["ham"] * 115 + ["spam"] * 5))
    _, recipe = recipe_of("in.csv")
    assert recipe["labels"] == {"weights": "balanced"}
    assert recipe["train"]["metric"] == "macro-F1"
    text = Path("first.toml").read_text()
    assert "# without weights, always saying 'ham' is 95.8% right" in text
    Path("in.csv").write_text(table(",", texts, ["ham"] * 90 + ["spam"] * 30))
    _, recipe = recipe_of("in.csv", "--force")
    assert "labels" not in recipe and recipe["train"]["metric"] == "accuracy"


def test_training_that_says_one_label_says_so(desk):
    Path("in.csv").write_text(table(",", TEXTS, ["ham"] * 20 + ["spam"] * 10))
    recipe_of("in.csv")
    rest = ("--set", "optimiser.rate=1e-9", "--set", "train.evaluate_every=1")
    trained = run("train", "first.toml", *SHORT, *rest).output
    shown = [line for line in trained.splitlines() if "dev loss" in line]
    assert shown and all("(best)  all predictions are '" in line for line in shown[:1]), trained
    assert any(f"the label of {share}" in shown[0] for share in ("66.7%", "33.3%"))


def test_rows_are_within_the_limits_of_a_start(desk):
    write_start(desk / "start")  # of 48 positions
    Path("in.csv").write_text(table(",", [f"{text} {'and so on ' * 50}" for text in TEXTS]))
    _, recipe = recipe_of("in.csv", "--start", "start")
    assert recipe["batches"]["longest"] == 48 and recipe["text"] == {"long": "windows"}
    run("train", "first.toml", *SHORT)


REFUSED = {
    "ids.csv": "210 labels in 210 examples are too many to learn: does it hold ids or texts",
    "wide.csv": "no column looks like labels (c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, ",
    "latin.txt": "latin.txt:1: not UTF-8 (byte 0xfc at column 26); convert the file, as by iconv",
    "broken.tmx": "broken.tmx:3: not TMX (mismatched tag)",
    "entity.tmx": "entity.tmx: declares entities, which are not read",
    "empty.tmx": "empty.tmx: no translation units",
    "pretty.json": "pretty.json: not JSON lines; write one object per line",
    "bad.conll": "all labels are 'O'; training needs two labels (malformed: 1 of uneven columns; ",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_used_is_refused_in_one_line(desk, name):
    many = TEXTS * 7
    Path("ids.csv").write_text(table(",", many, [f"label{number}" for number in range(210)]))
    numbers = "\n".join(",".join(str(i + j) for i in range(20_000)) for j in range(3))
    Path("wide.csv").write_text(",".join(f"c{i}" for i in range(20_000)) + f"\n{numbers}\n")
    Path("latin.txt").write_bytes("\n\n".join(TEXTS).encode("latin-1"))
    Path("broken.tmx").write_text("<tmx>\n<body>\n</tmx>\n")
    entity = '<!DOCTYPE tmx [<!ENTITY a "aaaa">]>\n<tmx><body></body></tmx>\n'
    Path("entity.tmx").write_text(entity)
    Path("empty.tmx").write_text("<tmx><body></body></tmx>\n")
    Path("pretty.json").write_text(json.dumps([{"text": text} for text in TEXTS], indent=2))
    Path("bad.conll").write_text("one O\ntwo O\n\nthree O\n\nfour B\nfive\n")
    before = sorted(desk.rglob("*"))
    done = run("new", name, code=2)
    assert REFUSED[name] in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert len(done.stderr) < 500 and sorted(desk.rglob("*")) == before
