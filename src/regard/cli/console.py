"""How verbs speak: results to standard output, everything else to standard error."""

import json
import re
import sys
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

MODEL = Annotated[str, typer.Argument(metavar="MODEL", help="A folder with a trained model.")]
DEVICE = Annotated[
    str | None, typer.Option(help="cpu or cuda; by default the GPU if there is one.")
]
PRECISION = Annotated[
    Literal["auto", "fp32", "bf16", "int8"],
    typer.Option(help="auto is bf16 on a GPU, fp32 on a CPU; int8 is for CPUs."),
]
ENGINE = Annotated[
    Literal["auto", "cpp", "torch"],
    typer.Option(
        help="What steps the decoder on a CPU: compiled code or torch; auto is what a table of "
        "measurements says of this kind of machine."
    ),
]
JSON = Annotated[bool, typer.Option("--json", help="Print lines of JSON.")]


class Output(Console):
    """A console that leaves it to the verbs what a closed pipe means."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


OUT = Output(highlight=False, soft_wrap=True)
ERR = Console(stderr=True, highlight=False, soft_wrap=True)


def was_given(context: typer.Context, name: str) -> bool:
    """Whether an option was given on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def complain(message: str) -> None:
    """One line on standard error."""
    ERR.print("regard: " + " ".join(message.split()), markup=False)


def note(message: str) -> None:
    """A remark on standard error."""
    ERR.print(message, markup=False)


def print_json(record: Mapping[str, Any]) -> None:
    """One line of JSON on standard output."""
    sys.stdout.write(json.dumps(record, ensure_ascii=False) + "\n")


def print_line(text: str) -> None:
    """One line of text on standard output, whatever is in it."""
    sys.stdout.write(text + "\n")


def slug(name: str) -> str:
    """A name as a folder."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "rung"


def cost_line(cost: Mapping[str, float]) -> str:
    """What a model cost, in one line."""
    return (
        f"cost: {cost['parameters']:,.0f} parameters, {cost['training_flops']:.3g} training FLOPs, "
        f"{cost['tokens']:,.0f} tokens, {cost['device_seconds']:,.0f} device-seconds"
    )


def duration(seconds: float) -> str:
    """1h02m, 3m20s or 45s."""
    whole = round(seconds)
    hours, minutes = whole // 3600, whole % 3600 // 60
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{whole % 60:02d}s" if minutes else f"{whole}s"
