"""Texts longer than a row of a classifier: cut, read in overlapping windows, or dropped."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from regard.core.batch import ImageRow, TokenRow

InputRows = list[Sequence[TokenRow | ImageRow]]


@dataclass(frozen=True)
class CutTexts:
    """Only the beginning of a long text is read, in training and prediction.

    ``limits_plain_rows``: the limit also holds for models without special tokens, most of which
    could read longer rows. ``stride`` is the number of tokens that neighbouring windows share.
    """

    truncates: ClassVar[bool] = True
    limits_plain_rows: ClassVar[bool] = True
    effect: ClassVar[str] = "cut"
    stride: int | None = None

    def rows(self, reading: Any, inputs: Sequence[Any], max_length: int | None) -> InputRows:
        """One row or several for each input, of at most ``max_length`` tokens."""
        return [[row] for row in reading.rows(inputs, max_length)]

    def long_training_rows(self, reading: Any, inputs: Sequence[Any], max_length: int) -> InputRows:
        """Rows to train on, of inputs that are longer than ``max_length``."""
        return self.rows(reading, inputs, max_length)


class TextWindows(CutTexts):
    """A long text is read in overlapping windows: a row each, with the label of the text.

    Every window has weight 1 in the loss. The prediction is the mean of the logits of all windows.
    """

    truncates = False
    effect = "read in windows"

    def rows(self, reading: Any, inputs: Sequence[Any], max_length: int | None) -> InputRows:
        if max_length is None:
            return super().rows(reading, inputs, max_length)
        return reading.window_rows(inputs, max_length, self.stride)


class DroppedTexts(CutTexts):
    """Long texts are dropped in training, where the sampler leaves their rows out.

    Predictions cut them if the model has special tokens; others read them as a whole.
    """

    limits_plain_rows = False
    effect = "dropped"

    def long_training_rows(self, reading: Any, inputs: Sequence[Any], max_length: int) -> InputRows:
        return self.rows(reading, inputs, None)


LONG_TEXTS = {"cut": CutTexts, "windows": TextWindows, "drop": DroppedTexts}
