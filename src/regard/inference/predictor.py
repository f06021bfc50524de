"""Base classes of components that read rows: of all, and of those with a line for each result."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Protocol, Self, cast

import torch
from torch import Tensor

from regard.core.errors import BadInput
from regard.core.tape import NULL_TAPE, NullTape
from regard.data.readers.fields import field_of
from regard.inference.component import WINDOW, Component, Data, In, Out, Result, Row
from regard.inference.row_batches import Rows, device_of, finite_logits, reads_images, row_logits
from regard.models.heads import AnyHead
from regard.text.label_sets import LabelSet


class PredictedValue(Protocol):
    """A value with its line of text and its record for JSON."""

    @property
    def line(self) -> str: ...
    @property
    def record(self) -> dict[str, object]: ...


class RowComponent(Component[In, Data, Out]):
    """A component that reads texts or images in rows."""

    record_keys: ClassVar[tuple[tuple[str, ...], ...]] = (("text",), ("first", "second"))
    module: Any  # a ModelModule

    @cached_property
    def reads_images(self) -> bool:
        return reads_images(self.module)

    @property
    def device(self) -> torch.device:
        """The device of the module."""
        return device_of(self.module)

    @property
    def window(self) -> int:
        return self.batch_size if self.reads_images else WINDOW

    def parse_record(self, record: Mapping[str, object], where: str) -> In:
        """The input under "text" or "image", or a pair of texts under "first" and "second"."""
        if "second" in record:
            pair = tuple(field_of(record, key, str, where) for key in ("first", "second"))
            return cast(In, pair)
        key = "image" if self.reads_images else "text"
        return self.parse(field_of(record, key, str, where), where)


@dataclass(frozen=True, eq=False)
class Predictor(RowComponent[In, Data, Out]):
    """Base class of components whose results have one line and one record each.

    Texts of more than ``max_length`` tokens are truncated, or divided into several rows. If it
    ``marks_texts``, results are marks in a text, which can be drawn in colours.
    """

    reports_cuts: ClassVar[bool] = True
    marks_texts: ClassVar[bool] = False
    module: Any  # a TrunkWithHeadsModule, or the module of a translator
    tokenizer: Any  # a RowTokenizer, or an ImageProcessor
    labels: LabelSet | None = None
    batch_size: int = 256
    max_length: int | None = None

    @property
    def own_limit(self) -> int | None:
        return self.max_length

    def prepared(self, key: int, given: In, data: Data, cost: int) -> Row[In, Data]:
        """The row of an input of ``cost`` tokens, with its key and whether it was truncated."""
        return Row(key, given, data, cost, cut=self.is_cut(given, cost))

    def row_texts(self, given: In) -> Sequence[tuple[str, ...]]:
        """The texts of each row of an input."""
        return [self.tokenizer.texts_of(given)]

    def token_count(self, given: In, most: int) -> int:
        return max(self.tokenizer.count(texts, most) for texts in self.row_texts(given))

    def is_cut(self, given: In, cost: int) -> bool:
        """Whether an input whose rows have ``cost`` tokens was truncated."""
        most = self.max_length
        return most is not None and cost >= most and self.token_count(given, most) > most

    def head_logits(
        self, head: AnyHead | type[AnyHead], rows: Rows, tape: NullTape = NULL_TAPE
    ) -> list[Tensor]:
        """Logits of each row by a head, finite and on the host; see ``row_logits``."""
        finite = partial(finite_logits, self.module)
        return row_logits(self.module, head, rows, self.limits, tape, finite)

    def line(self, value: Out) -> str:
        """A value as a line of text."""
        return cast(PredictedValue, value).line

    def lines(self, result: Result[Out]) -> list[str]:
        return [self.line(result.value)]

    def record(self, value: Out) -> dict[str, object]:
        """A value as a JSON object."""
        return cast(PredictedValue, value).record

    def records(self, result: Result[Out]) -> list[dict[str, object]]:
        return [self.record(result.value)]

    def with_show(self, show: Callable[[Out], str]) -> Self:
        """A copy that prints results by ``show``, if it marks texts."""
        return self

    def with_options(self, *, pretokenised: bool = False, entities: bool = False) -> Self:
        """A copy that splits words at white space, or prints entities (taggers only)."""
        for name, value in {"pretokenised": pretokenised, "entities": entities}.items():
            if value:
                raise BadInput(f"{name} cannot be used with this model: it does not tag words")
        return self
