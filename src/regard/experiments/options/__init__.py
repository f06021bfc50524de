"""Options that several functions share: one name, one meaning and one help text each.

Annotations of single options, and blocks of them; the texts are those of the command line.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from regard.core.errors import ArgumentName, BadArgument, BadInput, Parts, Word
from regard.core.flags import Flag, Options
from regard.data.readers.table_format import TableFormat as TableForm
from regard.data.readers.text_files import suffix_of
from regard.experiments.bulk.file_list import list_files
from regard.experiments.bulk.line_source import MAX_TOKENS, InputSettings
from regard.experiments.bulk.table_source import FORMATS, ParquetRows
from regard.experiments.notes import Listener, Note, ignore

if TYPE_CHECKING:
    from regard.api import Model

SEARCH = "Search"  # section of a help text
Precision = Literal["auto", "fp32", "bf16", "int8"]


def own(name: str, help: str) -> Flag:
    """An option that overrides one setting of the model's own search."""
    return Flag(name, help, default="the model's")


# Inputs.
MODEL = Annotated[
    str, Flag(argument=True, metavar="MODEL", help="Model folder, or id on the Hugging Face hub.")
]
FILE = Annotated[
    str,
    Flag(argument=True, metavar="FILE", help="File with one input per line; - is standard input."),
]
MORE_FILES = Annotated[
    list[str] | None,
    Flag(
        argument=True,
        metavar="[FILE]...",
        help="More files of the same format; a pattern in quotes, or a folder, is all its files.",
    ),
]
RECIPE = Annotated[
    str, Flag(argument=True, metavar="RECIPE", help="Recipe file, or a name from `regard recipes`.")
]
DATA = Annotated[
    Path, Flag("--data", envvar="REGARD_DATA", help="Folder of the recipe's data files.")
]
PORT = Annotated[int, Flag("--port", least=0, most=65_535, help="Port; 0 is any free port.")]
EDITS = Annotated[
    Path | None,
    Flag("--edits", metavar="FILE", help="Apply the edits of this TOML file to the model."),
]
COLUMN = Annotated[
    list[str] | None,
    Flag(
        "--column",
        metavar="NAME",
        help="Column of a table (CSV, TSV, JSON lines, Parquet) to read, by name or by number from "
        "0; repeat it for pairs.",
        default="by name: text, sentence, …",
    ),
]
DELIMITER = Annotated[
    str | None,
    Flag(
        "--delimiter",
        metavar="CHARACTER",
        help="Character between the columns of a table, such as ';'; \\t is a tab.",
        default="found",
    ),
]
ENCODING = Annotated[
    str | None,
    Flag(
        "--encoding",
        metavar="NAME",
        help="Encoding of FILE, such as cp1252 or utf-16; results are in UTF-8.",
        default="UTF-8; of a table: found",
    ),
]
LIMIT = Annotated[
    int | None, Flag("--limit", least=1, help="Number of examples that are read.", default="all")
]
SETTINGS = Annotated[
    list[str] | None,
    Flag("--set", metavar="TABLE.KEY=VALUE", help="Change a key of the recipe; repeatable."),
]
BUDGET = Annotated[
    str | None,
    Flag("--budget", metavar="TIME", help="Maximum training time, such as 90s, 30m or 2h."),
]
LOG = Annotated[
    list[str] | None,
    Flag("--log", metavar="NAME", help="Also log to wandb, mlflow or tensorboard; repeatable."),
]
SKIP_BAD = Annotated[bool, Flag("--skip-bad", help="Skip malformed inputs and print their number.")]
MAX_LENGTH = Annotated[
    int | None,
    Flag(
        "--max-length",
        least=1,
        help="Most tokens of an input, special tokens included; a longer input is an error.",
        default=f"{MAX_TOKENS}; no limit if the model has its own",
    ),
]
PRETOKENISED = Annotated[bool, Flag("--pretokenised", help="Split words at white space only.")]
POOL = Annotated[
    Literal["mean", "max", "first", "pooled"] | None,
    Flag("--pool", help="Pooling of token states; default: as stored, else mean or class token."),
]

