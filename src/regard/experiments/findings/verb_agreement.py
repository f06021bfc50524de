"""Linzen et al. (2016): verbs agree less often where nouns of the other number intervene."""

import numpy as np

from regard.core.errors import BadInput
from regard.experiments.findings.finding import (
    CannotShow,
    CheckInputs,
    DataUsed,
    Evidence,
    Finding,
    Judgement,
    judge_interval,
    weakest,
)
from regard.experiments.studies.agreement import (
    BASELINE,
    CHARTS,
    AgreementScores,
    AgreementTable,
    score_agreement,
)
from regard.experiments.studies.agreement_data import agreement_sentences
from regard.metrics.intervals import FloatArray, Interval, interval, resampled


def measure(inputs: CheckInputs) -> Evidence:
    """Accuracy of the verb with and without attractors, on sentences of templates."""
    model = inputs.loaded
    try:
        model.score([])
    except BadInput:
        raise CannotShow("it is no language model: it gives verbs no probability") from None
    sentences = agreement_sentences(seed=inputs.seed)
    scores = score_agreement(model, sentences)
    easy = scores.where(lambda sentence: not sentence.attractors)
    hard = scores.where(lambda sentence: sentence.attractors > 0)
    if not easy.choices or not hard.choices:
        raise CannotShow("it knows the words of too few sentences")
    report = AgreementTable.of({"model": [scores]}).report
    texts = (text for each in sentences for text in (each.right, each.wrong))
    return Evidence(
        f"{easy.accuracy:.1f}% without attractors, {hard.accuracy:.1f}% with them "
        f"({BASELINE}: {hard.baseline:.1f}%)",
        judge(*intervals(scores)),
        DataUsed.of_texts(f"{len(sentences):,} sentences of templates, seed {inputs.seed}", texts),
        report.columns,
        report.rows,
        [report.charts[name].svg() for name in CHARTS],
        [*report.notes, *([scores.remark] if scores.remark else [])],
    )


def intervals(scores: AgreementScores) -> tuple[Interval, Interval]:
    """Intervals, in points: fall of accuracy by attractors, and gain with them on the nearest noun.

    Sentences are resampled.
    """
    rows = []
    for choice in scores.choices:
        hard, right = choice.sentence.attractors > 0, choice.verb > 0
        nearest = hard and choice.sentence.nearest_agrees
        rows.append((right and not hard, not hard, right and hard, nearest, hard))
    statistics = np.array(rows, dtype=np.float64)

    def fall(sums: FloatArray) -> float:
        return 100 * (sums[0] / max(sums[1], 1) - sums[2] / max(sums[4], 1))

    def gain(sums: FloatArray) -> float:
        return 100 * (sums[2] - sums[3]) / max(sums[4], 1)

    return interval(resampled(statistics, fall)), interval(resampled(statistics, gain))


def judge(fall: Interval, gain: Interval) -> Judgement:
    """Reproduced if attractors cost accuracy, and the model still beats the nearest noun."""
    return weakest(
        judge_interval("the fall by attractors, in points", fall, 0.0),
        judge_interval("the gain on the nearest noun, in points", gain, 0.0),
    )


FINDING = Finding(
    name="verb-agreement",
    paper="Linzen et al., 2016, arXiv:1611.01368, sections 4 to 6",
    year=2016,
    claim="a recurrent model chooses the verb that agrees with its subject, but errs more often "
    "where nouns of the other number stand between them, above all as a language model",
    published="errors of an LSTM trained to predict the number of the verb: below 1% of all "
    "sentences, about 18% with four attractors; of a language model about 7% of all sentences",
    rule="accuracy without attractors is above accuracy with attractors, and accuracy with "
    "attractors is above that of agreeing with the nearest noun, each by its whole 95% interval "
    "over sentences",
    model="a language model, causal or masked",
    data=(),
    measure=measure,
    options=("seed",),
)
