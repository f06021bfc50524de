"""``model.heads``: run a model on texts, images or a treebank, and report on its heads."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np

from regard.core.errors import BadInput
from regard.data.readers.conll import TreebankSentence, read_treebank
from regard.inference.model_runner import ModelRunner
from regard.inside.heads.head_report import COLUMNS, HeadFigures, HeadReport
from regard.inside.heads.head_weights import fits, over_tokens, over_words, read_words, run_heads
from regard.inside.heads.importance import head_importance
from regard.inside.heads.measures import OVER_TOKENS, OVER_WORDS, MeanOverQueries
from regard.inside.heads.relations import (
    ALL,
    RelationScore,
    parse_with_heads,
    parsing_site,
    score_relations,
)
from regard.inside.heads.text_loss import losses_in_batches
from regard.models.attention_site import AttentionSite
from regard.text.segmentation import LabelledRow, LabelledRows

TWICE = 64  # texts that a causal model reads twice


class Treebank(NamedTuple):
    """Sentences to choose heads on, sentences to score them on, and how they were divided."""

    dev: Sequence[TreebankSentence]
    test: Sequence[TreebankSentence]
    note: str

    @classmethod
    def read(cls, path: Path, test: Path | None = None) -> "Treebank":
        """Read CoNLL-U files; a folder has one with "dev" and one with "test" in its name.

        A single file is divided: heads are chosen on its first half, and scored on the second.
        """
        if path.is_dir():
            if test is not None:
                raise BadInput(f"{path}: a folder has its own test set: name two files instead")
            path, test = (treebank_file(path, name) for name in ("dev", "test"))
        sentences = [*read_treebank(path)]
        if test is not None:
            note = f"heads chosen on {path.name}, scored on {test.name}"
            return cls(sentences, [*read_treebank(test)], note)
        half = len(sentences) // 2
        if not half:
            fault = "one sentence cannot be divided in two" if sentences else "it has no sentences"
            raise BadInput(f"{path}: not a treebank to choose and to score heads: {fault}")
        note = f"heads chosen on the first half of {path.name}, scored on the second"
        return cls(sentences[:half], sentences[half:], note)


def treebank_file(folder: Path, name: str) -> Path:
    """The only CoNLL-U file of a folder with "dev", "test" or "train" in its name."""
    files = sorted(folder.glob(f"*{name}*.conllu*"))
    if len(files) != 1:
        count = "no file" if not files else f"{len(files)} files"
        raise BadInput(f"{folder}: {count} called *{name}*.conllu: name the files instead")
    return files[0]


def report_heads(
    model: ModelRunner,
    title: str,
    inputs: Sequence[LabelledRows],
    *,
    treebank: Treebank | None = None,
    labels: Sequence[str] | None = None,
    label_names: Sequence[str] = (),
    least: int = 100,
    repeated: Sequence[LabelledRows] | None = None,
) -> HeadReport:
    """Report on the heads of a model from its attention on inputs, or on a treebank.

    With gold ``labels`` of the inputs, importance is by the loss of the classifier, otherwise by
    the language-model loss of the texts. Relations have at least ``least`` instances. A causal
    model reads the ``repeated`` rows for its causal scores, by default the inputs twice.
    """
    sites, parses_only = model.sites, treebank is not None and not inputs
    if treebank is not None and not inputs:
        sites = (parsing_site(model),)
        inputs = [read_words(model, sentence.words) for sentence in treebank.dev]
    fitting = [rows for rows in inputs if fits(model, rows)]
    if not fitting:
        raise BadInput("no input: name texts, images or a treebank that the model can read")
    notes = [f"{len(fitting):,} inputs"]
    if len(fitting) < len(inputs):
        notes.append(f"{len(inputs) - len(fitting):,} inputs left out: more tokens than positions")
    if labels is not None and len(labels) != len(fitting):
        raise BadInput(f"labels: {len(labels):,} labels for {len(fitting):,} inputs that are read")
    partly = len(sites) < len(model.sites)  # a decoder that reads nothing has no loss
    batches = None if partly else losses_in_batches(model, fitting, labels, label_names)
    counts = _count_words(model, fitting)
    means = {site.name: SiteMeans.new() for site in sites}
    relations: tuple[RelationScore, ...] = ()
    if not parses_only:
        for number, site, layers in run_heads(model, fitting, sites):
            words = over_words(fitting[number], site, layers, counts[site.key_side])
            means[site.name].words.add(words)
    if treebank is not None:
        parser = parsing_site(model)
        measure = means[parser.name].words.add if parses_only else None
        dev = parse_with_heads(model, treebank.dev, counts[parser.side], measure)
        relations = score_relations(dev, parse_with_heads(model, treebank.test), least)
        notes.append(f"relations: {treebank.note}; at least {least} words in both")
    causal = [site for site in sites if site.causal and site.side == "trunk"]
    if repeated is None:
        repeated = _read_twice(model, fitting) if causal else []
    for number, site, layers in run_heads(model, repeated, causal):
        means[site.name].tokens.add(over_tokens(repeated[number], site, layers))
    importance = {} if batches is None else head_importance(model, batches)
    if batches is None:
        notes.append("no importance: it needs texts and a head that predicts tokens, or labels")
    heads = [each for site in sites for each in _figures(site, means[site.name], importance)]
    return HeadReport(title, _with_relations(model, heads, relations), relations, tuple(notes))


class SiteMeans(NamedTuple):
    """Means of the measures of a site, over words and over tokens."""

    words: MeanOverQueries
    tokens: MeanOverQueries

    @classmethod
    def new(cls) -> "SiteMeans":
        """Means of nothing yet."""
        return cls(MeanOverQueries(OVER_WORDS), MeanOverQueries(OVER_TOKENS))


def _count_words(model: ModelRunner, inputs: Iterable[LabelledRows]) -> dict[str, Counter[str]]:
    """Frequencies of words by side, in lower case; none of images."""
    counts = {side: Counter[str]() for side in model.facts.sides}
    for rows in inputs if not model.reads_images else ():
        for side, row in rows.items():
            pairs = zip(row.keys.words, row.keys.special_words, strict=True)
            counts[side].update(word.lower() for word, special in pairs if not special)
    return counts


def _read_twice(model: ModelRunner, inputs: Iterable[LabelledRows]) -> list[LabelledRows]:
    """Inputs whose tokens follow twice, as many as have positions."""
    texts = (cast(LabelledRow, rows["trunk"]) for rows in inputs)
    twice: list[LabelledRows] = [{"trunk": row.repeated()} for row in texts]
    return [rows for rows in twice if fits(model, rows)][:TWICE]


def _figures(
    site: AttentionSite, means: SiteMeans, importance: Mapping[str, np.ndarray]
) -> Iterator[HeadFigures]:
    """Figures of all heads of a site."""
    for layer, count in enumerate(site.heads):
        for head in range(count):
            figures: dict[str, float | None] = {
                name: mean.mean(name, layer, head)
                for mean in means
                for name in mean.measures
                if name in COLUMNS
            }
            figures["offset"], figures["at offset"] = means.words.best_offset(layer, head)
            if site.name in importance:
                figures["importance"] = float(importance[site.name][layer, head])
            yield HeadFigures(site.name, layer, head, figures)


def _with_relations(
    model: ModelRunner, heads: Sequence[HeadFigures], relations: Sequence[RelationScore]
) -> tuple[HeadFigures, ...]:
    """Heads with the relations for which each is the best head and syntactic."""
    best: dict[tuple[str, int, int], list[str]] = {}
    for score in relations:
        if score.syntactic and score.relation != ALL:
            place = parsing_site(model).name, score.layer, score.head
            best.setdefault(place, []).append(score.relation)
    return tuple(replace(each, relations=tuple(best.get(each.place, ()))) for each in heads)
