"""The logits that are explained: of which head, at which position, for which token or label."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from regard.core.checks import check_whole, is_whole
from regard.core.errors import BadInput, shown
from regard.inference.model_runner import ModelRunner
from regard.inside.masked_text import mask_filler
from regard.inside.neighbours import inner_tokens
from regard.models.heads import AnyHead
from regard.models.label_heads import SpanHead
from regard.models.trunk_with_heads import Outputs
from regard.text.label_sets import LabelSet, RegressionSet, SingleLabelSet
from regard.text.segmentation import LabelledRows
from regard.text.vocabulary import Vocabulary

NO_HEAD = "this model has no output head: there are no logits to explain"
NO_LOGITS = "the head {} of this model has no logits of labels or tokens to explain"
NO_POSITION = "token: give the position of a token to explain"
TOKEN_OF_ROW = "token of the row"
SPAN_OUTPUTS = ("start", "end")  # of a span head, whose logits compare the tokens of a row
ONE_OUTPUT = "token: this model predicts one output for the whole input"


@dataclass(frozen=True)
class OutputNames:
    """Names of the outputs of a head: tokens of a vocabulary, else labels, else numbers."""

    count: int
    vocabulary: Vocabulary | None = None
    labels: LabelSet | None = None
    compare_tokens: bool = False

    @property
    def problem_type(self) -> str:
        """What the logits predict: a label, several labels, a number, or a token of the row."""
        if self.compare_tokens:
            return TOKEN_OF_ROW
        if self.labels is not None:
            return self.labels.problem_type
        return (SingleLabelSet if self.count > 1 else RegressionSet).problem_type

    def name(self, index: int) -> str:
        """Name of an output."""
        if self.vocabulary is not None and index < len(self.vocabulary):
            return self.vocabulary.pieces([index])[0]
        return str(index) if self.labels is None else self.labels.names[index]

    def index(self, name: str | int, option: str = "target") -> int:
        """Number of an output from its name, or from its number."""
        if is_whole(name):
            return check_whole(option, name, 0, self.count - 1)
        text = str(name)
        if self.labels is not None:
            return self.labels.names.index(self.labels.name(text, option))
        if self.vocabulary is not None:
            return self._token(text, self.vocabulary, option)
        if text.isdecimal():
            return check_whole(option, int(text), 0, self.count - 1)
        raise BadInput(f"{option}: {shown(name)} is not a number from 0 to {self.count - 1}")

    def _token(self, text: str, vocabulary: Vocabulary, option: str) -> int:
        """Id of a token as it is inside a text, by itself, or as it is printed."""
        inside, alone = inner_tokens(vocabulary, text).tolist(), vocabulary.encode(text)
        for ids in (alone, inside) if text.startswith(" ") else (inside, alone):
            if len(ids) == 1:
                return int(ids[0])
        printed = vocabulary.pieces(range(len(vocabulary)))
        if text in printed:
            return printed.index(text)
        pieces = " ".join(vocabulary.pieces(alone)) or "none"
        raise BadInput(f"{option}: {shown(text)} is {len(alone)} tokens ({pieces}); give one token")


@dataclass(frozen=True)
class LogitTarget:
    """Logit of one output of a head at a position, or its difference to the logit of another.

    ``position`` is None for a head that reads whole rows.
    """

    head: str
    position: int | None
    index: int
    name: str
    against: int | None = None
    against_name: str = ""

    def of(self, outputs: Outputs, inputs: int = 1) -> Tensor:
        """The logit, or the difference, of each of several inputs of equal length."""
        logits_NV = by_output(outputs.by_head[self.head])
        logits_BV = logits_NV.unflatten(0, (inputs, -1))[:, self.position or 0]
        values_B = logits_BV[:, self.index]
        return values_B if self.against is None else values_B - logits_BV[:, self.against]

    def __str__(self) -> str:
        minus = "" if self.against is None else f" - logit of {self.against_name!r}"
        place = "" if self.position is None else f" at position {self.position}"
        return f"logit of {self.name!r}{minus}{place}"


class ExplainedHead(NamedTuple):
    """Head of a model whose logits are explained, and the positions of the tokens it predicts at.

    The position is None for a head that reads whole rows.
    """

    name: str
    names: OutputNames
    positions: Sequence[int | None]


def by_output(logits: Tensor) -> Tensor:
    """Logits (positions, outputs), also of a head with one output."""
    return logits if logits.dim() > 1 else logits[:, None]


def heads_with_logits(model: ModelRunner, outputs: Outputs) -> dict[str, OutputNames]:
    """Names of the outputs of each head, by the name of the head."""
    heads = [each for each in model.facts.output_heads if each.name in outputs.by_head]
    if not heads:
        names = ", ".join(model.facts.head_names)
        raise BadInput(NO_LOGITS.format(names) if names else NO_HEAD)
    counts = (by_output(outputs.by_head[head.name]).shape[-1] for head in heads)
    pairs = zip(heads, counts, strict=True)
    return {head.name: _output_names(model, head, count) for head, count in pairs}


def explained_head(
    model: ModelRunner, rows: LabelledRows, outputs: Outputs, token: int | None = None
) -> ExplainedHead:
    """The first head that predicts something to explain on an input.

    The head predicts an output for the whole input, or at ``token``; by default at each mask, at
    the last token of a causal model, or at the first token that a translator writes.
    """
    named = heads_with_logits(model, outputs)
    for head in model.facts.output_heads:
        if head.name in named and (positions := _positions(model, rows, head, token)):
            return ExplainedHead(head.name, named[head.name], positions)
    if token is not None:
        raise BadInput(ONE_OUTPUT)
    heads = [head for head in model.facts.output_heads if head.name in named]
    masks = mask_filler(model) is not None and any(head.names_tokens for head in heads)
    spans = SpanHead.name in named
    more = ", or a text with a mask" if masks else " as start or end of an answer" if spans else ""
    raise BadInput(f"{NO_POSITION}{more}")


def choose_target(
    model: ModelRunner,
    rows: LabelledRows,
    outputs: Outputs,
    target: str | int | None = None,
    against: str | int | None = None,
    token: int | None = None,
) -> LogitTarget:
    """Find the logit to explain; by default the logit of the most probable output.

    See ``explained_head`` for its position. ``against`` is the output whose logit is subtracted.
    """
    head, names, (position, *_) = explained_head(model, rows, outputs, token)
    best = int(by_output(outputs.by_head[head])[position or 0].argmax())
    index = best if target is None else names.index(target)
    if against is None:
        return LogitTarget(head, position, index, names.name(index))
    other = names.index(against, "against")
    return LogitTarget(head, position, index, names.name(index), other, names.name(other))


def _output_names(model: ModelRunner, head: AnyHead, count: int) -> OutputNames:
    if head.names_tokens:
        known = None if model.tokenizer is None else model.tokenizer.vocabularies
        return OutputNames(count, known[-1] if known else None)
    if head.name == SpanHead.name:
        return OutputNames(count, labels=SingleLabelSet(SPAN_OUTPUTS), compare_tokens=True)
    if head.classes:
        return OutputNames(count, labels=SingleLabelSet(head.classes))
    labels = model.labels
    return OutputNames(count, labels=labels if labels and len(labels) == count else None)


def _positions(
    model: ModelRunner, rows: LabelledRows, head: AnyHead, token: int | None
) -> list[int | None]:
    """Positions at which a head predicts something to explain; none if there is no such."""
    if head.per_row:
        return [None] if token is None else []
    side = model.facts.sides[-1]
    count = len(rows[side].queries.subwords)
    if token is not None:
        return [check_whole("token", token, -count, count - 1) % count]
    filler = mask_filler(model)
    if filler is not None and head.names_tokens:
        return [*map(int, filler.masks(rows[side].row.tokens))]
    if not model.facts.writes:
        return []
    return [count - 1 if len(model.facts.sides) == 1 else 0]
