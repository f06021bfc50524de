"""Streams that are closed, full or endless, signals, and names that no file has: one line each."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

import regard
from regard.core.errors import BadInput
from small import command, environment
from small_bert import model
from verb import run
from warm import WarmProcess

NAMES = {
    "long": "a" * 300,
    "NUL": "a\0b",
    "below a file": "file/inner",
    "circle": "circle",
    "below a circle": "circle/inner",
}


@pytest.mark.thinned
@pytest.mark.parametrize(
    "closed, code, said",
    [
        ("<&-", 0, ""),
        (">&-", 2, "regard: standard output: Bad file descriptor\n"),
        ("2>&-", 0, ""),
        ("<&- >&- 2>&-", 2, ""),
        (">/dev/full", 2, "regard: standard output: No space left on device\n"),
    ],
)
def test_closed_standard_streams_of_a_new_process(closed, code, said):
    words = ["bash", "-c", f'"$@" {closed}', "-", *command("recipes")]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, said)
    assert bool(done.stdout) == (code == 0)


def test_messages_without_a_place_are_lost_and_the_exit_code_stays():
    words = ["bash", "-c", '"$@" 2>/dev/full', "-", *command("recipes", "nowhere")]
    done = subprocess.run(words, env=environment(), capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (2, b"")


CLOSE = (
    "import os, sys\n"
    "for number in map(int, sys.argv.pop(1)): os.close(number); "
    "setattr(sys, ('stdin', 'stdout', 'stderr')[number], None)\n"
    "from regard.__main__ import main; sys.argv[0] = 'regard'; main()"
)


@pytest.mark.thinned
@pytest.mark.parametrize(
    "closed, more, code, said",
    [
        ("0", ("-",), 2, "regard: standard input: cannot be read (Bad file descriptor)\n"),
        ("1", ("FILE",), 2, "regard: standard output: Bad file descriptor\n"),
        ("01", ("FILE", "--out", "OUT"), 0, "wrote OUT\n"),
        ("12", ("FILE", "--out", "OUT"), 0, ""),
    ],
)
def test_closed_standard_streams_of_translate(small_run, tmp_path, closed, more, code, said):
    names = {"FILE": str(small_run / "test.src"), "OUT": str(tmp_path / "out")}
    words = [names.get(word, word) for word in more]
    process = WarmProcess("-c", CLOSE, closed, "translate", small_run / "run" / "model", *words)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (code, "")
    lines = errors.replace(names["OUT"], "OUT").splitlines(keepends=True)
    expected = [said] * bool(said)
    if said.startswith("wrote"):
        found = run("translate", small_run / "run" / "model", names["FILE"], "--json").stdout
        ends = [json.loads(line)["ended"] for line in found.splitlines()]
        count = f"{ends.count('length')} of {len(ends)} texts are unfinished"
        expected.append(f"{count}: they end at the limit of new tokens (max_new_tokens)\n")
        assert ends.count("length"), "of random weights, some are"
    assert [line.split(maxsplit=1)[0] for line in lines[:2]] == ["beam", "precision"] * bool(errors)
    assert lines[2:] == expected
    if "OUT" in more:
        lines = (small_run / "test.src").read_text().splitlines()
        assert len((tmp_path / "out").read_text().splitlines()) == len(lines)


GONE = (
    "import os, sys; read, write = os.pipe(); os.close(read); os.dup2(write, 1)\n"
    "sys.stdout = open(1, 'w')\n" + CLOSE
)


def test_a_reader_that_has_gone_is_no_error(small_run):
    words = ("translate", small_run / "run" / "model", small_run / "train.src")
    process = WarmProcess("-c", GONE, "", *words, "--search", "greedy")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors and "Broken pipe" not in errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_leaves_no_temporary_file(small_run, tmp_path, number):
    lines, out = tmp_path / "lines", tmp_path / "results" / "out"
    os.mkfifo(lines)
    words = ("translate", small_run / "run" / "model", lines, "--out", out)
    process = WarmProcess("-m", "regard", *words)
    with lines.open("w") as writer:
        writer.write("ada bit\n")
        writer.flush()
        while not out.parent.is_dir() or not [*out.parent.iterdir()]:
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        time.sleep(0.1)
        process.send_signal(number)
        errors = process.communicate(timeout=60)[1]
    assert process.returncode == 128 + number
    assert errors.endswith("\nregard: stopped\n") and "Traceback" not in errors
    assert [path.name for path in tmp_path.iterdir()] == ["lines"]


NOHUP = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n" + CLOSE


def test_an_ignored_signal_stays_ignored(small_run, tmp_path):
    lines, out = tmp_path / "lines", tmp_path / "out"
    os.mkfifo(lines)
    words = ("translate", small_run / "run" / "model", lines, "--out", out)
    process = WarmProcess("-c", NOHUP, "", *words)
    with lines.open("w") as writer:  # waits until the verb reads
        process.send_signal(signal.SIGHUP)
        writer.write("ada bit\n")
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 0, errors
    assert len(out.read_text().splitlines()) == 1


TOO_LONG = "more than 67,108,864 bytes without a line feed"


@pytest.mark.parametrize("verb", ["translate", "bleu"])
def test_an_endless_line_is_one_line(small_run, verb):
    words = {"translate": (small_run / "run" / "model", "/dev/zero"), "bleu": ["/dev/zero"] * 2}
    process = WarmProcess("-m", "regard", verb, *words[verb])
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (2, "")
    assert errors.splitlines()[-1] == f"regard: /dev/zero:1: {TOO_LONG}"
    assert "Traceback" not in errors


@pytest.fixture
def places(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    Path("circle").symlink_to("circle")


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
@pytest.mark.parametrize("kind", [str, Path])
def test_names_that_no_folder_has(places, name, kind):
    with pytest.raises(BadInput, match=r"cannot be read|no such folder|NUL|not a folder"):
        regard.load(kind(name))
    with pytest.raises(BadInput, match=r"cannot be read|no recipe is called|NUL"):
        regard.train(kind(name))


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_names_that_no_folder_can_be_written_to(places, name):
    with pytest.raises(BadInput, match=r"cannot be written|NUL|is a file|circle"):
        model("one").save(name)
    assert {path.name for path in Path().iterdir()} == {"file", "circle"}


def test_a_name_with_a_nul_in_an_index(tmp_path):
    model("one").save(tmp_path, "hf")
    (tmp_path / "model.safetensors").unlink()
    index = json.dumps({"weight_map": {"a": "a\0b"}})
    (tmp_path / "model.safetensors.index.json").write_text(index)
    with pytest.raises(BadInput, match="a file name cannot have a NUL character"):
        regard.load(tmp_path, "cpu")
