"""``regard new`` says what data holds, and writes a recipe that trains as it is."""

import json
import math
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from regard.training.metrics_log import read_log
from small import environment
from small_tuning import write_start
from verb import run

SUBJECTS = "The old man", "A young woman", "My sister", "The dog", "Angela"
OBJECTS = "a book", "the film", "an apple", "the letter", "Paris", "two owls"
TEXTS = [f"{subject} sees {thing}." for subject in SUBJECTS for thing in OBJECTS]
SHORT = ("--set", "train.steps=2", "--set", "train.precision=fp32", "--device", "cpu")


def label(text):
    return "good" if "dog" in text or "owls" in text else "bad"


def write_csv(folder):
    rows = (f'{i},"{text}, yes",{label(text)}\n' for i, text in enumerate(TEXTS))
    (folder / "reviews.csv").write_text("id,review,verdict\n" + "".join(rows))
    return ["reviews.csv"]


def write_tsv(folder):
    (folder / "train.tsv").write_text("".join(f"{text}\t{label(text)}\n" for text in TEXTS))
    (folder / "dev.tsv").write_text("".join(f"{text}\t{label(text)}\n" for text in TEXTS[::5]))
    return ["train.tsv"]


def write_jsonl(folder):
    rows = ({"text": text, "label": label(text)} for text in TEXTS)
    (folder / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return ["texts.jsonl"]


def write_several(folder):
    rows = ({"text": text, "label": [label(text), text.split()[0]]} for text in TEXTS)
    (folder / "several.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return ["several.jsonl"]


def write_numbers(folder):
    pairs = pairwise(TEXTS)
    rows = (f"{one}\t{two}\t{number / 7:.2f}\n" for number, (one, two) in enumerate(pairs))
    (folder / "pairs.tsv").write_text("sentence1\tsentence2\tscore\n" + "".join(rows))
    return ["pairs.tsv"]


def write_conll(folder):
    for name, texts in (("train", TEXTS), ("test", TEXTS[3::7])):
        words = ([(word, "B-LOC" if "Paris" in word else "O") for word in t.split()] for t in texts)
        lines = ("".join(f"{word} {tag}\n" for word, tag in sentence) for sentence in words)
        (folder / f"{name}.txt").write_text("\n".join(lines))
    return ["train.txt"]


def write_tagged_jsonl(folder):
    rows = ({"tokens": text.split(), "tags": ["N"] * len(text.split())} for text in TEXTS)
    rows = [{**row, "tags": ["D", *row["tags"][1:]]} for row in rows]
    (folder / "tagged.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return ["tagged.jsonl"]


def write_parallel(folder):
    for name, texts in (("train", TEXTS), ("valid", TEXTS[::9])):
        (folder / f"{name}.en").write_text("".join(f"{text}\n" for text in texts))
        (folder / f"{name}.de").write_text("".join(f"{text.upper()}\n" for text in texts))
    return ["train.en", "train.de"]


def write_translations(folder):
    rows = (f'"{text}","{text.upper()}"\n' for text in TEXTS)
    (folder / "translations.csv").write_text("en,de\n" + "".join(rows))
    return ["translations.csv"]


def write_images(folder):
    from PIL import Image

    draw = np.random.default_rng(1)
    for number in range(16):
        path = folder / "animals" / ("cat", "dog")[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw.integers(0, 255, (8, 8, 3), dtype=np.uint8)).save(path)
    return ["animals"]


def write_text(folder):
    (folder / "book.txt").write_text("\n\n".join("\n".join(TEXTS[i : i + 3]) for i in range(25)))
    return ["book.txt"]


def write_running_text(folder):
    (folder / "book.txt").write_text("\n".join(TEXTS * 3))
    return ["book.txt", "--split"]


def write_folder_of_texts(folder):
    for number in range(12):
        (folder / f"texts/{number}.txt").parent.mkdir(exist_ok=True)
        (folder / f"texts/{number}.txt").write_text("\n".join(TEXTS[number:]))
    return ["texts"]


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


CASES = {
    write_csv: (
        "classify",
        "accuracy",
        ["'bad' 20", "header id, review, verdict", "commas", "utf-8"],
    ),
    write_tsv: (
        "classify",
        "accuracy",
        ["no header", "tabs", "dev: 6 of 6 examples are also in train"],
    ),
    write_jsonl: ("classify", "accuracy", ["text: text; label: label"]),
    write_several: ("classify", "micro-F1", ["'bad' 20"]),
    write_numbers: ("classify", "Pearson", ["numbers from 0 to 4", "sentence1 and sentence2"]),
    write_conll: ("tag", "F1", ["'B-LOC' 5", "CoNLL", "train 30, test 4"]),
    write_tagged_jsonl: ("tag", "accuracy", ["words: tokens; tags: tags"]),
    write_parallel: ("translate", None, ["train 30, dev 4", "parallel"]),
    write_translations: ("translate", None, ["source: en; target: de"]),
    write_images: ("classify", "accuracy", ["'cat' 8 (50.0%), 'dog' 8", "images"]),
    write_text: ("pretrain", None, ["documents between empty lines", "train 25"]),
    write_running_text: ("pretrain", None, ["one running text"]),
    write_folder_of_texts: ("pretrain", None, ["a text per file", "train 12"]),
}


every_case = pytest.mark.parametrize(
    "write", CASES, ids=lambda write: write.__name__.removeprefix("write_")
)


@every_case
def test_a_recipe_is_written(desk, write):
    if write is write_images:
        pytest.importorskip("PIL")
    task, metric, facts = CASES[write]
    done = run("new", *write(desk), "--out", "first.toml")
    for fact in (*facts, f"task        {task}\n"):
        assert fact in done.stdout, done.stdout
    recipe = tomllib.loads(Path("first.toml").read_text())
    assert recipe["task"] == task and recipe["train"].get("metric") == metric


@pytest.mark.thinned
@every_case
def test_a_recipe_trains_as_it_is(desk, write):
    if write is write_images:
        pytest.importorskip("PIL")
    run("new", *write(desk), "--out", "first.toml")
    quick = ("--set", "images.workers=0") if write is write_images else ()
    trained = run("train", "first.toml", *SHORT, *quick)
    assert Path("runs/first/model/config.json").is_file(), trained.output
    last = [event for event in read_log(Path("runs/first")) if event["event"] == "dev"][-1]
    assert last["step"] == 2 and math.isfinite(last[CASES[write][1] or "loss"])


def test_nothing_has_to_be_changed(desk):
    run("new", *write_csv(desk))
    text = Path("reviews.toml").read_text()
    assert all("#" in line for line in text.splitlines() if line.startswith(("epochs", "rate")))
    run("train", "reviews.toml", "--device", "cpu")
    predicted = run("predict", "runs/reviews/model", stdin="The dog sees a book.\n", code=0)
    assert predicted.stdout.startswith(("good\t", "bad\t"))


@pytest.mark.thinned
@pytest.mark.parametrize("form", ["hf", "onnx"])
@pytest.mark.parametrize("write", [write_csv, write_several, write_conll, write_numbers])
def test_models_of_labels_can_be_converted(desk, write, form):
    run("new", *write(desk), "--out", "first.toml")
    run("train", "first.toml", *SHORT)
    run("convert", "runs/first/model", "converted", "--to", form)
    assert [*Path("converted").rglob("*.safetensors" if form == "hf" else "*.onnx")]


@pytest.mark.parametrize("write", [write_csv, write_conll, write_numbers])
def test_a_model_to_start_from(desk, write):
    write_start(desk / "start")
    run("new", *write(desk), "--start", "start", "--out", "tuned.toml")
    recipe = tomllib.loads(Path("tuned.toml").read_text())
    assert recipe["model"] == {"start": "start"} and "text" not in recipe
    assert recipe["batches"]["longest"] <= 48  # the positions of the tiny model
    run("train", "tuned.toml", *SHORT)


def test_faults_of_data_are_printed(desk):
    train = ["owl,good", "Owl ,good", "cow,bad", "cow,good", "hen,bad", "dog,bad"]
    Path("train.csv").write_text("text,label\n" + "\n".join([*train, "ox,"]))
    Path("test.csv").write_text("text,label\n" + "\n".join(["owl,good", "cow,odd", "yak,bad"]))
    printed = run("new", "train.csv").stdout
    assert "examples    train 6, test 3" in printed
    assert "malformed   1 without a label" in printed
    assert "counts      train: 'good' 3 (50.0%), 'bad' 3 (50.0%)" in printed
    assert "duplicates  train 1, test 0" in printed
    assert "conflicts   train: 1 have the same input" in printed
    assert "leaks       test: 2 of 3 examples are also in train" in printed
    assert "unknown     test: labels that train does not have: 'odd'" in printed


def test_other_delimiters_and_encodings(desk):
    rows = "".join(f"{text[:-1]} für sie;{label(text)}\n" for text in TEXTS)
    Path("semicolons.csv").write_bytes(f"Satz;Urteil\n{rows}".encode("cp1252"))
    done = run("new", "semicolons.csv")
    assert "semicolons between columns, cells may be quoted, cp1252, header Satz" in done.stdout
    recipe = tomllib.loads(Path("semicolons.toml").read_text())
    assert recipe["data"]["train"]["options"] == {"texts": ["Satz"], "label": "Urteil"}


def test_columns_that_the_user_chooses(desk):
    run("new", *write_csv(desk), "--column", "verdict", "--column", "id")
    options = tomllib.loads(Path("reviews.toml").read_text())["data"]["train"]["options"]
    assert options == {"texts": ["verdict"], "label": "id"}
    run("new", *write_tsv(desk), "--task", "translate", "--column", "1", "--column", "0")
    data = tomllib.loads(Path("train.toml").read_text())["data"]
    assert data["train"] == {"table": "train.tsv", "columns": [1, 0]}
    assert data["dev"] == {"table": "dev.tsv", "columns": [1, 0]}


def test_a_test_set_without_labels_is_not_used(desk):
    rows = "".join(f"{text},{label(text)}\n" for text in TEXTS)
    Path("train.csv").write_text("text,label\n" + rows)
    Path("dev.csv").write_text("text,label\n" + rows)
    Path("test.csv").write_text("id,text\n" + "".join(f"{n},{t}\n" for n, t in enumerate(TEXTS)))
    printed = run("new", "train.csv").stdout
    assert "not used    test.csv: no column 'label'\n" in printed
    assert "examples    train 30, dev 30\n" in printed
    assert [*tomllib.loads(Path("train.toml").read_text())["data"]] == ["train", "dev"]


def test_a_folder(desk):
    (desk / "mine").mkdir()
    write_parallel(desk / "mine")
    (desk / "mine/README.md").write_text("about")
    run("new", "mine")
    data = tomllib.loads(Path("mine.toml").read_text())["data"]
    assert data["train"] == {"source": "mine/train.de", "target": "mine/train.en"}
    assert data["dev"] == {"source": "mine/valid.de", "target": "mine/valid.en"}


def write_images(*folders):
    for folder in map(Path, folders):
        folder.mkdir(parents=True)
        for number in range(4):
            (folder / f"{number}.png").write_bytes(f"{folder}{number}".encode())  # not decoded


def test_the_only_example_of_a_label_stays_in_training(desk):
    Path("few.csv").write_text("text,label\na film,good\ntwo films,bad\nthree films,good\n")
    run("new", "few.csv")
    printed = run("train", "few.toml", *SHORT, "--dry-run").stdout
    assert "labels      2\n" in printed and "counts      dev: 'good' 1 (100.0%)" in printed


def test_short_runs_report_the_loss_often(desk):
    run("new", *write_csv(desk))
    assert tomllib.loads(Path("reviews.toml").read_text())["train"]["report_every"] == 1
    Path("many.csv").write_text("text,label\n" + 800 * "a fine film,good\na dull film,bad\n")
    run("new", "many.csv")
    assert tomllib.loads(Path("many.toml").read_text())["train"]["report_every"] == 25


def test_sets_are_found_in_any_case(desk):
    rows = "".join(f"{text},{label(text)}\n" for text in TEXTS)
    for name in ("Train.csv", "Test.csv", "VALID.csv"):
        Path(name).write_text("text,label\n" + rows)
    run("new", "Train.csv")
    data = tomllib.loads(Path("Train.toml").read_text())["data"]
    assert {name: keys["file"] for name, keys in data.items()} == {
        "train": "Train.csv",
        "dev": "VALID.csv",
        "test": "Test.csv",
    }


def test_the_next_command_can_be_copied(desk):
    Path("my train.csv").write_text("text,label\n" + 6 * "a film,good\ntwo films,bad\n" + "ox,\n")
    command = "regard train 'my train.toml' --skip-bad"
    assert run("new", "my train.csv").stderr.endswith(f"next: {command} --dry-run\n")
    assert f": {command}\n" in Path("my train.toml").read_text()


def test_a_test_text_is_used(desk):
    for name, texts in {"train": TEXTS, "dev": TEXTS[:6], "test": TEXTS[6:12]}.items():
        Path(f"{name}.txt").write_text("\n\n".join(texts))
    run("new", "train.txt")
    data = tomllib.loads(Path("train.toml").read_text())["data"]
    assert data["test"] == {"documents": "test.txt"}
    assert "leaks       test: 6 of 6" in run("train", "train.toml", *SHORT, "--dry-run").stdout


def test_a_class_may_be_called_train(desk):
    write_images("vehicles/bus", "vehicles/car", "vehicles/train")
    printed = run("new", "vehicles").stdout
    assert "examples    train 12\n" in printed and "'train' 4 (33.3%)" in printed
    write_images("split/train/car", "split/train/bus", "split/test/car", "split/test/bus")
    assert "examples    train 8, test 8\n" in run("new", "split").stdout
    write_images("flat/train", "flat/test")
    done = run("new", "flat", code=2)
    assert "flat/test: images without a subfolder for each class" in done.stderr


MISTAKES = {
    ("missing.csv",): "missing.csv: no such file or folder",
    ("empty.txt",): "empty.txt: empty",
    ("header.csv",): "header.csv: no rows below the header",
    ("ids.csv",): "no column looks like labels (id, number); name the columns of text",
    ("same.csv",): "all labels are 'good'; training needs two labels",
    (
        "objects.jsonl",
        "--task",
        "classify",
    ): "0 examples; training needs two (malformed: 3 not text; the first: objects.jsonl:1: the val",
    ("sheet.xlsx",): "sheet.xlsx: a spreadsheet or a zip archive; save it as CSV, or unpack it",
    ("list.json",): "list.json: not JSON lines; write one object per line",
    ("running.txt",): "documents by empty lines, or split the text (--split)",
    ("reviews.csv", "--split"): "reviews.csv: only one file of plain text can be split",
    (
        "reviews.csv",
        "--column",
        "reviw",
        "--column",
        "id",
    ): "reviews.csv: no column 'reviw'; did you mean",
    ("reviews.csv", "--column", "id"): "1 columns given; name one text or two, and then",
    ("reviews.csv", "--task", "tag"): "task tag: reviews.csv (csv) fits classify or translate",
    ("running.txt", "--column", "text"): "running.txt: no table, and so without columns to choose",
    ("reviews.csv", "same.csv", "ids.csv"): "name one file, one folder, or the two files",
    ("reviews.csv", "--out", "recipe.txt"): "--out recipe.txt: the name of a recipe ends in .toml",
    ("reviews.csv", "--out", "there.toml"): "there.toml: exists already; give another --out",
    ("nothing",): "nothing: has no files .txt",
    ("several",): "several: several files could be the training set (one.csv, two.csv); name one",
    ("pictures",): "pictures: images without a subfolder for each class",
    ("pictures/1.png",): "1.png: an image; name a folder with a subfolder for each class",
    ("running.txt", "--split", "--task", "tag"): "fits pretrain; choose that, or other data",
}


@pytest.mark.parametrize("arguments", MISTAKES, ids=" ".join)
def test_mistakes(desk, arguments):
    write_csv(desk)
    for name in (
        "several/one.csv",
        "several/two.csv",
        "nothing/.hidden",
        "there.toml",
        "pictures/1.png",
    ):
        (desk / name).parent.mkdir(exist_ok=True)
        (desk / name).write_text("text,label\na b,c\n")
    Path("empty.txt").write_text("\n")
    Path("header.csv").write_text("text,label\n")
    Path("ids.csv").write_text("id,number\n" + "".join(f"{i},{i + 7}\n" for i in range(9)))
    Path("same.csv").write_text("text,label\n" + "".join(f"{text},good\n" for text in TEXTS))
    Path("sheet.xlsx").write_bytes(b"PK\3\4\x14\0\6\0")
    record = {"text": "a film", "label": {"name": "good"}}
    Path("objects.jsonl").write_text(3 * f"{json.dumps(record)}\n")
    Path("list.json").write_text(json.dumps([{"text": text} for text in TEXTS]))
    Path("running.txt").write_text("\n".join(TEXTS))
    before = sorted(desk.rglob("*"))
    done = run("new", *arguments, code=2)
    assert MISTAKES[arguments] in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert not done.stdout and sorted(desk.rglob("*")) == before


def test_torch_is_not_imported(desk):
    code = "import sys; from regard.cli import app; app(sys.argv[1:], standalone_mode=False)"
    code += "; print('torch' in sys.modules)"
    words = [sys.executable, "-c", code, "new", *write_csv(desk)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment())
    assert done.stdout.endswith("\nFalse\n"), done.stderr
