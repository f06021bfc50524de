"""What was written before the redraw is read: models, half-done runs, stopped outputs, names.

``python tests/safety_net.py freeze FOLDER`` wrote ``safety/frozen`` at the base commit. Answers of
models, losses and results agree to the tolerances of ``closeness``, whatever the machine. Exact
are: tensors and files that a model gives back when it is saved again; names; and on the kind of
machine that froze them (torch, processor) the losses and weights of resumed runs, which are those
of a run that was not stopped, and the bytes of continued outputs.
"""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import regard
from closeness import LARGE
from regard.cli.io.console import OUT
from safety import frozen_folders as frozen
from safety.listings import LISTINGS

# Names that the redraw changes: pattern in a frozen listing -> what it is now.
RENAMED: dict[str, str] = {
    r"BadInput\(message\)": "BadInput(what, key, file=None, line=None, remedy='')",
    r"(Recipe\(.*, train), expect=": r"\1, distributed, expect=",
    r"Model\.agreement\(self, sentences=None\)": "score_agreement(model, sentences=None)",
    r"(AgreementTable\.svg\(self, chart='distance'), colours\)": r"\1)",
    r"(Paper\(.*, heads), pool=None(, .*, report='')\)": r"\1\2, authors='')",
    r"^Paper\.pool$": "Paper.heads",  # each head has its pool
    r"\b(train\.)?judge = ": r"\1metric = ",
    r"Recipe\.table\(self, kind\)": "Recipe.tables",
    r"\bwidest\b": "max_active",  # of Exact
    r"--max_active\b": "--max-active",
    r"(Model\.save\(.*, overwrite=False)\)": r"\1, int8=False, attention)",
    r"\.chances\(": ".probabilities(",
    r"(Beam\.sort_key)\(self, one\)": r"\1(self, hypothesis)",
    r"(Exact\.(?:end|promising)\(self), alive,": r"\1, prefixes,",
    r"(Exact\.end\(.*, eos), logprobs_RV": r"\1, logprob_R",
    r"(AttentionMap|RolloutMap)\.numbers\(": r"\1.indices(",
    r"((?:Attention|Rollout)Map\(.*=None)\)": r"\1, special_queries, special_keys)",
    r"(EncoderDecoder\(.*, head_bias=False)\)": r"\1, scaled_output=False, head_std=None)",
    r"(TrunkWithHeads\(.*, layer=None)\)": r"\1, init_cutoff=None)",
    r"(MetricScore\(.*, interval=None)\)": r"\1, statistics=None)",
    r"^(train\(recipe, .*)(, device.* resume=False)(, .*budget=inf)\)$": (
        r"\1, seeds=None, facts=None\2, overwrite=False\3, loggers, watch=None, on_event=None)"
    ),
    r"(ReportEvent\(.*, counted='tok')\)": r"\1, absent)",
    r"(\S+ optimiser\.warmup = )4000": r"\1'auto'",
    r"train\.steps = 'required'": "train.steps = 0",  # or train.epochs
    r"^((?!translate )\S+ train\.smoothing = )0\.1$": r"\g<1>0.0",  # off, but for translation
    r"(Model\.(?:embed|fill|generate|predict|score|translate)\(.*?)(?=, batch_size=)": r"\1, tape",
    r"(Model\.encode\(.*, carry=False)": r"\1, tape",
    r"(Model\.embed\(.*, normalise=None)": r"\1, prompt_name=None",
    r"(Event\.lines\(self, steps)\)": r"\1=0)",
    r"(Layout\(.*, orders_T=None)\)": r"\1, full=False)",
    r"((?:Greedy|Sample)\(.*, repetition_penalty=1.0)\)": r"\1, logit_bias)",
    r"((?:AttentionView|ImageAttention)\(.*, head=None)": r"\1, answer=None",
    r"^(Generation|Translation)\.remarks$": r"\1(text, score, hypothesis, ended)",
    r"^(Translation\(.*hypothesis)\)": r"\1, ended)",
    r"(Model\.translate\(.*prefixes=None)": r"\1, max_new_tokens=None",
    r'^(translate --json: .*"finished": true)(, "prec)': r'\1, "ended": "eos"\2',
    r'^(translate --json: .*"finished": false)(, "prec)': r'\1, "ended": "length"\2',
    r"(ImageAttention\.of_image\(cls, title), image, records": r"\1, record",
}
# Lines of listings that are new on purpose, by patterns of the whole line.
NEW: tuple[str, ...] = (
    r"BadInput\.(names|text\(.*)",
    r"(Dev|End|Report|Save|Score|Start|Watch)Event\.error",
    r"(Evaluation|Ladder|ModelComparison|SeedScores|Tuning)\b.*",
    r"fill (more|--skip-bad|--workers|--ray) = .*",
    r"(compare|evaluate|ladder|tune)\(.*",
    r"(?:AttentionMap|RolloutMap)\.(?:save\(self, path\)|svg\(self\))",
    r"[a-z-]+ distributed\b.*",  # keys of recipes
    r"\w+\.(?:view_record\(self.*|static_drawing\(self\))",
    r"(?:Greedy|Sample)\.choice",
    r"train --(?:ranks|gpu) = None",
    r"embed --prompt-name = None",
    r"(?:Greedy|Sample)\.logit_bias",
    r"coreference .*",  # keys of its recipes
    r"Resolved(?:Mention|Text)(?:\(|\.).*",
    r"predict --html = None",
    r"recipes: (?:litbank(?:-elmo|-bert)?|gap-bert) .*",
    r"papers(?: --json)?: .*\b(?:Lee|lee)\b.*",
    r"recipes: (?:t5-gutenberg|text-headings|text-sst2) .*",
    r"(Chart|ChartLine|Report)(\(|\.).*",  # what studies are made of
    r"(pack|seed_everything|spread)\(.*",
    r"AgreementTable\.report",
    r"TokenRow\.of\(cls, ids\)",
    r"Model\.components?(\(.*)?",
    r"Tape\.(?:next_batch\(self\)|only_edits)",
    r"Model\.tokens\(self, texts, max_length=None\)",
    r"AnswerPrediction\.summary|(?:AttentionView|ImageAttention)\.answer",
    r"TextTokens(\(|\.).*",
    r"(?:Model\.heads\(.*|(?:HeadFigures|HeadReport|RelationScore)(?:\(|\.).*|heads .*)",
    r"(?:Model\.(?:inspected|record\(.*)|Record(\(|\.).*)",
    r"(?:Model\.tree\(.*|(?:Beam|Token)Tree(\(|\.).*)",
    r"(?:Model\.(?:attribute|what_if)\(.*|(?:Attributions|WhatIf)(\(|\.).*|attribute .*)",
    r"\S+ .*\.(?:queries|keys|values|head_outputs)",  # values of attention on a tape
    r"(?:Model\.follow\(.*|(?:Computation|Check(?:Report|Row))(?:\(|\.).*)",
    r"\S+ \S+\.(?:normed|sum|inner|mask|unturned_(?:queries|keys)|(?:distance|segment)_scores)",
    r"\S+ \S+\.(?:gates|cells|context|bridge\.(?:\d+\.[hc]|summary))",  # of recurrent layers
    r"\S+ target\.(?:combined|maxout)|regard-(?:bahdanau|cove|gehring|luong) target\.blocks\..*",
    r"\S+ \S+\.embed\.(?:token|position|segment|unprojected|patches|prefix|filters|projection)",
    r"\S+ \S+\.embed\.(?:highway\.\d+|(?:words|characters)\.\w+|features|indicator)",
    r"\S+ (?:trunk\.mix\.weights|heads\.\w+\.(?:dense|norm|dense_norm))",
    r"papers --(?:path|train|load|beam|run) = False",
    r"[a-z]+ --format = 'text'",
    r"(?:compare|cite|probe)\b.*",
    r"(?:serve|studio) .*",
    r"\S+ train\.keep_every = 0",
    r"\S+ data\.mix = PydanticUndefined",
    r"\S+ data\.\S+\.tmx = None",
    r"prepare --deduplicate = False",
    r"train --(?:branch|at) = None",
    r"evaluate --dev = False",
    r"MetricScore\.statistics",
    r"Paper\.authors",
    r"papers(?: --json)?: .*\b(?:ERNIE|Grover|m?T5|Llama|Mistral|Qwen2|ModernBERT)\b.*",
    r"recipes(?: --json)?: .*\b(?:ernie-tour|grover-articles|llama-gutenberg)\b.*",
    r"EncoderDecoder\.(?:scaled_output|head_std)|TrunkWithHeads\.init_cutoff",
    r"pretrain objective\.masked-lm\.(?:lexicon|tagged)\b.*",
    r"pretrain objective\.fields\b.*",
    r"generate --(?:fields|write) = None",
    r"text-to-text prompt\.(?:prefix|labels) = .*",
    r"pretrain objective\.span-corruption(?:\.rate|\.mean_length)? = .*",
    r"recipes: (?:spans|prefix)-tour .*",
    r".* data\.\w+\.(?:parquet|delimiter|quoting|encoding|header) = .*",  # of tables
    r"(?:embed|fill|predict|score|translate) --(?:column|delimiter|encoding) = None",
    r"(?:MultiLabel|Label|Number)Prediction\.columns",
    r"\S+ train\.epochs = 0\.0",
    r"train --log = None",
    r"train --overwrite = False",
    r"ReportEvent\.absent",
    r"TrainingResult(\(|\.).*",
    r"train_events\(.*",
    r"(?:curves|new|tune) .*",
    r"BadInput\.code",
    r"Recipe\.with_steps\(.*",
    r"recipes(?: --json)?: .*\bstsb-sentences\b.*",
    r"translate --document = False",
    r"translate --max-new-tokens = None",
    r"recipes(?: --json)?: .*\bmarian-tour\b.*",
    r"convert --(?:list-formats|int8) = False",
    r"convert --attention = None",
    r"Model\.formats",
    r"embed (?!model = None|file )[a-z].*",  # the keys of task = "embed"
    r"(?:mine|retrieve|prune) .*",
    r"classify text\.(?:long|stride) = .*",
    r"(?:AttentionMap|RolloutMap)\.special_(?:queries|keys)",
    r"Contributions(\(|\.).*",
    r"Model\.contributions\(.*",
    r"EncoderDecoder\.output_heads",
    r"(?:stream|patch) .*",
    r"\S*xlnet\S* trunk\.blocks\.\d+\.(?:attention|mlp)\.output",
    r"(?:ablate|check|steer) .*",
    r"(?:embed|evaluate|fill|generate|look|predict|score|translate) --edits = None",
    r"(?:EditList(\(|\.).*|read_edits\(path\)|Model\.edited\(self, edits\))",
    r"(?:watch_heads\(.*|WatchEvent(\(|\.).*|\w+Event\.reports|formation .*|train --watch = None)",
    r"recipes(?: --json)?: .*\b(?:induction(?:-one-layer)?|grokking)\b.*",
    r"papers(?: --json)?: .*\b(?:ESIM|BiDAF|Clark|bcn)\b.*",
    r"recipes(?: --json)?: .*\b(?:snli-esim|squad-bidaf|squad-clark|sst5-bcn)\b.*",
    r"(?:Layout\.texts?(?:_T)?|(?:Attention|Rollout)Map\.crop\(.*)",
    r"(?:study\b|mean_interval\().*",
    r"recipes(?: --json)?: .*\bconll2003-glove-elmo\b.*",
    r"(?:(?:PredictedFrame|RoleArgument|SentenceFrames)(\(|\.)|draw_frames\().*",
    r"(?:frames|roles) .*",
    r"recipes(?: --json)?: .*\bpropbank-ewt(?:-elmo|-bert)?\b.*",
    r"papers(?: --json)?: .*\bHe\b.*",
    r"(?:embed|generate|predict|score|translate) --ray = None",
    r"(?:bulk\(|BulkReport(\(|\.)).*",
    r"(?:prepare .*|train --prepared = None)",
    r"score --(?:workers = None|(?:skip-bad|resume) = False)",
    r"(?:embed|generate|predict|score|translate) more = .*",
    r"(?:generate|translate) --skip-bad = False",
    r"generate --(?:column|delimiter|encoding) = None",
)
# Keys that a file of a saved folder may have since then: "config.json": {"task"}.
NEW_KEYS: dict[str, set[str]] = {}
# Keys that an answer may have since then.
NEW_IN_ANSWERS = re.compile(r"\.translate\[\d+\]\[\d+\]\.ended is new")
# Facts that models have since then; a folder that was saved before has their defaults.
NEW_FACTS = re.compile(
    r"config\.json\.facts\..*\b(?:kv_heads|gated|(?:qkv|output|mlp)_bias|scaled_scores|norm_kind"
    r"|first_norm|final_dropout|windows|vector_std|scaled_output|dense_bias|bias|dense"
    r"|(?:cross_)?heads_by_layer|state_dropout|init|init_cutoff|head_std)"
    r" is new"
)

