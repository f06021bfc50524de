"""The inside of a request: values of the tape, word alignment and contributions to a logit."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, cast

import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType
from torch import Tensor

from regard.core.cancellation import check_wanted
from regard.core.errors import BadInput
from regard.core.tape import RunTape, Tape
from regard.inference.component import AnyResult, AnyRow
from regard.inference.decoder_model import Writer
from regard.inside.record import BY_INPUT, of_one_input, tape_patterns
from regard.models.edits import EditList
from regard.serving.apis.json_body import base64_of
from regard.serving.apis.request import INSPECTED, APIRequest
from regard.serving.engine import Answer
from regard.serving.served_model import ModelInput, Options, ServedModel, inputs_of
from regard.tasks.components import AnyComponent
from regard.text.words import word_spans

Names = Annotated[list[Annotated[str, Meta(max_length=256)]], Meta(max_length=64)]
TOO_MANY = (
    f"inspect: the values have more than {INSPECTED >> 20} MiB; ask for fewer layers or inputs"
)


class Inspect(Struct, forbid_unknown_fields=True):
    """Values to return: kinds ("weights", "states", …) of layers, and patterns of the tape.

    ``alignment``: links between the words of a text and of its translation. ``contributions``: of
    every head and layer to the logit of the prediction. If nothing is named, attention weights are
    returned.
    """

    layers: Annotated[list[int], Meta(max_length=1_024)] | None = None
    values: Names = []
    names: Names = []
    alignment: bool = False
    contributions: bool = False

    def tape_names(self, served: ServedModel) -> list[str]:
        """Patterns of the tape for the values."""
        names_more = self.names or ((self.alignment or self.contributions) and self.layers is None)
        kinds = self.values or ([] if names_more else ["weights"])
        patterns = tape_patterns(served.model.runner, self.layers, kinds)
        return [name for names in patterns.values() for name in names] + self.names

    def least_bytes(self, served: ServedModel, lengths: Sequence[int]) -> int:
        """Bytes of the weights and scores of self-attention over rows of these lengths.

        They grow with the square of the length, so they are counted before any is computed.
        """
        patterns, heads = self.tape_names(served), 0
        for site in served.model.facts.attention_sites:
            paths = (
                site.tape_path.format(layer=layer) for layer in range(site.layers * site.within)
            )
            for path, number in zip(paths, site.heads, strict=False):
                names = (path + end for end in BY_INPUT)
                heads += number * sum(any(fnmatchcase(n, p) for p in patterns) for n in names)
        return heads * sum(4 * length**2 for length in lengths)


class BoundedRecords(dict[str, Tensor]):
    """Values of a tape; one that would bring them above a number of bytes is refused."""

    def __init__(self, most: int):
        super().__init__()
        self.left = most

    def __setitem__(self, name: str, value: Tensor) -> None:
        self.left -= value.nbytes
        if self.left < 0:
            raise BadInput(TOO_MANY)
        super().__setitem__(name, value)


class BoundedRun(RunTape):
    """Tape of a run whose batches record at most a number of bytes each."""

    def __init__(self, run: RunTape, most: int):
        super().__init__(*run.patterns, edits=run.edits)
        self.parts, self.most = run.parts, most

    def next_batch(self) -> Tape:
        tape = super().next_batch()
        tape.records = BoundedRecords(self.most)
        return tape


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
    request: APIRequest,
    model: str,
    name: str,
    inputs: Sequence[ModelInput],
    options: Options,
    edits: EditList | None,
    inspection: Inspect,
) -> tuple[list[Answer], list[InsideOfRun]]:
    """Answers with values of the runs that gave them; each input runs alone."""
    request.is_large = True
    rows = await request.engine.prepare(model, name, inputs, options)
    good = [row for row in rows if not isinstance(row, BadInput)]
    tokens = sum(row.cost for row in good)
    served = request.engine.models[model]
    component = served.component(name, options)
    least = inspection.least_bytes(served, [row.cost for row in good if not component.writes])
    if least > INSPECTED:
        raise BadInput(TOO_MANY)

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
            check_wanted()
            tape = Tape(*inspection.tape_names(edited))
            with tape.batches() as of_batches:
                bounded = BoundedRun(of_batches, INSPECTED - size)
                (answered,) = component.results([row], bounded)
            answers.append(answered)
            if isinstance(answered, BadInput):
                records.append(InsideOfRun())
                continue
            values = {key: of_one_input(key, value) for key, value in tape.records.items()}
            size += sum(value.nbytes for value in values.values())
            inside = InsideOfRun(tokens_of(edited, component, row, answered), encoded(values))
            if inspection.alignment:
                inside.alignment = align(edited, component, row, answered)
            if inspection.contributions:
                inside.contributions = contribute(edited, component, row, answered)
            records.append(inside)
        return answers, records

    with request.services.values.reserved(least):
        return await request.engine.call(model, run, max(1, tokens))


def tokens_of(
    served: ServedModel, component: AnyComponent, row: AnyRow, answered: AnyResult
) -> dict[str, list[str]]:
    """Names of the tokens that a run has read, by the side of the model."""
    if component.writes:
        texts = answered.value.texts
        written = list(texts[0].hypothesis.tokens) if texts else []
        pieces = cast(Writer, component).model.vocabulary.pieces
        sides = served.model.facts.sides
        if len(sides) == 1:
            return {sides[0]: pieces([*row.data.ids[0], *written])}
        source = served.model.translator.vocabularies.source.pieces(row.data.ids[0])
        return dict(zip(sides, (source, pieces(written)), strict=True))
    try:
        (tokens,) = served.model.tokens([row.given])
    except BadInput:
        return {}
    return {served.model.facts.sides[0]: list(tokens.tokens)}


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
    item: ModelInput = row.given
    text: object = item
    second: str | None = None
    if component.name in ("translate", "generate"):
        text = row.given.text
        second = answered.value.texts[0].text if component.name == "translate" else None
    elif isinstance(item, tuple):
        text, second = item[0], item[1] if isinstance(item[1], str) else None
    parts = served.model.contributions(text, second)
    listed = [Contribution(part.name, part.value) for part in parts.components]
    return LogitParts(parts.target.name, parts.logit, listed)


def encoded(values: Mapping[str, np.ndarray]) -> dict[str, TapeValue]:
    """Arrays as little-endian float32 in base64, with their shapes."""
    return {name: TapeValue(value.shape, base64_of(value)) for name, value in values.items()}
