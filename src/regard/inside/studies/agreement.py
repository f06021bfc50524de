"""Subject–verb agreement of language models: which of two verb forms is more probable.

The verb agrees with the subject, not with the nouns of the other number (attractors) between them
(Linzen et al., 2016, arXiv:1611.01368). A causal model predicts the verb from the words before it,
a masked LM from all others (Goldberg, 2019, arXiv:1901.05287). The whole sentences with both forms
are compared too, by the sum over all tokens. The baseline agrees with the nearest noun.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import nan
from typing import Any, NamedTuple

from regard.data.agreement_sentences import AgreementSentence, agreement_sentences
from regard.ground.checks import listed
from regard.ground.errors import BadInput, shown
from regard.tasks.inference.score_text import TextScore
from regard.tasks.runners.encoder_model import EncoderModel

BASELINE = "nearest noun"
NAMED = 8  # unknown words in a message


class VerbChoice(NamedTuple):
    """The log-odds of the right form against the other: of the verb, and of the whole sentence."""

    sentence: AgreementSentence
    verb: float
    whole: float


@dataclass(frozen=True)
class AgreementScores:
    """The choices of a model; ``skipped`` sentences have words that are ``unknown`` to it."""

    choices: tuple[VerbChoice, ...] = field(repr=False)
    skipped: int = 0
    unknown: tuple[str, ...] = ()

    @property
    def kinds(self) -> list[tuple[int, int]]:
        """(distance, attractors) of all sentences."""
        sentences = [choice.sentence for choice in self.choices]
        return sorted({(one.distance, one.attractors) for one in sentences})

    def at(self, distance: int, attractors: int | None = None) -> "AgreementScores":
        """Those of sentences with so many words, and attractors, between subject and verb."""
        return self.where(
            lambda one: one.distance == distance and attractors in (None, one.attractors)
        )

    def where(self, fits: Callable[[AgreementSentence], bool]) -> "AgreementScores":
        """Those of some sentences."""
        return replace(self, choices=tuple(one for one in self.choices if fits(one.sentence)))

    @property
    def accuracy(self) -> float:
        """How often the verb that agrees with the subject is more probable, in percent."""
        return self._percent(choice.verb > 0 for choice in self.choices)

    @property
    def whole_accuracy(self) -> float:
        """How often the whole sentence with that verb is."""
        return self._percent(choice.whole > 0 for choice in self.choices)

    @property
    def baseline(self) -> float:
        """The accuracy of agreeing with the nearest noun."""
        return self._percent(choice.sentence.nearest_agrees for choice in self.choices)

    def _percent(self, right: Iterable[bool]) -> float:
        return 100 * sum(right) / len(self.choices) if self.choices else nan

    @property
    def remark(self) -> str:
        """How many sentences were skipped, and why; empty if none were."""
        if not self.skipped:
            return ""
        words = ", ".join([*self.unknown[:NAMED], *["…"] * (len(self.unknown) > NAMED)])
        count = f"{self.skipped:,} of {self.skipped + len(self.choices):,} sentences"
        return f"{count} are skipped, with words that are unknown to the model: {words}"

    def to_json(self) -> dict[str, Any]:
        """All figures, by kind of sentence too."""
        kinds = [
            {"distance": kind[0], "attractors": kind[1], **self.at(*kind)._figures}
            for kind in self.kinds
        ]
        skipped = {"skipped": self.skipped, "unknown": list(self.unknown)}
        return {**self._figures, **skipped, "kinds": kinds}

    @property
    def _figures(self) -> dict[str, float]:
        return {
            "sentences": len(self.choices),
            "accuracy": self.accuracy,
            "whole sentence": self.whole_accuracy,
            BASELINE: self.baseline,
        }


def score_agreement(
    model: EncoderModel, sentences: Iterable[AgreementSentence] | None = None
) -> AgreementScores:
    """Score both forms of each sentence with a language model, causal or masked."""
    given = agreement_sentences() if sentences is None else listed(sentences, "sentences")
    scorer, words = model.scorer(), [_words(sentence) for sentence in given]
    unknown = {word for word in set().union(*words) if model.text.words.unknown(word)}
    known = [one for one, own in zip(given, words, strict=True) if not own & unknown]
    if not known:
        named = f" (unknown: {min(unknown)})" if unknown else ""
        raise BadInput(f"there is no sentence of which the model knows all words{named}")
    scores = iter(scorer.score([text for one in known for text in (one.right, one.wrong)]))
    choices = tuple(_choice(one, next(scores), next(scores)) for one in known)
    return AgreementScores(choices, len(words) - len(known), tuple(sorted(unknown)))


def _words(sentence: AgreementSentence) -> set[str]:
    """Those of both forms."""
    try:
        return {*sentence.right.split(), *sentence.wrong.split()}
    except AttributeError:
        raise BadInput(f"{shown(sentence)} is no AgreementSentence") from None


def _choice(sentence: AgreementSentence, right: TextScore, wrong: TextScore) -> VerbChoice:
    """The verb is what the tokens of both forms do not share."""
    before = _shared(right.tokens, wrong.tokens)
    after = _shared(right.tokens[before:][::-1], wrong.tokens[before:][::-1])
    verbs = (sum(one.logprobs[before : len(one.logprobs) - after]) for one in (right, wrong))
    return VerbChoice(sentence, next(verbs) - next(verbs), right.logprob - wrong.logprob)


def _shared(first: Sequence[str], second: Sequence[str]) -> int:
    """How many tokens both begin with."""
    differ = (n for n, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
    return next(differ, min(len(first), len(second)))
