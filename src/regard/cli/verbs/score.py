"""``regard score``: log-probabilities of texts, or of translations."""

from collections.abc import Iterator
from typing import Annotated

from typer import Context, Option

from regard.cli import options
from regard.cli.io.file_list import list_files, text_source
from regard.cli.io.line_io import Line, LineSource, parser_of, run_component
from regard.cli.io.output import resumable_command
from regard.cli.io.table_io import check_output, declared_format
from regard.data.readers.fields import filled
from regard.data.readers.sources import NumberedLines
from regard.data.readers.text_files import Arrivals, whole_text
from regard.ground.errors import BadInput


def score(
    context: Context,
    model: options.MODEL,
    file: options.FILE = "-",
    more: options.MORE_FILES = None,
    column: options.COLUMN = None,
    delimiter: options.DELIMITER = None,
    encoding: options.ENCODING = None,
    whole: Annotated[bool, Option("--whole", help="Read the whole file as one text.")] = False,
    window: Annotated[
        int | None, Option(min=2, help="Number of tokens read at once; default: the model's limit.")
    ] = None,
    stride: Annotated[
        int | None,
        Option(min=1, help="Number of tokens from window to window; default: half a window."),
    ] = None,
    edits: options.EDITS = None,
    max_length: options.MAX_LENGTH = None,
    batch_size: options.BATCH_SIZE = None,
    precision: options.STORED_PRECISION = None,
    device: options.DEVICE = None,
    workers: options.WORKERS = None,
    ray: options.RAY = None,
    skip_bad: options.SKIP_BAD = False,
    out: options.OUT_FILE = None,
    resume: options.RESUME = False,
    as_json: options.JSON = False,
) -> None:
    """Print the log-probability of each text, or translation.

    A language model reads a text in each line, a translator a source text, a tab, and its
    translation. Each token of a text is predicted from the tokens before it (GPT), or from all
    other tokens (masked LM). A recurrent model reads a long text in parts and carries its state, so
    that no token is read twice. Perplexity and bits per byte of all texts are printed at the end;
    --json prints them for each text, with the log-probability of each token.

    A table (.csv, .tsv, .jsonl, .parquet) is printed again with the columns logprob and perplexity;
    --column names its text, two of them source and translation; --delimiter and --encoding declare
    its form.

    --workers N reads texts in N processes, --ray ADDRESS on the machines of a Ray cluster;
    statistics of the results are then printed at the end. Several files, --resume and
    --skip-bad work as in regard predict.

    Example: paste test.en test.de | regard score runs/tour/model
    """
    from regard.cli.edited_models import load_model, sharing
    from regard.tasks.components import ComponentSpec

    form = declared_format(delimiter, encoding)
    files = [file] if whole else list_files(file, *more or ())
    if whole:
        flags: dict[str, object] = {
            "--column": column,
            "--delimiter": delimiter,
            "--encoding": encoding,
            "more than one FILE": more,
        }
        flags |= {"--workers": workers, "--ray": ray, "--resume": resume, "--skip-bad": skip_bad}
        options.refuse(flags, "cannot be used with --whole, which reads the file as one text")
    else:
        check_output(files[0], out, as_json=as_json)
    command = resumable_command(context, "workers", "ray", "skip_bad")
    loaded, envelope = load_model(model, device, edits, precision, batch_size)
    _, runners = sharing(loaded, workers, ray, edits)
    settings, place = {"window": window, "stride": stride}, loaded.device.type
    component = loaded.runner.scorer(window, stride)
    if whole and not component.reads_whole:
        raise BadInput("--whole: cannot be used with a translator, which reads pairs of lines")
    if whole:
        source: LineSource = WholeFile(file, parser_of(component, max_length))
    else:
        source = text_source(component, files, column, max_length, form, skip_bad=skip_bad)
    spec = ComponentSpec((model,), "score", settings, place, precision, batch_size=batch_size)
    with spec.workers(runners, ray) as shared:
        run_component(source, component, out, command, shared, as_json=as_json, **envelope)


class WholeFile(LineSource):
    """A file that is one text."""

    def read(self, lines: NumberedLines, arrivals: Arrivals) -> Iterator[Line]:
        text = whole_text(self.file)
        yield Line(1, text, self.parse(filled(text, self.name, "no text"), self.name))
