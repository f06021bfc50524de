"""Verbs where standard output takes text only, as in a notebook: ``%run -m regard …``."""

import io
import json
import runpy
import signal
import sys

import pytest

from regard.models.folders import folder as folders
from regard.views.pages import records_in
from small_bert import small_bert


class NotebookOutput(io.TextIOBase):
    """Text as it comes: there is no file behind it, and nothing to reconfigure."""

    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text
        return len(text)


def run_in_notebook(monkeypatch, *words):
    """What ``%run -m regard WORDS`` prints; the exit code must be 0."""
    output, errors = NotebookOutput(), NotebookOutput()
    monkeypatch.setattr(sys, "argv", ["regard", *map(str, words)])
    monkeypatch.setattr(sys, "stdout", output)
    monkeypatch.setattr(sys, "stderr", errors)
    before = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(SystemExit) as ended:
            runpy.run_module("regard", run_name="__main__", alter_sys=True)  # as IPython does
    finally:
        signal.signal(signal.SIGINT, before)
    assert not ended.value.code, errors.text
    return output.text


def test_a_table_is_printed(monkeypatch):
    assert "AWD-LSTM" in run_in_notebook(monkeypatch, "papers")


@pytest.mark.parametrize("as_json", [False, True])
def test_vectors_are_printed(monkeypatch, tmp_path, as_json):
    folders.write(tmp_path / "model", small_bert(), "hf")
    (tmp_path / "lines.txt").write_text("owl\nowl\n")
    words = ("embed", tmp_path / "model", tmp_path / "lines.txt", *["--json"][: int(as_json)])
    lines = run_in_notebook(monkeypatch, *words).splitlines()
    assert len(lines) == 2
    vectors = [json.loads(line)["vector"] if as_json else line.split() for line in lines]
    assert vectors[0] == vectors[1] and len(vectors[0]) > 1


def test_a_view_is_printed_and_its_page_shows_the_chosen_head(monkeypatch, tmp_path):
    folders.write(tmp_path / "model", small_bert(), "hf")
    page, choice = tmp_path / "look.html", ("--layer", 1, "--head", 1)
    text = run_in_notebook(
        monkeypatch, "look", tmp_path / "model", "an old sailor", *choice, "--html", page
    )
    assert "encoder, layer 1, head 1" in text and "\x1b" not in text
    (shown,) = records_in(page.read_text())
    assert shown.json["chosen"] == {"map": 0, "layer": 1, "head": 1}
