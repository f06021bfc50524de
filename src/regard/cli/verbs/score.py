"""``regard score``: log-probabilities of texts, or of translations."""

from typing import Annotated

from typer import Context, Option

from regard.cli.io.files import open_job, print_results
from regard.core.errors import BadInput
from regard.core.flags import refuse
from regard.experiments import options
from regard.experiments.bulk.line_source import parser_of


def score(
    context: Context,
    model: options.MODEL,
    inputs: options.InputOptions,
    runs: options.ScorerOptions,
    outputs: options.OutputOptions,
    whole: Annotated[bool, Option("--whole", help="Read the whole file as one text.")] = False,
    window: Annotated[
        int | None, Option(min=2, help="Number of tokens read at once; default: the model's limit.")
    ] = None,
    stride: Annotated[
        int | None,
        Option(min=1, help="Number of tokens from window to window; default: half a window."),
    ] = None,
) -> None:
    """Print the log-probability of each text, or translation.

    A language model reads a text in each line, a translator a source text, a tab, and its
    translation. Each token of a text is predicted from the tokens before it (GPT), or from all
    other tokens (masked LM). A recurrent model reads a long text in parts and carries its state, so
    that no token is read twice. Perplexity and bits per byte of all texts are printed at the end;
    --json prints them for each text, with the log-probability of each token.

    A table is printed again with the columns logprob and perplexity; of a translator, two --column
    are source and translation. Tables, several files, --workers, --ray, --skip-bad and --resume
    work as in regard predict.

    Example: paste test.en test.de | regard score runs/tour/model
    """
    from regard.experiments.bulk.file_job import WholeFile

    if whole:
        flags = inputs.of_tables | runs.of_workers
        flags |= {"resume": outputs.resume, "skip_bad": inputs.skip_bad}
        refuse(flags, "cannot be used with --whole, which reads the file as one text")
    else:
        inputs.files(outputs)
    job = open_job(context, model, inputs, runs, outputs)
    component = job.model.runner.scorer(window, stride)
    if whole and not component.reads_whole:
        raise BadInput("--whole: cannot be used with a translator, which reads pairs of lines")
    source = WholeFile(inputs.file, parser_of(component, inputs.max_length)) if whole else None
    with job.run(component, "score", {"window": window, "stride": stride}, source) as run:
        print_results(run, outputs.out)
