"""Losses of the examples of a task, for the gradients of heads and of gates."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import cast

from regard.core.errors import BadInput
from regard.data.readers.examples import ExampleContent
from regard.inference.model_runner import ModelRunner
from regard.inside.heads.importance import LossBatch
from regard.inside.heads.text_loss import label_loss, text_loss
from regard.models.label_heads import LabelHead
from regard.text.label_sets import LabelSet
from regard.text.segmentation import LabelledRows

ROWS = 16  # inputs of a batch


def loss_batches(
    model: ModelRunner,
    contents: Iterable[ExampleContent],
    labels: LabelSet | None,
    *,
    inputs: int,
    longest: int,
) -> list[LossBatch]:
    """Batches of the first ``inputs`` examples of at most ``longest`` tokens, with their losses.

    The loss is the cross-entropy of the label of a text, or of the tokens of a language model
    or of a translation.
    """
    short: list[tuple[LabelledRows, ExampleContent]] = []
    for content in contents:
        rows = model.read(*cast(tuple[str, ...], content.inputs), *content.outputs)
        if all(len(row.queries.subwords) <= longest for row in rows.values()):
            short.append((rows, content))
        if len(short) == inputs:
            break
    if not short:
        raise BadInput(f"importance: no example has at most {longest} tokens")
    ordered = iter(sorted(short, key=lambda each: _length(each[0])))
    return [_with_loss(model, labels, part) for part in iter(lambda: [*islice(ordered, ROWS)], [])]


def _length(rows: LabelledRows) -> int:
    return max(len(row.queries.subwords) for row in rows.values())


def _with_loss(
    model: ModelRunner,
    labels: LabelSet | None,
    examples: Sequence[tuple[LabelledRows, ExampleContent]],
) -> LossBatch:
    rows = [each for each, _ in examples]
    if labels is not None and labels.single_label and LabelHead.name in model.facts.head_names:
        names = [labels.encode(content.labels, "data.train")[0] for _, content in examples]
        gold = [labels.names[int(number)] for number in names]
        return label_loss(model, rows, gold, labels.names)
    batch = text_loss(model, rows)
    if batch is None:
        heads = ", ".join(model.facts.head_names) or "none"
        raise BadInput(
            "pruning needs the loss of one label per text, of a language model or of a translator; "
            f"the heads of this model: {heads}; choose a random order"
        )
    return batch
