"""``regard bleu`` as a user meets it."""

import gzip
import json
import lzma

import pytest
from typer.testing import CliRunner

from regard.cli import app

SIGNATURE = "nrefs:2|case:mixed|eff:no|tok:13a|smooth:exp|version:"

WORKING = """
1-grams: 5/7 clipped, 7/7 unclipped
n-gram  count  in references  clipped  unclipped
the         3              2        2          3
cat         2              1        1          2
on          1              1        1          1
mat         1              1        1          1

2-grams: 4/6 clipped, 5/6 unclipped
n-gram   count  in references  clipped  unclipped
the cat      2              1        1          2
cat the      1              0        0          0
cat on       1              1        1          1
on the       1              1        1          1
the mat      1              1        1          1

3-grams: 2/5 clipped, 2/5 unclipped
n-gram       count  in references  clipped  unclipped
the cat the      1              0        0          0
cat the cat      1              0        0          0
the cat on       1              0        0          0
cat on the       1              1        1          1
on the mat       1              1        1          1

4-grams: 1/4 clipped, 1/4 unclipped
n-gram           count  in references  clipped  unclipped
the cat the cat      1              0        0          0
cat the cat on       1              0        0          0
the cat on the       1              0        0          0
cat on the mat       1              1        1          1

brevity penalty 1.0000: 7 tokens, closest reference 7 (references 6, 7)
BLEU = 100 · 1.0000 · (0.7143 · 0.6667 · 0.4000 · 0.2500)^(1/4) = 46.71
"""


