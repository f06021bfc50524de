"""The benchmark of recording runs at tiny size, and recording nothing adds no graph."""

import json
import sys

import pytest


def lines(script, monkeypatch, capsys, *options):
    monkeypatch.setattr(sys, "argv", ["record.py", *options])
    script.main()
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_every_kind_of_tape_is_compared_with_none(monkeypatch, capsys):
    import record

    *passes, place = lines(record, monkeypatch, capsys, "--tiny", "--rounds", "2")
    assert [each["pass"] for each in passes] == ["no tape", *record.TAPES]
    assert all(each["ms"][0] > 0 and each["difference"] < 1e-5 for each in passes)
    assert passes[0]["over_no_tape"] == [1, 1, 1]
    assert (place["rows"], place["tokens"], place["compiled"]) == (2, 16, False)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
def test_a_pass_is_one_graph_and_a_null_tape_adds_none(monkeypatch, capsys):
    import record

    *passes, place = lines(record, monkeypatch, capsys, "--tiny", "--compiled")
    graphs = {each["pass"]: each["new_graphs"] for each in passes}
    assert graphs == {"no tape": 1, "null tape": 0} and place["compiled"]
