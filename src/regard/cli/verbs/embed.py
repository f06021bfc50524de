"""``regard embed``: one vector for each text."""

from typing import Annotated

from typer import Context, Option

from regard.cli.io.files import open_job, print_results
from regard.core.errors import BadInput
from regard.data.readers.text_files import suffix_of
from regard.experiments import options
from regard.experiments.bulk.component_runs import SUFFIXES, VectorRun
from regard.experiments.bulk.file_list import list_files
from regard.experiments.bulk.table_source import FORMATS


def embed(
    context: Context,
    model: options.MODEL,
    inputs: options.InputOptions,
    runs: options.ModelOptions,
    outputs: options.OutputOptions,
    pool: options.POOL = None,
    normalise: Annotated[
        bool | None,
        Option("--normalise/--no-normalise", help="Scale vectors to length 1; default: as stored."),
    ] = None,
    prompt_name: Annotated[
        str | None,
        Option("--prompt-name", help="Prompt of the model that is put before each text."),
    ] = None,
) -> None:
    """Print one vector for each line.

    Numbers are separated by spaces. An empty line stays empty; in a .npy file it is a row of zeros.
    The name of the file (--out) decides its format: .npy, .txt (separated by spaces), .tsv (by
    tabs) or .jsonl (as --json). An encoder reads two texts separated by a tab as a pair.

    A sentence encoder may have named prompts, such as "query: " for queries and "passage: " for
    documents, in its config_sentence_transformers.json; without --prompt-name it has the default
    prompt of that file, if there is one.

    A table is printed again with the column vector, or its vectors are written to a .npy or .txt
    file. Tables, images, several files, --workers, --ray, --skip-bad and --resume work as in regard
    predict; vectors of a folder of images are in the order of file names.

    Example: echo "a gripping film" | regard embed runs/bert/model --json
    """
    from regard.experiments.bulk.image_source import source_for
    from regard.text.tokenizers.row_tokenizer import require_tokenizer

    out, as_json = outputs.out, outputs.as_json
    if out is not None and as_json:
        raise BadInput("--json: vectors are printed, or written to a file (--out), not both")
    suffix = out.suffix if out is not None else ".jsonl" if as_json else ".txt"
    first = list_files(*inputs.names)[0]
    of_table = suffix_of(first) in FORMATS or bool(inputs.column or inputs.delimiter)
    if suffix not in (SUFFIXES | FORMATS if of_table else SUFFIXES):
        raise BadInput(f"--out {out}: the name of a file of vectors ends in {', '.join(SUFFIXES)}")
    if suffix in FORMATS:
        outputs.check_format(first)
    job = open_job(context, model, inputs, runs, outputs)
    component = job.model.runner.embedder(pool, normalise, prompt_name)
    require_tokenizer(job.model.tokenizer)
    decoders, _ = job.processes
    source = source_for(job.model, component, inputs.names, job.settings, workers=decoders)
    settings = {"pool": pool, "normalise": normalise, "prompt_name": prompt_name}
    in_table = source.has_columns and (out is None or suffix in FORMATS)
    with job.run(component, "embed", settings, source) as run:
        vectors = VectorRun(source, component, run.form, suffix, run.command, run.workers)
        print_results(run if in_table else vectors, out)
