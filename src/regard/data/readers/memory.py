"""Examples in memory, as Python values, checked by the same rules as files.

Messages call them by their name and index, as in ``data['train'][3]``.
"""

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from regard.core.errors import shown
from regard.data.readers.coreference_documents import document_of
from regard.data.readers.document_files import DocumentReader
from regard.data.readers.examples import (
    ChoiceExample,
    CoreferenceExample,
    Example,
    GoldAnswer,
    LabelledExample,
    QuestionExample,
    RoleExample,
    TaggedExample,
)
from regard.data.readers.fields import BadExample, Dropped, filled, label_text, parsed, typed
from regard.data.readers.plain import tagged_example
from regard.data.readers.propbank import role_example
from regard.data.readers.sentences import sentences


@dataclass(frozen=True, eq=False)
class MemoryExamples(DocumentReader):
    """Source of pairs, of documents, and of the examples of any task."""

    paths: ClassVar[tuple[str, ...]] = ()
    spaced: ClassVar[tuple[str, ...]] = ()
    name: str
    values: Sequence[object]

    @cached_property
    def fingerprint(self) -> str:
        """Number of examples, and a checksum of their content."""
        checksum = reduce(lambda crc, value: zlib.crc32(_content(value), crc), self.values, 0)
        return f"{len(self.values)} examples, {checksum:08x}"

    @property
    def origin(self) -> dict[str, object]:
        """Kind and fingerprint of the examples."""
        return {"kind": type(self).__name__, "source": self.fingerprint}

    def numbered(self) -> Iterator[tuple[str, object]]:
        """Yield (where, value) of each example."""
        return ((f"{self.name}[{number}]", value) for number, value in enumerate(self.values))

    def examples(self) -> Iterator[tuple[list[str], Callable[[], tuple[str, ...]]]]:
        """Yield the place of every pair, and a function that parses its texts."""
        for where, value in self.numbered():
            yield [where, where], partial(parse_pair, where, value)

    def documents(self, dropped: Dropped) -> Iterator[list[str]]:
        return parsed(self.numbered(), parse_document, dropped)

    def texts(self, dropped: Dropped) -> Iterator[str]:
        return parsed(self.numbered(), parse_whole, dropped)

    def read(self, task: str, dropped: Dropped) -> Iterator[Example]:
        """The examples of a task."""
        return parsed(self.numbered(), PARSERS[task], dropped)


def _content(value: object) -> bytes:
    """Bytes of a value, with all elements of arrays, which ``repr`` leaves out."""
    parts = value if isinstance(value, tuple | list) else (value,)
    pixels = b"".join(part.tobytes() for part in parts if isinstance(part, np.ndarray))
    return pixels + repr(value).encode("utf-8", "surrogatepass")


def parse_pair(where: str, value: object) -> tuple[str, str]:
    """Parse (source, target), or (text, label)."""
    first, second = _parts(where, value, "a pair of texts", 2)
    return _text(where, first), _label(where, second)


def parse_labelled(where: str, value: object) -> LabelledExample:
    """Parse (text, label), or ((text, text), label); labels may be a list, or None if hidden.

    In place of a text there may be an image: the path of a file, or an array of bytes.
    """
    texts, labels = _parts(where, value, "(text, label) or ((text, text), label)", 2)
    if isinstance(texts, str):
        texts = (_filled(where, texts),)
    elif isinstance(texts, np.ndarray | Path):
        texts = (texts,)
    else:
        texts = tuple(_filled(where, text) for text in _parts(where, texts, "a pair of texts", 2))
    if labels is None:
        return LabelledExample(where, texts, None)
    several = labels if isinstance(labels, tuple | list | set | frozenset) else (labels,)
    return LabelledExample(where, texts, tuple(_label(where, label) for label in several))


def parse_tagged(where: str, value: object) -> TaggedExample:
    """Parse (words, tags), with a tag for each word."""
    words, tags = _parts(where, value, "(words, tags)", 2)
    return tagged_example(where, _sequence(where, words), _sequence(where, tags))


def parse_roles(where: str, value: object) -> RoleExample:
    """Parse (words, predicates): each {"index": 1, "args": [[first word, last word, label], …]}."""
    words, predicates = _parts(where, value, "(words, predicates)", 2)
    return role_example(where, _sequence(where, words), _sequence(where, predicates))


