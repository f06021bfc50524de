"""``regard embed``: one vector for each text."""

from typing import Annotated

from typer import Context, Option

from regard.cli.io.files import open_job, print_results
from regard.experiments import options


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
    from regard.experiments.bulk.file_job import vector_suffix
    from regard.text.tokenizers.row_tokenizer import require_tokenizer

    suffix = vector_suffix(inputs, outputs)
    job = open_job(context, model, inputs, runs, outputs)
    component = job.model.runner.embedder(pool, normalise, prompt_name)
    require_tokenizer(job.model.tokenizer)
    settings = {"pool": pool, "normalise": normalise, "prompt_name": prompt_name}
    with job.run_embedder(component, settings, suffix) as run:
        print_results(run, outputs.out)