MODELS = sorted(path.name for path in frozen.MODELS.iterdir() if path.is_dir())
RUNS = sorted(path.stem for path in frozen.RUNS.glob("*.json"))
STOPPED = sorted(path.name for path in frozen.PARTIAL.iterdir())
NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?")


def none_of(lines: list[str], what: str) -> None:
    """Fail with one line for each difference, of at most twenty."""
    if lines:
        pytest.fail(f"{what}: {len(lines)} differences\n" + "\n".join(lines[:20]), pytrace=False)


@pytest.mark.parametrize("name", MODELS)
def test_a_folder_is_read_and_written_as_before(name, tmp_path):
    pytest.importorskip("PIL") if "vit" in name or "deit" in name else None
    pytest.importorskip("h5py") if name.startswith("elmo") else None
    folder = frozen.MODELS / name
    stored = json.loads(folder.with_name(f"{name}.json").read_text())
    model = regard.load(folder, "cpu")
    answers = {verb: frozen.answer(model, verb, stored["inputs"]) for verb in frozen.VERBS}
    refused = [verb for verb, value in answers.items() if value is None]
    assert refused == stored["refused"]
    answers = {verb: value for verb, value in answers.items() if value is not None}
    tolerance = LARGE["rtol"], LARGE["atol"]
    lines = frozen.differences("", stored["answers"], answers, *tolerance)
    none_of([line for line in lines if not NEW_IN_ANSWERS.fullmatch(line)], name)
    model.save(tmp_path / "again", stored["format"])
    none_of([*differing_files(folder, tmp_path / "again", stored)], f"{name}, saved again")


