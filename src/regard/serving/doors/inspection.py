"""The inside of a request: values of the tape, word alignment and contributions to a logit."""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import UNSET, Struct, UnsetType

from regard.ground.errors import BadInput
from regard.ground.tape import Tape
from regard.inference.component import AnyResult, AnyRow
from regard.inference.decoder_model import Writer
from regard.inside.edits import EditList
from regard.inside.record import of_one_input, tape_patterns
from regard.serving.doors.door import Exchange, base64_of
from regard.serving.engine import Answer
from regard.serving.served_model import ModelInput, Options, ServedModel, inputs_of
from regard.tasks.components import AnyComponent
from regard.text.words import word_spans

MOST_INSPECTED_BYTES = 64 << 20  # of the values of an answer


class Inspect(Struct, forbid_unknown_fields=True):
    """Values to return: kinds ("weights", "states", …) of layers, and patterns of the tape.

    ``alignment``: links between the words of a text and of its translation. ``contributions``: of
    every head and layer to the logit of the prediction. If nothing is named, attention weights are
    returned.
    """

    layers: list[int] | None = None
    values: list[str] = []
    names: list[str] = []
    alignment: bool = False
    contributions: bool = False

    def tape_names(self, served: ServedModel) -> list[str]:
        """Patterns of the tape for the values."""
        others = self.names or ((self.alignment or self.contributions) and self.layers is None)
        kinds = self.values or ([] if others else ["weights"])
        patterns = tape_patterns(served.model.inspected, self.layers, kinds)
        return [name for names in patterns.values() for name in names] + self.names


class TapeValue(Struct):
    """An array of float32, little-endian, in base64."""

    shape: tuple[int, ...]
    data: str


class WordLinks(Struct):
    """Words of a text and of its translation, and pairs of their indices that are linked."""

    source: list[str]
    target: list[str]
    links: list[tuple[int, int]]


class Contribution(Struct):
    """A part of the model ("layer 3, head 5"), and what it adds to the logit."""

    name: str
    value: float


class LogitParts(Struct):
    """A logit, and the contributions that sum to it, in the order of the layers."""

    target: str
    logit: float
    parts: list[Contribution]


class InsideOfRun(Struct):
    """Names of the tokens by side of the model, and values of the tape by name."""

    tokens: dict[str, list[str]] | UnsetType = UNSET
    values: dict[str, TapeValue] | UnsetType = UNSET
    alignment: WordLinks | UnsetType = UNSET
    contributions: LogitParts | UnsetType = UNSET


async def inspect(
    exchange: Exchange,
    model: str,
    name: str,
    inputs: Sequence[ModelInput],
    options: Options,
    edits: EditList | None,
    inspection: Inspect,
) -> tuple[list[Answer], list[InsideOfRun]]:
    """Answers with values of the runs that gave them; each input runs alone."""
    rows = await exchange.engine.prepare(model, name, inputs, options)
    tokens = sum(row.cost for row in rows if not isinstance(row, BadInput))

    def run(served: ServedModel) -> tuple[list[Answer], list[InsideOfRun]]:
        edited = served if edits is None else served.with_edits(edits)
        component = edited.component(name, options)
        prepared = component.prepare(inputs_of(component, inputs), range(len(inputs)))
        answers, records, size = list[Answer](), list[InsideOfRun](), 0
        for row in prepared:
            if isinstance(row, BadInput):
                answers.append(row)
                records.append(InsideOfRun())
                continue
            tape = Tape(*inspection.tape_names(edited))
            with tape.batches() as of_batches:
                (answered,) = component.results([row], of_batches)
            answers.append(answered)
            if isinstance(answered, BadInput):
                records.append(InsideOfRun())
                continue
            values = {key: of_one_input(key, value) for key, value in tape.records.items()}
            size += sum(value.nbytes for value in values.values())
            if size > MOST_INSPECTED_BYTES:
                raise BadInput(
                    f"inspect: the values have more than {MOST_INSPECTED_BYTES >> 20} MiB; "
                    "ask for fewer layers or inputs"
                )
            inside = InsideOfRun(tokens_of(edited, component, row, answered), encoded(values))
            if inspection.alignment:
                inside.alignment = align(edited, component, row, answered)
            if inspection.contributions:
                inside.contributions = contribute(edited, component, row, answered)
            records.append(inside)
        return answers, records

    return await exchange.engine.call(model, run, max(1, tokens))


def tokens_of(
    served: ServedModel, component: AnyComponent, row: AnyRow, answered: AnyResult
) -> dict[str, list[str]]:
    """Names of the tokens that a run has read, by the side of the model."""
    if isinstance(component, Writer):
        texts = answered.value.texts
        written = list(texts[0].hypothesis.tokens) if texts else []
        pieces = component.model.vocabulary.pieces
        sides = served.facts.sides
        if len(sides) == 1:
            return {sides[0]: pieces([*row.data.ids[0], *written])}
        source = served.model.translator.tokenizer.source.pieces(row.data.ids[0])
        return dict(zip(sides, (source, pieces(written)), strict=True))
    try:
        (tokens,) = served.model.tokens([row.given])
    except BadInput:
        return {}
    return {served.facts.sides[0]: list(tokens.tokens)}


def align(
    served: ServedModel, component: AnyComponent, row: AnyRow, answered: AnyResult
) -> WordLinks:
    """The words of a text and of its best translation, linked by cross-attention."""
    if component.name != "translate" or not isinstance(row.given.text, str):
        raise BadInput("inspect: alignment needs the translation of a text")
    pair = row.given.text, answered.value.texts[0].text
    (links,) = served.model.align([pair])
    source, target = ([text[start:end] for start, end in word_spans(text)] for text in pair)
    return WordLinks(source, target, sorted(links))


def contribute(
    served: ServedModel, component: AnyComponent, row: AnyRow, answered: AnyResult
) -> LogitParts:
    """Contributions to the logit of the predicted label or token, the first of a translation."""
    given: ModelInput = row.given
    text: object = given
    second: str | None = None
    if component.name in ("translate", "generate"):
        text = row.given.text
        second = answered.value.texts[0].text if component.name == "translate" else None
    elif isinstance(given, tuple):
        text, second = given[0], given[1] if isinstance(given[1], str) else None
    parts = served.model.contributions(text, second)
    listed = [Contribution(part.name, part.value) for part in parts.components]
    return LogitParts(parts.target.name, parts.logit, listed)


def encoded(values: Mapping[str, np.ndarray]) -> dict[str, TapeValue]:
    """Arrays as little-endian float32 in base64, with their shapes."""
    return {name: TapeValue(value.shape, base64_of(value)) for name, value in values.items()}
