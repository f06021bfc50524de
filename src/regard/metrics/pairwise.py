"""Sentence-level chrF and BLEU of all pairs of texts at once.

Scores equal sacreBLEU's ``sentence_score``, but n-grams of each text are counted only once.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
from sacrebleu.metrics import BLEU

Utility = Literal["chrf", "bleu"]
LETTERS, WORDS = 6, 4  # the longest n-grams of chrF and of BLEU
BETA = 2  # how much more recall counts than precision in chrF


def chrf_of_pairs(hypotheses: Sequence[str], references: Sequence[str]) -> np.ndarray:
    """chrF (Popović, 2015) of every hypothesis with every reference, in percent."""
    ours, theirs = (["".join(text.split()) for text in texts] for texts in (hypotheses, references))
    precision, recall, orders = (np.zeros((len(ours), len(theirs))) for _ in range(3))
    for n in range(1, LETTERS + 1):
        match, count, references_count = _matches(ours, theirs, n)
        both = (count > 0) & (references_count > 0)
        precision += np.where(both, match / np.maximum(count, 1), 0)
        recall += np.where(both, match / np.maximum(references_count, 1), 0)
        orders += both
    precision, recall = (total / np.maximum(orders, 1) for total in (precision, recall))
    below = BETA**2 * precision + recall
    return 100 * (1 + BETA**2) * precision * recall / np.where(below > 0, below, 1)


def bleu_of_pairs(hypotheses: Sequence[str], references: Sequence[str]) -> np.ndarray:
    """BLEU of every hypothesis with every reference, in percent.

    As sentence BLEU in sacreBLEU: 13a tokens, exponential smoothing, effective order.
    """
    cut, both = _bleu().tokenizer, (hypotheses, references)
    ours, theirs = ([cut(text.rstrip()).split() for text in texts] for texts in both)
    shape = len(ours), len(theirs)
    logs, orders, halved, any_match = (np.zeros(shape) for _ in range(4))
    for n in range(1, WORDS + 1):
        match, count, _ = _matches(ours, theirs, n)
        present, missed = count > 0, (count > 0) & (match == 0)
        halved += missed
        right = np.where(missed, 0.5**halved, match)
        logs += np.log(np.where(present, right / np.maximum(count, 1), 1))
        orders += present
        any_match += match
    brevity = np.array([[min(0.0, 1 - len(r) / max(len(h), 1)) for r in theirs] for h in ours])
    score = 100 * np.exp(brevity.reshape(shape) + logs / np.maximum(orders, 1))
    return np.where(any_match > 0, score, 0.0)


UTILITIES: dict[str, Callable[[Sequence[str], Sequence[str]], np.ndarray]] = {
    "chrf": chrf_of_pairs,
    "bleu": bleu_of_pairs,
}


def _matches(
    ours: Sequence[Sequence[str]], theirs: Sequence[Sequence[str]], n: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Clipped n-gram matches of each pair; the number of n-grams of each, for broadcasting.

    The k-th occurrence of an n-gram in one text matches the k-th in the other, so that clipped
    matches are a product of two binary matrices.
    """
    column: dict[Hashable, int] = {}
    grams = (_numbered(_grams(text, n)) for text in (*ours, *theirs))
    cells = [[column.setdefault(gram, len(column)) for gram in of_text] for of_text in grams]
    occurs = np.zeros((len(cells), len(column)), dtype=np.float32)
    for row, columns in zip(occurs, cells, strict=True):
        row[columns] = 1
    count = np.array([len(columns) for columns in cells], dtype=np.float64)
    first, second = occurs[: len(ours)], occurs[len(ours) :]
    match = (first @ second.T).astype(np.float64)
    return match, count[: len(ours), None], count[None, len(ours) :]


def _grams(text: Sequence[str], n: int) -> Iterator[Hashable]:
    for start in range(len(text) - n + 1):
        gram = text[start : start + n]
        yield gram if isinstance(gram, str) else tuple(gram)


def _numbered(grams: Iterable[Hashable]) -> Iterator[Hashable]:
    seen: Counter[Hashable] = Counter()
    for gram in grams:
        seen[gram] += 1
        yield gram, seen[gram]


@lru_cache(maxsize=1)
def _bleu() -> BLEU:
    return BLEU(effective_order=True)