def differing_files(folder: Path, again: Path, stored: dict) -> list[str]:
    """A line for each file, tensor or key that does not come back."""
    files = frozen.files_of(again)
    lines = [f"{file}: is missing" for file in stored["saved"] if file not in files]
    lines += [f"{file}: is new" for file in files if file not in stored["saved"]]
    for file in set(stored["same"]) & files.keys():
        old, new = frozen.content_of(folder / file), frozen.content_of(files[file])
        if isinstance(new, dict):
            new = {k: v for k, v in new.items() if k in old or k not in NEW_KEYS.get(file, set())}
        differences = frozen.differences(file, old, new, 0.0, 0.0)
        lines += [line for line in differences if not NEW_FACTS.fullmatch(line)]
    return lines


@pytest.fixture(params=RUNS)
def half_done(request, tmp_path):
    """The recipe, a copy of the run folder, and what came of the run."""
    run = tmp_path / "run"
    shutil.copytree(frozen.RUNS / request.param, run)
    stored = json.loads((frozen.RUNS / f"{request.param}.json").read_text())
    shutil.copytree(frozen.RUNS / "data", tmp_path / "data")
    recipe = tmp_path / "data" / f"{request.param}.toml"
    recipe.write_text(renamed(recipe.read_text()))
    return recipe, run, stored