@pytest.fixture(autouse=True)
def cat(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").write_text("the cat the cat on the mat\n")
    (tmp_path / "ref1").write_text("the cat is on the mat\n")
    (tmp_path / "ref2").write_text("there is a cat on the mat\n")
    return tmp_path


def run(*arguments: str, stdin: str | bytes | None = None) -> str:
    result = CliRunner().invoke(app, ["bleu", *arguments], input=stdin)
    if result.exception:
        raise result.exception
    assert result.stderr == ""
    return result.stdout


def test_one_line_with_the_signature():
    (line,) = run("out", "ref1", "ref2").splitlines()
    assert line.startswith(f"BLEU 46.71  {SIGNATURE}")


def test_the_other_scores_follow():
    first, second, third = run("out", "ref1", "ref2", "--chrf", "--ter").splitlines()
    assert first.startswith("BLEU 46.71  nrefs:2|")
    assert second.startswith("chrF2 60.94  nrefs:2|")
    assert third.startswith("TER 30.77  nrefs:2|case:lc|")


def test_intervals_are_printed_and_signed():
    (line,) = run("out", "ref1", "--interval").splitlines()
    value, interval = line.split("  ")[0].removeprefix("BLEU ").split(" ", 1)
    assert interval == f"[{value}, {value}]"
    assert "|bs:1000|seed:12345|" in line


def test_standard_input():
    assert run("-", "ref1", "ref2", stdin="the cat the cat on the mat\n").startswith("BLEU 46.71")
    assert run("out", "-", stdin="the cat the cat on the mat\n").startswith("BLEU 100.00")


def test_packed_files(cat):
    (cat / "out.gz").write_bytes(gzip.compress((cat / "out").read_bytes()))
    (cat / "ref.xz").write_bytes(lzma.compress((cat / "ref1").read_bytes()))
    assert run("out.gz", "ref.xz", "ref2") == run("out", "ref1", "ref2")


def test_explain_prints_the_tables():
    first, working = run("out", "ref1", "ref2", "--explain").split("\n", 1)
    assert first.startswith("BLEU 46.71")
    assert working == WORKING


def test_explain_is_plain_and_unfolded_in_a_pipe(cat, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "20")
    long = "Donaudampfschifffahrtsgesellschaft" * 9
    (cat / "out").write_text(f"[bold] {long} :cat: [/x]\n")
    printed = run("out", "out", "--explain", "--tokenize", "none")
    assert "\x1b" not in printed
    assert f"\n[bold] {long} :cat: [/x]      1              1        1          1\n" in printed
    assert not any(line.endswith(" ") for line in printed.splitlines())


def test_explain_shows_the_most_frequent_of_many(cat):
    (cat / "out").write_text(" ".join(f"w{i}" for i in range(30)) + " w29\n")
    printed = run("out", "out", "--explain")
    assert "\nw29         2              2        2          2\nw0 " in printed
    assert "\nw18  " in printed
    assert "\nw19  " not in printed
    assert "... and 10 more, rarer ones (all with --json)\n" in printed
    record = json.loads(run("out", "out", "--explain", "--json"))
    assert len(record["explanation"]["orders"][0]["ngrams"]) == 30


def test_explain_says_when_an_order_is_smoothed(cat):
    (cat / "out").write_text("the mat is there now\n")
    printed = run("out", "ref1", "ref2", "--explain")
    assert "smoothing exp: nothing matched at order 3, 4\n" in printed
    assert printed.splitlines()[-1].endswith(printed.split()[1])
    assert "brevity penalty 0.8187: 5 tokens, closest reference 6 (references 6, 7)" in printed


def test_explain_of_what_never_matches_is_zero(cat):
    (cat / "out").write_text("kein Wort davon\n")
    printed = run("out", "ref1", "--explain")
    assert printed.endswith("= 0.00\n")
    assert "smoothing" not in printed


def test_json_is_one_line():
    printed = run("out", "ref1", "ref2", "--json", "--chrf", "--interval")
    assert printed.count("\n") == 1
    record = json.loads(printed)
    assert [score["name"] for score in record["scores"]] == ["BLEU", "chrF2"]
    first = record["scores"][0]
    assert first["value"] == pytest.approx(46.7138, abs=1e-4)
    assert first["interval"] == pytest.approx([first["value"]] * 2)
    assert first["signature"].startswith("nrefs:2|bs:1000|")
    assert "explanation" not in record


def test_json_with_the_working():
    record = json.loads(run("out", "ref1", "ref2", "--json", "--explain"))
    working = record["explanation"]
    assert "interval" not in record["scores"][0]
    assert [(order["clipped"], order["total"]) for order in working["orders"]] == [
        (5, 7),
        (4, 6),
        (2, 5),
        (1, 4),
    ]
    assert working["orders"][1]["ngrams"][0] == {
        "ngram": "the cat",
        "count": 2,
        "in_references": 1,
        "clipped": 1,
        "unclipped": 2,
    }
    assert working["weight"] == 0.25
    assert working["reference_lengths"] == [6, 7]
    assert working["closest_length"] == working["hypothesis_length"] == 7
    assert working["brevity_penalty"] == 1
    assert working["bleu"] == pytest.approx(record["scores"][0]["value"])


def test_json_keeps_letters(cat):
    (cat / "out").write_text("Straße\n", encoding="utf-8")
    assert "Straße" in run("out", "out", "--json", "--explain")


def test_tokeniser_and_case(cat):
    (cat / "out").write_text("The End.\n")
    (cat / "ref").write_text("the end .\n")
    printed = run("out", "ref", "--lowercase", "--tokenize", "char", "--chrf", "--explain")
    assert "BLEU 100.00  nrefs:1|case:lc|eff:no|tok:char|" in printed
    assert "chrF2 100.00  nrefs:1|case:lc|" in printed
    assert printed.endswith("= 100.00\n")


def test_help_ends_with_an_example():
    printed = run("--help")
    assert "Example: regard bleu out.de test.de --explain\n" in printed
    assert all(word in printed for word in ("HYP", "REF", "Example: regard bleu"))


def refused(*arguments: str, stdin: str | bytes | None = None) -> str:
    result = CliRunner().invoke(app, ["bleu", *arguments], input=stdin)
    assert (result.exit_code, result.stdout) == (2, "")
    message = result.stderr.removeprefix("regard: ").removesuffix("\n")
    assert "\n" not in message
    return message


def test_different_line_counts(cat):
    (cat / "ref2").write_text("one\ntwo\n")
    message = refused("out", "ref1", "ref2")
    assert message.startswith("line counts differ: 1 in out, 2 in ref2;")
    assert "0 in standard input, 1 in ref1" in refused("-", "ref1", stdin="")


def test_nothing_to_score(cat):
    (cat / "empty").write_text("")
    assert refused("empty", "empty") == "empty: no lines to score"


def test_unknown_tokeniser():
    assert "did you mean 'intl'?" in refused("out", "ref1", "--tokenize", "intel")


def test_bytes_that_are_not_text(cat):
    (cat / "ref1").write_bytes(b"good\nbad \xff\n")
    assert refused("out", "ref1").startswith("ref1:2: ")
    assert refused("-", "ref2", stdin=b"\xff\n").startswith("standard input:1: ")


def test_a_missing_file():
    assert refused("out", "nowhere").startswith("nowhere: ")


def test_standard_input_is_read_once():
    assert "standard input" in refused("-", "-", stdin="a\n")


def test_a_reference_is_required():
    assert CliRunner().invoke(app, ["bleu", "out"]).exit_code == 2


@pytest.fixture
def systems(cat):
    """Sixty lines, a system that has nearly all right, one that errs, and one that errs more."""
    lines = [f"the cat number {number} is on the mat today" for number in range(60)]
    for name, wrong in (("ref", 0), ("good", 1), ("fair", 6), ("poor", 57)):
        changed = ["a dog sat there" if number < wrong else lines[number] for number in range(60)]
        (cat / name).write_text("".join(line + "\n" for line in changed))
    return cat


def test_systems_are_compared_with_the_first(systems):
    first, second, third = run("fair", "good", "poor", "--refs", "ref").splitlines()
    alone = [run(name, "ref", "--interval").strip() for name in ("fair", "good", "poor")]
    assert first == f"fair: {alone[0]}"
    assert second.startswith(f"good: {alone[1]}  +") and third.startswith(f"poor: {alone[2]}  -")
    assert "|bs:1000|seed:12345|" in first
    p_values = [float(line.split("p = ")[1]) for line in (second, third)]
    assert 0.001 < p_values[0] < 0.1 and p_values[1] < 0.01


def test_few_segments_have_no_p_value(systems):
    for name in ("fair", "good", "ref"):
        path = systems / name
        path.write_text("".join(path.read_text().splitlines(True)[:49]))
    (line,) = run("fair", "good", "--refs", "ref").splitlines()[1:]
    assert line.endswith(", no p-value below 50 segments")
    printed = run("fair", "good", "--refs", "ref", "--json")
    assert json.loads(printed)["systems"][1]["scores"][0]["p_value"] is None
    assert run("fair", "good", "--refs", "ref", "--format", "csv").splitlines()[2].endswith(",")


def test_a_system_does_not_differ_from_itself(systems):
    (systems / "copy").write_text((systems / "fair").read_text())
    assert run("fair", "copy", "--refs", "ref").splitlines()[1].endswith("  +0.00, p = 1.0000")


def test_comparisons_by_several_scores_and_references_as_json(systems):
    options = ("--refs", "ref", "--refs", "poor", "--chrf", "--ter", "--json")
    printed = run("fair", "good", *options)
    assert printed.count("\n") == 1
    baseline, system = json.loads(printed)["systems"]
    assert (baseline["system"], system["system"]) == ("fair", "good")
    assert [score["name"] for score in system["scores"]] == ["BLEU", "chrF2", "TER"]
    assert all(score["signature"].startswith("nrefs:2|") for score in system["scores"])
    for before, after in zip(baseline["scores"], system["scores"], strict=True):
        assert after["difference"] == pytest.approx(after["value"] - before["value"])
        assert 0 < after["p_value"] <= 1 and len(after["interval"]) == 2
        assert before["signature"] == after["signature"] and "p_value" not in before
    printed = run("fair", "good", *options[:-1]).splitlines()
    names = [f"{one} {score}" for one in ("fair:", "good:") for score in ("BLEU", "chrF2", "TER")]
    assert [" ".join(line.split()[:2]) for line in printed] == names


def test_systems_that_cannot_be_compared(systems):
    (systems / "short").write_text("one line\n")
    message = refused("fair", "short", "--refs", "ref")
    assert message.startswith("line counts differ: 1 in short, 60 in ref;")
    assert "standard input" in refused("fair", "-", "--refs", "-", stdin="a\n")
    assert "--explain" in refused("fair", "good", "--refs", "ref", "--explain")
    assert CliRunner().invoke(app, ["bleu", "fair", "--refs", "ref"]).exit_code == 2
