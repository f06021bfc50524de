"""``regard translate``: lines in, translations out."""

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.cli.io.console import note
from regard.cli.io.line_io import LineSource, Parse, parser_of, print_results
from regard.cli.io.output import output_to, resumable_command
from regard.cli.options import (
    ALPHA,
    BATCH_SIZE,
    BEAM,
    BEST,
    CANDIDATES,
    COVERAGE,
    DEVICE,
    DIVERSITY,
    ENGINE,
    FILE,
    FINISHED,
    GROUPS_OF_BEAMS,
    JSON,
    LENGTH,
    MAX_LENGTH,
    MODEL,
    NO_REPEAT,
    OUT_FILE,
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
from regard.data.files.text_files import name_of, read_lines
from regard.ground.errors import BadInput
from regard.text.vocabularies.vocabulary import Vocabulary

if TYPE_CHECKING:
    from regard.inference.decoder_model import Request

LOSSY = ("wordpiece", "sentencepiece")  # vocabularies that cannot encode every word


def translate(
    context: typer.Context,
    model: MODEL,
    file: FILE = "-",
    ensemble: Annotated[
        list[str] | None,
        typer.Option("--ensemble", metavar="MODEL", help="Add a model to an ensemble; repeatable."),
    ] = None,
    search: Annotated[
        Literal["beam", "greedy", "sample", "mbr", "exact", "published"] | None,
        typer.Option(
            help="Decoding method; default: published (generation_config.json) if present, "
            "else beam."
        ),
    ] = None,
    size: BEAM = None,
    best: BEST = 1,
    length: LENGTH = None,
    alpha: ALPHA = None,
    coverage: COVERAGE = None,
    finished: FINISHED = None,
    stop: STOP = None,
    no_repeat: NO_REPEAT = None,
    repetition_penalty: REPETITION_PENALTY = None,
    groups: GROUPS_OF_BEAMS = 1,
    diversity: DIVERSITY = 0.5,
    max_active: Annotated[
        int, typer.Option(help="Active prefixes beyond which exact search gives up on a sentence.")
    ] = 1_000,
    temperature: TEMPERATURE = None,
    top_k: TOP_K = None,
    top_p: TOP_P = None,
    seed: SEED = 0,
    samples: SAMPLES = 32,
    utility: UTILITY = "chrf",
    candidates: CANDIDATES = "samples",
    prefix: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Forced beginnings of the translations, one per line."),
    ] = None,
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
    """Translate text, one sentence per line.

    An empty line stays empty. With --best n, each line gives n lines, best first. The formula of
    the scores is printed to standard error. JSON lines can be re-ranked by regard sweep.

    On a CPU, --workers N (N cores) translates long files in N processes, and --precision int8
    multiplies in 8 bits; its speed, and the default --engine, depend on the processor.

    Lines are translated as they arrive: the lines before a pause of a pipe or a terminal are
    translated and printed at once. A line of more tokens than --max-length is an error, after all
    lines before it are printed.

    The default search is that of the [decode] table of the model's recipe, or that of
    generation_config.json; an option overrides one setting of it. The bad words, the maximum length
    and the sampling temperature, top-k and top-p of generation_config.json hold for any search.

    With --groups n, n beams run side by side, and each avoids the tokens of those before it
    (diverse beam search). --stop transformers --length power --alpha A is the beam search of
    transformers' generate with length_penalty A; transformers-early and transformers-never are its
    early_stopping.

    With --search mbr, each line gives the candidate with the highest mean utility over samples
    (minimum Bayes risk); with --candidates beam, the candidates are the --beam best of a beam.

    With --search exact, each line gives the highest-scoring translation, found by branch and bound
    from the beam's; the search errors of the beam are printed to standard error at the end. It is
    fast with --length none.

    With --out FILE --resume, translations are kept in FILE.partial as they come, 4,096 lines at a
    time; if the command was stopped, the same one goes on after them.

    Example: echo "The old man reads a book." | regard translate runs/tour/model --beam 4
    """
    from regard.cli import decode
    from regard.tasks.components import ComponentSpec

    given = {name for name in decode.KNOWN if was_given(context, name)}
    decode.check_options(decode.method_name(search), context.params, given)
    if resume and prefix is not None:
        raise BadInput("--resume: cannot be used with --prefix")
    command = resumable_command(context)
    folders = [model, *(ensemble or [])]
    translator = decode.load_ensemble(folders, device, batch_size)
    method = decode.choose_method(translator, search, context.params, given)
    if method.formula:
        note(f"{method.search}: score = {method.formula}")
    chosen = dict(zip(("precision", "engine"), translator.choice(precision, engine), strict=True))
    writer = translator.writer(method, best)
    with ExitStack() as stack:
        progress = stack.enter_context(output_to(out, command))
        spec = ComponentSpec(tuple(folders), "translate", {"method": method})
        writer = stack.enter_context(decode.ready(writer, chosen, workers, spec))
        prefixes = None if prefix is None else Prefixes(prefix)
        parse_line, words = parser_of(writer, max_length), translator.tokenizer.source
        lines = LineSource(file, partial(_parse, parse_line, words, prefixes))
        total = print_results(lines, writer, progress, as_json=as_json, **chosen)
        if prefixes is not None:
            prefixes.check_end(file)
    if total:
        note(total)


class Prefixes:
    """The forced beginnings of translations, a line of a file for each line of text."""

    def __init__(self, path: str):
        self.path, self.lines, self.count = path, read_lines(path), 0

    def next(self, where: str) -> str:
        """The prefix of the next text."""
        for line in self.lines:
            self.count += 1
            return line
        raise BadInput(f"{where}: no prefix for this line: {self.path} has {self.count} lines")

    def check_end(self, file: str) -> None:
        """Refuse prefixes beyond the last text."""
        if next(self.lines, None) is not None:
            where, text = f"{self.path}:{self.count + 1}", name_of(file)
            raise BadInput(f"{where}: no text for this prefix: {text} has {self.count} lines")


def _parse(
    parse: Parse, vocabulary: Vocabulary, prefixes: Prefixes | None, line: str, where: str
) -> "Request":
    """A line and its forced prefix; words outside the vocabulary are printed."""
    request: Request = parse(line, where)
    if vocabulary.kind in LOSSY and (unknown := vocabulary.unknown(line)):
        words = ", ".join(line[start:end] for start, end in unknown)
        note(f"line {where.rpartition(':')[2]}: not in the vocabulary: {words}")
    return request if prefixes is None else request._replace(prefix=prefixes.next(where))
