"""Floor 1: tensors in files, read and written without running code."""

from regard.weights.lines import (
    Alias,
    Derived,
    Join,
    Passthrough,
    Reshape,
    Rule,
    Split,
    Transpose,
    WeightLine,
)
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
