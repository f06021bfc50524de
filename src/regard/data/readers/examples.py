"""What a model of understanding learns from: four kinds of example, whoever published them.

``where`` is the file and line, or file and question, that an example was read from.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LabelledExample:
    """One text or two, and its labels: one, or any number where a task has several at once.

    None: they are hidden, as in published test sets. What is to be told by regression is a number,
    as text.
    """

    where: str
    texts: tuple[str, ...]
    labels: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class TaggedExample:
    """The words of a sentence and a tag for each."""

    where: str
    words: tuple[str, ...]
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GoldAnswer:
    """A piece of the context, and the character at which it begins there."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class QuestionExample:
    """A question about a text; several answers are several people's.

    One that the text answers may come without them: they are hidden.
    """

    where: str
    id: str
    question: str
    context: str
    answers: tuple[GoldAnswer, ...]
    answerable: bool


@dataclass(frozen=True, slots=True)
class ChoiceExample:
    """Pairs of texts of which one is right: a pair is what the model reads for that choice."""

    where: str
    choices: tuple[tuple[str, str], ...]
    label: int | None  # counted from 0; None where it is hidden


Example = LabelledExample | TaggedExample | QuestionExample | ChoiceExample
