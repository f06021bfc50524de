"""Tasks of probes: words or pairs of words of sentences, each with a label.

Tags are a column of a CoNLL or CoNLL-U file. Arcs and their labels are the tasks of Liu et al.
(2019, arXiv:1903.08855): two words of a sentence, the head and the dependent. Pairs are a word in
two sentences, as in WiC (Pilehvar and Camacho-Collados, 2019, arXiv:1808.09121).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from regard.core.errors import BadInput, did_you_mean
from regard.data.file_formats import COLUMNS_IN, FORMATS, WordColumns, words_format
from regard.data.readers.conll import conll, conllu, read_treebank
from regard.data.readers.fields import BadExample
from regard.data.readers.text_files import name_of, read_lines, suffix_of

COLUMNS = {"form": 1, "lemma": 2, "upos": 3, "xpos": 4, "feats": 5, "deprel": 7}
ARC, NO_ARC = "arc", "no arc"
Words = tuple[str, ...]


class WordPlace(NamedTuple):
    """Word of a probing set: the number of its sentence, and its index there."""

    sentence: int
    word: int


class ProbeExample(NamedTuple):
    """One or two words with a label; ``form`` is what the controls know of them.

    Examples of one ``group`` (a sentence, or a pair of sentences) are resampled together.
    """

    places: tuple[WordPlace, ...]
    form: str
    label: str
    group: int


@dataclass(frozen=True)
class ProbeSet:
    """Sentences as lists of words, and the examples in them."""

    sentences: tuple[Words, ...]
    examples: tuple[ProbeExample, ...]

    @property
    def labels(self) -> list[str]:
        """Label of each example."""
        return [example.label for example in self.examples]

    @property
    def forms(self) -> list[str]:
        """Form of each example."""
        return [example.form for example in self.examples]

    @property
    def groups(self) -> np.ndarray:
        """Group of each example."""
        return np.array([example.group for example in self.examples], dtype=np.int64)

    def sample(self, limit: int | None, seed: int) -> "ProbeSet":
        """Examples of groups drawn at random, at most ``limit``; at least one group."""
        if limit is None or len(self.examples) <= limit:
            return self
        groups = self.groups
        sizes = np.bincount(groups)
        order = np.random.default_rng(seed).permutation(np.flatnonzero(sizes))
        count = max(1, int(np.searchsorted(sizes[order].cumsum(), limit, side="right")))
        return self.choose(np.isin(groups, order[:count]))

    def choose(self, mask: np.ndarray) -> "ProbeSet":
        """Examples of a mask, with the sentences that they need."""
        chosen = [example for example, kept in zip(self.examples, mask, strict=True) if kept]
        used = sorted({place.sentence for example in chosen for place in example.places})
        numbers = {sentence: number for number, sentence in enumerate(used)}
        examples = [
            example._replace(places=tuple(_moved(place, numbers) for place in example.places))
            for example in chosen
        ]
        return ProbeSet(tuple(self.sentences[number] for number in used), tuple(examples))


def _moved(place: WordPlace, numbers: dict[int, int]) -> WordPlace:
    return place._replace(sentence=numbers[place.sentence])


def tag_columns(path: Path, column: str | None) -> WordColumns:
    """Columns of words and tags of a file, by its content and the name or number of a column.

    Names are CoNLL-U's, and upos is its default.
    """
    form = FORMATS.get(suffix_of(path), "")
    form = form if form in COLUMNS_IN else words_format(path)
    words = COLUMNS_IN[form](path) if form in COLUMNS_IN else WordColumns()
    if column is None:
        return words
    number = _column_number(column, named=words.counted)
    first = WordColumns() if words.tag == 0 and number else words  # tags are not in the first
    return replace(first, tag=number)


def _column_number(column: str, *, named: bool) -> int:
    """Number of a column from 0, by its number or, in CoNLL-U, its name."""
    if column in COLUMNS and named:
        return COLUMNS[column]
    try:
        return int(column)
    except ValueError:
        if column in COLUMNS:
            reason = "only CoNLL-U has names of columns; give a number"
        else:
            near = did_you_mean(column, COLUMNS)
            reason = f"not one of {', '.join(COLUMNS)}, and not a number{near}"
        raise BadInput(f"column {column}: {reason}") from None


def read_tags(path: Path, columns: WordColumns | None = None, seed: int = 0) -> ProbeSet:
    """Read words with the tags of a column, by default that of the content of the file."""
    columns = columns or tag_columns(path, None)
    read = (
        conllu(path, tag=columns.tag)
        if columns.counted
        else conll(path, word=columns.word, tag=columns.tag)
    )
    sentences, examples = list[Words](), list[ProbeExample]()
    for group, sentence in enumerate(read):
        sentences.append(sentence.words)
        examples += [
            ProbeExample((WordPlace(group, at),), word, tag, group)
            for at, (word, tag) in enumerate(zip(sentence.words, sentence.tags, strict=True))
        ]
    return ProbeSet(tuple(sentences), tuple(examples))


def read_arcs(path: Path, columns: WordColumns | None = None, seed: int = 0) -> ProbeSet:
    """Read each word of a treebank with its head, and with another word, drawn at random."""
    draw = np.random.default_rng([seed, 1])
    sentences, examples = list[Words](), list[ProbeExample]()
    for group, sentence in enumerate(read_treebank(path)):
        words = sentence.words
        sentences.append(words)
        for at, head in enumerate(sentence.heads):
            others = [n for n in range(len(words)) if n not in (at, head)]
            if head >= 0 and others:
                other = others[draw.integers(len(others))]
                examples.append(_arc(words, head, at, ARC, group))
                examples.append(_arc(words, other, at, NO_ARC, group))
    return ProbeSet(tuple(sentences), tuple(examples))


def read_arc_labels(path: Path, columns: WordColumns | None = None, seed: int = 0) -> ProbeSet:
    """Read each word of a treebank with its head, labelled with their relation."""
    sentences, examples = list[Words](), list[ProbeExample]()
    for group, sentence in enumerate(read_treebank(path)):
        sentences.append(sentence.words)
        for at, (head, relation) in enumerate(zip(sentence.heads, sentence.relations, strict=True)):
            if head >= 0:
                examples.append(_arc(sentence.words, head, at, relation, group))
    return ProbeSet(tuple(sentences), tuple(examples))


def _arc(words: Words, head: int, dependent: int, label: str, group: int) -> ProbeExample:
    places = WordPlace(group, head), WordPlace(group, dependent)
    return ProbeExample(places, f"{words[head]} {words[dependent]}", label, group)


def read_sense_pairs(path: Path, columns: WordColumns | None = None, seed: int = 0) -> ProbeSet:
    """Read pairs of sentences with a word that has the same sense in both, or not.

    Columns, separated by tabs, are as in WiC: the word, its part of speech, its indices in the
    two sentences ("2-1"), the sentences, and the label. Without the last column, labels are the
    lines of the file called "gold" where this one is called "data".
    """
    sentences, examples = list[Words](), list[ProbeExample]()
    for group, (where, cells, label) in enumerate(_pair_lines(path)):
        places = []
        for side, (index, text) in enumerate(zip(cells[2].split("-"), cells[3:5], strict=False)):
            words = tuple(text.split())
            if not index.isascii() or not index.isdigit() or int(index) >= len(words):
                detail = f"{cells[2]!r} are not the indices of a word in both sentences"
                raise BadExample(where, "without a word", detail)
            places.append(WordPlace(2 * group + side, int(index)))
            sentences.append(words)
        if len(places) != 2:
            raise BadExample(where, "without a word", f"{cells[2]!r} is not two indices, as 2-1")
        examples.append(ProbeExample(tuple(places), cells[0], label, group))
    return ProbeSet(tuple(sentences), tuple(examples))


def _pair_lines(path: Path) -> Iterator[tuple[str, list[str], str]]:
    """Place, cells and label of each pair."""
    rows = [line.split("\t") for line in read_lines(path)]
    labels: Sequence[str] = [row[5] for row in rows if len(row) == 6]
    if not labels:
        gold = path.with_name(path.name.replace("data", "gold"))
        if gold == path or not gold.exists():
            raise BadInput(
                f"{name_of(path)}: has no column of labels, and there is no file of labels, "
                "which has 'gold' in its name in place of 'data'"
            )
        labels = [*read_lines(gold)]
    if len(labels) != len(rows):
        raise BadInput(f"{name_of(path)}: {len(rows):,} pairs, but {len(labels):,} labels")
    for number, (cells, label) in enumerate(zip(rows, labels, strict=True), start=1):
        where = f"{name_of(path)}:{number}"
        if len(cells) not in (5, 6):
            detail = f"{len(cells)} columns; word, part of speech, indices, two sentences, label"
            raise BadExample(where, "of uneven columns", detail)
        yield where, cells, label


Reader = Callable[[Path, WordColumns | None, int], ProbeSet]


class ProbeTask(NamedTuple):
    """Task of a probe: how its files are read, and what its examples are called."""

    read: Reader
    examples: str
    has_column: bool = False


TASKS = {
    "tags": ProbeTask(read_tags, "words", has_column=True),
    "arcs": ProbeTask(read_arcs, "pairs of words"),
    "arc-labels": ProbeTask(read_arc_labels, "arcs"),
    "pairs": ProbeTask(read_sense_pairs, "pairs of sentences"),
}


class ProbeData(NamedTuple):
    """Sets of examples to train a probe on, to choose its strength of L2, and to score it on."""

    train: ProbeSet
    dev: ProbeSet
    test: ProbeSet


def read_data(
    task: str,
    files: Sequence[Path],
    column: str | None = None,
    *,
    limit: int | None = None,
    seed: int = 0,
) -> ProbeData:
    """Read the sets of a task from files for train, dev and test, at most ``limit`` of each.

    Words and tags have the columns of the first file. A set without examples, or a training set
    with one label, is an error.
    """
    chosen = TASKS.get(task)
    if chosen is None:
        raise BadInput(f"task {task}: not one of {', '.join(TASKS)}{did_you_mean(task, TASKS)}")
    if column is not None and not chosen.has_column:
        raise BadInput(f"column {column}: the task {task} has no column of tags")
    columns = tag_columns(files[0], column) if chosen.has_column else None
    sets = []
    for path in files:
        examples = chosen.read(path, columns, seed).sample(limit, seed)
        if not examples.examples:
            raise BadInput(f"{name_of(path)}: has no {chosen.examples} to probe")
        sets.append(examples)
    labels = sorted({*sets[0].labels})
    if len(labels) < 2:
        raise BadInput(
            f"{name_of(files[0])}: has only the label {labels[0]!r}; a probe needs two or more"
        )
    return ProbeData(*sets)
