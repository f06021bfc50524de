"""Subject–verb agreement of language models: which of two verb forms is more probable.

The verb agrees with the subject, not with the nouns of the other number (attractors) between them
(Linzen et al., 2016, arXiv:1611.01368). A causal model predicts the verb from the words before it,
a masked LM from all other words (Goldberg, 2019, arXiv:1901.05287). The whole sentences with both
forms are compared too, by the sum over all tokens. The baseline agrees with the nearest noun.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import nan
from pathlib import Path
from statistics import mean
from typing import ClassVar, NamedTuple

from regard import BadInput, Chart, ChartLine, Model, Report, load, spread, train_events
from regard.experiments.studies import agreement_data
from regard.experiments.studies.agreement_data import AgreementSentence, agreement_sentences

BASELINE = "nearest noun"
NAMED = 8  # unknown words in a message
TITLE = "Agreement of the verb with its subject"
UP = "how often the right form is more probable, in percent"
DISTANCE, ATTRACTORS = CHARTS = ("distance", "attractors")
RECIPES = {
    "RNN": "agreement-rnn",
    "GRU": "agreement-gru",
    "LSTM": "agreement-lstm",
    "Transformer": "agreement-gpt",
}
LINES = 64  # prefixes written for ``regard recency``
QUICK = {"train.steps": 20, "train.evaluate_every": 20, "train.checkpoint_every": 20}


class VerbChoice(NamedTuple):
    """Log-odds of the right form against the other: of the verb, and of the whole sentence."""

    sentence: AgreementSentence
    verb: float
    whole: float


@dataclass(frozen=True)
class AgreementScores:
    """Scores of a model on agreement sentences; ``skipped`` ones have words ``unknown`` to it."""

    choices: tuple[VerbChoice, ...] = field(repr=False)
    skipped: int = 0
    unknown: tuple[str, ...] = ()

    @property
    def kinds(self) -> list[tuple[int, int]]:
        """Pairs (distance, number of attractors) of all sentences, without duplicates."""
        sentences = [choice.sentence for choice in self.choices]
        return sorted({(sentence.distance, sentence.attractors) for sentence in sentences})

    def at(self, distance: int, attractors: int | None = None) -> "AgreementScores":
        """Scores of the sentences with this distance, and this number of attractors."""
        return self.where(
            lambda test: test.distance == distance and attractors in (None, test.attractors)
        )

    def where(self, fits: Callable[[AgreementSentence], bool]) -> "AgreementScores":
        """Scores of the sentences for which ``fits`` is true."""
        choices = tuple(choice for choice in self.choices if fits(choice.sentence))
        return replace(self, choices=choices)

    @property
    def accuracy(self) -> float:
        """Percentage of sentences whose agreeing verb is more probable than its other form."""
        return self._percent(choice.verb > 0 for choice in self.choices)

    @property
    def whole_accuracy(self) -> float:
        """Percentage of sentences that are more probable as a whole with the agreeing verb."""
        return self._percent(choice.whole > 0 for choice in self.choices)

    @property
    def baseline(self) -> float:
        """Accuracy of agreeing with the nearest noun."""
        return self._percent(choice.sentence.nearest_agrees for choice in self.choices)

    def _percent(self, right: Iterable[bool]) -> float:
        return 100 * sum(right) / len(self.choices) if self.choices else nan

    @property
    def remark(self) -> str:
        """Number of skipped sentences, and the reason; empty if none were skipped."""
        if not self.skipped:
            return ""
        words = ", ".join([*self.unknown[:NAMED], *["…"] * (len(self.unknown) > NAMED)])
        count = f"{self.skipped:,} of {self.skipped + len(self.choices):,} sentences"
        return f"{count} are skipped, with words that are unknown to the model: {words}"

    def to_json(self) -> dict[str, object]:
        """Record for JSON: all figures, also by distance and attractors."""
        kinds = [
            {"distance": kind[0], "attractors": kind[1], **self.at(*kind)._figures}
            for kind in self.kinds
        ]
        skipped = {"skipped": self.skipped, "unknown": list(self.unknown)}
        return {**self._figures, **skipped, "kinds": kinds}

    @property
    def _figures(self) -> dict[str, float]:
        accuracy = {"accuracy": self.accuracy, "whole sentence": self.whole_accuracy}
        return {"sentences": len(self.choices), **accuracy, BASELINE: self.baseline}


def score_agreement(
    model: Model, sentences: Iterable[AgreementSentence] | None = None
) -> AgreementScores:
    """Score both forms of each sentence with a language model, causal or masked.

    The default of ``sentences`` is ``agreement_sentences()``. Sentences with words that the model
    does not know are skipped.
    """
    if isinstance(sentences, str):
        raise BadInput("give a list of sentences, not one text")
    tests = agreement_sentences() if sentences is None else list(sentences)
    model.score([])  # refuses a model without a language-model head
    vocabulary, words = model.encoder.text.words, [_words(sentence) for sentence in tests]
    unknown = {word for word in set().union(*words) if vocabulary.unknown(word)}
    known = [test for test, own in zip(tests, words, strict=True) if not own & unknown]
    if not known:
        example = f" (unknown: {min(unknown)})" if unknown else ""
        raise BadInput(f"there is no sentence of which the model knows all words{example}")
    texts = [text for sentence in known for text in (sentence.right, sentence.wrong)]
    scores = zip(vocabulary.encode_all(texts), model.score(texts), strict=True)
    choices = tuple(_choice(sentence, next(scores), next(scores)) for sentence in known)
    return AgreementScores(choices, len(tests) - len(known), tuple(sorted(unknown)))


def _words(sentence: AgreementSentence) -> set[str]:
    """Set of the words of both forms of a sentence."""
    try:
        return {*sentence.right.split(), *sentence.wrong.split()}
    except AttributeError:
        raise BadInput(f"{sentence!r} is not an AgreementSentence") from None


Scored = tuple[Sequence[int], Sequence[float]]
"""Token ids of a text, and log-probabilities of all tokens, or of all but the first."""


def _choice(sentence: AgreementSentence, right: Scored, wrong: Scored) -> VerbChoice:
    """Log-odds of a sentence; its verb is the tokens that the two texts do not share."""
    (a, right_scores), (b, wrong_scores) = ((ids[-len(own) :], own) for ids, own in (right, wrong))
    before = _shared(a, b)
    after = _shared(a[before:][::-1], b[before:][::-1])
    verbs = (sum(own[before : len(own) - after]) for own in (right_scores, wrong_scores))
    return VerbChoice(sentence, next(verbs) - next(verbs), sum(right_scores) - sum(wrong_scores))


def _shared(first: Sequence[int], second: Sequence[int]) -> int:
    """Length of the longest common prefix."""
    differ = (n for n, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
    return next(differ, min(len(first), len(second)))


@dataclass(frozen=True)
class AgreementTable:
    """Table of scores by the name of the model, one for each seed, on the same sentences."""

    title: ClassVar[str] = TITLE
    models: Mapping[str, Sequence[AgreementScores]]

    @classmethod
    def of(cls, models: Mapping[str, Sequence[AgreementScores]]) -> "AgreementTable":
        """Table of models on the sentences whose words all of them know."""
        every = [scores for seeds in models.values() for scores in seeds]
        common = set.intersection(*({each.sentence for each in scores.choices} for scores in every))
        if not common:
            raise BadInput("there is no sentence of which all models know the words")
        return cls(models)._changed(lambda scores: scores.where(common.__contains__))

    def _changed(self, change: Callable[[AgreementScores], AgreementScores]) -> "AgreementTable":
        models = {name: [*map(change, seeds)] for name, seeds in self.models.items()}
        return AgreementTable(models)

    def at(self, distance: int, attractors: int | None = None) -> "AgreementTable":
        """Table of the sentences with this distance, and this number of attractors."""
        return self._changed(lambda scores: scores.at(distance, attractors))

    @property
    def columns(self) -> list[str]:
        """Column names of the table."""
        return ["words between", "attractors", "sentences", *self.models, BASELINE]

    @property
    def rows(self) -> list[list[str]]:
        """Rows for each distance and number of attractors, and two for all sentences."""
        kinds = [[str(n) for n in kind] + self.at(*kind)._cells for kind in self._first.kinds]
        seeds = self.models.values()
        whole = [spread([scores.whole_accuracy for scores in each]) for each in seeds]
        whole = ["whole sentences", "", *self._cells[:1], *whole, ""]
        return [*kinds, ["all", "", *self._cells], whole]

    @property
    def notes(self) -> list[str]:
        """Explanation of the figures."""
        seeds = max(map(len, self.models.values()))
        figures = "" if seeds == 1 else f"; means of {seeds} seeds ± their standard deviation"
        return [
            "accuracy in percent: how often the verb that agrees with the subject is more probable "
            "than its other form, by the words between subject and verb and the nouns of the other "
            f"number among them; chance is 50{figures}"
        ]

    def records(self) -> Iterator[dict[str, object]]:
        """Records for JSON: one for each model and seed."""
        for name, seeds in self.models.items():
            for seed, scores in enumerate(seeds, start=1):
                numbered = {"seed": seed} if len(seeds) > 1 else {}
                yield {"model": name, **numbered, **scores.to_json()}

    @property
    def report(self) -> Report:
        """Report with the table and both charts."""
        charts = {name: self._chart(name) for name in CHARTS}
        return Report(TITLE, self.columns, self.rows, charts, self.notes)

    def svg(self, chart: str = DISTANCE) -> str:
        """Chart of accuracy by "distance", or by "attractors" at the longest distance, as SVG."""
        return self._chart(chart).svg()

    def html(self) -> str:
        """HTML page with the table and both charts."""
        return self.report.html()

    def _repr_html_(self) -> str | None:
        return self.report._repr_html_()

    def _chart(self, name: str) -> Chart:
        kinds = self._first.kinds
        longest, _ = kinds[-1]
        if name == DISTANCE:
            across = "words between subject and verb"
            parts = {distance: self.at(distance) for distance, _ in kinds}
        else:
            across = f"attractors among {longest} words between subject and verb"
            parts = {kind[1]: self.at(*kind) for kind in kinds if kind[0] == longest}
        points: dict[str, list[tuple[float, float]]] = {name: [] for name in self.models}
        for x, part in parts.items():
            for model, seeds in part.models.items():
                points[model].append((x, mean(scores.accuracy for scores in seeds)))
        points[BASELINE] = [(x, part._first.baseline) for x, part in parts.items()]
        lines = [ChartLine(model, each) for model, each in points.items()]
        return Chart(TITLE, across, UP, [(float(x), str(x)) for x in parts], lines)

    @property
    def _first(self) -> AgreementScores:
        """Scores of one model, to read the sentences from: all models have the same."""
        return next(iter(self.models.values()))[0]

    @property
    def _cells(self) -> list[str]:
        first, seeds = self._first, self.models.values()
        accuracies = [spread([scores.accuracy for scores in each]) for each in seeds]
        return [f"{len(first.choices):,}", *accuracies, f"{first.baseline:.1f}"]


def study_models(
    out: Path,
    sentences: Sequence[AgreementSentence],
    device: str | None,
    seeds: int,
    quick: bool,
    note: Callable[[str], None],
) -> AgreementTable:
    """Train four language models of one size on one text, with each seed, and score them.

    The text, the models, the table as a page and as JSON and its charts are written to ``out``;
    ``note`` is called with the score of each model.
    """
    corpus = out / "corpus"
    agreement_data.make_agreement_text(*((400, 40) if quick else ())).write(corpus)
    prefixes = "".join(f"{text}\n" for text in _long_prefixes(sentences))
    (corpus / "prefixes.txt").write_text(prefixes, encoding="utf-8")
    models: dict[str, list[AgreementScores]] = {name: [] for name in RECIPES}
    for name, recipe in RECIPES.items():
        for seed in range(1, seeds + 1):
            folder = out / f"{name.lower()}-{seed}"
            settings = {"train.seed": seed, **(QUICK if quick else {})}
            for _ in train_events(recipe, corpus, folder, settings=settings, device=device):
                pass
            model = load(folder / "model", device)
            models[name].append(scores := score_agreement(model, sentences))
            note(f"{name}, seed {seed}: {model!r}, {scores.accuracy:.1f}")
    table = AgreementTable.of(models)
    (out / "agreement.html").write_text(table.html(), encoding="utf-8")
    records = json.dumps({"models": [*table.records()]}, indent=1)
    (out / "agreement.json").write_text(records, encoding="utf-8")
    for chart in CHARTS:
        (out / f"agreement-{chart}.svg").write_text(table.svg(chart), encoding="utf-8")
    return table


def _long_prefixes(sentences: Sequence[AgreementSentence]) -> list[str]:
    """Sample of the longest prefixes, with every number of attractors."""
    longest = max(sentence.distance for sentence in sentences)
    texts = [sentence.prefix.text for sentence in sentences if sentence.distance == longest]
    return texts[:: -(-len(texts) // LINES)]
