"""Task tokens: one between a text and its answer, as in ``text <to-de> translation``."""

from dataclasses import dataclass

import numpy as np
from pydantic import Field, ValidationError

from regard.ground.batch import Ids
from regard.ground.config import Config
from regard.ground.errors import BadInput, shown
from regard.text.vocabularies.subwords import Subwords


class PromptConfig(Config):
    """What stands before an answer: the beginning of a text, and the token of the task."""

    task_token: str = Field("<answer>", pattern=r"^<[A-Za-z][\w-]*>$")
    """A special token of the vocabulary, such as "<to-de>", between text and answer."""
    longest: int = Field(0, ge=0)
    """The most tokens of a text, of which the beginning is read; 0: all of it."""

    @classmethod
    def as_trained(cls, notes: object) -> "PromptConfig":
        """The table of a recipe, as a model remembers it."""
        try:
            return cls.model_validate(notes, strict=True)
        except ValidationError:
            raise BadInput(f"config.json: notes.prompt is no prompt: {shown(notes)}") from None

    def prompt(self, vocabulary: Subwords) -> "TaskPrompt":
        """The prompt in ids."""
        return TaskPrompt(vocabulary.number(self.task_token), self.longest or None)


@dataclass(frozen=True)
class TaskPrompt:
    """The ``token`` of a task, and how many tokens of a text stand before it at most."""

    token: int
    longest: int | None = None

    def row(self, text: Ids) -> np.ndarray:
        """What a model reads before it writes the answer."""
        return np.append(np.asarray(text[: self.longest], np.int64), self.token)

    def lengths(self, texts_N: np.ndarray) -> np.ndarray:
        """The tokens of rows whose texts have so many."""
        return (texts_N if self.longest is None else np.minimum(texts_N, self.longest)) + 1
