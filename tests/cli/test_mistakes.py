"""Wrong calls as users make them: each is refused in one line that says what to do.

The files in ``mistakes`` list calls, by the groups of ``regard --help``. The indented line below a
call is its message, with `` … `` for parts that are left out; what follows `` < `` is standard
input. They run in the folder that ``small_mistakes`` writes.
"""

import re
import shlex
from pathlib import Path

import pytest

from regard.cli import GROUPS, VERBS
from regard.core.errors import BAD_INPUT, LONGEST
from regard.core.lock import LOCK
from small import regard
from small_mistakes import write_folder
from verb import run

TABLES = Path(__file__).parent / "mistakes"
LEFT_OUT = " … "
LEAST = 147  # calls


def calls_in(path: Path) -> list[tuple[str, str]]:
    """The calls of a file, with their messages."""
    rows = re.split(r"\n(?=\S)", path.read_text().strip())
    return [tuple(map(str.strip, row.split("\n    "))) for row in rows]


MISTAKES = [row for group in GROUPS for row in calls_in(TABLES / f"{group.lower()}.txt")]
IN_PROCESSES = [  # of each kind: usage, file, table, model, recipe, folder for the results
    "translate translator texts.txt --serach greedy",
    "translate translator latin.txt",
    "predict classifier texts.csv --column texts",
    "predict cut texts.txt",
    "train owls/owls.toml --data owls --out run --set trian.steps=3",
    "convert classifier taken --to hf",
]


@pytest.fixture(scope="session")
def mistakes_folder(tmp_path_factory) -> Path:
    return write_folder(tmp_path_factory.mktemp("mistakes"))


@pytest.fixture
def in_folder(mistakes_folder, monkeypatch) -> Path:
    monkeypatch.chdir(mistakes_folder)
    return mistakes_folder


def files_in(folder: Path) -> dict[Path, tuple[int, int]]:
    """Sizes and times of all files and folders; the lock of a run stays when it is refused."""
    entries = {path: path.stat() for path in folder.rglob("*") if path.name != LOCK}
    return {
        path: (entry.st_size, entry.st_mtime_ns if path.is_file() else 0)
        for path, entry in entries.items()
    }


def words_of(call: str) -> tuple[list[str], str]:
    """The arguments of a call, and its standard input."""
    words, _, stdin = call.partition(" <")
    return shlex.split(words), f"{stdin.strip()}\n" if stdin.strip() else ""


def check_message(errors: str, message: str) -> None:
    """The last line is the only message, of one line, and has all parts in their order."""
    lines = errors.splitlines()
    begins = [line for line in lines if line.startswith(("regard: ", "Error: "))]
    assert begins == lines[-1:], errors
    said = lines[-1].partition(": ")[2]
    assert "Traceback" not in errors and len(said) <= LONGEST
    if lines[-1].startswith("Error: ") and lines[:-1]:
        assert lines[0].startswith("Usage: ") and lines[1].endswith("-h' for help.")
    parts = (re.escape(part.strip()) for part in message.split(LEFT_OUT))
    assert re.search(".*".join(parts), said), said


def test_the_table_has_calls_of_every_verb():
    calls = [call for call, _ in MISTAKES]
    assert len(calls) >= LEAST and len({*calls}) == len(calls)
    assert {call.split()[0] for call in calls} >= {*VERBS}
    fixed = {call: len(message.replace(LEFT_OUT.strip(), "").split()) for call, message in MISTAKES}
    assert [call for call, words in fixed.items() if words < 3] == []  # fits no other fault


@pytest.mark.thinned
@pytest.mark.parametrize(("call", "message"), MISTAKES, ids=[call for call, _ in MISTAKES])
def test_a_mistake_is_refused_in_one_line(in_folder, call, message):
    words, stdin = words_of(call)
    before = files_in(in_folder)
    done = run(*words, stdin=stdin, code=BAD_INPUT)
    check_message(done.stderr, message)
    assert files_in(in_folder) == before


@pytest.mark.slow
@pytest.mark.parametrize("call", IN_PROCESSES)
def test_a_mistake_is_refused_in_a_process_of_its_own(in_folder, call):
    words, stdin = words_of(call)
    before = files_in(in_folder)
    done = regard(*words, input=stdin)
    assert done.returncode == BAD_INPUT
    check_message(done.stderr, dict(MISTAKES)[call])
    assert files_in(in_folder) == before


def test_a_run_that_cannot_be_resumed_yet_says_so(in_folder, tmp_path):
    steps = ("--set", "train.steps=1", "--set", "optimiser.warmup=1")
    done = run(
        "train", "owls/owls.toml", "--data", "owls", *steps, "--out", tmp_path / "run", "--resume"
    )
    note = f"{tmp_path / 'run'}: nothing to resume yet; training starts from the beginning"
    assert done.stderr.splitlines()[0] == note


def test_a_start_with_other_labels_is_remarked_on(in_folder, tmp_path):
    removed = ("model.size=", "model.paper=", "model.change=", "text=false")
    settings = ("model.start=classifier", "train.steps=1", "optimiser.warmup=1", *removed)
    words = [word for setting in settings for word in ("--set", setting)]
    done = run("train", "owls/owls.toml", "--data", "owls", *words, "--out", tmp_path / "run")
    note = "the labels of classifier are bad, fair, good, not no, owl: the head is new"
    assert note in done.stderr.splitlines()


def test_an_unknown_architecture_is_named(in_folder):
    done = run("embed", "foo", "texts.txt")
    note = "foo/config.json: architectures: 'GPT2ForFoo' is unknown; heads are found by the names"
    assert done.stderr.startswith(note) and "GPT2LMHeadModel" in done.stderr
    assert run("embed", "causal", "texts.txt").stderr == ""


def test_names_of_labels_that_do_not_occur_are_remarked_on(in_folder, tmp_path):
    steps = ("--set", "train.steps=1", "--set", "optimiser.warmup=1")
    done = run(
        "train", "owls/unknown-label.toml", "--data", "owls", *steps, "--out", tmp_path / "run"
    )
    note = "labels.names: no training example has the label '2'; there are 1, no"
    assert note in done.stderr.splitlines()
