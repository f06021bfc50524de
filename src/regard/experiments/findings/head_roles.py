"""Clark et al. (2019): single heads find the syntactic head of a word, relation by relation."""

from collections.abc import Mapping, Sequence

from regard.experiments.findings.finding import (
    CannotShow,
    CheckInputs,
    DataUsed,
    Evidence,
    Finding,
    Judgement,
)
from regard.inside.heads.relations import ALL, MARGIN, RelationScore
from regard.inside.heads.report_heads import Treebank, report_heads, treebank_file

LEAST = 3  # relations whose head beats the best offset
PUBLISHED: Mapping[str, tuple[float, float]] = {
    "det": (94.3, 51.7),
    "nsubj": (58.5, 45.5),
    "amod": (75.6, 68.3),
    "aux": (81.1, 71.5),
    "aux:pass": (94.1, 82.5),
    "obj": (86.8, 40.0),
    "mark": (50.7, 14.5),
    ALL: (34.7, 26.7),
}
"""Accuracies in percent of the best head of BERT-base and of the best offset, by the name of the
relation in Universal Dependencies; the paper has Stanford dependencies of the Penn Treebank."""


def measure(inputs: CheckInputs) -> Evidence:
    """Best head of each relation, chosen on the dev set of a treebank, scored on its test set."""
    model = inputs.loaded.runner
    require_word_attention(inputs)
    files = [treebank_file(inputs.data[0], name) for name in ("dev", "test")]
    report = report_heads(model, inputs.model, [], treebank=Treebank.read(*files))
    columns = ["relation", "words", "layer", "head", "accuracy", "best offset", "difference"]
    return Evidence(
        _summary(report.relations),
        judge(report.relations),
        DataUsed.of_files(files),
        [*columns, "low", "high", "published", "published offset"],
        [_row(score) for score in report.relations],
        [report.svg()],
        report.notes,
    )


def require_word_attention(inputs: CheckInputs) -> None:
    """Refuse a model without self-attention over the words of a text."""
    facts = inputs.loaded.facts
    within = any(site.within and site.side == facts.sides[0] for site in facts.attention_sites)
    if inputs.loaded.runner.reads_images or not within:
        raise CannotShow("it has no self-attention over the words of a text")


def judge(scores: Sequence[RelationScore]) -> Judgement:
    """Reproduced if three relations have a difference of 10 points, by their whole intervals."""
    relations = [score for score in scores if score.relation != ALL]
    above = [each.relation for each in relations if each.difference_interval.low >= MARGIN]
    possible = [each.relation for each in relations if each.difference_interval.high >= MARGIN]
    margin = f"beat the best offset by {100 * MARGIN:.0f} points"
    if len(above) >= LEAST:
        return Judgement("reproduced", f"{len(above)} relations {margin}: {', '.join(above)}")
    if len(relations) < LEAST:
        reason = f"only {len(relations)} relations have enough words, and {LEAST} are needed"
        return Judgement("cannot be shown", reason)
    if len(possible) < LEAST:
        return Judgement("not reproduced", f"heads of at most {len(possible)} relations {margin}")
    undecided = [name for name in possible if name not in above]
    reason = f"intervals of {', '.join(undecided)} include {100 * MARGIN:.0f} points"
    return Judgement("cannot be shown", reason)


def _summary(scores: Sequence[RelationScore]) -> str:
    shown = sorted(scores, key=lambda score: -score.difference)[:LEAST]
    return ", ".join(
        f"{each.relation} {100 * each.accuracy:.1f} (offset {100 * each.offset_accuracy:.1f})"
        for each in shown
    )


def _row(score: RelationScore) -> list[str]:
    percents = score.accuracy, score.offset_accuracy
    differences = score.difference, *score.difference_interval
    return [
        score.relation,
        f"{score.count:,}",
        str(score.layer),
        str(score.head),
        *(f"{100 * value:.1f}" for value in percents),
        *(f"{100 * value:+.1f}" for value in differences),
        *(f"{value:.1f}" for value in PUBLISHED.get(score.relation, ())),
        *([] if score.relation in PUBLISHED else ["", ""]),
    ]


FINDING = Finding(
    name="head-roles",
    paper="Clark et al., 2019, arXiv:1906.04341, section 4.2",
    year=2019,
    claim="for many syntactic relations there is a head of BERT whose largest weight finds the "
    "syntactic head of a word far more often than any fixed offset does",
    published="BERT-base on the Penn Treebank, in percent: det 94.3 (offset 51.7), dobj 86.8 "
    "(40.0), mark 50.7 (14.5)",
    rule="at least three relations, of 100 words or more in dev and test, whose best head, chosen "
    "on dev, beats the best offset, chosen on dev, by 10 points or more on test, at the lower end "
    "of the 95% interval of the difference",
    model="an encoder or a causal model",
    data=("folder of a treebank with files for dev and test (.conllu)",),
    measure=measure,
)
