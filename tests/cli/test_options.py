"""Options of the same meaning have one name and one help text, on every verb that can use them."""

import re

import pytest

from regard.cli import VERBS, LazyCommands, formats
from regard.core.flags import Flag, flag_of
from regard.data.batches.packing import inference_batches
from regard.experiments import options
from regard.layers.linear.convert import in_precision
from small_bert import model as small_bert
from small_gpt import write_gpt2
from verb import run

LINES = "prints lines or records, which the shell can redirect"
DRAWINGS = "--html, --svg and --png name what they write"
NO_MODEL = {
    "bleu": "compares texts, without a model",
    "cite": "prints entries of papers",
    "curves": "draws figures of runs",
    "formation": "draws reports of a run",
    "new": "reads data, without a model",
    "papers": "lists facts, without weights",
    "prepare": "tokenises data, without a model",
    "recipes": "lists files",
    "similarity": "looks vectors up, without running a model",
    "sweep": "re-ranks stored hypotheses, without a model",
}
ONE_TEXT = dict.fromkeys(
    ("look", "frames", "tree", "attribute", "stream", "patch"),
    "shows one text, given on the command line",
)
SERVER = dict.fromkeys(
    ("serve", "studio"), "requests carry inputs and options; batches are bounded by tokens"
)
FIXED = {
    "tour": "its expected scores are those of fp32 on a CPU",
    "convert": "compares outputs in float32 on a CPU",
}
OWN_SENTENCES = "reads short sentences of its own"
BY_RECIPE = "the recipe says it (train.precision, batches), and checkpoints remember it"
ABSENT = {  # verbs without an option, and why
    "--device": NO_MODEL | FIXED,
    "--precision": NO_MODEL
    | FIXED
    | dict.fromkeys(("train", "tune", "study"), BY_RECIPE)
    | dict.fromkeys(
        ("recency", "attribute", "heads", "stream", "prune", "check"),
        "gradients are computed in float32",
    )
    | {"patch": "small differences are compared in float32"}
    | {"probe": "probes read states in float32"},
    "--batch-size": NO_MODEL
    | SERVER
    | FIXED
    | ONE_TEXT
    | dict.fromkeys(("train", "tune", "study"), BY_RECIPE)
    | {
        "recency": "each text is read in copies; memory is bounded by tokens",
        "heads": "memory is bounded by tokens",
        "probe": "memory is bounded by tokens",
        "check": "memory is bounded by tokens",
        "agreement": OWN_SENTENCES,
        "prune": "gradients are of batches of 16 examples; the recipe's files are short enough",
    },
    "--max-length": NO_MODEL
    | SERVER
    | FIXED
    | ONE_TEXT
    | dict.fromkeys(
        ("train", "tune", "study", "evaluate", "compare", "ablate", "prune"),
        "the recipe's files are read, not lines",
    )
    | {"agreement": OWN_SENTENCES}
    | dict.fromkeys(
        ("heads", "probe", "check"),
        "texts with more tokens than positions are left out and counted",
    )
    | dict.fromkeys(("retrieve", "mine"), "texts are truncated to what the model reads"),
    "--json": SERVER
    | {
        "tour": "a text for people",
        "new": "a text for people, and a recipe",
        "train": "writes metrics.jsonl, seeds.json and ladder.json",
    },
    "--format": SERVER
    | dict.fromkeys(
        ("translate", "generate", "predict", "fill", "embed", "score", "align", "retrieve", "mine"),
        "prints a line for each input",
    )
    | {"tour": "a text for people", "look": "draws", "frames": "draws", "tree": "draws"}
    | {"prepare": "prints a line for each set"}
    | {"cite": "prints BibTeX", "new": "writes a recipe", "steer": "prints an edit"},
    "--out": SERVER
    | dict.fromkeys(
        (
            "align",
            "evaluate",
            "compare",
            "bleu",
            "papers",
            "cite",
            "recipes",
            "similarity",
            "neighbours",
        ),
        LINES,
    )
    | dict.fromkeys(("retrieve", "mine"), LINES)
    | dict.fromkeys(
        (
            *("look", "frames", "tree", "curves", "formation", "attribute", "heads", "stream"),
            *("patch", "probe"),
        ),
        "--html, --svg and --png name what they write",
    )
    | {"convert": "the folder is its argument"},
}
VERBS_ON_LINES = (
    *("translate", "generate", "score", "align", "evaluate", "predict", "fill", "embed"),
    *("neighbours", "compare", "retrieve", "mine", "ablate", "steer"),
)
# Options with another meaning: several values, one for each trial, the columns of a recipe.
OTHER_MEANING = {("sweep", "--alpha"), ("sweep", "--coverage")}
OTHER_MEANING |= {("tune", option) for option in ("--set", "--resume", "--budget")}
OTHER_MEANING |= {("look", "--target"), ("papers", "--beam")}
OTHER_MEANING |= {("heads", option) for option in ("--text", "--labels", "--least", "--test")}
OTHER_MEANING |= {("ablate", "--edits")}
OF_PROBES = ("--task", "--column", "--train", "--dev", "--test", "--layers", "--limit")
OTHER_MEANING |= {("probe", option) for option in OF_PROBES}
OTHER_MEANING |= {("new", option) for option in ("--column", "--out")}
OTHER_MEANING |= {("check", "--data"), ("check", "--recipe")}
OTHER_MEANING |= {("serve", "--name"), ("serve", "--workers"), ("prepare", "--workers")}
OTHER_MEANING |= {("studio", "--name"), ("studio", "--token"), ("train", "--at")}
OTHER_MEANING |= {("attribute", "--target"), ("attribute", "--method")}


