"""regard: train, run, measure and open up attention models. These are the names to begin with.

They, and the packages under it, are imported when first used, so that ``import regard`` is quick.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import regard.ground.machine  # noqa: F401 first: torch reads what is hidden when it is loaded

if TYPE_CHECKING:
    from regard.api import Model, load
    from regard.ground.errors import BadInput
    from regard.ground.layout import Layout
    from regard.ground.tape import Tape, forced_row, without_head
    from regard.metrics.bleu import bleu
    from regard.models.facts import change
    from regard.models.papers import LINEAGE
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

_MODULES = {
    "Model": "regard.api",
    "load": "regard.api",
    "BadInput": "regard.ground.errors",
    "Layout": "regard.ground.layout",
    "Tape": "regard.ground.tape",
    "forced_row": "regard.ground.tape",
    "without_head": "regard.ground.tape",
    "bleu": "regard.metrics.bleu",
    "LINEAGE": "regard.models.papers",
    "change": "regard.models.facts",
    "attend": "regard.parts.attend",
    "Beam": "regard.search.beam",
    "Greedy": "regard.search.greedy",
    "Sample": "regard.search.sample",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        globals()[name] = value = getattr(import_module(_MODULES[name]), name)
        return value
    if find_spec(f"{__name__}.{name}") is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
