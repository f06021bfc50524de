"""Options that several verbs share: one name, one meaning and one help text each."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, CallbackParam, Context, Option
from typer.models import OptionInfo

from regard.cli.io.table_formats import TableFormat
from regard.ground.errors import BadInput, shown

MAX_TOKENS = 1_024  # of a text, where --max-length is not given

Precision = Literal["auto", "fp32", "bf16", "int8"]
Symmetrisation = Literal[
    "intersection", "grow-diag", "grow-diag-final-and", "grow-diag-final", "union"
]


def own(name: str, help: str) -> OptionInfo:
    """An option that overrides one setting of the model's own search."""
    return Option(name, help=help, show_default="the model's")


def _file(name: str, help: str) -> OptionInfo:
    return Option(name, metavar="FILE", help=help)


def _named(option: CallbackParam, path: Path | None) -> Path | None:
    """The path of an output; "-" is refused: results without a file are printed."""
    if path == Path("-"):
        raise BadInput(f"{option.opts[0]} -: leave it out, or name a {option.metavar}")
    return path


def _output(name: str, help: str, metavar: str = "FILE") -> OptionInfo:
    return Option(name, metavar=metavar, help=help, callback=_named)


# Inputs.
MODEL = Annotated[
    str, Argument(metavar="MODEL", help="Model folder, or id on the Hugging Face hub.")
]
FILE = Annotated[
    str, Argument(metavar="FILE", help="File with one input per line; - is standard input.")
]
MORE_FILES = Annotated[
    list[str] | None,
    Argument(
        metavar="[FILE]...",
        help="More files of the same format; a pattern in quotes, or a folder, is all its files.",
        show_default=False,
    ),
]
RECIPE = Annotated[
    str, Argument(metavar="RECIPE", help="Recipe file, or a name from `regard recipes`.")
]
DATA = Annotated[
    Path, Option("--data", envvar="REGARD_DATA", help="Folder of the recipe's data files.")
]
PORT = Annotated[int, Option("--port", min=0, max=65_535, help="Port; 0 is any free port.")]
EDITS = Annotated[Path | None, _file("--edits", "Apply the edits of this TOML file to the model.")]
COLUMN = Annotated[
    list[str] | None,
    Option(
        "--column",
        metavar="NAME",
        help="Column of a table (CSV, TSV, JSON lines, Parquet) to read, by name or by number from "
        "0; repeat it for pairs.",
        show_default="by name: text, sentence, …",
    ),
]
DELIMITER = Annotated[
    str | None,
    Option(
        "--delimiter",
        metavar="CHARACTER",
        help="Character between the columns of a table, such as ';'; \\t is a tab.",
        show_default="found",
    ),
]
ENCODING = Annotated[
    str | None,
    Option(
        "--encoding",
        metavar="NAME",
        help="Encoding of FILE, such as cp1252 or utf-16; results are in UTF-8.",
        show_default="UTF-8; of a table: found",
    ),
]
LIMIT = Annotated[
    int | None,
    Option("--limit", min=1, help="Number of examples that are read.", show_default="all"),
]
SETTINGS = Annotated[
    list[str] | None,
    Option("--set", metavar="TABLE.KEY=VALUE", help="Change a key of the recipe; repeatable."),
]
BUDGET = Annotated[
    str | None,
    Option("--budget", metavar="TIME", help="Maximum training time, such as 90s, 30m or 2h."),
]
LOG = Annotated[
    list[str] | None,
    Option("--log", metavar="NAME", help="Also log to wandb, mlflow or tensorboard; repeatable."),
]
SKIP_BAD = Annotated[
    bool, Option("--skip-bad", help="Skip malformed inputs and print their number.")
]
MAX_LENGTH = Annotated[
    int | None,
    Option(
        "--max-length",
        min=1,
        help="Most tokens of an input, special tokens included; a longer input is an error.",
        show_default=f"{MAX_TOKENS}; no limit if the model has its own",
    ),
]
PRETOKENISED = Annotated[bool, Option("--pretokenised", help="Split words at white space only.")]
POOL = Annotated[
    Literal["mean", "max", "first", "pooled"] | None,
    Option("--pool", help="Pooling of token states; default: as stored, else mean or class token."),
]

# Device, precision and speed.
DEVICE = Annotated[
    str | None, Option("--device", help="Device, cpu or cuda; default: the GPU if there is one.")
]
_PRECISION = "Number format of weights; auto is bf16 on a GPU and fp32 on a CPU; int8 is for CPUs."
PRECISION = Annotated[Precision, Option("--precision", help=_PRECISION)]
STORED_PRECISION = Annotated[  # of verbs that inspect or measure a model
    Precision | None, Option("--precision", help=_PRECISION, show_default="as stored")
]
ENGINE = Annotated[
    Literal["auto", "cpp", "cuda-graph", "torch"],
    Option(
        "--engine",
        help="Implementation of decoder steps: cpp (CPU), cuda-graph (GPU) or torch; auto is "
        "cuda-graph on a GPU; on a CPU it consults a table of measurements.",
    ),
]
BATCH_SIZE = Annotated[
    int | None,
    Option(
        "--batch-size",
        min=1,
        help="Maximum number of inputs per batch; it changes results by rounding only.",
        show_default="64 for translation and generation, else 256",
    ),
]
WORKERS = Annotated[
    int | None,
    Option(
        "--workers",
        min=0,
        help="Number of processes that run the model on a CPU, with one thread each, or that "
        "decode images; with --ray, of its actors.",
        show_default="none; for images one per core, at most 8; of Ray: all cores or GPUs",
    ),
]
RAY = Annotated[
    str | None,
    Option(
        "--ray",
        metavar="ADDRESS",
        help="Run the model on a Ray cluster, one copy per core or GPU; local: on this machine.",
    ),
]