# Device, precision and speed.
DEVICE = Annotated[
    str | None, Flag("--device", help="Device, cpu or cuda; default: the GPU if there is one.")
]
_PRECISION = "Number format of weights; auto is bf16 on a GPU and fp32 on a CPU; int8 is for CPUs."
PRECISION = Annotated[Precision, Flag("--precision", help=_PRECISION)]
STORED_PRECISION = Annotated[  # of verbs that inspect or measure a model
    Precision | None, Flag("--precision", help=_PRECISION, default="as stored")
]
ENGINE = Annotated[
    Literal["auto", "cpp", "cuda-graph", "torch"],
    Flag(
        "--engine",
        help="Implementation of decoder steps: cpp (CPU), cuda-graph (GPU) or torch; auto is "
        "cuda-graph on a GPU; on a CPU it consults a table of measurements.",
    ),
]
BATCH_SIZE = Annotated[
    int | None,
    Flag(
        "--batch-size",
        least=1,
        help="Maximum number of inputs per batch; it changes results by rounding only.",
        default="64 for translation and generation, else 256",
    ),
]
WORKERS = Annotated[
    int | None,
    Flag(
        "--workers",
        least=0,
        help="Number of processes that run the model on a CPU, with one thread each, or that "
        "decode images; with --ray, of its actors.",
        default="none; for images one per core, at most 8; of Ray: all cores or GPUs",
    ),
]
RAY = Annotated[
    str | None,
    Flag(
        "--ray",
        metavar="ADDRESS",
        help="Run the model on a Ray cluster, one copy per core or GPU; local: on this machine.",
    ),
]

ON_DEV = Annotated[bool, Flag("--dev", help="Score the dev set of the recipe, not its test sets.")]

# Runs.
RESUME = Annotated[bool, Flag("--resume", help="Continue a stopped run, bit for bit.")]
QUICK = Annotated[
    bool, Flag("--quick", help="Train for a few steps only, to check the installation.")
]
BEST = Annotated[int, Flag("--best", help="Number of texts printed for each line, best first.")]


# Beam search.
BEAM = Annotated[int | None, own("--beam", "Beam size: number of hypotheses kept at each step.")]
LENGTH = Annotated[
    Literal["none", "mean", "gnmt", "power"] | None,
    own("--length", "Length normalisation of scores."),
]
ALPHA = Annotated[
    float | None, own("--alpha", "Exponent of the length normalisations gnmt and power.")
]
COVERAGE = Annotated[
    float | None,
    Flag(
        "--coverage",
        help="Weight of the coverage penalty; any value, even 0, adds it to JSON.",
        section=SEARCH,
    ),
]
FINISHED = Annotated[
    int | None, Flag("--finished", help="Number of finished hypotheses that ends a search.")
]
MAX_NEW_TOKENS = Annotated[
    int | None, own("--max-new-tokens", "Maximum number of new tokens of a text.")
]
NO_REPEAT = Annotated[
    int | None, own("--no-repeat", "Size of the n-grams that may not occur twice in a text.")
]
STOP = Annotated[
    Literal["default", "transformers", "transformers-early", "transformers-never"] | None,
    own("--stop", "Stopping rule of beam search: regard's default, or one of transformers."),
]
REPETITION_PENALTY = Annotated[
    float | None,
    own(
        "--repetition-penalty", "Penalty above 1 on tokens that have occurred, as in transformers."
    ),
]
GROUPS_OF_BEAMS = Annotated[
    int, Flag("--groups", help="Number of groups of --beam hypotheses (diverse beam search).")
]
DIVERSITY = Annotated[
    float, Flag("--diversity", help="Penalty on tokens that earlier groups chose at the same step.")
]

# Sampling, and minimum Bayes risk (mbr).
TEMPERATURE = Annotated[float | None, own("--temperature", "Sampling temperature.")]
TOP_K = Annotated[
    int | None, own("--top-k", "Sample from the k most probable tokens; 0: from all.")
]
TOP_P = Annotated[float | None, own("--top-p", "Sample from the nucleus of this probability.")]
SEED = Annotated[int, Flag("--seed", help="Seed of the random numbers.")]
SAMPLES = Annotated[int, Flag("--samples", help="Number of samples with which mbr estimates risk.")]
UTILITY = Annotated[Literal["chrf", "bleu"], Flag("--utility", help="Utility function of mbr.")]
CANDIDATES = Annotated[
    Literal["samples", "beam"], Flag("--candidates", help="Candidates among which mbr chooses.")
]

