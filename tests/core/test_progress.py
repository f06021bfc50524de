"""Progress of work without steps: reports from a thread, as remarks with figures."""

from threading import Event

from regard.core import progress
from regard.experiments.notes import LINE_EVERY, ProgressNote, progress_notes
from regard.text.tokenizers.encoder_tokenizer import train_encoder_tokenizer


def test_reports_name_the_work_and_count_its_inputs(monkeypatch):
    monkeypatch.setattr(progress, "EVERY", 0.001)
    told, heard = [], Event()

    def hear(note):
        told.append(note)
        heard.set()

    with progress_notes(hear), progress.reporting("reading", ["a", "b"]) as counted:
        assert [*counted] == ["a", "b"] and heard.wait(30)
    count = len(told)
    with progress.reporting("reading", "ab") as counted:  # nobody listens any more
        assert [*counted] == ["a", "b"]
    assert len(told) == count and told[-1].figures["work"] == "reading"
    assert told[0].figures["event"] == "progress" and 0 <= told[0].figures["inputs"] <= 2
    assert str(told[0]).startswith("reading: ") and str(told[0]).endswith(" s")


def test_a_line_is_printed_now_and_then():
    assert ProgressNote("reading", is_due=False).lines() == []
    assert ProgressNote("reading").lines() == ["reading"] and LINE_EVERY >= 10


def test_learning_a_vocabulary_reports(monkeypatch):
    told = []

    def named(work, inputs):
        told.append(work)
        return progress.reporting(work, inputs)

    monkeypatch.setattr("regard.text.tokenizers.subwords.reporting", named)
    train_encoder_tokenizer(["the old man reads a book"] * 9, "wordpiece", 60, longest=8)
    assert {*told} == {"learning the vocabulary"}
