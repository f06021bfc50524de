"""``regard embed``: one vector for each text."""

from collections.abc import Mapping
from io import BytesIO
from typing import Annotated

from typer import Context, Option

from regard.cli import options
from regard.cli.io.console import json_line, note
from regard.cli.io.file_list import list_files
from regard.cli.io.line_io import (
    Line,
    LineSource,
    error_of,
    identify_blocks,
    note_statistics,
    result_lines,
    run_component,
)
from regard.cli.io.output import open_output, resumable_command
from regard.cli.io.table_io import FORMATS, check_output, declared_format
from regard.data.readers.text_files import suffix_of
from regard.ground.errors import BadInput

SUFFIXES = {".npy": "", ".txt": " ", ".tsv": "\t", ".jsonl": ""}  # of files of vectors: separators


def embed(
    context: Context,
    model: options.MODEL,
    file: options.FILE = "-",
    more: options.MORE_FILES = None,
    column: options.COLUMN = None,
    delimiter: options.DELIMITER = None,
    encoding: options.ENCODING = None,
    pool: options.POOL = None,
    normalise: Annotated[
        bool | None,
        Option("--normalise/--no-normalise", help="Scale vectors to length 1; default: as stored."),
    ] = None,
    edits: options.EDITS = None,
    max_length: options.MAX_LENGTH = None,
    batch_size: options.BATCH_SIZE = None,
    precision: options.PRECISION = "auto",
    device: options.DEVICE = None,
    workers: options.WORKERS = None,
    ray: options.RAY = None,
    skip_bad: options.SKIP_BAD = False,
    out: options.OUT_FILE = None,
    resume: options.RESUME = False,
    as_json: options.JSON = False,
) -> None:
    """Print one vector for each line.

    Numbers are separated by spaces. An empty line stays empty; in a .npy file it is a row of zeros.
    The name of the file (--out) decides its format: .npy, .txt (separated by spaces), .tsv (by
    tabs) or .jsonl (as --json). An encoder reads two texts separated by a tab as a pair.

    A table (.csv, .tsv, .jsonl, .parquet) is printed again with the column vector, or its vectors
    are written to a .npy or .txt file; --column names its text; --delimiter and --encoding declare
    its form.

    A model of images reads an image, a folder of images or a file of paths, as regard predict does;
    vectors of a folder are in the order of file names, which JSON has under "image". Several
    files, --workers, --ray, --skip-bad and --resume work as in regard predict.

    Example: echo "a gripping film" | regard embed runs/bert/model --json
    """
    from regard.cli.edited_models import load_model, sharing
    from regard.cli.io.image_io import source_for
    from regard.tasks.components import ComponentSpec
    from regard.text.tokenizers.row_tokenizer import require_tokenizer

    if out is not None and as_json:
        raise BadInput("--json: vectors are printed, or written to a file (--out), not both")
    suffix = out.suffix if out is not None else ".jsonl" if as_json else ".txt"
    names, form = [file, *(more or ())], declared_format(delimiter, encoding)
    first = list_files(*names)[0]
    of_table = suffix_of(first) in FORMATS or bool(column or delimiter)
    if suffix not in (SUFFIXES | FORMATS if of_table else SUFFIXES):
        raise BadInput(f"--out {out}: the name of a file of vectors ends in {', '.join(SUFFIXES)}")
    if suffix in FORMATS:
        check_output(first, out, as_json=as_json)
    command = resumable_command(context, "workers", "ray", "skip_bad")
    loaded, envelope = load_model(model, device, edits, precision, batch_size)
    component = loaded.runner.embedder(pool, normalise)
    require_tokenizer(loaded.tokenizer)
    width = component.width
    decoders, runners = sharing(loaded, workers, ray, edits)
    source = source_for(
        loaded, component, names, column, max_length, form, workers=decoders, skip_bad=skip_bad
    )
    settings, place = {"pool": pool, "normalise": normalise}, loaded.device.type
    spec = ComponentSpec((model,), "embed", settings, place, precision, batch_size=batch_size)
    with spec.workers(runners, ray) as shared:
        if source.has_columns and (out is None or suffix in FORMATS):
            run_component(source, component, out, command, shared, as_json=as_json, **envelope)
            return
        with open_output(out, identify_blocks(command, shared)) as (stream, progress):
            if suffix == ".npy" and not progress.inputs:
                stream.write(_header(0, width))
            for line in result_lines(source, component, progress, shared):
                stream.write(_row(suffix, width, source, line, envelope))
            if suffix == ".npy":
                stream.seek(0)
                stream.write(_header(progress.inputs, width))
    note_statistics(progress, source, shared)
    progress.report()
    if out is not None:
        note(f"wrote {out}: {progress.inputs:,} vectors of {width}")


def _row(
    suffix: str, width: int, source: LineSource, line: Line, envelope: Mapping[str, str]
) -> bytes:
    """The vector of a line in the format of a file; a line without input has an empty row."""
    import numpy as np

    vector_D = None if line.value is None else line.value.value
    if suffix == ".npy":
        return (np.zeros(width) if vector_D is None else vector_D).astype("<f4").tobytes()
    if suffix == ".jsonl":
        vector = None if vector_D is None else vector_D.tolist()
        record = {**source.record(line), "vector": vector, **error_of(line), **envelope}
        return json_line(record).encode()
    numbers = () if vector_D is None else vector_D
    return (SUFFIXES[suffix].join(f"{number:.8g}" for number in numbers) + "\n").encode()


def _header(rows: int, width: int) -> bytes:
    """Header of a NumPy file; its length does not depend on the number of rows."""
    import numpy as np

    head = BytesIO()
    shape = {"shape": (rows, width), "fortran_order": False}
    np.lib.format.write_array_header_1_0(head, {"descr": "<f4", **shape})
    return head.getvalue()
