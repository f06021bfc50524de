"""An image as the row that a model reads, with the names of its tokens."""

from typing import NamedTuple

import numpy as np

from regard.ground.batch import ImageRow
from regard.text.token_labels import TokenLabels


class LabelledImage(NamedTuple):
    """An image as a row, and the labels of its positions as queries and as keys.

    ``pixels_HWC`` are its bytes as the model reads them. Patches lie on a ``grid`` of rows and
    columns, and are called "row,column"; the ``tokens`` of these names come before them.
    """

    row: ImageRow
    pixels_HWC: np.ndarray
    grid: tuple[int, int]
    tokens: tuple[str, ...]

    @property
    def queries(self) -> TokenLabels:
        """The tokens before the patches, and the patches, row by row."""
        patches = (f"{row},{column}" for row, column in np.ndindex(self.grid))
        return TokenLabels.join(*map(TokenLabels.special, (*self.tokens, *patches)))

    @property
    def keys(self) -> TokenLabels:
        """The same."""
        return self.queries
