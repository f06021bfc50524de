"""``regard translate``: lines in, translations out."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal, cast

from typer import Context, Option

from regard.cli import options
from regard.cli.io.console import note
from regard.cli.io.document_io import paragraph_parser, run_document
from regard.cli.io.file_list import list_files, text_source
from regard.cli.io.line_io import Line, LineSource, Parse, parser_of, run_component
from regard.cli.io.output import resumable_command
from regard.cli.io.table_io import check_output, declared_format
from regard.data.readers.sources import NumberedLines
from regard.data.readers.text_files import Arrivals, read_lines
from regard.ground.errors import BadInput

if TYPE_CHECKING:
    from regard.inference.decoder_model import Request
    from regard.text.vocabulary import Vocabulary

LOSSY = ("wordpiece", "sentencepiece")  # vocabularies that cannot encode every word


def translate(
    context: Context,
    model: options.MODEL,
    file: options.FILE = "-",
    more: options.MORE_FILES = None,
    column: options.COLUMN = None,
    delimiter: options.DELIMITER = None,
    encoding: options.ENCODING = None,
    ensemble: Annotated[
        list[str] | None,
        Option("--ensemble", metavar="MODEL", help="Another model of the ensemble; repeatable."),
    ] = None,
    search: Annotated[
        Literal["beam", "greedy", "sample", "mbr", "exact", "published"] | None,
        Option(help="Decoding method; default: generation_config.json if present, else beam."),
    ] = None,
    size: options.BEAM = None,
    best: options.BEST = 1,
    length: options.LENGTH = None,
    alpha: options.ALPHA = None,
    coverage: options.COVERAGE = None,
    finished: options.FINISHED = None,
    stop: options.STOP = None,
    no_repeat: options.NO_REPEAT = None,
    repetition_penalty: options.REPETITION_PENALTY = None,
    groups: options.GROUPS_OF_BEAMS = 1,
    diversity: options.DIVERSITY = 0.5,
    max_active: Annotated[
        int, Option(help="Number of active prefixes at which exact search gives up on a sentence.")
    ] = 1_000,
    temperature: options.TEMPERATURE = None,
    top_k: options.TOP_K = None,
    top_p: options.TOP_P = None,
    seed: options.SEED = 0,
    samples: options.SAMPLES = 32,
    utility: options.UTILITY = "chrf",
    candidates: options.CANDIDATES = "samples",
    prefix: Annotated[
        str | None,
        Option(metavar="FILE", help="File of forced beginnings of translations, one per line."),
    ] = None,
    document: Annotated[
        bool, Option("--document", help="Each line is a paragraph: translate sentence by sentence.")
    ] = False,
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
    """Translate text, one sentence per line.

    An empty line stays empty. With --best n, each line gives n lines, best first. The formula of
    the scores is printed to standard error. JSON lines can be re-ranked by regard sweep.

    On a CPU, --workers N (N cores) translates long files in N processes, and --precision int8
    multiplies in 8 bits; its speed, and the default --engine, depend on the processor. --ray
    ADDRESS translates them on the machines of a Ray cluster. Statistics of the translations are
    then printed at the end.

    A table (.csv, .tsv, .jsonl, .parquet) is printed again with the columns translation and score;
    --column names its text; --delimiter and --encoding declare its form.

    With --document, each line is a paragraph of running text: it is split into sentences by rules
    for languages that end them with . ! or ?, each is translated, and the translations are joined
    by spaces. JSON lines then have the "text" of a paragraph and its "sentences".

    Lines are translated as they arrive: when a pipe or a terminal pauses, the lines before the
    pause are translated and printed at once.

    The default search comes from the [decode] table of the model's recipe, or from
    generation_config.json; an option overrides one setting of it. The bad words, the maximum length
    and the sampling temperature, top-k and top-p of generation_config.json hold for any search.

    With --groups n, n beams run side by side, and each avoids the tokens of the beams before it
    (diverse beam search). --stop transformers --length power --alpha A is the beam search of
    transformers' generate with length_penalty A; transformers-early and transformers-never are its
    early_stopping.

    With --search mbr, each line gives the candidate with the highest mean utility over samples
    (minimum Bayes risk); with --candidates beam, the candidates are the --beam best of a beam.

    With --search exact, each line gives the translation with the highest score, by branch and bound
    from the result of beam search; the search errors of the beam are printed to standard error at
    the end. It is fast with --length none.

    With --out FILE --resume, translations are written to FILE.partial as they come, 4,096 lines at
    a time; if the command was stopped, the same command continues after them. Several files and
    --skip-bad work as in regard predict.

    Example: echo "The old man reads a book." | regard translate runs/tour/model --beam 4
    """
    from regard.cli import decode
    from regard.tasks.components import ComponentSpec

    overrides = decode.names_given(context)
    decode.check_options(decode.method_name(search), context.params, overrides)
    form = declared_format(delimiter, encoding)
    of_table: dict[str, object] = {"--column": column, "--delimiter": delimiter}
    of_table["more than one FILE"] = more
    if resume and prefix is not None:
        raise BadInput("--resume: cannot be used with --prefix")
    if document:
        given = {"--prefix": prefix, "--resume": resume, "--best": best > 1, **of_table}
        given |= {"--skip-bad": skip_bad}
        options.refuse(given, "cannot be used with --document")
    if prefix is not None:
        options.refuse(of_table, "cannot be used with --prefix, which is for plain lines")
    files = [file]
    if prefix is None and not document:
        files = list_files(file, *more or ())
        check_output(files[0], out, as_json=as_json)
    command = resumable_command(context, "document", "workers", "ray", "skip_bad")
    folders = (model, *(ensemble or ()))
    if edits is not None:
        flags = {"--ensemble": ensemble, "--workers": workers, "--ray": ray}
        options.refuse(flags, "cannot be used with --edits")
    translator, edited = decode.load_ensemble(folders, device, edits, batch_size)
    method = decode.choose_method(translator, search, context.params, overrides)
    spec = ComponentSpec(folders, "translate", {"method": method})
    writer = translator.writer(method, best)
    opened = decode.ready(writer, spec, precision, engine, workers, ray)
    code = encoding or "utf-8"
    with opened as (writer, shared, envelope):
        envelope |= edited
        if document:
            sentence = partial(_parse, parser_of(writer, max_length), translator.tokenizer.source)
            paragraphs = LineSource(file, paragraph_parser(sentence), encoding=code)
            run_document(paragraphs, writer, out, shared, as_json=as_json, **envelope)
            return
        if prefix is not None:
            parse = parser_of(writer, max_length)
            source: LineSource = PrefixedLines(
                file, parse, skip_bad=skip_bad, encoding=code, prefixes=prefix
            )
        else:
            source = text_source(writer, files, column, max_length, form, skip_bad=skip_bad)
        vocabulary = translator.tokenizer.source
        source = source.with_parse(lambda parse: partial(_parse, parse, vocabulary))
        run_component(source, writer, out, command, shared, as_json=as_json, **envelope)


@dataclass(frozen=True, kw_only=True)
class PrefixedLines(LineSource):
    """Lines whose translations must begin with the lines of another file."""

    prefixes: str

    def read(self, lines: NumberedLines, arrivals: Arrivals) -> Iterator[Line]:
        prefixes, count = read_lines(self.prefixes), 0
        for count, line in enumerate(super().read(lines, arrivals), start=1):
            if (prefix := next(prefixes, None)) is None:
                fault = f"no prefix for this line: {self.prefixes} has {count - 1} lines"
                raise BadInput(f"{self.name}:{line.number}: {fault}")
            yield line._replace(value=line.value and line.value._replace(prefix=prefix))
        if next(prefixes, None) is not None:
            fault = f"no text for this prefix: {self.name} has {count} lines"
            raise BadInput(f"{self.prefixes}:{count + 1}: {fault}")


def _parse(parse: Parse, vocabulary: "Vocabulary", line: str, where: str) -> object:
    """The input in a line; words outside the vocabulary are printed."""
    request = cast("Request | None", parse(line, where))
    text = "" if request is None else str(request.text)
    if vocabulary.kind in LOSSY and (unknown := vocabulary.unknown(text)):
        words = ", ".join(text[start:end] for start, end in unknown)
        note(f"line {where.rpartition(':')[2]}: not in the vocabulary: {words}")
    return request
