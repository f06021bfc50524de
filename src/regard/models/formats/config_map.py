"""config.json and facts in two columns: a table of rows that is read in either direction.

A row gives the facts that its keys stand for, and the keys that stand for its facts. Where a
configuration is silent, the facts are those of an empty one. Facts that a table would read back as
others are refused.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from regard.ground.errors import BadInput
from regard.models.facts import change, difference, values_named
from regard.text.labels import labels_from_config

Config = Mapping[str, Any]  # the content of a config.json
Names = Collection[str]  # of the tensors beside it, without their prefix

# What activations are called there, and here.
ACTIVATIONS = {
    "gelu": "gelu",
    "relu": "relu",
    "swish": "swish",
    "silu": "swish",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
}


class ConfigRow:
    """A row of a table; ``key`` is named in errors."""

    key: str

    def read(self, config: Config, tensors: Names) -> dict[str, Any]:
        """The facts that a configuration gives, as ``change`` takes them."""
        return {}

    def write(self, facts: Any) -> dict[str, Any]:
        """The keys that stand for these facts, as far as there are any."""
        return {}

    def tensors(self, facts: Any) -> tuple[str, ...]:
        """How names of tensors begin by which ``read`` knows these facts."""
        return ()

    def has_labels(self, config: Config) -> bool:
        """Whether a configuration says that the model has a head with labels."""
        return False


@dataclass(frozen=True)
class Key(ConfigRow):
    """A key, and the fact of the same value (of several facts with that name, all have it).

    ``words``: how the values of the key are called here. ``like``: the key that counts where this
    one is missing or null. ``more``: by how much the key is larger than the fact.
    """

    key: str
    fact: str
    words: Mapping[str, str] = field(default_factory=dict)
    like: str = ""
    more: int = 0

    def read(self, config: Config, tensors: Names) -> dict[str, Any]:
        key = self.like if self.like and config.get(self.key) is None else self.key
        if key not in config:
            return {}
        value = config[key]
        if self.words:
            if not isinstance(value, str) or value not in self.words:
                raise BadInput(f"{key} is {value!r}, not {', '.join(self.words)}")
            value = self.words[value]
        if self.more and isinstance(value, int):
            value -= self.more
        return {self.fact: value}

    def write(self, facts: Any) -> dict[str, Any]:
        values = values_named(facts, self.fact)[:1]
        if self.words:
            values = [word for word, value in self.words.items() if value in values]
        elif self.more:
            values = [value + self.more for value in values]
        return {self.key: values[0]} if values else {}


@dataclass(frozen=True)
class Constant(ConfigRow):
    """A key with one value that is supported: others mean other models."""

    key: str
    value: Any

    def read(self, config: Config, tensors: Names) -> dict[str, Any]:
        if (value := config.get(self.key, self.value)) != self.value:
            raise BadInput(f"{self.key} is {value!r}, and only {self.value!r} is supported")
        return {}


@dataclass(frozen=True)
class UnreadKey(ConfigRow):
    """A key that is written and not read: no fact depends on it."""

    key: str
    value: Any

    def write(self, facts: Any) -> dict[str, Any]:
        return {self.key: self.value}


@dataclass(frozen=True)
class Presence(ConfigRow):
    """A fact that is true where there are tensors with names that begin so."""

    key: str
    fact: str

    def read(self, config: Config, tensors: Names) -> dict[str, Any]:
        return {self.fact: begins(tensors, self.key)}

    def tensors(self, facts: Any) -> tuple[str, ...]:
        return (self.key,) if any(values_named(facts, self.fact)) else ()


@dataclass(frozen=True)
class LabelCount(ConfigRow):
    """The fact that counts the labels of a configuration; without names they get numbers."""

    fact: str
    key: str = field(default="id2label", init=False)

    def read(self, config: Config, tensors: Names) -> dict[str, Any]:
        return {self.fact: len(labels_from_config(config))}

    def write(self, facts: Any) -> dict[str, Any]:
        (count,) = values_named(facts, self.fact)
        return labels_from_config({"num_labels": count}).config()


def begins(tensors: Names, start: str) -> bool:
    """Whether there are tensors whose names begin so."""
    return any(name.startswith(start) for name in tensors)


def read_facts(rows: Collection[ConfigRow], empty: Any, config: Config, tensors: Names) -> Any:
    """The facts behind a configuration; ``empty`` are those of one that is silent."""
    changes: dict[str, Any] = {}
    try:
        for row in rows:
            changes |= row.read(config, tensors)
        return change(empty, **changes)
    except BadInput as error:
        for row in rows:
            _check_alone(row, empty, config, tensors, str(error))
        raise


def _check_alone(row: ConfigRow, empty: Any, config: Config, tensors: Names, reason: str) -> None:
    """If a row is refused for that reason, an error that names its key."""
    changes = row.read(config, tensors)
    try:
        change(empty, **changes)
    except BadInput as error:
        if reason.endswith(str(error)):
            raise BadInput(f"{row.key}: {error}") from None


def write_config(rows: Collection[ConfigRow], facts: Any) -> dict[str, Any]:
    """The keys that stand for facts, whether or not all of these can be expressed."""
    config: dict[str, Any] = {}
    for row in rows:
        config |= row.write(facts)
    return config


def refuse_loss(kind: str, facts: Any, again: Any) -> None:
    """A fact that would be read back as another is an error."""
    if lost := difference(facts, again):
        listed = ", ".join(f"{path} is {one!r}, not {two!r}" for path, (one, two) in lost.items())
        raise BadInput(f"a {kind} folder cannot express this model: {listed}")
