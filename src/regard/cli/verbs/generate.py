"""``regard generate``: prompts in, continuations out."""

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from regard.cli.io.console import OUT, complain, note, print_json, print_line, write_page
from regard.cli.io.line_io import LineSource, parser_of, plain_text, print_results, read_windows
from regard.cli.io.output import output_to, resumable_command
from regard.cli.options import (
    ALPHA,
    BATCH_SIZE,
    BEAM,
    BEST,
    CANDIDATES,
    DEVICE,
    DIVERSITY,
    ENGINE,
    FILE,
    FINISHED,
    GROUPS_OF_BEAMS,
    HTML,
    JSON,
    LENGTH,
    MAX_LENGTH,
    MODEL,
    NO_REPEAT,
    OUT_FILE,
    OWN,
    PRECISION,
    REPETITION_PENALTY,
    RESUME,
    SAMPLES,
    SEED,
    STOP,
    TEMPERATURE,
    TOP_K,
    TOP_P,
    UTILITY,
    WORKERS,
    was_given,
)
from regard.ground.errors import BadInput

if TYPE_CHECKING:
    from regard.inference.component import Result
    from regard.inference.decoder_model import Writer, Written
    from regard.inference.generator import Generator
    from regard.search.step import Search

BRANCHING = ("beam", "mbr")  # searches whose tokens are known at the end


def generate(
    context: typer.Context,
    model: MODEL,
    file: FILE = "-",
    search: Annotated[
        Literal["greedy", "sample", "beam", "mbr"] | None,
        typer.Option(
            help="Decoding method; default: the one that other options belong to, else that of "
            "generation_config.json, else greedy."
        ),
    ] = None,
    max_new_tokens: Annotated[
        int | None, typer.Option(help="Generate at most this many tokens.", show_default=OWN)
    ] = None,
    min_new_tokens: Annotated[
        int, typer.Option(help="Generate at least this many tokens before the end.")
    ] = 0,
    stop_string: Annotated[
        list[str] | None,
        typer.Option(help="End a text before this string; repeatable. \\n is a line break."),
    ] = None,
    best: BEST = 1,
    temperature: TEMPERATURE = None,
    top_k: TOP_K = None,
    top_p: TOP_P = None,
    seed: SEED = 0,
    no_repeat: NO_REPEAT = None,
    repetition_penalty: REPETITION_PENALTY = None,
    size: BEAM = None,
    length: LENGTH = None,
    alpha: ALPHA = None,
    finished: FINISHED = None,
    stop: STOP = None,
    groups: GROUPS_OF_BEAMS = 1,
    diversity: DIVERSITY = 0.5,
    samples: SAMPLES = 32,
    utility: UTILITY = "chrf",
    candidates: CANDIDATES = "samples",
    stream: Annotated[
        bool, typer.Option("--stream", help="Print each text while it is generated, as it is.")
    ] = False,
    tree: Annotated[
        int | None, typer.Option(metavar="N", help="Show the N most probable tokens of every step.")
    ] = None,
    html: HTML = None,
    max_length: MAX_LENGTH = None,
    batch_size: BATCH_SIZE = None,
    precision: PRECISION = "auto",
    engine: ENGINE = "auto",
    workers: WORKERS = None,
    device: DEVICE = None,
    out: OUT_FILE = None,
    resume: RESUME = False,
    as_json: JSON = False,
) -> None:
    """Continue prompts, one per line or typed at a terminal.

    Only the continuation is printed, in one line: line breaks in it are spaces, unless it is
    streamed or printed as JSON. An empty line is a prompt too: a text from its beginning. With
    --best n, each prompt gives n lines, best first.

    At a terminal without FILE, prompts are read one by one, and each text is printed while it is
    generated; Ctrl-C stops a text, Ctrl-D ends. With --stream, the same is done for the lines of a
    file. Only greedy search and sampling can stream.

    A model that was trained with a task token reads it after each line, and prints the answer.

    A sample depends on --seed, the number of its line and its own number, not on the batch. A
    prompt of more tokens than the model has positions is an error; a text that reaches the last
    position ends there, which is noted on standard error.

    With --tree, greedy search or one sample is shown step by step: the most probable tokens with
    their probabilities, the chosen one marked, also as a page (--html) of one prompt.

    The default search and limits are those of generation_config.json, else greedy search and 128
    tokens; an option overrides one setting.

    With --out FILE --resume, texts are kept in FILE.partial as they come, 4,096 prompts at a time;
    if the command was stopped, the same one goes on after them.

    Example: echo "Once upon a time" | regard generate gpt2 --top-p 0.9 --best 3
    """
    from regard.api import load
    from regard.cli import decode
    from regard.inference.generator import Ending
    from regard.tasks.components import ComponentSpec

    typed = is_typed(file)
    options = {name for name in decode.KNOWN if was_given(context, name)}
    name = search or decode.continuation_method(options)
    _check_modes(context.params, name)
    if name is not None:
        decode.check_options(name, context.params, options)
    command = resumable_command(context)
    stops = tuple(string.replace("\\n", "\n") for string in stop_string or [])
    ending = Ending(max_new_tokens, min_new_tokens, stops)
    generator = load(model, device, batch_size=batch_size).generator
    method = decode.choose_continuation(generator, name, context.params, options)
    if method.formula:
        note(f"{method.search}: score = {method.formula}")
    chosen = dict(zip(("precision", "engine"), generator.choice(precision, engine), strict=True))
    writer = generator.writer(method, best, ending)
    with ExitStack() as stack:
        progress = stack.enter_context(output_to(out, command))
        spec = ComponentSpec((model,), "generate", {"method": method, "ending": ending})
        writer = stack.enter_context(decode.ready(writer, chosen, workers, spec))
        generator = cast("Generator", writer.model).with_limits(None, max_length)
        if tree is not None:
            print_trees(generator, method.search, file, tree, html, as_json)
        elif stream or (typed and not as_json):
            _answer(replace(writer, model=generator), file, typed, stream)
        else:
            lines = LineSource(file, parser_of(writer, max_length))
            print_results(lines, writer, progress, as_json=as_json, **chosen)