def test_a_half_done_run_goes_on(half_done, tmp_path):
    recipe, run, stored = half_done
    before = checkpoint_names(run)
    losses = frozen.train(recipe, run, resume=True)
    none_of([*frozen.differences("loss", stored["losses"], losses, 1e-4, 1e-4)], run.name)
    assert checkpoint_names(run) == before
    weights = frozen.weights_of(run)
    assert weights.keys() == stored["weights"].keys()
    if frozen.machine() == stored["machine"]:
        assert losses == stored["losses"] and weights == stored["weights"]
        whole = frozen.train(recipe, tmp_path / "whole")
        assert whole[-len(losses) :] == losses
        # Of two equal scores the run keeps the one of the lower loss, which old runs do not store.
        assert last_checkpoint(tmp_path / "whole") == last_checkpoint(run)


def last_checkpoint(run: Path) -> dict[str, dict]:
    """All tensors of the last checkpoint, by file."""
    last = max((run / "checkpoints").glob("step-*"))
    return {path.name: frozen.tensors_of(path) for path in sorted(last.glob("*.safetensors"))}


def checkpoint_names(run: Path) -> dict[str, list[str]]:
    """The names of all tensors of the last checkpoint, by file."""
    return {name: sorted(tensors) for name, tensors in last_checkpoint(run).items()}