def parse_question(where: str, value: object) -> QuestionExample:
    """Parse (question, context, answers): texts of the context, or (text, start)."""
    *texts, answers = _parts(where, value, "(question, context, answers)", 3)
    question, context = (_filled(where, text) for text in texts)
    several = [answers] if isinstance(answers, str) else _sequence(where, answers)
    gold = tuple(_answer(where, context, answer) for answer in several)
    return QuestionExample(where, where, question, context, gold, bool(gold))


def parse_choice(where: str, value: object) -> ChoiceExample:
    """Parse (text, choices, index of the right choice)."""
    text, choices, label = _parts(where, value, "(text, choices, number)", 3)
    first = _filled(where, text)
    pairs = tuple((first, _filled(where, choice)) for choice in _sequence(where, choices))
    if label is not None and label not in range(len(pairs)):
        detail = f"the right choice is {shown(label)}, but the choices are 0 to {len(pairs) - 1}"
        raise BadExample(where, "with an unknown label", detail)
    return ChoiceExample(where, pairs, None if label is None else int(label))


def parse_group(where: str, value: object) -> LabelledExample:
    """Parse (text, text, ...): anchor, positive, negatives; or ((text, text), score)."""
    expected = "two texts or more, or ((text, text), score)"
    parts = _sequence(where, value)
    if len(parts) < 2:
        raise BadExample(where, f"not {expected}", f"{shown(value)} is not {expected}")
    if isinstance(parts[0], str):
        return LabelledExample(where, tuple(_filled(where, text) for text in parts), None)
    texts, score = _parts(where, parts, expected, 2)
    pair = tuple(_filled(where, text) for text in _parts(where, texts, "a pair of texts", 2))
    return LabelledExample(where, pair, (_label(where, score),))


def parse_coreference(where: str, value: object) -> CoreferenceExample:
    """Parse (sentences, clusters): lists of words, and lists of (first word, last word)."""
    sentences, clusters = _parts(where, value, "(sentences, clusters)", 2)
    words = [[*_sequence(where, sentence)] for sentence in _sequence(where, sentences)]
    lists = [
        [[*_sequence(where, mention)] for mention in _sequence(where, cluster)]
        for cluster in _sequence(where, clusters)
    ]
    return document_of({"sentences": words, "clusters": lists}, where)


def parse_document(where: str, value: object) -> list[str]:
    """Parse a text, with a paragraph on each line, or a list of sentences."""
    if isinstance(value, str):
        lines = _text(where, value).split("\n")
        return [sentence for line in lines for sentence in sentences(line)]
    return [_text(where, sentence) for sentence in _sequence(where, value)]


def parse_whole(where: str, value: object) -> str:
    """Parse a text, or a list of sentences, each of which becomes a line."""
    if isinstance(value, str):
        return _text(where, value)
    return "\n".join(_text(where, sentence) for sentence in _sequence(where, value))


PARSERS: dict[str, Callable[[str, object], Example]] = {  # by the name of a task
    **{"classify": parse_labelled, "tag": parse_tagged, "roles": parse_roles},
    **{"answer": parse_question, "choose": parse_choice, "embed": parse_group},
    "coreference": parse_coreference,
}


def _answer(where: str, context: str, value: object) -> GoldAnswer:
    if isinstance(value, str):
        value = (value, context.find(value))
    text, start = _parts(where, value, "an answer: a text, or (text, start)", 2)
    text = _filled(where, text)
    if start not in range(len(context)) or not context.startswith(text, start):
        raise BadExample(where, "not in its context", f"{shown(text)} is not in the context")
    return GoldAnswer(text, int(start))


def _parts(where: str, value: object, expected: str, count: int) -> Sequence[Any]:
    if not isinstance(value, tuple | list) or len(value) != count:
        raise BadExample(where, f"not {expected}", f"{shown(value)} is not {expected}")
    return value


def _sequence(where: str, value: object) -> Sequence[object]:
    return value if isinstance(value, tuple) else typed(value, list, shown(value), where)


def _text(where: str, value: object) -> str:
    return typed(value, str, shown(value), where)


def _filled(where: str, value: object) -> str:
    return filled(_text(where, value), where)


def _label(where: str, value: object) -> str:
    return label_text(value, shown(value), where)
