"""``regard generate``: prompts in, continuations out."""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

from typer import Context, Option

from regard.cli import options
from regard.cli.io.console import OUT, complain, print_json, print_line, write_view
from regard.cli.io.file_list import list_files, text_source
from regard.cli.io.line_io import LineSource, plain_text, read_windows, run_component, unless_empty
from regard.cli.io.output import output_to, resumable_command
from regard.cli.io.table_io import check_output, declared_format
from regard.data.readers.text_files import Arrivals
from regard.ground.errors import BadInput

if TYPE_CHECKING:
    from regard.inference.component import Result
    from regard.inference.decoder_model import Writer, Written
    from regard.inference.generator import Generator
    from regard.search.step import Search

BRANCHING = ("beam", "mbr")  # searches that cannot stream


def generate(
    context: Context,
    model: options.MODEL,
    file: options.FILE = "-",
    more: options.MORE_FILES = None,
    column: options.COLUMN = None,
    delimiter: options.DELIMITER = None,
    encoding: options.ENCODING = None,
    fields: Annotated[
        str | None,
        Option(metavar="FILE", help="JSON records, for a model of fields; needs --write."),
    ] = None,
    write: Annotated[
        str | None, Option(metavar="FIELD", help="The field to write after those of each record.")
    ] = None,
    search: Annotated[
        Literal["greedy", "sample", "beam", "mbr"] | None,
        Option(
            help="Decoding method; default: by other options, generation_config.json or greedy."
        ),
    ] = None,
    max_new_tokens: Annotated[
        int | None, options.own("--max-new-tokens", "Maximum number of new tokens.")
    ] = None,
    min_new_tokens: Annotated[int, Option(help="Minimum number of new tokens.")] = 0,
    stop_string: Annotated[
        list[str] | None,
        Option(help="End a text before this string; \\n is a line break; repeatable."),
    ] = None,
    best: options.BEST = 1,
    temperature: options.TEMPERATURE = None,
    top_k: options.TOP_K = None,
    top_p: options.TOP_P = None,
    seed: options.SEED = 0,
    no_repeat: options.NO_REPEAT = None,
    repetition_penalty: options.REPETITION_PENALTY = None,
    size: options.BEAM = None,
    length: options.LENGTH = None,
    alpha: options.ALPHA = None,
    finished: options.FINISHED = None,
    stop: options.STOP = None,
    groups: options.GROUPS_OF_BEAMS = 1,
    diversity: options.DIVERSITY = 0.5,
    samples: options.SAMPLES = 32,
    utility: options.UTILITY = "chrf",
    candidates: options.CANDIDATES = "samples",
    stream: Annotated[
        bool,
        Option("--stream", help="Print each text while it is generated, with its line breaks."),
    ] = False,
    tree: Annotated[
        int | None, Option(metavar="N", min=1, help="Show the N most probable tokens of each step.")
    ] = None,
    html: options.HTML = None,
    edits: options.EDITS = None,
    max_length: options.MAX_LENGTH = None,
    batch_size: options.BATCH_SIZE = None,
    precision: options.PRECISION = "auto",
    engine: options.ENGINE = "auto",
    workers: options.WORKERS = None,
    ray: options.RAY = None,
    device: options.DEVICE = None,
    skip_bad: options.SKIP_BAD = False,
    out: options.OUT_FILE = None,
    resume: options.RESUME = False,
    as_json: options.JSON = False,
) -> None:
    """Continue prompts, one per line or typed at a terminal.

    Only the continuation is printed, in one line: line breaks in it are spaces, unless it is
    streamed or printed as JSON. An empty line is a prompt too: a text from its beginning. With
    --best n, each prompt gives n lines, best first.

    At a terminal without FILE, prompts are read one by one, and each text is printed while it is
    generated; Ctrl-C stops a text, Ctrl-D ends. --stream does the same for the lines of a file.
    Only greedy search and sampling can stream.

    A model that was trained with a task token reads it after each line, and prints the answer.

    A model that was trained on fields (Grover) writes one field of each record of --fields, an
    object, a list of objects or an object on each line, after the other fields that it has.

    A sample depends on --seed, the number of its line and its own number, not on the batch. A
    prompt of more tokens than the model has positions is an error; a text that reaches the last
    position ends there, with a note on standard error.

    With --tree, greedy search or one sample is shown step by step: the most probable tokens with
    their probabilities, the chosen token marked; --html writes it as a page, for one prompt.

    The default search and limits come from generation_config.json, else they are greedy search and
    128 tokens; an option overrides one setting.

    With --out FILE --resume, texts are written to FILE.partial as they come, 4,096 prompts at a
    time; if the command was stopped, the same command continues after them.

    A table (.csv, .tsv, .jsonl, .parquet) is printed again with the columns generated and score;
    --column names its prompt; --delimiter and --encoding declare its form. Several files and
    --skip-bad work as in regard predict.

    Example: echo "Once upon a time" | regard generate gpt2 --top-p 0.9 --best 3
    """
    from regard.cli import decode
    from regard.cli.edited_models import load_model
    from regard.inference.decoder_model import Method
    from regard.inference.generator import Ending
    from regard.tasks.components import ComponentSpec

    overrides = decode.names_given(context)
    name = search or decode.continuation_method(overrides)
    _check_modes(context.params, name)
    if name is not None:
        decode.check_options(name, context.params, overrides)
    form = declared_format(delimiter, encoding)
    context.params["file"] = file = fields or file
    files = [file]
    if fields is None and tree is None and not stream:
        files = list_files(file, *more or ())
        check_output(files[0], out, as_json=as_json)
    command = resumable_command(context, "workers", "ray", "skip_bad")
    stops = tuple(string.replace("\\n", "\n") for string in stop_string or [])
    ending = Ending(max_new_tokens, min_new_tokens, stops)
    if edits is not None:
        options.refuse({"--workers": workers, "--ray": ray}, "cannot be used with --edits")
    loaded, edited = load_model(model, device, edits, None, batch_size)
    generator = loaded.generator
    method = Method(generator.search)
    if name is not None:
        method = decode.choose_method(generator, name, context.params, overrides)
    writer = generator.writer(method, best, ending, write)
    settings = {"method": method, "ending": ending, "field": write}
    spec = ComponentSpec((model,), "generate", settings)
    opened = decode.ready(writer, spec, precision, engine, workers, ray)
    with opened as (writer, shared, envelope):
        envelope |= edited
        generator = cast("Generator", writer.model).with_limits(None, max_length)
        if tree is not None:
            with output_to(out):
                print_trees(generator, method.search, file, tree, html, as_json)
        elif fields is not None:
            records = RecordSource(file, unless_empty(generator.read_record), skip_bad=skip_bad)
            run_component(records, writer, out, command, shared, as_json=as_json, **envelope)
        elif stream or (is_typed(file) and not as_json):
            with output_to(out):
                _answer(replace(writer, model=generator), file, stream)
        else:
            texts = text_source(writer, files, column, max_length, form, skip_bad=skip_bad)
            run_component(texts, writer, out, command, shared, as_json=as_json, **envelope)