def option_info(hint):
    """The name and the help text of an option; None of anything else."""
    flag = hint if isinstance(hint, Flag) else flag_of(hint)
    return (flag.name, flag.help) if flag is not None and flag.name else None


ANNOTATIONS = [*vars(options).values(), *vars(formats).values()]
SHARED = {found for found in map(option_info, ANNOTATIONS) if found}


def options_of(verb: str) -> dict[str, str]:
    """The help texts of a verb's options by name."""
    params = LazyCommands()[verb].params
    return {one.opts[0]: one.help for one in params if one.opts[0].startswith("--")}


def test_the_shared_options_are_found():
    assert set(ABSENT) <= {name for name, _ in SHARED}


@pytest.mark.parametrize("option", ABSENT)
def test_an_option_exists_wherever_it_makes_sense(option):
    have = {verb for verb in VERBS if option in options_of(verb)}
    assert have | set(ABSENT[option]) == set(VERBS)
    assert have.isdisjoint(ABSENT[option])


@pytest.mark.parametrize("verb", VERBS)
def test_a_shared_option_has_its_one_help_text(verb):
    names = {name for name, _ in SHARED}
    for name, text in options_of(verb).items():
        if name in names and (verb, name) not in OTHER_MEANING:
            assert (name, text) in SHARED


def test_options_of_several_verbs_are_shared():
    """What two verbs have stands in ``options``, unless it means something else there."""
    several = {"--top", "--seeds", "--search"}  # of words, settings, runs; of other methods
    several |= {option for _, option in OTHER_MEANING}
    every = [option for verb in VERBS for option in options_of(verb)]
    twice = {option for option in every if every.count(option) > 1} - {"--help"}
    assert twice - several <= {name for name, _ in SHARED}


def test_every_option_and_argument_has_a_help_text():
    for verb in VERBS:
        assert all(one.help for one in LazyCommands()[verb].params if one.name != "help"), verb


@pytest.fixture(scope="module")
def encoders(tmp_path_factory):
    """Folders of small encoders, by what they were trained for."""
    folder = tmp_path_factory.mktemp("encoders")
    for kind in ("one", "words"):
        small_bert(kind).save(folder / kind)
    write_gpt2(folder / "causal")
    return folder


