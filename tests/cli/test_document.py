"""``regard translate --document``: running text, sentence by sentence, with its paragraphs."""

import json

import pytest

from verb import run

DOCUMENT = "Dog cow owl. Cow dog! Mr. Owl pig\n\nOwl owl? Dog.\n   \npig cow"
SENTENCES = ["Dog cow owl.", "Cow dog!", "Mr. Owl pig", "Owl owl?", "Dog.", "pig cow"]
PARAGRAPHS = [SENTENCES[:3], [], SENTENCES[3:5], [], SENTENCES[5:]]


@pytest.fixture
def model(small_run):
    return small_run / "run" / "model"


def translated(model, *options):
    done = run("translate", model, *options, stdin="\n".join(SENTENCES) + "\n")
    return dict(zip(SENTENCES, done.stdout.splitlines(), strict=True))


def test_paragraphs_stay_and_sentences_are_translated_alone(model):
    by_sentence = translated(model)
    done = run("translate", model, "--document", stdin=DOCUMENT)
    expected = [" ".join(by_sentence[text] for text in texts) for texts in PARAGRAPHS]
    assert done.stdout.split("\n")[:-1] == expected


def test_json_has_paragraphs_and_their_sentences(model):
    done = run("translate", model, "--document", "--json", stdin=DOCUMENT)
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [record["line"] for record in records] == [1, 2, 3, 4, 5]
    assert [[one["source"] for one in record["sentences"]] for record in records] == PARAGRAPHS
    plain = run("translate", model, "--document", stdin=DOCUMENT).stdout.splitlines()
    assert [record["text"] for record in records] == plain


def test_samples_are_those_of_the_sentences_in_order(model):
    options = "--search", "sample", "--seed", 3
    by_sentence = translated(model, *options)
    done = run("translate", model, "--document", *options, stdin=DOCUMENT)
    assert done.stdout.splitlines()[0] == " ".join(by_sentence[text] for text in PARAGRAPHS[0])
    assert done.stdout.splitlines()[4] == by_sentence["pig cow"]


def test_a_file_of_results(model, tmp_path):
    (tmp_path / "text").write_text(DOCUMENT)
    run("translate", model, tmp_path / "text", "--document", "--out", tmp_path / "out")
    printed = run("translate", model, tmp_path / "text", "--document").stdout
    assert (tmp_path / "out").read_text() == printed and printed.count("\n") == 5


def test_a_sentence_that_is_too_long_is_named_by_its_line(model):
    done = run("translate", model, "--document", "--max-length", 4, stdin=DOCUMENT, code=2)
    assert ":1: " in done.stderr and "more than 4" in done.stderr
    text = "Cow dog.\n" + " ".join(["Dog."] * 30) + "\n"
    run("translate", model, "--document", "--max-length", 8, stdin=text)


@pytest.mark.parametrize(
    "more", [("--best", 2), ("--prefix", "p.txt"), ("--resume", "--out", "o"), ("--column", "text")]
)
def test_options_that_do_not_fit_are_refused(model, more, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run("translate", model, "--document", *more, stdin=DOCUMENT, code=2)
    assert f"{more[0]}: cannot be used with --document" in done.stderr
