"""How probable given translations are, in the form in which texts are scored."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from regard.data.files.sources import Table
from regard.tasks.inference.score_text import TextScore

if TYPE_CHECKING:
    from regard.tasks.runners.translator import Translator

COLUMNS = Table("-", (0, 1))


class PairScorer:
    """Scores pairs (source, target): the tokens of the target, and its end."""

    reads_whole = False

    def __init__(self, translator: "Translator"):
        self.translator = translator
        self.vocabularies = translator.tokenizer.sides

    def parse(self, line: str, where: str) -> tuple[str, ...]:
        """The texts of a line, with a tab between them."""
        return COLUMNS.parse(line, where)

    def score(self, pairs: Sequence[Any]) -> list[TextScore]:
        """The score of each target."""
        scores = zip(pairs, self.translator.score(pairs), strict=True)
        return [self._score(target, logprobs) for (_, target), logprobs in scores]

    def _score(self, target: Any, logprobs: list[float]) -> TextScore:
        vocabulary, text = self.vocabularies[1], target if isinstance(target, str) else None
        ids = [int(i) for i in target] if text is None else vocabulary.encode(text)
        tokens = (*vocabulary.pieces(ids), "</s>")
        return TextScore(tokens, tuple(logprobs), 0 if text is None else len(text.encode()))

    def record(self, given: tuple[str, ...], score: TextScore) -> dict[str, Any]:
        """A result for JSON."""
        source, target = given
        texts = {"source": source, "target": target, "logprob": score.logprob}
        return texts | {"tokens": score.tokens, "logprobs": score.logprobs}