@pytest.fixture
def verbs_on_lines(small_run, encoders):
    """Verbs that run a model over lines: their arguments and their input, two lines of it."""
    translator = small_run / "run" / "model"
    files = [small_run / "two.src", small_run / "two.tgt"]
    for file in files:
        file.write_text("dog cow owl\ncow dog\n")
    recipe, records = (small_run / "small.toml", "--data", small_run), small_run / "two.jsonl"
    records.write_text('{"_id": 1, "text": "the cat"}\n{"_id": 2, "text": "the storm"}\n')
    steer = ("--plus", files[0], "--minus", files[1], "--out", small_run / "steer.safetensors")
    return {
        "translate": ((translator,), "dog cow owl\ncow dog\n"),
        "generate": ((encoders / "causal", "--max-new-tokens", 3), "the old man\nthe dog\n"),
        "score": ((translator,), "dog cow owl\tcow dog\ncow dog\towl\n"),
        "align": ((translator, *files), ""),
        "evaluate": ((translator, *recipe), ""),
        "compare": ((translator, translator, "--recipe", *recipe), ""),
        "predict": ((encoders / "one",), "the cat sat\nthe storm came in\n"),
        "fill": ((encoders / "words",), "the [MASK] sat\nthe storm [MASK] in\n"),
        "embed": ((encoders / "words",), "the cat sat\nthe storm came in\n"),
        "neighbours": ((encoders / "words", "the"), "the cat sat\nthe storm came in\n"),
        "retrieve": ((encoders / "words", records, records), ""),
        "mine": ((encoders / "words", *files), ""),
        "ablate": ((translator, *recipe, "--layers", "--limit", 4), ""),
        "steer": ((encoders / "words", *steer), ""),
    }


def test_every_such_verb_is_known(verbs_on_lines):
    assert set(verbs_on_lines) == {verb for verb in VERBS if "--batch-size" in options_of(verb)}


@pytest.mark.thinned
@pytest.mark.parametrize("verb", VERBS_ON_LINES)
def test_a_batch_has_at_most_the_size_given(verbs_on_lines, verb, monkeypatch):
    sizes = []

    def recorded(*given, **options):
        batches = inference_batches(*given, **options)
        sizes.extend(map(len, batches))
        return batches

    runners = [f"inference.{name}" for name in ("component", "row_batches", "translator")]
    for module in (*runners, "inside.align"):
        monkeypatch.setattr(f"regard.{module}.inference_batches", recorded)
    arguments, stdin = verbs_on_lines[verb]
    command = (verb, *arguments, "--device", "cpu")
    together = run(*command, stdin=stdin)
    assert max(sizes) > 1
    sizes.clear()
    alone = run(*command, "--batch-size", 1, stdin=stdin)
    assert set(sizes) == {1}
    assert alone.stdout.count("\n") == together.stdout.count("\n")
    assert "--batch-size" in run(*command, "--batch-size", 0, stdin=stdin, code=2).stderr


@pytest.mark.parametrize(
    "verb", [verb for verb in VERBS_ON_LINES if verb not in ABSENT["--max-length"]]
)
def test_a_text_beyond_the_maximum_length_is_an_error(verbs_on_lines, verb):
    arguments, stdin = verbs_on_lines[verb]
    refused = run(verb, *arguments, "--max-length", 2, stdin=stdin, code=2)
    assert re.search(r":1: \d+ tokens, more than 2; split the line", refused.stderr)


@pytest.mark.thinned
@pytest.mark.parametrize("verb", ["score", "align", "look", "tree"])
def test_the_stored_precision_can_be_overridden(small_run, verbs_on_lines, verb, monkeypatch):
    model = small_run / "run" / "model"
    arguments, stdin = verbs_on_lines.get(verb, ((model, "dog cow"), ""))
    used = []
    monkeypatch.setattr(
        "regard.inference.decoder_model.in_precision",
        lambda module, kind, **options: used.append(kind) or in_precision(module, kind, **options),
    )
    command = (verb, *arguments, "--device", "cpu", "--json")
    run(*command, stdin=stdin)
    assert used == []
    run(*command, "--precision", "int8", stdin=stdin)
    assert used == ["int8"]


@pytest.mark.parametrize(
    "command",
    [("translate", "m", "f", "--out"), ("train", "tour", "--out"), ("look", "m", "A.", "--svg")],
)
def test_a_dash_is_no_name_of_an_output(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused = run(*command, "-", code=2)
    assert (
        f"{command[-1]} -: leave it out, or name a " in refused.stderr
        and "Usage" not in refused.stderr
    )
    assert refused.stderr.count("\n") == 1 and not [*tmp_path.iterdir()]
