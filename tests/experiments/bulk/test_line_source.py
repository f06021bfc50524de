"""Lines flow through the verbs as they come, and odd ones are answered or named."""

import json
import os
import subprocess
import threading
from dataclasses import replace

import pytest

from regard.api import Model
from regard.core.errors import BadInput
from regard.experiments.bulk import line_source
from regard.experiments.bulk.line_source import LineSource, plain_text
from regard.models.facts import change
from small import command, environment
from small_bert import small_bert
from small_positions import placed
from verb import run


@pytest.fixture(scope="module")
def model(small_run):
    return small_run / "run" / "model"


@pytest.fixture
def pipe(monkeypatch):
    """The end to write to of a pipe that is standard input."""
    read, write = os.pipe()
    with os.fdopen(read, "rb") as stream, os.fdopen(write, "wb", buffering=0) as ours:
        monkeypatch.setattr("sys.stdin", type("Stdin", (), {"buffer": stream}))
        yield ours


def read_windows(file, **options):
    return line_source.read_windows(LineSource(str(file), plain_text, **options))


def texts(window):
    return [line.value for line in window]


def test_a_coprocess_is_answered_line_by_line(model):
    line = "dog cow owl"
    expected = run("translate", model, stdin=f"{line}\n").stdout
    asked = command("translate", model)
    with subprocess.Popen(
        asked,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
        text=True,
        bufsize=1,
    ) as process:
        watch = threading.Timer(600, process.kill)
        watch.start()
        for _ in range(3):
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            assert process.stdout.readline() == expected
        process.stdin.close()
        assert process.stdout.read() == "" and process.wait() == 0
        watch.cancel()


def test_a_window_ends_where_the_input_pauses(pipe):
    coming = read_windows("-")
    pipe.write(b"one\ntwo\nthr")
    assert texts(next(coming)) == ["one", "two"]
    pipe.write(b"ee\r\nfour")
    assert texts(next(coming)) == ["three"]
    pipe.close()
    assert [[*map(tuple, window)] for window in coming] == [[(4, "four", "four", None)]]


def test_fast_input_fills_windows(pipe):
    text = b"".join(b"line %d\n" % number for number in range(40_000))
    threading.Thread(target=lambda: (pipe.write(text), pipe.close())).start()
    found = list(read_windows("-"))
    assert b"\n".join(said.encode() for window in found for said in texts(window)) + b"\n" == text
    assert len(found[0]) == len(found[1]) == line_source.WINDOW


def test_a_trickle_is_not_waited_for(pipe, monkeypatch):
    monkeypatch.setattr(line_source, "PATIENCE", 0.05)
    monkeypatch.setattr(line_source, "PAUSE", 5.0)
    over = threading.Event()

    def write():
        while not over.wait(0.01):
            pipe.write(b"drop\n")

    writer = threading.Thread(target=write)
    writer.start()
    window = texts(next(read_windows("-")))
    assert window[0] == "drop" and len(window) < line_source.WINDOW  # it was not filled
    over.set()
    writer.join()


def test_a_file_has_full_windows(tmp_path):
    (tmp_path / "in.txt").write_text("x\n" * 10)
    assert [len(one) for one in read_windows(tmp_path / "in.txt", window=4)] == [4, 4, 2]


def test_lines_before_a_bad_one_are_answered_first(pipe):
    pipe.write(b"one\ntwo\n\xff\nfour\n")
    coming = read_windows("-")
    assert texts(next(coming)) == ["one", "two"]
    with pytest.raises(BadInput, match="standard input:3: not UTF-8"):
        next(coming)


@pytest.mark.parametrize("options", [(), ("--search", "exact"), ("--search", "mbr", "--seed", 3)])
def test_results_do_not_depend_on_where_windows_end(model, options, monkeypatch):
    text = "dog cow\n\nowl\nfox hen pig\ndog\n"
    (whole,) = [run("translate", model, *options, "--json", stdin=text)]
    monkeypatch.setattr(LineSource.__init__, "__defaults__", (2, False))
    cut = run("translate", model, *options, "--json", stdin=text)
    assert cut.stderr == whole.stderr
    for one, other in zip(cut.stdout.splitlines(), whole.stdout.splitlines(), strict=True):
        one, other = json.loads(one), json.loads(other)
        assert one["score"] == pytest.approx(other["score"], abs=1e-5)
        assert {**one, "score": 0, "logprob": 0, "logprobs": 0} == {
            **other,
            "score": 0,
            "logprob": 0,
            "logprobs": 0,
        }


