"""No script prints a figure of a paper on a GPU whose rows of the matrix are missing or wrong."""

import platform
from argparse import ArgumentParser

import pytest

LINE = {"model": "bert:tiny", "difference": 1e-6, "fine": True}


@pytest.fixture
def matrix(monkeypatch, tmp_path):
    import matrix

    monkeypatch.setattr(matrix, "TABLE", tmp_path / "matrix.json")
    return matrix


def rows(matrix, **other):
    for name in sorted(matrix.LEAST):
        precision, what = name.split(" ")
        yield {**LINE, "precision": precision, "what": what, "fingerprint": matrix.fingerprint()}
    yield {
        **LINE,
        "precision": "bf16",
        "what": "logits",
        "fingerprint": matrix.fingerprint(),
    } | other


def test_a_paper_whose_rows_are_fine_may_be_measured(matrix):
    matrix.write([*rows(matrix)])
    matrix.require(["bert"])


def test_what_is_missing_or_wrong_is_named(matrix):
    with pytest.raises(SystemExit, match=r"no figure: matrix\.json is not of these modules"):
        matrix.require(["bert"])
    matrix.write([*rows(matrix, fine=False, difference="inf")])
    with pytest.raises(SystemExit, match="bert:tiny bf16 logits is wrong: inf"):
        matrix.require(["bert"])
    matrix.write([*rows(matrix)][1:])
    with pytest.raises(SystemExit, match="bert has no row bf16 encode"):
        matrix.require(["bert"])
    with pytest.raises(SystemExit, match="vit has no row"):
        matrix.require(["vit"])


def test_rows_of_other_modules_do_not_count(matrix, monkeypatch):
    matrix.write([*rows(matrix)])
    monkeypatch.setattr(matrix, "fingerprint", lambda: "other")
    with pytest.raises(SystemExit, match="not of these modules"):
        matrix.require(["bert"])


def test_a_script_asks_only_on_a_gpu(matrix):
    import measure

    parser = ArgumentParser()
    measure.add_options(parser, rounds=1, seconds=1, papers=["bert"])
    asked = parser.parse_args([])
    measure.require_matrix(asked, platform.machine())
    with pytest.raises(SystemExit, match="no figure: "):
        measure.require_matrix(asked, platform.machine(), "NVIDIA H200")
