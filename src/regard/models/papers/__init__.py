"""Papers: one file each. ``LINEAGE`` lists them in order of time."""

from typing import Any

from regard.ground.errors import BadInput, did_you_mean
from regard.models.paper import Paper
from regard.models.papers import (
    bahdanau,
    bert,
    cho,
    distilbert,
    gehring,
    lin,
    luong,
    marian,
    roberta,
    sutskever,
    transformer,
)

LINEAGE: tuple[Paper, ...] = (
    cho.PAPER,
    sutskever.PAPER,
    bahdanau.PAPER,
    luong.PAPER,
    gehring.PAPER,
    lin.PAPER,
    transformer.PAPER,
    marian.PAPER,
    bert.PAPER,
    roberta.PAPER,
    distilbert.PAPER,
)
"""All papers, from the first to the last."""


def paper(name: str) -> Paper:
    """The paper of that name."""
    known = {one.key: one for one in LINEAGE}
    if name.lower() not in known:
        raise BadInput(f"no paper is called {name!r}{did_you_mean(name.lower(), list(known))}")
    return known[name.lower()]


def sized(name: str) -> Any:
    """The facts of "PAPER:SIZE"."""
    key, _, size = name.partition(":")
    one = paper(key)
    if size not in one.sizes:
        raise BadInput(f"{one.name} has no size {size!r}{did_you_mean(size, list(one.sizes))}")
    return one.sizes[size]
