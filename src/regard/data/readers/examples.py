"""The types of example; ``where`` is the file and the line or question of each."""

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from regard.metrics.entities import LabelledSpan


class ExampleContent(NamedTuple):
    """Parts of an example that facts are about: texts (or images) read, texts written, labels."""

    inputs: tuple[object, ...]
    outputs: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LabelledExample:
    """Texts (one or two; for sentence encoders two or more) and their labels: one label, several,
    or the text of a number.

    In place of a text there may be an image: the path of a file, or an array of bytes (H, W, C).
    ``labels`` is None where they are hidden, as in published test sets.
    """

    where: str
    texts: tuple[Any, ...]
    labels: tuple[str, ...] | None

    @property
    def content(self) -> ExampleContent:
        """Inputs, outputs and labels of the example."""
        return ExampleContent(self.texts, labels=self.labels or ())


@dataclass(frozen=True, slots=True)
class TaggedExample:
    """The words of a sentence, and a tag for each."""

    where: str
    words: tuple[str, ...]
    tags: tuple[str, ...]

    @property
    def content(self) -> ExampleContent:
        """Inputs, outputs and labels of the example."""
        return ExampleContent((" ".join(self.words),), labels=self.tags)


@dataclass(frozen=True, slots=True)
class Frame:
    """A predicate, its sense if known, and its arguments, which do not overlap.

    The predicate is the index of a word; the argument "V" is the predicate itself, with particles.
    """

    predicate: int
    arguments: tuple["LabelledSpan", ...]
    sense: str = ""


@dataclass(frozen=True, slots=True)
class RoleExample:
    """The words of a sentence, and the frame of each of its predicates."""

    where: str
    words: tuple[str, ...]
    frames: tuple[Frame, ...]

    @property
    def content(self) -> ExampleContent:
        """Inputs, outputs and labels of the example."""
        labels = (span.label for frame in self.frames for span in frame.arguments)
        return ExampleContent((" ".join(self.words),), labels=tuple(labels))


@dataclass(frozen=True, slots=True)
class GoldAnswer:
    """A span of the context, and the character at which it starts."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class QuestionExample:
    """A question about a text, and the answers of several annotators.

    An ``answerable`` question without answers is one whose answers are hidden.
    """

    where: str
    id: str
    question: str
    context: str
    answers: tuple[GoldAnswer, ...]
    answerable: bool

    @property
    def content(self) -> ExampleContent:
        """Inputs, outputs and labels of the example."""
        return ExampleContent((self.question, self.context))


@dataclass(frozen=True, slots=True)
class ChoiceExample:
    """Pairs of texts, one for each choice, and the index of the right one."""

    where: str
    choices: tuple[tuple[str, str], ...]
    label: int | None  # from 0; None where it is hidden

    @property
    def content(self) -> ExampleContent:
        """Inputs, outputs and labels of the example."""
        labels = () if self.label is None else (str(self.label),)
        return ExampleContent(tuple(text for pair in self.choices for text in pair), labels=labels)


Mention = tuple[int, int]  # words [start, end) of a document, counted from 0


@dataclass(frozen=True, slots=True)
class PronounQuestion:
    """A pronoun, names that it may refer to, and whether it refers to each.

    ``gender`` is "masculine", "feminine" or "other".
    """

    pronoun: Mention
    names: tuple[Mention, ...]
    answers: tuple[bool, ...]
    gender: str


@dataclass(frozen=True, slots=True)
class CoreferenceExample:
    """Sentences of a document, and clusters of its mentions.

    ``speakers`` has the speaker of each word, or is empty. With a ``pronoun`` question, only its
    mentions are annotated: other words of the document may be mentions, too.
    """

    where: str
    sentences: tuple[tuple[str, ...], ...]
    clusters: tuple[tuple[Mention, ...], ...]
    name: str = ""
    speakers: tuple[str, ...] = ()
    genre: str = ""
    pronoun: PronounQuestion | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """All words of the document."""
        return tuple(chain(*self.sentences))

    @property
    def content(self) -> ExampleContent:
        """Inputs, outputs and labels of the example."""
        return ExampleContent((" ".join(self.words),))


Example = (
    LabelledExample
    | TaggedExample
    | RoleExample
    | QuestionExample
    | ChoiceExample
    | CoreferenceExample
)
