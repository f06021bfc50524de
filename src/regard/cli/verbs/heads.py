"""``regard heads``: what each attention head does, by its weights, a treebank and gradients."""

from regard.cli import formats
from regard.experiments import options
from regard.experiments.options.inspecting import HeadOptions


def heads(
    model: options.MODEL,
    how: HeadOptions,
    views: formats.ViewOptions,
    device: options.DEVICE = None,
    *,
    output: formats.TableOptions,
) -> None:
    """Report what each attention head does.

    For every head: entropy of its weights, the relative offset that most words attend to, weight on
    special tokens and on the first token, and how often it attends most to a rare word. Causal
    models read all tokens twice, too, for previous-token, duplicate-token and induction scores;
    models of images have the mean distance of attention in patches. Importance is the mean absolute
    gradient of the loss with respect to a gate of the head: the loss of a language model on the
    texts, or of a classifier with --labels.

    With --treebank, the largest weight of a word predicts its syntactic head. For each relation,
    the best head is chosen on dev and scored on test, beside the best fixed offset, with 95%
    intervals. Without --text, all figures are of the sentences of the treebank.

    Heads with a role come first. --html and --svg draw a grid of heads, coloured by role.

    Example: regard heads runs/bert/model --text runs/tour/corpus/test.en --html heads.html
    """
    from regard.experiments.input_views import report_on_heads
    from regard.experiments.view_results import show_heads

    report = report_on_heads(model, how, options.LoadOptions(device=device))
    output.show(show_heads(report))
    views.write(report, model=model)
