"""``regard translate``: lines in, translations out."""

from typer import Context

from regard.cli.io.console import flag, show_event
from regard.cli.io.files import print_results, resumable_command
from regard.experiments import options
from regard.experiments.options.writing import TranslationOptions, TranslationSearch


def translate(
    context: Context,
    model: options.MODEL,
    inputs: options.InputOptions,
    search: TranslationSearch,
    runs: options.WriterOptions,
    outputs: options.OutputOptions,
    also: TranslationOptions,
) -> None:
    """Translate text, one sentence per line.

    An empty line stays empty. With --best n, each line gives n lines, best first. The formula of
    the scores is printed to standard error. JSON lines can be re-ranked by regard sweep.

    On a CPU, --workers N (N cores) translates long files in N processes, and --precision int8
    multiplies in 8 bits; its speed, and the default --engine, depend on the processor. --ray
    ADDRESS translates them on the machines of a Ray cluster. Statistics of the translations are
    then printed at the end.

    With --document, each line is a paragraph of running text: it is split into sentences by rules
    for languages that end them with . ! or ?, each is translated, and the translations are joined
    by spaces. JSON lines then have the "text" of a paragraph and its "sentences".

    Lines are translated as they arrive: when a pipe or a terminal pauses, the lines before the
    pause are translated and printed at once.

    The default search comes from the [decode] table of the model's recipe, or from
    generation_config.json; an option overrides one setting of it. The bad words, the maximum length
    and the sampling temperature, top-k and top-p of generation_config.json hold for any search. If
    nothing sets the maximum length, a text of n tokens has a translation of at most 2n + 10, or of
    a published model 128 if that is more. Translations that are unfinished there are counted on
    standard error, and have "ended": "length" in JSON lines; --max-new-tokens raises the limit.

    With --groups n, n beams run side by side, and each avoids the tokens of the beams before it
    (diverse beam search). --stop transformers --length power --alpha A is the beam search of
    transformers' generate with length_penalty A; transformers-early and transformers-never are its
    early_stopping.

    With --search mbr, each line gives the candidate with the highest mean utility over samples
    (minimum Bayes risk); with --candidates beam, the candidates are the --beam best of a beam.

    With --search exact, each line gives the translation with the highest score, by branch and bound
    from the result of beam search; the search errors of the beam are printed to standard error at
    the end. It is fast with --length none.

    A table is printed again with the columns translation and score. Tables, several files,
    --skip-bad and --resume (4,096 lines at a time) work as in regard predict.

    Example: echo "The old man reads a book." | regard translate runs/tour/model --beam 4
    """
    from regard.experiments.bulk.writer_runs import translation_run
    from regard.experiments.search_methods import check_options

    check_options(search.search, search)
    settings = inputs.settings(flag, show_event)
    also.check(inputs, search, outputs)
    if also.is_plain:
        inputs.files(outputs)
    command = resumable_command(context)
    run_of = translation_run(
        model, inputs, search, runs, outputs, also, settings, command=command, on_event=show_event
    )
    with run_of as run:
        print_results(run, outputs.out)
