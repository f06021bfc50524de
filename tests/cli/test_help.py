"""Help: grouped, never cut, and printed without loading what runs a model."""

import json
import os
import re
import resource
import subprocess
import sys
from functools import cache
from inspect import getdoc

import pytest

from regard.cli import GROUPS, VERBS, LazyCommands
from regard.views.pages import records_in
from small import command, environment, regard
from verb import run

HEAVY = ("torch", "transformers", "sacrebleu", "tokenizers", "safetensors", "numpy", "regard.api")
RUN = """
import json, sys
from regard.__main__ import main
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["regard", *arguments]
    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code or 0
    loaded = [name for name in HEAVY if name in sys.modules]
    print(json.dumps([arguments, code, loaded]), file=sys.stderr)
"""


def loaded_by(*commands: tuple[object, ...]) -> list[list[object]]:
    """Each command with its exit code and what of ``HEAVY`` is loaded when it ends."""
    script = RUN.replace("HEAVY", repr(HEAVY))
    given = json.dumps([[str(word) for word in words] for words in commands])
    done = subprocess.run(
        [sys.executable, "-c", script, given], env=environment(), capture_output=True, text=True
    )
    return [json.loads(line) for line in done.stderr.splitlines() if line.startswith("[[")]


def test_nothing_heavy_is_loaded():
    """All in one process: what one of them loads, those after it have loaded too."""
    recipes = (["recipes"], ["recipes", "tour"], ["recipes", "--json"])
    papers = (["papers"], ["papers", "BERT"], ["papers", "BERT", "RoBERTa"])
    commands = [["--help"], ["--version"], *recipes, *papers, ["papers", "--results"]]
    commands += [["cite"], ["cite", "BERT", "GPT-2"], ["check"], ["check", "--json"]]
    commands += [[verb, "--help"] for verb in VERBS]
    assert loaded_by(*commands) == [[words, 0, []] for words in commands]


def test_a_page_of_papers_loads_nothing(tmp_path):
    page = ("papers", "--html", tmp_path / "papers.html")
    assert [loaded for _, _, loaded in loaded_by(page)] == [[]]
    (record,) = records_in((tmp_path / "papers.html").read_text())
    assert "RoBERTa" in [paper["name"] for paper in record.json["papers"]]


def test_curves_load_nothing(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"event": "train", "step": 1, "loss": 2.0}\n')
    assert loaded_by(("curves", tmp_path)) == [[["curves", str(tmp_path)], 0, []]]


def test_bleu_loads_only_sacrebleu_and_numpy(tmp_path):
    (tmp_path / "text").write_text("a text of a few words\n")
    ((_, code, loaded),) = loaded_by(("bleu", tmp_path / "text", tmp_path / "text"))
    assert (code, loaded) == (0, ["sacrebleu", "numpy"])


def test_bad_options_load_nothing():
    wrong = (["translate"], ["tranlsate"])
    assert loaded_by(*wrong) == [[words, 2, []] for words in wrong]


LIBRARIES = "import numpy, rich.console, typer.main; from pydantic import BaseModel, TypeAdapter"


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [["--help"], ["papers"], ["recipes"], ["cite"], ["translate", "--help"]]
)
def test_help_and_listings_take_little_longer_than_the_libraries_they_use(words):
    """In seconds of the processor, so that other processes do not count; 0.3 s on a free core."""
    listing = min(processor_seconds(command(*words)) for _ in range(5))
    libraries = min(processor_seconds([sys.executable, "-c", LIBRARIES]) for _ in range(5))
    assert listing < 2 * libraries


def processor_seconds(arguments: list[str]) -> float:
    """Processor time of a process that ends well."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(arguments, env=environment(), stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("verb", VERBS)
def test_a_summary_is_the_first_line_of_the_docstring(verb):
    (summary,) = [verbs[verb] for verbs in GROUPS.values() if verb in verbs]
    first, empty, *_ = (getdoc(LazyCommands()[verb].callback) or "").splitlines()
    assert (first, empty) == (summary, "")


@cache
def help_at(width: int) -> str:
    """The help in a terminal of so many columns; a runner of this process has 80."""
    return regard("--help", env={**environment(), "COLUMNS": str(width)}).stdout


@pytest.mark.parametrize("width", [40, 80, 200])
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


def sections_of(verb: str) -> dict[str, list[str]]:
    """Options of a verb by the sections of its help."""
    text = run(verb, "--help").stdout
    _, *parts = re.split(r"(?m)^([A-Z][a-z ]+):\n", text[text.index("Arguments:") :])
    return {
        title: re.findall(r"(?m)^  (--[a-z-]+)", options)
        for title, options in zip(parts[::2], parts[1::2], strict=True)
    }


def test_verbs_that_write_texts_have_the_same_sections():
    generate, translate = sections_of("generate"), sections_of("translate")
    sections = ["Arguments", "Options", "Inputs", "Search", "Model and speed", "Outputs"]
    assert [*generate] == [*translate] == sections
    for section in ("Inputs", "Model and speed"):
        assert generate[section] == translate[section] != []
    own = {"--search", "--min-new-tokens", "--stop-string", "--coverage", "--max-active"}
    shared = [[one for one in each["Search"] if one not in own] for each in (generate, translate)]
    assert shared[0] == shared[1] and "--beam" in shared[0]
    assert not {*generate["Options"]} & {*translate["Options"]}


def test_verbs_on_files_have_the_same_sections():
    fill = sections_of("fill")
    for verb in ("predict", "embed", "score"):
        found = sections_of(verb)
        assert all(found[section] == fill[section] for section in ("Inputs", "Model and speed"))


def test_an_unknown_verb_has_a_suggestion():
    assert "Did you mean 'translate', 'ablate'?" in run("tranlsate", code=2).stderr


def test_completion_names_verbs():
    shell = {**environment(), "_REGARD_COMPLETE": "complete_bash", "COMP_WORDS": "regard tr"}
    command = [sys.executable, "-c", "from regard.cli import app; app(prog_name='regard')"]
    shell |= {"COMP_CWORD": "1", "PATH": os.environ["PATH"]}
    done = subprocess.run(command, env=shell, capture_output=True, text=True)
    assert done.stdout.split() == ["translate", "train", "tree"], done.stderr
