"""How Hugging Face keeps the models of a paper: config.json to facts, tensors by name, text."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.models.paper import Paper
from regard.text.bilingual import Bilingual
from regard.weights.names import Beside, Names

Config = Mapping[str, Any]  # what a config.json says


@dataclass(frozen=True, eq=False)
class Origin:
    """A Hugging Face folder, as far as regard does not need it but must be able to give it back."""

    config: dict[str, Any]
    files: Mapping[str, bytes] = field(default_factory=dict)
    beside: Beside = field(default_factory=Beside)


@dataclass(frozen=True)
class Form:
    """One ``model_type``.

    ``facts`` reads a configuration, given the names of the tensors beside it; ``config`` says the
    same in its words, or which fact it has no word for. ``fresh`` is what belongs to a folder that
    never was another's, but for the facts.
    """

    model_type: str
    paper: Paper
    facts: Callable[[Config, Collection[str]], Any]
    config: Callable[[Any], dict[str, Any]]
    names: Callable[[Any], Names]
    text: Callable[[Path, Config], Bilingual | None]
    fresh: Callable[[Bilingual | None], Origin]
