"""Rows of articles with fields, as in Grover (Zellers et al., 2019, arXiv:1905.12616, section 3.2).

In training, fields are divided into two sets at random, each in the usual order, and some are left
out.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from regard.core.errors import BadInput, did_you_mean, shown
from regard.text.templates import FIELD_MARK
from regard.text.tokenizers.subwords import Subwords


@dataclass(frozen=True)
class FieldTemplate:
    """Articles as tokens: each field between two tokens of its own, ``<|date|>`` and ``<|/date|>``.

    ``names``: the fields in their usual order, with the body last. In training, any other field is
    left out with probability ``dropped``, all of them with ``body_only``.
    """

    names: tuple[str, ...] = ("domain", "date", "authors", "headline", "body")
    dropped: float = 0.1
    body_only: float = 0.35

    def __post_init__(self) -> None:
        good = {name for name in self.names if re.fullmatch(r"[A-Za-z][\w-]*", name)}
        if not 0 < len(self.names) == len(good):
            needed = "distinct names of letters, digits, _ and -"
            raise BadInput(f"the fields of articles need {needed}, not {shown([*self.names])}")

    def check(self, *names: str) -> None:
        """Raise BadInput if one of the names is no field."""
        for name in names:
            if name not in self.names:
                raise BadInput(f"no field is called {name!r}{did_you_mean(name, [*self.names])}")

    @property
    def special_tokens(self) -> tuple[str, ...]:
        """The tokens before and after each field."""
        return tuple(token for name in self.names for token in (f"<|{name}|>", f"<|/{name}|>"))

    def borders(self, words: Subwords) -> dict[str, tuple[int, int]]:
        """The ids of the tokens before and after each field."""
        ids = [words.number(token) for token in self.special_tokens]
        return dict(zip(self.names, zip(ids[::2], ids[1::2], strict=True), strict=True))

    def encoder(self, words: Subwords) -> Callable[[list[str]], list[list[int]]]:
        """Function from fields, as name, ``FIELD_MARK`` and text, to ids between their tokens."""
        borders = self.borders(words)

        def encode_all(texts: list[str]) -> list[list[int]]:
            parts = [text.partition(FIELD_MARK) for text in texts]
            coded = zip(parts, words.encode_all([text for *_, text in parts]), strict=True)
            return [[borders[name][0], *ids, borders[name][1]] for (name, *_), ids in coded]

        return encode_all

    def order(self, names: Sequence[str], draws: Sequence[float]) -> list[str]:
        """The fields to read, in order, by 2 · len(names) + 1 draws; all if none would be left."""
        body, first, rest = self.names[-1], draws[0], draws[1:]
        drops = dict(zip(names, rest, strict=False))
        limit = 1.0 if first < self.body_only and body in names else self.dropped
        left = [name for name in names if name == body or drops[name] >= limit] or [*names]
        second = dict(zip(names, rest[len(names) :], strict=False))
        return sorted(left, key=lambda name: (second[name] < 0.5, self.names.index(name)))

    def prompt(self, words: Subwords, record: Mapping[str, str], field: str) -> list[int]:
        """The ids of a record's fields, and the token before the ``field`` to write."""
        self.check(field, *record)
        if field in record:
            raise BadInput(f"the field {field!r} is to be written: remove it from the record")
        texts = [f"{name}{FIELD_MARK}{record[name]}" for name in self.names if name in record]
        rows = [*self.encoder(words)(texts), [self.borders(words)[field][0]]]
        return [token for row in rows for token in row]
