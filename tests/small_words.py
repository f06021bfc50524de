"""Recipes of tiny models that read whole words, and what becomes of them."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.core.errors import BadInput
from small_tuning import write_tuning

LSTM = {"width": 8, "embedding": 16, "dropout": 0.0}


def recipe_of(folder: Path, kind: str, **model: Any) -> dict[str, Any]:
    """A job of that kind, for a recurrent trunk over words."""
    recipe = tomllib.loads(write_tuning(folder, kind).read_text())
    recipe["text"] = {"kind": "words", "vocab": 60}
    recipe["model"] = {"paper": "lin", "size": "laptop", "change": LSTM, **model}
    return recipe


def trained(recipe: dict[str, Any], folder: Path, out: Path) -> regard.Model:
    """The model of that run, from its folder."""
    list(regard.train(recipe, data=folder, out=out))
    return regard.load(out / "model", "cpu")


def refused(recipe: dict[str, Any], folder: Path) -> str:
    """Why such a run does not begin."""
    with pytest.raises(BadInput) as error:
        list(regard.train(recipe, data=folder, out=folder / "run"))
    return str(error.value)
