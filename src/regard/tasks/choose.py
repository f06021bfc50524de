"""Multiple choice: a text and how it may go on in, the one that fits best out."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from regard.ground.errors import BadItem
from regard.tasks.inputs import check_pairs, check_text
from regard.tasks.rows import Runner, rows_of
from regard.text.encoder_tokenizer import EncoderTokenizer


@dataclass(frozen=True)
class Choice:
    """Which of the choices, counted from 0, and how probable each is."""

    index: int
    text: str
    probabilities: tuple[float, ...]

    @property
    def probability(self) -> float:
        """Of the one chosen."""
        return self.probabilities[self.index]


@dataclass(frozen=True, eq=False)
class Chooser(Runner):
    """An encoder that gives a number to each pair of texts, cut to ``longest`` tokens."""

    model: nn.Module
    text: EncoderTokenizer
    rows: int = 256
    longest: int | None = None

    def predict(self, asked: Sequence[tuple[str, Sequence[str]]]) -> list[Choice]:
        """One of the choices of each (text, choices), of which there may be any number."""
        asked = check_pairs(asked, "(text, choices)")
        for number, (text, choices) in enumerate(asked, start=1):
            if not isinstance(choices, tuple | list) or not choices:
                raise BadItem(number, "there are no choices to choose from")
            for one in (text, *choices):
                check_text(one, number)
        return self.of_pairs([[(first, one) for one in choices] for first, choices in asked])

    def of_pairs(self, asked: Sequence[Sequence[tuple[str, str]]]) -> list[Choice]:
        """The same where each choice is a pair of texts."""
        rows = rows_of(self.text, [pair for pairs in asked for pair in pairs], self.longest)
        logits_N = self.of_rows(rows, "choice", outputs=1)[:, 0]
        found = []
        for pairs, logits in zip(asked, logits_N.split(list(map(len, asked))), strict=True):
            best = int(logits.argmax())
            found.append(Choice(best, pairs[best][1], tuple(logits.softmax(0).tolist())))
        return found
