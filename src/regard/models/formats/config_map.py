"""config.json ↔ facts: a table whose rows are used in both directions.

``ConfigRow.read`` turns keys of a config.json into facts, ``ConfigRow.write`` facts into keys. A
missing key leaves the default. Facts that config.json cannot express are refused.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from regard.core.errors import BadInput
from regard.models.facts import Facts, change, difference, paths, values_named
from regard.text.label_sets import labels_from_config

Changes = Collection[tuple[str, Mapping[str, object]]]
FIRST_WEIGHTS = frozenset(
    {"init", "init_cutoff", "head_std"}
)  # trained ones depend on none of them
Config = Mapping[str, Any]  # the content of a config.json
Names = Collection[str]  # of the tensors beside it, without their prefix

# Activations: their names in transformers → ours. Of several names, the first is written.
ACTIVATIONS = {
    "gelu": "gelu",
    "relu": "relu",
    "swish": "swish",
    "silu": "swish",
    "gelu_new": "gelu-tanh",
    "gelu_python": "gelu",
    "gelu_pytorch_tanh": "gelu-tanh",
    "gelu_python_tanh": "gelu-tanh",
    "gelu_fast": "gelu-tanh",
    "gelu_accurate": "gelu-tanh",
    "quick_gelu": "gelu-sigmoid",
}


class ConfigRow:
    """Base class of the rows of the table; errors name the ``key``."""

    key: str

    def read(self, config: Config, tensors: Names) -> dict[str, object]:
        """The facts that a config.json sets, as arguments of ``change``."""
        return {}

    def write(self, facts: object) -> dict[str, object]:
        """The keys and values of config.json for these facts."""
        return {}

    def tensors(self, facts: object) -> tuple[str, ...]:
        """Prefixes of the tensors from which ``read`` infers these facts."""
        return ()

    def key_in(self, config: Config) -> str:
        """The key of this config.json that is read."""
        return self.key

    def has_labels(self, config: Config) -> bool:
        """Whether the architecture that a config.json names has a head with labels."""
        return False

    def unknown(self, config: Config) -> str:
        """A remark on a value of the key that is unknown, and read as if it were missing."""
        return ""


@dataclass(frozen=True)
class Key(ConfigRow):
    """Key and the fact with the same value; if several facts have the name, all are set.

    ``values`` maps values of the key to values of the fact, if these differ. ``fallback``: the key
    that is read if this one is missing or null.
    """

    key: str
    fact: str
    values: Mapping[str, str] = field(default_factory=dict)
    fallback: str = ""

    def read(self, config: Config, tensors: Names) -> dict[str, object]:
        key = self.key_in(config)
        if key not in config:
            return {}
        value = config[key]
        if self.values:
            if not isinstance(value, str) or value not in self.values:
                raise BadInput(f"{key} is {value!r}; supported: {', '.join(self.values)}")
            value = self.values[value]
        return {self.fact: value}

    def key_in(self, config: Config) -> str:
        return self.fallback if self.fallback and config.get(self.key) is None else self.key

    def write(self, facts: object) -> dict[str, object]:
        values = values_named(facts, self.fact)[:1]
        if self.values:
            values = [theirs for theirs, ours in self.values.items() if ours in values]
        return {self.key: values[0]} if values else {}


ENCODER_KEYS = (  # of the layers of BERT and of models after it
    Key("hidden_size", "width"),
    Key("num_hidden_layers", "depth"),
    Key("num_attention_heads", "heads"),
    Key("intermediate_size", "inner"),
    Key("hidden_act", "activation", ACTIVATIONS),
    Key("hidden_dropout_prob", "stack.dropout"),
    Key("attention_probs_dropout_prob", "attention_dropout"),
)


@dataclass(frozen=True)
class OverridingKey(ConfigRow):
    """A key whose fact is None if it equals another key, and then follows that key's fact.

    ``default`` is the value of both keys if they are missing.
    """

    key: str
    fact: str
    other_key: str
    other_fact: str
    default: object

    def read(self, config: Config, tensors: Names) -> dict[str, object]:
        value, other = (config.get(key, self.default) for key in (self.key, self.other_key))
        return {self.fact: None if value == other else value}

    def write(self, facts: object) -> dict[str, object]:
        values = [*values_named(facts, self.fact), *values_named(facts, self.other_fact)]
        return {self.key: next(value for value in values if value is not None)}


@dataclass(frozen=True)
class Constant(ConfigRow):
    """A key with a single supported value; others are refused."""

    key: str
    value: object

    def read(self, config: Config, tensors: Names) -> dict[str, object]:
        if (value := config.get(self.key, self.value)) != self.value:
            raise BadInput(f"{self.key} is {value!r}, and only {self.value!r} is supported")
        return {}


@dataclass(frozen=True)
class UnreadKey(ConfigRow):
    """A key that is written for ``transformers`` but not read, as no fact depends on it."""

    key: str
    value: object

    def write(self, facts: object) -> dict[str, object]:
        return {self.key: self.value}


@dataclass(frozen=True)
class Presence(ConfigRow):
    """A fact that is true if the checkpoint has a tensor whose name starts with ``key``."""

    key: str
    fact: str

    def read(self, config: Config, tensors: Names) -> dict[str, object]:
        return {self.fact: begins(tensors, self.key)}

    def tensors(self, facts: object) -> tuple[str, ...]:
        return (self.key,) if any(values_named(facts, self.fact)) else ()


@dataclass(frozen=True)
class LabelCount(ConfigRow):
    """Fact for the number of labels; labels without names are called LABEL_0, LABEL_1…"""

    fact: str
    key: str = field(default="id2label", init=False)

    def read(self, config: Config, tensors: Names) -> dict[str, object]:
        return {self.fact: len(labels_from_config(config))}

    def write(self, facts: object) -> dict[str, object]:
        (count,) = values_named(facts, self.fact)
        return {**labels_from_config({"num_labels": count}).config()}


def begins(tensors: Names, start: str) -> bool:
    """Whether a tensor name starts with ``start``."""
    return any(name.startswith(start) for name in tensors)


def read_facts(
    rows: Collection[ConfigRow], defaults: Facts, config: Config, tensors: Names
) -> Facts:
    """The facts of a config.json; ``defaults`` are the facts of an empty config.json."""
    parts = [(row.key_in(config), row.read(config, tensors)) for row in rows]
    try:
        return change(
            defaults, **{fact: value for _, facts in parts for fact, value in facts.items()}
        )
    except BadInput as error:
        key = wrong_part(error, defaults, parts) or _key_of(error, parts)
        if key is None:
            raise
        raise BadInput((error,), key=key) from None


def wrong_part(error: BadInput, facts: object, parts: Changes) -> str | None:
    """The first of several named parts of a change that alone has the fault of the whole."""
    for name, changes in parts:
        try:
            change(facts, **changes)
        except BadInput as alone:
            if (alone.key, alone.what) == (error.key, error.what):
                return name
    return None


def _key_of(error: BadInput, parts: Changes) -> str | None:
    """The key that sets the fact with which an error begins."""
    first = error.names[:1]
    return next((key for key, facts in parts for f in facts if f.split(".")[-1] in first), None)


def write_config(rows: Collection[ConfigRow], facts: object) -> dict[str, object]:
    """Keys of config.json for these facts; does not check that reading them restores the facts."""
    config: dict[str, object] = {}
    for row in rows:
        config |= row.write(facts)
    return config


def lost_facts(facts: object, again: object) -> dict[str, tuple[object, object]]:
    """Facts of a trained model that differ from those that were read again → both values."""
    pairs = difference(facts, again).items()
    return {path: both for path, both in pairs if path.rpartition(".")[2] not in FIRST_WEIGHTS}


def refuse_loss(kind: str, facts: object, read_again: Callable[[], object]) -> None:
    """Raise an error if facts change when they are written and read again."""
    try:
        again = read_again()
    except BadInput as error:
        raise BadInput(f"the {kind} format cannot express this model: {error}") from None
    if lost := lost_facts(facts, again):
        values = dict(paths(again))
        listed = ", ".join(
            f"{path} is {before!r}, not {values.get(path, after)!r}"
            for path, (before, after) in lost.items()
            if path.rpartition(".")[0] not in lost
        )
        raise BadInput(f"the {kind} format cannot express this model: {listed}")
