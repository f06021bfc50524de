"""The logit that is explained: which head, at which position, for which token or label."""

from dataclasses import dataclass

from torch import Tensor

from regard.ground.checks import check_whole, is_whole
from regard.ground.errors import BadInput, shown
from regard.inside.inspected_model import InspectedModel, LabelledRows
from regard.inside.masked_text import mask_filler
from regard.models.trunk_with_heads import Outputs
from regard.text.labels import LabelSet
from regard.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class OutputNames:
    """Names of the outputs of a head: tokens of a vocabulary, else labels, else numbers."""

    count: int
    vocabulary: Vocabulary | None = None
    labels: tuple[str, ...] = ()

    def name(self, index: int) -> str:
        """Name of an output."""
        if self.vocabulary is not None and index < len(self.vocabulary):
            return self.vocabulary.pieces([index])[0]
        return self.labels[index] if index < len(self.labels) else str(index)

    def index(self, name: str | int, option: str = "target") -> int:
        """Number of an output from its name, or from its number."""
        if is_whole(name):
            return check_whole(option, name, 0, self.count - 1)
        text = str(name)
        if text in self.labels:
            return self.labels.index(text)
        if self.vocabulary is not None:
            return self._token(text, self.vocabulary, option)
        if not self.labels and text.isdecimal():
            return check_whole(option, int(text), 0, self.count - 1)
        known = ", ".join(self.labels[:8]) or f"numbers from 0 to {self.count - 1}"
        raise BadInput(f"{option}: {shown(name)} is not an output of this model; known: {known}")

    def _token(self, text: str, vocabulary: Vocabulary, option: str) -> int:
        ids = vocabulary.encode(text)
        if len(ids) == 1:
            return int(ids[0])
        pieces = " ".join(vocabulary.pieces(ids)) or "none"
        raise BadInput(f"{option}: {shown(text)} is {len(ids)} tokens ({pieces}); give one token")


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


def output_names(
    model: InspectedModel, labels: LabelSet | None, head: str, count: int
) -> OutputNames:
    """Names of the outputs of a head."""
    (kind,) = (each for each in model.facts.output_heads if each.name == head)
    if kind.names_tokens:
        known = None if model.tokenizer is None else model.tokenizer.vocabularies
        return OutputNames(count, known[-1] if known else None)
    if labels is not None and len(labels) == count:
        return OutputNames(count, labels=labels.names)
    return OutputNames(count, labels=kind.classes)


def default_head(model: InspectedModel, outputs: Outputs) -> str:
    """The first head of the model that has logits."""
    for name in model.facts.head_names:
        if name in outputs.by_head:
            return name
    raise BadInput("this model has no output head: there are no logits to explain")


def choose_target(
    model: InspectedModel,
    labels: LabelSet | None,
    rows: LabelledRows,
    outputs: Outputs,
    target: str | int | None = None,
    against: str | int | None = None,
    token: int | None = None,
) -> LogitTarget:
    """Find the logit to explain; by default that of the most probable output.

    Its position is ``token`` or, by default, the first mask, the last token of a causal model, or
    the first token that a translator writes. ``against`` is the output whose logit is subtracted.
    """
    head = default_head(model, outputs)
    logits_NV = by_output(outputs.by_head[head])
    position = _position(model, rows, head, token)
    names = output_names(model, labels, head, logits_NV.shape[-1])
    best = int(logits_NV[position or 0].argmax())
    index = best if target is None else names.index(target)
    if against is None:
        return LogitTarget(head, position, index, names.name(index))
    other = names.index(against, "against")
    return LogitTarget(head, position, index, names.name(index), other, names.name(other))


def by_output(logits: Tensor) -> Tensor:
    """Logits (positions, outputs), also of a head with one output."""
    return logits if logits.dim() > 1 else logits[:, None]


def _position(
    model: InspectedModel, rows: LabelledRows, head: str, token: int | None
) -> int | None:
    """Position of the token whose logits are explained; None for a head of whole rows."""
    if head in {each.name for each in model.facts.output_heads if each.per_row}:
        if token is not None:
            raise BadInput("token: this model predicts one output for the whole input")
        return None
    side = model.facts.sides[-1]
    count = len(rows[side].queries.subwords)
    if token is not None:
        return check_whole("token", token, -count, count - 1) % count
    filler = mask_filler(model)
    if filler is not None and len(masks := filler.masks(rows[side].row.tokens)):
        return int(masks[0])
    if not model.facts.writes:
        raise BadInput("token: give the position of a token to explain, or a text with a mask")
    return count - 1 if len(model.facts.sides) == 1 else 0
