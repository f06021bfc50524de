"""Task tokens, placed between a text and its answer: ``text <to-de> translation``."""

from dataclasses import dataclass

import numpy as np
from pydantic import Field, ValidationError

from regard.ground.batch import Ids
from regard.ground.config import Config
from regard.ground.errors import BadInput, shown
from regard.text.vocabularies.subwords import Subwords


class PromptConfig(Config):
    """Prompt of an answer: a text, truncated, and the token of the task."""

    task_token: str = Field("<answer>", pattern=r"^<[A-Za-z][\w-]*>$")
    """A special token of the vocabulary, such as "<to-de>", between text and answer."""
    longest: int = Field(0, ge=0)
    """The maximum number of tokens of a text; longer texts are truncated; 0: no limit."""

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


@dataclass(frozen=True)
class TaskPrompt:
    """Prompt in ids: at most ``longest`` tokens of a text, and the ``token`` of the task."""

    token: int
    longest: int | None = None

    def row(self, text: Ids) -> np.ndarray:
        """The row of a text: its tokens, truncated, and the task token."""
        return np.append(np.asarray(text[: self.longest], np.int64), self.token)

    def lengths(self, texts_N: np.ndarray) -> np.ndarray:
        """The lengths of rows, from the lengths of their texts."""
        return (texts_N if self.longest is None else np.minimum(texts_N, self.longest)) + 1
