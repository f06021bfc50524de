"""Task tokens, placed between a text and its answer: ``text <to-de> translation``, and prefixes.

A prefix (``summarize: text``) tells an encoder-decoder what to write (Raffel et al., 2019).
"""

from dataclasses import dataclass

import numpy as np
from pydantic import Field, ValidationError, model_validator

from regard.core.batch import Ids
from regard.core.config import Config
from regard.core.errors import BadInput, shown
from regard.text.tokenizers.subwords import Subwords
from regard.text.vocabulary import Vocabulary


class PromptConfig(Config):
    """Prompt of an answer: a text, truncated, and the token, or the prefix, of the task."""

    task_token: str = Field("<answer>", pattern=r"^<[A-Za-z][\w-]*>$")
    """A special token of the vocabulary, such as "<to-de>", between text and answer (for causal
    models)."""
    prefix: str = ""
    """Words before each text, such as "translate English to German:" (for encoder-decoders)."""
    longest: int = Field(0, ge=0)
    """The maximum number of tokens of a text; longer texts are truncated; 0: no limit."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Labels of the data, each with the words that the model writes for it, as in
    `{ 0 = "unacceptable", 1 = "acceptable" }`; outputs are scored as labels. Empty: targets are
    texts."""

    @model_validator(mode="after")
    def _words_differ(self) -> "PromptConfig":
        if len(set(self.labels.values())) < len(self.labels):
            raise ValueError("labels: two labels have the same words")
        return self

    @classmethod
    def as_trained(cls, notes: object) -> "PromptConfig":
        """Prompt table that config.json of a trained model stores (``notes.prompt``)."""
        try:
            return cls.model_validate(notes, strict=True)
        except ValidationError:
            raise BadInput(
                f"config.json: notes.prompt does not describe a prompt: {shown(notes)}"
            ) from None

    def prompt(self, vocabulary: Subwords) -> "TaskPrompt":
        """The prompt with the id of the task token."""
        return TaskPrompt(vocabulary.number(self.task_token), self.longest or None)

    def prefixed(self, vocabulary: Vocabulary) -> "TaskPrompt":
        """The prompt with the ids of the prefix."""
        return TaskPrompt(None, self.longest or None, tuple(vocabulary.encode(self.prefix)))

    def label_of(self, text: str) -> str | None:
        """The label whose words a model has written; None: it has written other words."""
        labels = {words: label for label, words in self.labels.items()}
        return labels.get(text.strip())


@dataclass(frozen=True)
class TaskPrompt:
    """Prompt in ids: ``prefix``, at most ``longest`` tokens of a text, the ``token`` of a task."""

    token: int | None
    longest: int | None = None
    prefix: tuple[int, ...] = ()

    @property
    def added(self) -> int:
        """The number of tokens that the prompt adds to a text."""
        return len(self.prefix) + (self.token is not None)

    def row(self, text: Ids) -> np.ndarray:
        """The row of a text: its tokens, truncated, after the prefix or before the task token."""
        last = [] if self.token is None else [self.token]
        return np.concatenate([self.prefix, text[: self.longest], last]).astype(np.int64)

    def lengths(self, texts_N: np.ndarray) -> np.ndarray:
        """The lengths of rows, from the lengths of their texts."""
        read_N = texts_N if self.longest is None else np.minimum(texts_N, self.longest)
        return read_N + self.added
