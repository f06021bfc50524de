"""regard: train, run, measure and open up attention models. These are the names to begin with."""

import regard.ground.machine  # noqa: F401 first: torch reads what is hidden when it is loaded

# isort: split
from regard.api import Model, load
from regard.ground.errors import BadInput
from regard.ground.layout import Layout
from regard.ground.tape import Tape, forced_row, without_head
from regard.metrics.bleu import bleu
from regard.models import LINEAGE
from regard.models.facts import change
from regard.parts.attend import attend
from regard.search.beam import Beam
from regard.search.greedy import Greedy
from regard.search.sample import Sample

__version__ = "0.1.0"

__all__ = [
    "LINEAGE",
    "BadInput",
    "Beam",
    "Greedy",
    "Layout",
    "Model",
    "Sample",
    "Tape",
    "attend",
    "bleu",
    "change",
    "forced_row",
    "load",
    "without_head",
]