def test_a_line_that_is_too_long_is_named(model):
    text = "dog cow\nowl\n" + "dog cow " * 1_000 + "\nowl\n"
    done = run("translate", model, stdin=text, code=2)
    assert done.stdout == run("translate", model, stdin="dog cow\nowl\n").stdout
    complaint = done.stderr.splitlines()[-1]
    assert complaint.startswith("regard: standard input:3: 2,002 tokens, more than 1,024; ")
    assert complaint.endswith("--max-length")
    run("translate", model, "--max-length", 3, stdin="dog cow\n")
    refused = run("translate", model, "--max-length", 1, stdin="dog cow\n", code=2)
    assert "standard input:1: " in refused.stderr
    refused = run("score", model, "--max-length", 3, stdin=f"dog\t{'cow ' * 9}\n", code=2)
    assert "standard input:1: " in refused.stderr and "--max-length" in refused.stderr


def test_vectors_and_links_have_the_same_limit(model, tmp_path):
    (tmp_path / "long.txt").write_text(f"dog\n{'cow ' * 400_000}\n")
    refused = run("embed", model, tmp_path / "long.txt", code=2)
    assert len(refused.stdout.splitlines()) == 1
    assert "long.txt:2: " in refused.stderr and "--max-length" in refused.stderr
    refused = run("align", model, *[tmp_path / "long.txt"] * 2, code=2)
    assert "long.txt:2: " in refused.stderr and "--max-length" in refused.stderr


def test_a_line_of_a_million_characters_is_refused(model):
    refused = run("translate", model, stdin="a" * 1_000_000 + "\n", code=2)
    assert "standard input:1: 1,000,001 tokens" in refused.stderr


@pytest.mark.thinned
@pytest.mark.parametrize("verb", ["translate", "embed"])
@pytest.mark.parametrize(
    ("odd", "plain"),
    [
        (b"dog\r\ncow\r\n", b"dog\ncow\n"),
        (b"dog\ncow", b"dog\ncow\n"),
        (b"\xef\xbb\xbfdog\n", b"dog\n"),
        (b"", b""),
        (b"\n" * 9_000 + b"dog\n", b"dog\n"),
    ],
    ids=["crlf", "no-end", "mark", "nothing", "empty-lines"],
)
def test_odd_line_ends_change_nothing(model, verb, odd, plain):
    found = run(verb, model, stdin=odd).stdout
    assert found.lstrip("\n") == run(verb, model, stdin=plain).stdout.lstrip("\n")
    if odd:
        assert found.count("\n") == len(odd.rstrip(b"\n").split(b"\n"))


@pytest.mark.parametrize("verb", ["translate", "embed", "score"])
def test_control_characters_are_text(model, verb):
    line = "do\0g\x1b[31m cow\u2028owl"
    stdin = f"{line}\t{line}\n" if verb == "score" else f"{line}\n"
    found = run(verb, model, stdin=stdin).stdout
    assert found.count("\n") == 1 and len(found.split("\n")) == 2


@pytest.mark.parametrize(
    ("verb", "form"),
    [("translate", "{}"), ("embed", "{}"), ("score", "{}\tada"), ("score", "ada\t{}")],
)
def test_a_line_the_model_cannot_read_is_named_after_those_before_it(verb, form, tmp_path):
    placed().save(tmp_path / "model")
    good = ["ada", "bit"] if verb == "score" else ["ada", "", "bit"]
    lines = [form.format(one) for one in (*good, "ada bit cow dog elf fox gnu hen ibis jay", "cow")]
    before = "".join(f"{line}\n" for line in lines[: len(good)])
    done = run(verb, tmp_path / "model", stdin="\n".join(lines), code=2)
    assert done.stdout == run(verb, tmp_path / "model", stdin=before).stdout
    complaint = done.stderr.splitlines()[-1]
    assert complaint.startswith(f"regard: standard input:{len(good) + 1}: ")
    assert complaint.endswith("tokens, but the model has 12 positions: shorten it")


@pytest.mark.parametrize("verb", ["translate", "embed"])
def test_positions_are_the_limit_of_very_long_lines_too(verb, tmp_path):
    placed().save(tmp_path / "model")
    complaint = run(verb, tmp_path / "model", stdin="ada " * 2_000, code=2).stderr.splitlines()[-1]
    assert complaint.endswith("8002 tokens, but the model has 12 positions: shorten it")
    short = run(verb, tmp_path / "model", "--max-length", 4, stdin="ada " * 9, code=2)
    assert " tokens, more than 4; split the line" in short.stderr


def test_a_pair_for_a_model_of_one_text_is_named_by_its_line(tmp_path):
    stored = small_bert("one")
    facts = change(stored.facts, segments=1)
    Model(replace(stored, facts=facts, module=facts.build().eval())).save(tmp_path / "model")
    done = run("predict", tmp_path / "model", stdin="cat\n\ncat\tboat\ncat\n", code=2)
    assert done.stdout == run("predict", tmp_path / "model", stdin="cat\n\n").stdout
    assert "standard input:3: the model reads one text at a time, not two" in done.stderr
