"""Floor 1: tensors in files, read and written without running code."""

from regard.weights.lines import Alias, Derived, Passthrough, Rule, WeightLine
from regard.weights.moves import Join, Reorder, Reshape, Slice, Split, Transpose
from regard.weights.weight_map import Extras, WeightMap

__all__ = [
    "Alias",
    "Derived",
    "Extras",
    "Join",
    "Passthrough",
    "Reorder",
    "Reshape",
    "Rule",
    "Slice",
    "Split",
    "Transpose",
    "WeightLine",
    "WeightMap",
]