ON_DEV = Annotated[
    bool, Option("--dev", help="Score the dev set of the recipe, not its test sets.")
]

# Outputs.
JSON = Annotated[bool, Option("--json", help="Print JSON lines.")]
FORMAT = Annotated[
    TableFormat,
    Option("--format", help="Format of tables; CSV has unrounded numbers, json is JSON lines."),
]
OUT_FILE = Annotated[Path | None, _output("--out", "Write the results to this file.")]
RESUME = Annotated[bool, Option("--resume", help="Continue a stopped run, bit for bit.")]
OUT_FOLDER = _output("--out", "Write the results to this folder.", "DIR")
HTML = Annotated[Path | None, _output("--html", "Write a self-contained HTML page.")]
PNG = Annotated[Path | None, _output("--png", "Write a PNG picture (models of images only).")]
SVG = Annotated[Path | None, _output("--svg", "Write an SVG drawing.")]
QUICK = Annotated[
    bool, Option("--quick", help="Train for a few steps only, to check the installation.")
]
BEST = Annotated[int, Option("--best", help="Number of texts printed for each line, best first.")]

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
    Option(
        "--coverage", help="Weight of the coverage penalty; any value, even 0, adds it to JSON."
    ),
]
FINISHED = Annotated[
    int | None, Option("--finished", help="Number of finished hypotheses that ends a search.")
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
    int, Option("--groups", help="Number of groups of --beam hypotheses (diverse beam search).")
]
DIVERSITY = Annotated[
    float,
    Option("--diversity", help="Penalty on tokens that earlier groups chose at the same step."),
]

# Sampling, and minimum Bayes risk (mbr).
TEMPERATURE = Annotated[float | None, own("--temperature", "Sampling temperature.")]
TOP_K = Annotated[
    int | None, own("--top-k", "Sample from the k most probable tokens; 0: from all.")
]
TOP_P = Annotated[float | None, own("--top-p", "Sample from the nucleus of this probability.")]
SEED = Annotated[int, Option("--seed", help="Seed of the random numbers.")]
SAMPLES = Annotated[
    int, Option("--samples", help="Number of samples with which mbr estimates risk.")
]
UTILITY = Annotated[Literal["chrf", "bleu"], Option("--utility", help="Utility function of mbr.")]
CANDIDATES = Annotated[
    Literal["samples", "beam"], Option("--candidates", help="Candidates among which mbr chooses.")
]

# Measurements and views.
INTERVAL = Annotated[bool, Option("--interval", help="Add 95% bootstrap intervals (1000 samples).")]
TOKENIZE = Annotated[
    str, Option("--tokenize", help="Tokenizer of sacreBLEU: 13a, none, intl, char, zh, ...")
]
LOWERCASE = Annotated[bool, Option("--lowercase", help="Ignore case (TER always does).")]
SUBWORDS = Annotated[bool, Option("--subwords", help="Use subword tokens instead of words.")]
_FROM_0 = "counted from 0 (from the end: -1, -2, …)"
LAYER = Annotated[int | None, Option("--layer", help=f"Layer, {_FROM_0}.")]
HEAD = Annotated[
    int | None, Option("--head", help=f"Attention head, {_FROM_0}, instead of the mean.")
]

SECOND = Annotated[
    str | None,
    Option(
        "--second",
        metavar="TEXT",
        help="Second text of an encoder, or the translation that is explained.",
        show_default="a translator's own",
    ),
]
TARGET = Annotated[
    str | None,
    Option(
        "--target",
        metavar="NAME",
        help="Token or label whose logit is explained.",
        show_default="the predicted one",
    ),
]
AGAINST = Annotated[
    str | None,
    Option("--against", metavar="NAME", help="Token or label whose logit is subtracted."),
]
TOKEN = Annotated[
    int | None,
    Option(
        "--token",
        help=f"Position of the token that predicts it, {_FROM_0}.",
        show_default="the first mask, the last token, or the first of a translation",
    ),
]


def was_given(context: Context, name: str) -> bool:
    """Whether an option was given on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def flags(context: Context, *names: str) -> dict[str, bool]:
    """Flags of the named options, and whether each was given on the command line."""
    by_name = {option.name: option.opts[0] for option in context.command.params}
    return {by_name[name]: was_given(context, name) for name in names}


def refuse(options: Mapping[str, object], reason: str) -> None:
    """Refuse options that have a value; ``options`` maps flags to values."""
    if used := [flag for flag, value in options.items() if value]:
        raise BadInput(f"{', '.join(used)}: {reason}")


def layer_numbers(option: str, text: str) -> list[int]:
    """Numbers of layers, separated by commas, as the value of an option."""
    numbers = [number.strip() for number in text.split(",")]
    if not all(number.isascii() and number.isdigit() for number in numbers):
        raise BadInput(f"{option} {shown(text)}: give numbers with commas between them, as 0,3,6")
    return [*map(int, numbers)]
