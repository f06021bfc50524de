"""Training events as lines of text."""

from dataclasses import replace

import pytest

from regard import DevEvent, EndEvent, MetricScore, ReportEvent, SaveEvent, ScoreEvent, StartEvent
from regard.training.checkpoint import RunProgress
from regard.training.loop.events import DevResult
from regard.training.precision import Precision

PROGRESS = RunProgress(step=1_200)
SCORES = (MetricScore("accuracy", 91.2, "a"), MetricScore("F1", 90.1, "b"))
REPORT = ReportEvent(PROGRESS, 1.5, 1.25, 3e-4, 0.7, 5_120.0, 75.0, 0.5)
EVENTS = {
    "step  1,200  loss 1.5000  nll 1.2500  rate 3.00e-04  5,120 tok/s  batches 50% full  1m15s "
    "left": REPORT,
    "step  1,200  dev loss 2.5  (best)": DevEvent(PROGRESS, DevResult(-2.5, {"loss": 2.5}), True),
    "step  1,200  checkpoint written": SaveEvent(PROGRESS),
    f"test  {SCORES[0]}; test  {SCORES[1]}": ScoreEvent(PROGRESS, "test", SCORES),
    "ended after step 1,200: all steps done": EndEvent(PROGRESS, "steps"),
    "precision fp32 (given); resumed after step 1,200; not bit-exact with the interrupted run: "
    "torch: 2.1, was 2.0; threads": StartEvent(
        PROGRESS, Precision("fp32", "given"), ("torch: 2.1, was 2.0", "threads")
    ),
}


@pytest.mark.parametrize(("line", "event"), EVENTS.items(), ids=lambda x: type(x).__name__)
def test_an_event_is_printed_as_one_line(line, event):
    assert str(event) == line


def test_remarks_with_line_breaks_stay_one_line():
    event = StartEvent(RunProgress(), Precision("fp32", "given"), (), ("copied\n12 tensors",))
    assert str(event) == r"precision fp32 (given); copied\n12 tensors"


def test_the_length_of_a_run_is_printed_where_it_is_known():
    (line,) = REPORT.lines(5_000)
    assert line.startswith("step  1,200/5,000  loss 1.5000")
    assert line.replace("/5,000", "") == str(REPORT)


def test_events_keep_their_fields_in_repr():
    assert "loss=1.5" in repr(REPORT) and "loss=2.0" in repr(replace(REPORT, loss=2.0))
