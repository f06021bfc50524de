"""``regard fill``: the most probable words for masked tokens."""

from typing import Annotated

from typer import Context, Option

from regard.cli.io.files import open_job, print_results
from regard.experiments import options


def fill(
    context: Context,
    model: options.MODEL,
    inputs: options.InputOptions,
    runs: options.ModelOptions,
    outputs: options.OutputOptions,
    top: Annotated[int, Option(help="Number of words printed for each mask token.")] = 5,
) -> None:
    """Fill the [MASK] tokens of each line with probable words.

    Prints the filled line, then for each mask token (BERT and context2vec: [MASK], RoBERTa:
    <mask>), after a tab, the most probable words with their probabilities. An empty line stays
    empty. A table is printed again with the columns filled and words. Tables, several files,
    --workers, --ray, --skip-bad and --resume work as in regard predict.

    Example: echo "The old man [MASK] a book." | regard fill runs/bert/model
    """
    inputs.files(outputs)
    job = open_job(context, model, inputs, runs, outputs)
    with job.run(job.model.encoder.filler(top), "fill", {"top": top}) as run:
        print_results(run, outputs.out)
