"""How Hugging Face keeps the models of a paper: config.json to facts, tensors by name, text."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.ground.errors import BadInput
from regard.models.facts import difference
from regard.models.paper import Paper
from regard.text.labels import LabelSet
from regard.text.tokenizers import Tokenizer
from regard.weights.weight_map import Extras, WeightMap

Config = Mapping[str, Any]  # what a config.json says


@dataclass(frozen=True, eq=False)
class Origin:
    """A Hugging Face folder, as far as regard does not need it but must be able to give it back."""

    config: dict[str, Any]
    files: Mapping[str, bytes] = field(default_factory=dict)
    beside: Extras = field(default_factory=Extras)


@dataclass(frozen=True)
class Form:
    """One ``model_type``.

    ``facts`` reads a configuration, given the names of the tensors beside it; ``config`` says the
    same in its words, or which fact it has no word for. ``fresh`` is what belongs to a folder that
    never was another's, but for the facts. ``special_ids`` are the pad, bos and eos of a translator
    whose folder has no tokenizer files.
    """

    model_type: str
    paper: Paper
    facts: Callable[[Config, Collection[str]], Any]
    config: Callable[[Any], dict[str, Any]]
    names: Callable[[Any], WeightMap]
    tokenizer: Callable[[Path, Config], Tokenizer | None]
    fresh: Callable[[Any, Tokenizer | None, LabelSet | None], Origin]
    labels: Callable[[Config], LabelSet | None] = lambda config: None
    special_ids: Callable[[Config], dict[str, int]] | None = None


def refuse_others(config: Config, only: Config) -> None:
    """A setting that means another model is an error."""
    for key, value in only.items():
        if config.get(key, value) != value:
            raise BadInput(f"{key} is {config[key]!r}, and only {value!r} is supported")


def chosen(known: Mapping[str, str], config: Config, key: str) -> str:
    """What a word of a configuration is called here."""
    said = config[key]
    if not isinstance(said, str) or said not in known:
        raise BadInput(f"{key} is {said!r}, not {', '.join(known)}")
    return known[said]


def refuse_loss(kind: str, facts: Any, understood: Any) -> None:
    """A fact that would be read back as another is an error."""
    if lost := difference(facts, understood):
        said = ", ".join(f"{path} is {this!r}, not {that!r}" for path, (this, that) in lost.items())
        raise BadInput(f"a {kind} folder cannot express this model: {said}")