# Measurements and views.
INTERVAL = Annotated[bool, Flag("--interval", help="Add 95% bootstrap intervals (1000 samples).")]
TOKENIZE = Annotated[
    str, Flag("--tokenize", help="Tokenizer of sacreBLEU: 13a, none, intl, char, zh, ...")
]
LOWERCASE = Annotated[bool, Flag("--lowercase", help="Ignore case (TER always does).")]
SUBWORDS = Annotated[bool, Flag("--subwords", help="Use subword tokens instead of words.")]
_FROM_0 = "counted from 0 (from the end: -1, -2, …)"
LAYER = Annotated[int | None, Flag("--layer", help=f"Layer, {_FROM_0}.")]
HEAD = Annotated[
    int | None, Flag("--head", help=f"Attention head, {_FROM_0}, instead of the mean.")
]

SECOND = Annotated[
    str | None,
    Flag(
        "--second",
        metavar="TEXT",
        help="Second text of an encoder, or the translation that is explained.",
        default="a translator's own",
    ),
]
TARGET = Annotated[
    str | None,
    Flag(
        "--target",
        metavar="NAME",
        help="Token or label whose logit is explained.",
        default="the predicted one",
    ),
]
AGAINST = Annotated[
    str | None, Flag("--against", metavar="NAME", help="Token or label whose logit is subtracted.")
]
TOKEN = Annotated[
    int | None,
    Flag(
        "--token",
        help=f"Position of the token that predicts it, {_FROM_0}.",
        default="the first mask, the last token, or the first of a translation",
    ),
]


# Results.
JSON = Annotated[bool, Flag("--json", "Print JSON lines.")]
OUT_FILE = Annotated[
    Path | None, Flag("--out", "Write the results to this file.", "FILE", is_output=True)
]
OUT_FOLDER = Flag("--out", "Write the results to this folder.", "DIR", is_output=True)


# Blocks of options.
@dataclass(frozen=True)
class InputOptions(Options):
    """Files of inputs, and how they are read: ``settings``."""

    section = "Inputs"
    file: FILE = "-"
    more: MORE_FILES = None
    column: COLUMN = None
    delimiter: DELIMITER = None
    encoding: ENCODING = None
    max_length: MAX_LENGTH = None
    skip_bad: SKIP_BAD = False

    @property
    def names(self) -> list[str]:
        """All names of files, patterns and folders."""
        return [self.file, *(self.more or ())]

    @property
    def of_tables(self) -> dict[str, object]:
        """The options that lines of a single file do not have, by name."""
        by_name: dict[str, object] = {"column": self.column, "delimiter": self.delimiter}
        return by_name | {"encoding": self.encoding, "more than one FILE": self.more}

    def files(self, outputs: "OutputOptions") -> list[str]:
        """All files; a file for the results must have their format."""
        files = list_files(*self.names)
        outputs.check_format(files[0])
        return files

    def settings(self, argument: Word, on_event: Listener) -> InputSettings:
        """How the files are read: ``argument`` writes the names of options in errors."""
        delimiter = "\t" if self.delimiter == "\\t" else self.delimiter
        try:
            form = TableForm(delimiter, encoding=self.encoding)
        except BadInput as error:
            raise BadArgument(error.what, key=error.key, remedy=error.remedy) from None
        settings = InputSettings(self.column, self.max_length, form, skip_bad=self.skip_bad)
        return replace(settings, argument=argument, on_event=on_event)