def _check_modes(given: Mapping[str, Any], method: str | None) -> None:
    """Refuse what cannot be used with --stream or --tree, which show one text as it comes."""
    several = {
        "--resume": given["resume"],
        "--workers": given["workers"],
        "--best": given["best"] > 1,
        f"--search {method}": method in BRANCHING,
    }
    if given["stream"]:
        _refuse({"--json": given["as_json"], "--out": given["out"], **several}, "--stream")
    if given["tree"] is not None:
        _refuse({"--stream": given["stream"], **several}, "--tree")
    elif given["html"] is not None:
        raise BadInput("--html: needs --tree")


def is_typed(file: str) -> bool:
    """Whether somebody types the lines at a terminal."""
    return file == "-" and sys.stdin.isatty()


def _refuse(options: Mapping[str, Any], beside: str) -> None:
    """Refuse options that were given ``beside`` another."""
    for name, given in options.items():
        if given:
            raise BadInput(f"{name}: cannot be used with {beside}")


def _answer(writer: "Writer", file: str, typed: bool, must_stream: bool) -> None:
    """Continue line by line; ``typed`` ones are asked for, and a bad one is not the end."""
    method, generator = writer.method, cast("Generator", writer.model)
    streams = must_stream or (writer.best == 1 and method.streams)
    _ask(typed)
    for (line,) in read_windows(LineSource(file, writer.parse, window=1)):
        number = line.number - 1
        try:
            if streams:
                for piece in generator.stream(line.text, method.search, number=number):
                    sys.stdout.write(piece)
                    sys.stdout.flush()
                print_line("")
            else:
                (result,) = writer.stream([line.value], first=number, strict=True)
                print_line("\n".join(writer.lines(cast("Result[Written]", result))))
        except BadInput as bad:
            if not typed:
                raise
            complain(str(bad))
        except KeyboardInterrupt:
            if not typed:
                raise
            print_line("")
        _ask(typed)


def _ask(typed: bool) -> None:
    if typed:
        sys.stdout.flush()
        sys.stderr.write("> ")
        sys.stderr.flush()


def print_trees(
    generator: "Generator",
    search: "Search",
    file: str,
    alternatives: int,
    html: Path | None,
    as_json: bool,
) -> None:
    """The tree of each line; a page is of the only line."""
    from regard.inside.trees.token_tree import record_tokens
    from regard.inside.views.beam_html import token_page
    from regard.inside.views.beam_text import token_lines

    lines = read_windows(LineSource(file, plain_text, window=1))
    if html is not None:
        lines = iter(first := list(islice(lines, 2)))
        if len(first) > 1:
            raise BadInput("--html: a page is of one prompt, and there are several")
    for (line,) in lines:
        tree = record_tokens(generator, line.text, search, alternatives, line.number - 1)
        write_page(html, partial(token_page, tree))
        if as_json:
            print_json(tree.to_json())
        else:
            for row in token_lines(tree, OUT.width):
                OUT.print(row)
