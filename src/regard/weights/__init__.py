"""Floor 1: tensors in files, read and written without running code."""

from regard.weights.lines import Alias, Derived, Passthrough, Rule, WeightLine
from regard.weights.moves import Join, Reshape, Split, Transpose
from regard.weights.weight_map import Extras, WeightMap

__all__ = [
    "Alias",
    "Derived",
    "Extras",
    "Join",
    "Passthrough",
    "Reshape",
    "Rule",
    "Split",
    "Transpose",
    "WeightLine",
    "WeightMap",
]
