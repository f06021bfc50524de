"""Floor 2: papers as values, one shared stack. ``LINEAGE`` lists them in order of time."""

from typing import Any

from regard.ground.errors import BadInput, did_you_mean
from regard.models import (
    bahdanau,
    bert,
    bert_folder,
    cho,
    gehring,
    luong,
    marian,
    pooled,
    sutskever,
    transformer,
)
from regard.models.form import Form
from regard.models.paper import Paper

LINEAGE: tuple[Paper, ...] = (
    cho.PAPER,
    sutskever.PAPER,
    bahdanau.PAPER,
    luong.PAPER,
    gehring.PAPER,
    pooled.PAPER,
    transformer.PAPER,
    marian.PAPER,
    bert.PAPER,
)
HF: dict[str, Form] = {
    transformer.PAPER.key: marian.HF,
    marian.PAPER.key: marian.HF,
    bert.PAPER.key: bert_folder.HF,
}
"""The form in which Hugging Face keeps the models of a paper."""


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
