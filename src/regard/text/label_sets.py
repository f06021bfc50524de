"""Label sets: one label of several, any number of labels, or numbers.

A label set encodes the targets of examples. The task interprets the logits, by ``problem_type``.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, nan
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from regard.core.batch import IGNORED
from regard.core.checks import is_whole
from regard.core.errors import BadInput, shown
from regard.core.files import JSON, read_json, write_json

LABELS = "labels.json"
MOST = 100_000  # labels that a configuration may count without naming them
NAMED = 8  # labels that a message lists


@dataclass(frozen=True)
class LabelSet(ABC):
    """Labels by name; ``written`` maps the spelling in files to the name where they differ."""

    kind: ClassVar[str]  # in recipes and in labels.json
    problem_type: ClassVar[str]  # in the config.json of Hugging Face
    single_label: ClassVar[bool] = False  # whether a text has exactly one label

    names: tuple[str, ...]
    written: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, labels: Iterable[str], written: Mapping[str, str]) -> "LabelSet":
        """Label set of the labels that occur, sorted."""
        names = sorted({written.get(label.strip(), label.strip()) for label in labels})
        if len(names) < 2:
            raise BadInput(f"classification needs at least two labels; the examples have {names}")
        return cls(tuple(names), dict(written))

    @classmethod
    def of_benchmark(cls, names: Sequence[str], written: Mapping[str, str]) -> "LabelSet":
        """Label set of a benchmark, in its order."""
        return cls(tuple(written.get(name, name) for name in names), written)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, label: str) -> bool:
        """Whether a label, as written in a file, is in the set."""
        return self.written.get(label.strip(), label.strip()) in self.names

    @property
    def classes(self) -> tuple[str, ...]:
        """The names that can be predicted; none for regression."""
        return self.names

    @property
    def first_names(self) -> str:
        """Names of the labels for a message: the first few, then "…"."""
        return ", ".join([*self.names[:NAMED], *["…"] * (len(self.names) > NAMED)])

    def name(self, label: str, where: str = "") -> str:
        """The name of a label as written in a file; an unknown label is an error."""
        name = self.written.get(label.strip(), label.strip())
        if name not in self.names:
            place = where and f"{where}: "
            raise BadInput(f"{place}no label is called {label!r}; known: {self.first_names}")
        return name

    @abstractmethod
    def gold(self, labels: Sequence[str], where: str) -> Any:
        """The labels of an example in the form that predictions are compared with."""

    @abstractmethod
    def encode(self, labels: Sequence[str], where: str) -> Sequence[float]:
        """The target for the labels of an example."""

    def no_targets(self, count: int) -> np.ndarray:
        """Targets that the loss ignores, for ``count`` tokens."""
        return np.full(count, IGNORED, dtype=np.int64)

    def order_in(self, other: "LabelSet | None") -> list[int] | None:
        """The index of each label in ``other``; None if the sets differ."""
        alike = other is not None and other.problem_type == self.problem_type
        if other is None or not alike or {*other.names} != {*self.names}:
            return None
        return [other.names.index(name) for name in self.names]

    def check(self, known: Mapping[str, int]) -> None:
        """Refuse a model with another number of outputs."""
        if len(self) != (outputs := known.get("labels", 0)):
            raise BadInput(f"{len(self)} labels, but the model has {outputs} outputs")

    def save(self, folder: Path) -> None:
        """Write labels.json."""
        content = {"names": self.names, "written": self.written, "kind": self.kind}
        write_json(folder / LABELS, content)

    def config(self) -> dict[str, JSON]:
        """The labels as a config.json of Hugging Face has them."""
        by_id: dict[str, JSON] = {str(number): name for number, name in enumerate(self.names)}
        by_name: dict[str, JSON] = {name: number for number, name in enumerate(self.names)}
        return {"id2label": by_id, "label2id": by_name, "problem_type": self.problem_type}


class SingleLabelSet(LabelSet):
    """Labels of single-label classification: a text, or a word, has exactly one."""

    kind, problem_type, single_label = "one", "single_label_classification", True

    def gold(self, labels: Sequence[str], where: str) -> str:
        names = [self.name(label, where) for label in labels]
        if len(names) != 1:
            raise BadInput(f"{where}: {len(names)} labels; this task needs exactly one")
        return names[0]

    def encode(self, labels: Sequence[str], where: str) -> list[int]:
        return [self.names.index(self.gold(labels, where))]


class MultiLabelSet(LabelSet):
    """Labels of multi-label classification: a text has any number, or none."""

    kind, problem_type = "several", "multi_label_classification"

    @classmethod
    def of_benchmark(cls, names: Sequence[str], written: Mapping[str, str]) -> LabelSet:
        raise BadInput("labels.kind: a text of this benchmark has one label, not several")

    def gold(self, labels: Sequence[str], where: str) -> list[str]:
        return [self.name(label, where) for label in labels]

    def encode(self, labels: Sequence[str], where: str) -> list[float]:
        present = {*self.gold(labels, where)}
        return [float(name in present) for name in self.names]


class RegressionSet(LabelSet):
    """Targets of regression: numbers, each under its name."""

    kind, problem_type = "number", "regression"

    @classmethod
    def of(cls, labels: Iterable[str], written: Mapping[str, str]) -> LabelSet:
        return cls(("value",), written)

    @classmethod
    def of_benchmark(cls, names: Sequence[str], written: Mapping[str, str]) -> LabelSet:
        return cls.of(names, written)

    @property
    def classes(self) -> tuple[str, ...]:
        return ()

    def gold(self, labels: Sequence[str], where: str) -> float:
        try:
            (label,) = labels
            number = float(label)
        except ValueError:
            raise BadInput(f"{where}: {', '.join(labels) or 'nothing'} is not a number") from None
        if not isfinite(number):
            raise BadInput(f"{where}: {label} is not a finite number")
        return number

    def encode(self, labels: Sequence[str], where: str) -> list[float]:
        return [self.gold(labels, where)]

    def no_targets(self, count: int) -> np.ndarray:
        return np.full(count, nan)


_KINDS: tuple[type[LabelSet], ...] = (SingleLabelSet, MultiLabelSet, RegressionSet)
LABEL_SETS = {kind.kind: kind for kind in _KINDS}


def load_labels(folder: Path) -> LabelSet | None:
    """Read labels.json; None if the folder has none."""
    path = folder / LABELS
    if not path.exists():
        return None
    content = read_json(path)
    names, written = content.get("names"), content.get("written")
    if not isinstance(names, list) or not isinstance(written, dict):
        raise BadInput(f"{path}: names or written is missing")
    if not all(isinstance(label, str) for label in (*names, *written, *written.values())):
        raise BadInput(f"{path}: every label must be a string")
    name = content.get("kind", SingleLabelSet.kind)
    if not isinstance(name, str) or name not in LABEL_SETS:
        raise BadInput(f"{path}: labels of unknown kind {name!r}")
    return LABEL_SETS[name](tuple(map(str, names)), cast(dict[str, str], written))


def _number_duplicates(names: Mapping[int, str]) -> dict[int, str]:
    """Append the class index to labels of equal name: ImageNet has two classes "crane"."""
    counts = Counter(names.values())
    several = {number: f"{name} ({number})" for number, name in names.items() if counts[name] > 1}
    return {**names, **several}


def _check_agreement(config: Mapping[str, object], names: Mapping[int, str]) -> None:
    """Refuse a configuration whose other keys contradict ``id2label``."""
    count = config.get("num_labels")
    if count is not None and count != len(names):
        raise BadInput(f"num_labels is {shown(count)}, but id2label has {len(names)} labels")
    numbers = config.get("label2id")
    if numbers is not None and numbers != {name: number for number, name in sorted(names.items())}:
        raise BadInput(f"label2id {shown(numbers)} contradicts id2label {shown(dict(names))}")


def labels_from_config(config: Mapping[str, object]) -> LabelSet:
    """Label set of a Hugging Face config.json, by ``id2label``; default: two labels."""
    listed: Any = config.get("id2label")
    if listed is None:
        count = config.get("num_labels") or 2
        if not is_whole(count, 1, MOST):
            raise BadInput(f"num_labels must be from 1 to {MOST}, not {shown(count)}")
        listed = {number: f"LABEL_{number}" for number in range(count)}
    try:
        names = {int(number): str(name) for number, name in listed.items()}
    except (AttributeError, TypeError, ValueError):
        raise BadInput(f"id2label must map class indices to names, not {shown(listed)}") from None
    if sorted(names) != list(range(len(names))) or not names:
        raise BadInput(f"id2label must have the indices 0, 1, 2, …, not {shown(sorted(names))}")
    _check_agreement(config, names)
    names = _number_duplicates(names)
    if twice := [name for name, count in Counter(names.values()).items() if count > 1]:
        raise BadInput(f"id2label gives two labels the name {shown(twice[0])}")
    known = {kind.problem_type: kind for kind in _KINDS}
    problem = config.get("problem_type")
    if problem not in (None, *known):
        raise BadInput(f"problem_type is {shown(problem)}, not one of {', '.join(known)}")
    usual = RegressionSet if len(names) == 1 else SingleLabelSet
    labels = usual if problem is None else known[problem]
    return labels(tuple(names[number] for number in range(len(names))))
