"""``regard generate``: prompts in, continuations out."""

import sys

from typer import Context

from regard.cli import formats
from regard.cli.io import typed_prompts
from regard.cli.io.console import OUT, flag, print_json, show_event, write_view
from regard.cli.io.files import print_results, print_to, resumable_command
from regard.experiments import options
from regard.experiments.options.writing import GenerationOptions, GenerationSearch


def generate(
    context: Context,
    model: options.MODEL,
    inputs: options.InputOptions,
    search: GenerationSearch,
    runs: options.WriterOptions,
    outputs: options.OutputOptions,
    also: GenerationOptions,
    html: formats.HTML = None,
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
    128 tokens; an option overrides one setting. Texts that are unfinished at the limit are counted
    on standard error, and have "ended": "length" in JSON lines.

    A table is printed again with the columns generated and score. Tables, several files,
    --skip-bad and --resume (4,096 prompts at a time) work as in regard predict.

    Example: echo "Once upon a time" | regard generate gpt2 --top-p 0.9 --best 3
    """
    from regard.experiments.bulk.writer_runs import generation_job
    from regard.experiments.search_methods import CONTINUATION, check_options
    from regard.inside.trees.tree_text import token_lines

    name = search.search or CONTINUATION.method(search)
    also.check(inputs, runs, outputs, best=search.best, method=name, page=html is not None)
    if name is not None:
        check_options(name, search)
    settings, file = inputs.settings(flag, show_event), also.fields or inputs.file
    if also.is_plain:
        inputs.files(outputs)
    command = resumable_command(context, file)
    job_of = generation_job(
        model, inputs, search, runs, outputs, also, settings, name, command, show_event
    )
    flush, page = sys.stdout.flush, html is not None
    is_typed = also.is_plain and typed_prompts.is_typed(file) and not outputs.as_json
    with job_of as job:
        if also.tree is not None:
            with print_to(outputs.out):
                for tree in job.trees(file, also.tree, single=page, flush=flush):
                    write_view(html, tree.view_record)
                    if outputs.as_json:
                        print_json(tree.to_json())
                    else:
                        for row in token_lines(tree, OUT.width):
                            OUT.print(row)
        elif also.stream or is_typed:
            with print_to(outputs.out):
                typed_prompts.continue_prompts(job.writer, file, also.stream)
        else:
            print_results(job.run(), outputs.out)
