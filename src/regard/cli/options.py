"""Options that several verbs share: one name, one meaning and one help text each."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

MAX_TOKENS = 1_024  # of a text, where --max-length is not given
OWN = "the model's"  # default of an option that overrides one setting of the model's own search

Precision = Literal["auto", "fp32", "bf16", "int8"]
Stop = Literal["default", "transformers", "transformers-early", "transformers-never"]

Symmetrisation = Literal[
    "intersection", "grow-diag", "grow-diag-final-and", "grow-diag-final", "union"
]

# What is read.
MODEL = Annotated[
    str, typer.Argument(metavar="MODEL", help="A model folder, or an id of the Hugging Face hub.")
]
FILE = Annotated[
    str, typer.Argument(metavar="FILE", help="One input per line; - is standard input.")
]
RECIPE = Annotated[
    str, typer.Argument(metavar="RECIPE", help="A recipe file, or a name from `regard recipes`.")
]
DATA = Annotated[
    Path,
    typer.Option("--data", envvar="REGARD_DATA", help="The folder with the files of the recipe."),
]
SKIP_BAD = Annotated[
    bool, typer.Option("--skip-bad", help="Go on past malformed inputs, and print how many.")
]
MAX_LENGTH = Annotated[
    int | None,
    typer.Option(
        "--max-length",
        min=1,
        help="A line of more tokens, special ones counted, is an error.",
        show_default=f"{MAX_TOKENS}; none where the model has a limit",
    ),
]
PRETOKENISED = Annotated[
    bool, typer.Option("--pretokenised", help="Words are separated by white space.")
]

POOL = Annotated[
    Literal["mean", "max", "first", "pooled"] | None,
    typer.Option(
        "--pool",
        help="Pooling of token states.",
        show_default="the folder's, else mean; images: class token",
    ),
]

# How a model runs.
DEVICE = Annotated[
    str | None, typer.Option("--device", help="cpu or cuda; default: the GPU if there is one.")
]
_PRECISION = "auto is bf16 on a GPU and fp32 on a CPU; int8 is for CPUs."
PRECISION = Annotated[Precision, typer.Option("--precision", help=_PRECISION)]
STORED_PRECISION = Annotated[  # of verbs that show or measure what is inside
    Precision | None, typer.Option("--precision", help=_PRECISION, show_default="as stored")
]
ENGINE = Annotated[
    Literal["auto", "cpp", "cuda-graph", "torch"],
    typer.Option(
        "--engine",
        help="Implementation of decoder steps: C++ (on a CPU), CUDA graphs (on a GPU) or torch; "
        "auto is CUDA graphs on a GPU, and on a CPU consults a table of measurements.",
    ),
]
BATCH_SIZE = Annotated[
    int | None,
    typer.Option(
        "--batch-size",
        min=1,
        help="Inputs run at once; results depend on it by rounding only.",
        show_default="64 for translation and generation, else 256",
    ),
]

# What is written.
JSON = Annotated[bool, typer.Option("--json", help="Print JSON lines.")]
OUT_FILE = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="Write the result to this file.")
]
RESUME = Annotated[
    bool, typer.Option("--resume", help="Continue where a run was stopped, bit for bit.")
]
OUT_FOLDER: Any = typer.Option("--out", metavar="DIR", help="Write the results to this folder.")
HTML = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write a self-contained HTML page.")
]
PNG = Annotated[
    Path | None, typer.Option("--png", metavar="FILE", help="Write a PNG picture (of images).")
]
SVG = Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="Write an SVG drawing.")]
QUICK = Annotated[
    bool, typer.Option("--quick", help="Train for a few steps only, to check that all works.")
]

BEST = Annotated[int, typer.Option("--best", help="Texts printed for each line, best first.")]

# How a beam searches.
BEAM = Annotated[
    int | None,
    typer.Option("--beam", help="Beam size: hypotheses kept at each step.", show_default=OWN),
]
LENGTH = Annotated[
    Literal["none", "mean", "gnmt", "power"] | None,
    typer.Option("--length", help="Length normalisation of scores.", show_default=OWN),
]
ALPHA = Annotated[
    float | None, typer.Option("--alpha", help="Exponent of gnmt and power.", show_default=OWN)
]
COVERAGE = Annotated[
    float | None,
    typer.Option(
        "--coverage",
        help="Weight of the coverage penalty; if given, be it 0, hypotheses store their term.",
    ),
]
FINISHED = Annotated[
    int | None, typer.Option("--finished", help="Stop a sentence at this many finished hypotheses.")
]
NO_REPEAT = Annotated[
    int | None,
    typer.Option("--no-repeat", help="No n-gram of this size occurs twice.", show_default=OWN),
]
STOP = Annotated[
    Stop | None,
    typer.Option(
        "--stop",
        help="Stopping rule of a sentence: regard's default, or one of transformers.",
        show_default=OWN,
    ),
]

REPETITION_PENALTY = Annotated[
    float | None,
    typer.Option(
        "--repetition-penalty",
        help="Penalty above 1 on tokens that have occurred, as in transformers.",
        show_default=OWN,
    ),
]
GROUPS_OF_BEAMS = Annotated[
    int,
    typer.Option("--groups", help="Groups of a diverse beam search, each of --beam hypotheses."),
]
DIVERSITY = Annotated[
    float,
    typer.Option("--diversity", help="Penalty for a token that an earlier group has just chosen."),
]

# How samples are drawn, and what minimum Bayes risk does with them.
TEMPERATURE = Annotated[
    float | None, typer.Option("--temperature", help="Sampling temperature.", show_default=OWN)
]
TOP_K = Annotated[
    int | None,
    typer.Option(
        "--top-k", help="Sample from the k most probable tokens; 0: from all.", show_default=OWN
    ),
]
TOP_P = Annotated[
    float | None,
    typer.Option("--top-p", help="Sample from the nucleus of this probability.", show_default=OWN),
]
SEED = Annotated[int, typer.Option("--seed", help="Sampling seed.")]
SAMPLES = Annotated[int, typer.Option("--samples", help="Samples that mbr estimates risk with.")]
UTILITY = Annotated[Literal["chrf", "bleu"], typer.Option("--utility", help="Utility of mbr.")]
CANDIDATES = Annotated[
    Literal["samples", "beam"], typer.Option("--candidates", help="Candidates of mbr.")
]
WORKERS = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=0,
        help="Processes that translate or generate on a CPU, with one thread each, or that decode "
        "images.",
        show_default="none, but of images one for each core, at most 8",
    ),
]

# What is measured or shown.
INTERVAL = Annotated[
    bool, typer.Option("--interval", help="Add 95% bootstrap intervals (1000 seeded samples).")
]
TOKENIZE = Annotated[
    str, typer.Option("--tokenize", help="Tokenizer of sacreBLEU: 13a, none, intl, char, zh, ...")
]
LOWERCASE = Annotated[bool, typer.Option("--lowercase", help="Ignore case (TER always does).")]
SUBWORDS = Annotated[bool, typer.Option("--subwords", help="Use subword tokens instead of words.")]
FROM_0 = "counted from 0 (from the end: -1, -2, …)"
LAYER = Annotated[int | None, typer.Option("--layer", help=f"Layer, {FROM_0}.")]
HEAD = Annotated[
    int | None, typer.Option("--head", help=f"One head, {FROM_0}, instead of the mean.")
]


def was_given(context: typer.Context, name: str) -> bool:
    """Whether an option was given on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def options_given(context: typer.Context, names: Iterable[str]) -> dict[str, Any]:
    """The options that were given on the command line, with their values."""
    return {name: context.params[name] for name in names if was_given(context, name)}