@pytest.mark.parametrize("name", STOPPED)
def test_a_stopped_output_is_continued(name, tmp_path):
    folder = frozen.PARTIAL / name
    stored = json.loads((folder / "command.json").read_text())
    files = frozen.continue_output(folder, frozen.MODELS, tmp_path / "work")
    assert [*files] == [stored["out"]]
    (expected,) = folder.glob("expected.*")
    if frozen.machine() == stored["machine"]:
        assert files[stored["out"]] == expected.read_bytes()
    elif expected.suffix == ".npy":
        vectors = np.load(tmp_path / "work" / stored["out"])
        np.testing.assert_allclose(vectors, np.load(expected), **LARGE)
    else:
        lines = files[stored["out"]].decode().splitlines()
        none_of(differing_lines(expected.read_text().splitlines(), lines), name)


def differing_lines(old: list[str], new: list[str]) -> list[str]:
    """Lines that differ in more than the last digits of numbers and the width of columns."""
    if len(old) != len(new):
        return [f"{(old or new)[0][:60]}: {len(old)} lines → {len(new)}"]
    return [
        f"{before}\n   → {now}"
        for before, now in zip(old, new, strict=True)
        if masked(before) != masked(now)
        or not np.allclose(numbers(before), numbers(now), rtol=1e-3, atol=0.011)
    ]


def masked(line: str) -> str:
    """Line without numbers; new rows of a table may widen its columns."""
    return re.sub(r" {2,}", "  ", NUMBER.sub("#", line))


def numbers(line: str) -> list[float]:
    return [float(number) for number in NUMBER.findall(line)]


@pytest.mark.parametrize("name", [name for name in LISTINGS if name != "outputs"])
def test_names_are_those_of_before(name):
    old = [renamed(line) for line in (frozen.FROZEN / f"{name}.txt").read_text().splitlines()]
    new = known_lines(name)
    lines = [f"missing: {line}" for line in old if line not in set(new)]
    lines += [f"new:     {line}" for line in new if line not in set(old)]
    none_of(lines, name)


def known_lines(name: str) -> list[str]:
    """Lines of a listing now, without those that are new on purpose."""
    return [line for line in LISTINGS[name]() if not any(re.fullmatch(one, line) for one in NEW)]


def renamed(line: str) -> str:
    for pattern, replacement in RENAMED.items():
        line = re.sub(pattern, replacement, line)
    return line


def test_verbs_print_what_they_printed(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(OUT, "_width", 100)  # of a terminal that an earlier test opened
    pytest.importorskip("PIL")
    by_command: dict[str, tuple[list[str], list[str]]] = {}
    stored = (frozen.FROZEN / "outputs.txt").read_text().splitlines()
    for place, lines in enumerate((map(renamed, stored), known_lines("outputs"))):
        for line in lines:
            by_command.setdefault(line.partition(": ")[0], ([], []))[place].append(line)
    none_of([line for both in by_command.values() for line in differing_lines(*both)], "outputs")