@dataclass(frozen=True)
class LoadOptions(Options):
    """How a model is loaded."""

    section = "Model and speed"
    batch_size: BATCH_SIZE = None
    precision: STORED_PRECISION = None
    device: DEVICE = None

    def load(self, model: "str | Path | Model") -> "Model":
        """The model in a folder; a model that is loaded stays as it is."""
        from regard.api import load

        if not isinstance(model, str | Path):
            return model
        return load(model, self.device, precision=self.precision, batch_size=self.batch_size)

    def load_for_texts(self, model: "str | Path | Model") -> "Model":
        """The model, which must read texts."""
        from regard.core.reading import NO_TEXT

        loaded = self.load(model)
        if loaded.runner.reads_images:
            raise BadInput(f"{model}: {NO_TEXT}; use regard embed for images")
        return loaded

    def load_edited(
        self, model: "str | Path | Model", edits: Path | None = None, on_event: Listener = ignore
    ) -> "tuple[Model, dict[str, str]]":
        """The model with a file of edits; also the key of results that has their hash.

        Edits beside the model are never applied by themselves: a note says that they are there.
        """
        from regard.models.edits import BESIDE, read_edits
        from regard.models.folders.hub import local_folder

        listed = None if edits is None else read_edits(edits)
        loaded = self.load(model)
        if listed is None:
            beside = None if model is loaded else local_folder(str(model)) / BESIDE
            if beside is not None and beside.is_file():
                on_event(Note(f"{beside} is not applied; to apply it, add --edits {beside}"))
            return loaded, {}
        edited = loaded.edited(listed)
        on_event(Note(f"edits: {listed}"))
        return edited, {"edits": listed.hash}


@dataclass(frozen=True)
class MeasureOptions(LoadOptions):
    """How a model is loaded to be measured."""

    precision: PRECISION = "auto"


@dataclass(frozen=True)
class ScorerOptions(LoadOptions):
    """How a model reads files of inputs: in the precision that is stored with it."""

    edits: EDITS = None
    workers: WORKERS = None
    ray: RAY = None

    @property
    def of_workers(self) -> dict[str, object]:
        """The options that share the inputs out, by name."""
        return {"workers": self.workers, "ray": self.ray}


@dataclass(frozen=True)
class ModelOptions(ScorerOptions):
    """How a model reads files of inputs."""

    precision: PRECISION = "auto"


@dataclass(frozen=True)
class WriterOptions(ModelOptions):
    """How a model that writes texts runs."""

    engine: ENGINE = "auto"


@dataclass(frozen=True)
class BeamOptions(Options):
    """Settings of beam search; those that are None are the model's."""

    section = SEARCH
    size: BEAM = None
    length: LENGTH = None
    alpha: ALPHA = None
    finished: FINISHED = None
    stop: STOP = None
    no_repeat: NO_REPEAT = None


@dataclass(frozen=True)
class SearchOptions(BeamOptions):
    """Settings of all decoding methods; those that are None are the model's."""

    best: BEST = 1
    repetition_penalty: REPETITION_PENALTY = None
    groups: GROUPS_OF_BEAMS = 1
    diversity: DIVERSITY = 0.5
    temperature: TEMPERATURE = None
    top_k: TOP_K = None
    top_p: TOP_P = None
    seed: SEED = 0
    samples: SAMPLES = 32
    utility: UTILITY = "chrf"
    candidates: CANDIDATES = "samples"
    max_new_tokens: MAX_NEW_TOKENS = None


@dataclass(frozen=True)
class OutputOptions(Options):
    """Where results go, and in which form."""

    section = "Outputs"
    out: OUT_FILE = None
    resume: RESUME = False
    as_json: JSON = False

    def check_format(self, file: str) -> None:
        """Refuse a file for the results whose suffix names another format than the table's."""
        suffix, out = suffix_of(file), self.out
        if suffix not in FORMATS:
            return
        expected, json = FORMATS[".jsonl" if self.as_json else suffix], ArgumentName("as_json")
        if expected is ParquetRows and out is None:
            remedy: Parts = ("add ", ArgumentName("out"), f" FILE{suffix}, or ", json)
            raise BadInput("Parquet is written to a file", file=file, remedy=remedy)
        if out is not None and FORMATS.get(out.suffix, expected) is not expected:
            of_file: Parts = ("name it so, or add ", json, " for JSON lines")
            remedy = ("leave out ", json) if self.as_json else of_file
            form = ".jsonl" if self.as_json else suffix
            fault = f" {out}: the results of {file} are a {form} file"
            raise BadInput((ArgumentName("out"), fault), remedy=remedy)
