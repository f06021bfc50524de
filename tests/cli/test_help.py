"""Help: grouped, never cut, and printed without loading what runs a model."""

import json
import os
import re
import subprocess
import sys
from inspect import getdoc

import pytest

from regard.cli import GROUPS, VERBS, LazyCommands
from small import environment, regard
from verb import run

HEAVY = ("torch", "transformers", "sacrebleu", "tokenizers", "safetensors", "regard.api")
RUN = """
import json, sys
from regard.__main__ import main
sys.argv = ["regard", *sys.argv[1:]]
try:
    main()
finally:
    print(json.dumps([name for name in HEAVY if name in sys.modules]), file=sys.stderr)
"""


def loaded_by(*arguments, code=0) -> set[str]:
    """What of ``HEAVY`` is loaded when the command ends."""
    script = RUN.replace("HEAVY", repr(HEAVY))
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    "options",
    [("--help",), ("--version",), ("recipes",), ("recipes", "tour"), ("recipes", "--json")],
)
def test_nothing_heavy_is_loaded(options):
    assert loaded_by(*options) == set()


@pytest.mark.parametrize("verb", VERBS)
def test_nothing_heavy_is_loaded_for_the_help_of_a_verb(verb):
    assert loaded_by(verb, "--help") == set()


def test_bleu_loads_only_sacrebleu(tmp_path):
    (tmp_path / "text").write_text("a text of a few words\n")
    assert loaded_by("bleu", tmp_path / "text", tmp_path / "text") == {"sacrebleu"}


def test_bad_options_load_nothing():
    assert loaded_by("translate", code=2) == set()
    assert loaded_by("tranlsate", code=2) == set()


@pytest.mark.parametrize("verb", VERBS)
def test_a_summary_is_the_first_line_of_the_docstring(verb):
    (summary,) = [verbs[verb] for verbs in GROUPS.values() if verb in verbs]
    first, empty, *_ = (getdoc(LazyCommands()[verb].callback) or "").splitlines()
    assert (first, empty) == (summary, "")


def help_at(width: int) -> str:
    """The help in a terminal of so many columns; a runner of this process has 80."""
    return regard("--help", env={**environment(), "COLUMNS": str(width)}).stdout


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_all_verbs_are_listed_by_group_with_their_whole_summary(width):
    text = help_at(width)
    assert "…" not in text and "..." not in text.partition("Run:")[2]
    assert re.findall(r"(?m)^(\w+):$", text) == ["Options", *GROUPS]
    for group, verbs in GROUPS.items():
        listed = re.split(r"(?m)^\w+:\n", text.partition(f"{group}:\n")[2])[0]
        assert re.findall(r"(?m)^  (\w+)", listed) == list(verbs)
        letters = "".join(listed.split())
        assert letters == "".join(f"{name}{verbs[name]}" for name in verbs).replace(" ", "")
    assert all(len(line) <= max(width, 50) for line in text.splitlines())


def test_summaries_have_one_line_in_a_usual_terminal():
    lines = help_at(80).partition("Run:")[2].splitlines()
    assert sum(line.startswith("  ") for line in lines) == len(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_an_example(verb):
    text = run(verb, "--help").stdout
    assert "Example:" in text
    assert re.search(rf"regard {verb}\b", text)
    assert run(verb, "-h").stdout == text


def test_an_unknown_verb_has_a_suggestion():
    assert "Did you mean 'translate'?" in run("tranlsate", code=2).stderr


def test_completion_names_verbs():
    shell = {**environment(), "_REGARD_COMPLETE": "complete_bash", "COMP_WORDS": "regard tr"}
    command = [sys.executable, "-c", "from regard.cli import app; app(prog_name='regard')"]
    shell |= {"COMP_CWORD": "1", "PATH": os.environ["PATH"]}
    done = subprocess.run(command, env=shell, capture_output=True, text=True)
    assert done.stdout.split() == ["translate", "train", "tree"], done.stderr
