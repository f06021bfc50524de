"""``regard recency``: what it refuses, and how it puts several seeds together."""

import pytest

from regard.cli.recency_study import classifier_form, spread
from small_bert import model as bert
from verb import run


@pytest.fixture(scope="module")
def texts(owl_run, tmp_path_factory):
    path = tmp_path_factory.mktemp("texts") / "texts"
    path.write_text("dog cow pig owl\nrat hen\n")
    return owl_run / "run" / "model", path


def test_a_model_of_your_own(texts, tmp_path):
    done = run("recency", *texts, "--html", tmp_path / "page.html")
    head, *rows = done.stdout.splitlines()
    assert head == "tokens from the end  untrained  trained"
    assert [row.split()[0] for row in rows][:3] == ["0", "1", "2"]
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("options", [("--seeds", 2), ("--quick",), ("--out", "zz")])
def test_options_of_the_four_models_cannot_be_used_with_a_folder(texts, options):
    (line,) = run("recency", *texts, *options, code=2).stderr.splitlines()
    assert line.startswith(f"regard: {options[0]}: cannot be used with MODEL")


def test_seeds_are_a_sample_and_one_has_no_spread():
    assert spread([90.0, 92.0]) == "91.0 ± 1.4"  # √2, not 1
    assert spread([90.0]) == "90.0"
    assert "one seed" in classifier_form(1) and "±" not in classifier_form(1)
    assert "3 seeds ±" in classifier_form(3)


@pytest.mark.parametrize(("head", "reason"), [("one", "special tokens"), ("words", "no pooled")])
def test_other_models_are_refused_in_one_line(texts, tmp_path, head, reason):
    bert(head).save(tmp_path / "bert")
    (line,) = run("recency", tmp_path / "bert", texts[1], code=2).stderr.splitlines()
    assert reason in line
