"""The vocabulary of a text, and the names of the classes it may have."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from regard.ground.errors import BadInput
from regard.ground.files import read_json, write_json
from regard.text.subwords import Subwords
from regard.text.vocabulary import Vocabulary

_WORDS, LABELS = "tokenizer.json", "labels.json"
ONE, SEVERAL, NUMBER = KINDS = ("one", "several", "number")


@dataclass(frozen=True)
class Labels:
    """Classes by name; ``written`` is how files write them, where that is otherwise.

    A text has "one" of them, or "several" (or none); or it has a "number" for each.
    """

    names: tuple[str, ...]
    written: Mapping[str, str] = field(default_factory=dict)
    kind: str = ONE

    @classmethod
    def of(cls, found: Iterable[str], written: Mapping[str, str]) -> "Labels":
        """The classes that occur, in the order of their letters."""
        names = sorted({written.get(label, label) for label in found})
        if len(names) < 2:
            raise BadInput(f"there must be two labels or more to tell apart, not {names}")
        return cls(tuple(names), dict(written))

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that name the content."""
        content = json.dumps([self.names, dict(self.written), self.kind], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def name(self, label: str, where: str = "") -> str:
        """A class as a file writes it, under its name; one that is not known is said to be so."""
        name = self.written.get(label.strip(), label.strip())
        if name not in self.names:
            known = ", ".join(self.names[:8]) + (", …" if len(self.names) > 8 else "")
            raise BadInput(f"{where and where + ': '}no label is called {label!r}; known: {known}")
        return name

    def save(self, path: Path) -> None:
        """Write them."""
        said = {"names": self.names, "written": self.written, "kind": self.kind}
        write_json(path, said)

    @staticmethod
    def load(path: Path) -> "Labels":
        """Read what ``save`` wrote."""
        content = read_json(path)
        names, written = content.get("names"), content.get("written")
        if not isinstance(names, list) or not isinstance(written, dict):
            raise BadInput(f"{path}: names or written is missing")
        if not all(isinstance(one, str) for one in (*names, *written, *written.values())):
            raise BadInput(f"{path}: a label is not text")
        if (kind := content.get("kind", ONE)) not in KINDS:
            raise BadInput(f"{path}: labels of unknown kind {kind!r}")
        return Labels(tuple(names), written, kind)

    def encode_all(self, labels: Iterable[str]) -> list[list[int]]:
        """The number of each class, as a row of one."""
        return [[self.names.index(self.name(label))] for label in labels]

    def encode_dropped(self, label: str, rate: float, key: tuple[int, ...]) -> list[int]:
        """A label is one piece and cannot be cut otherwise."""
        return self.encode_all([label])[0]


@dataclass(frozen=True)
class LabelledText:
    """How a text and its class are written in ids."""

    words: Vocabulary
    labels: Labels

    @property
    def sides(self) -> tuple[Vocabulary, Labels]:
        """What an example consists of."""
        return self.words, self.labels

    def save(self, folder: Path) -> None:
        """Write the vocabulary and the labels."""
        self.labels.save(folder / LABELS)
        self.words.save(folder / _WORDS)

    @staticmethod
    def load(folder: Path) -> "LabelledText":
        """Read what ``save`` wrote."""
        return LabelledText(Subwords.load(folder / _WORDS), Labels.load(folder / LABELS))