class RecordSource(LineSource):
    """Records of a JSON file: an object, a list of objects, or an object on each line."""

    def lines(self, arrivals: Arrivals) -> Iterator[bytes]:
        lines = [*super().lines(arrivals)]
        if not any(map(bytes.strip, lines)):
            raise BadInput("--fields: the file has no record; write an object for each article")
        try:
            content = json.loads(b"\n".join(lines))
        except (ValueError, RecursionError):
            return iter(lines)
        records = content if isinstance(content, list) else [content]
        if not records:
            raise BadInput("--fields: the list has no record; write an object for each article")
        return (json.dumps(record).encode() for record in records)


def _check_modes(values: Mapping[str, object], method: str | None) -> None:
    """Refuse options that cannot be used with --stream, --tree or --fields."""
    of_lines = {"more than one FILE": values["more"], "--column": values["column"]}
    of_lines |= {"--delimiter": values["delimiter"], "--encoding": values["encoding"]}
    if (values["fields"] is None) != (values["write"] is None):
        raise BadInput("--fields FILE and --write FIELD: each needs the other")
    if values["fields"] is not None:
        lines = {"FILE": values["file"] != "-", "--stream": values["stream"]}
        modes = {"--tree": values["tree"] is not None, "--max-length": values["max_length"]}
        options.refuse(lines | modes | of_lines, "cannot be used with --fields")
    flags = {
        **of_lines,
        "--skip-bad": values["skip_bad"],
        "--resume": values["resume"],
        "--workers": values["workers"],
        "--ray": values["ray"],
        "--best": values["best"] != 1,
        f"--search {method}": method in BRANCHING,
    }
    if values["stream"]:
        flags = {"--json": values["as_json"], "--out": values["out"], **flags}
        options.refuse(flags, "cannot be used with --stream")
    if values["tree"] is not None:
        options.refuse({"--stream": values["stream"], **flags}, "cannot be used with --tree")
    elif values["html"] is not None:
        raise BadInput("--html: needs --tree")


def is_typed(file: str) -> bool:
    """Whether the lines are typed at a terminal."""
    return file == "-" and sys.stdin.isatty()


def _answer(writer: "Writer", file: str, must_stream: bool) -> None:
    """Continue prompts one by one; at a terminal, errors and Ctrl-C end one text, not the run."""
    typed, method, generator = is_typed(file), writer.method, cast("Generator", writer.model)
    streams = must_stream or (writer.best == 1 and method.streams)
    _show_prompt(typed)
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
        except (BadInput, KeyboardInterrupt) as error:
            if not typed:
                raise
            if isinstance(error, BadInput):
                complain(str(error))
            else:
                print_line("")
        _show_prompt(typed)


def _show_prompt(typed: bool) -> None:
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
    """Print the tree of each line; an HTML page needs a file with one line."""
    from regard.inside.trees.token_tree import record_tokens
    from regard.inside.views.beam_text import token_lines

    lines = read_windows(LineSource(file, plain_text, window=1))
    if html is not None:
        lines = iter(first := list(islice(lines, 2)))
        if len(first) > 1:
            raise BadInput("--html: a page shows one prompt, and there are several")
    for (line,) in lines:
        tree = record_tokens(generator, line.text, search, alternatives, line.number - 1)
        write_view(html, tree.view_record)
        if as_json:
            print_json(tree.to_json())
        else:
            for row in token_lines(tree, OUT.width):
                OUT.print(row)
