"""Tokenizer of a translator: one vocabulary for both languages, or one for each."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import ClassVar, cast

from regard.core.batch import TokenRow
from regard.core.errors import BadInput
from regard.core.reading import Reading
from regard.text.segmentation import END, LabelledInput, LabelledRow, RowWithWords, TokenLabels
from regard.text.tokenizers.plain_tokenizer import PlainTokenizer, train_subwords
from regard.text.tokenizers.row_tokenizer import RowTokenizer
from regard.text.tokenizers.subwords import Subwords
from regard.text.tokenizers.word_level import WordPieces
from regard.text.vocabulary import Vocabulary, check_sizes, describe

_JOINT = "tokenizer.json"
_SOURCE = "source.tokenizer.json"
_TARGET = "target.tokenizer.json"
OTHERS = ("source.spm", "target.spm")  # of another tokenizer, once in the same folder


@dataclass(frozen=True, repr=False)
class TranslationTokenizer(Reading):
    """Tokenizer with the vocabularies of source and target."""

    name: ClassVar = "translation"
    FILES: ClassVar[tuple[str, ...]] = (_JOINT, _SOURCE, _TARGET)
    starts_from_zero: ClassVar[bool] = False  # whether the vector of the first target token is 0

    source: Vocabulary
    target: Vocabulary

    def __repr__(self) -> str:
        names = ("both sides",) if self.joint else ("source", "target")
        sides = zip(names, self.vocabularies, strict=True)
        described = "; ".join(f"{side}: {describe(words)}" for side, words in sides)
        return f"{type(self).__name__}({described})"

    @property
    def sides(self) -> tuple[Vocabulary, Vocabulary]:
        """The vocabularies of source and target."""
        return self.source, self.target

    @property
    def joint(self) -> bool:
        """Whether both sides share one vocabulary, so that a model may share its embeddings."""
        return self.source is self.target

    @property
    def vocabularies(self) -> tuple[Vocabulary, ...]:
        """Both vocabularies, or the one that both sides share."""
        return (self.source,) if self.joint else self.sides

    @property
    def spelling(self) -> WordPieces:
        """Spelling of words by their pieces, for a model that uses the encoder's states."""
        return WordPieces(self.of_side("source").words)

    def of_side(self, side: str) -> RowTokenizer:
        """Tokenizer of one side, for a model of its language alone."""
        words = {"source": self.source}.get(side, self.target)
        return PlainTokenizer(cast(Subwords, words))

    @property
    def pad(self) -> int:
        return self.target.pad

    @property
    def sizes(self) -> dict[str, int]:
        return {"source.vocab": len(self.source), "target.vocab": len(self.target)}

    @property
    def special_ids(self) -> dict[str, int]:
        return {"pad_token": self.pad}

    def check(self, known: Mapping[str, int], summaries: Collection[str | None]) -> None:
        first, ids = self.target.bos, known.get("target tokens", 0)
        if not 0 <= first < ids:
            raise BadInput(
                f"the first token of targets is {first}, but the model has only {ids} ids"
            )
        sizes = {"source tokens": len(self.source), "target tokens": len(self.target)}
        check_sizes(sizes, known)

    def label(self, first: str, second: str | None = None) -> LabelledInput:
        """Rows of a source and a target, with the subwords and words of their tokens."""
        if second is None:
            raise BadInput("this model reads a source and a target: give a second text")
        source, target = self.source.segment(first), self.target.segment(second)
        read = TokenLabels.of_text(first, source, self.source.pieces(source.ids))
        written = TokenLabels.of_text(second, target, self.target.pieces(target.ids))
        read = TokenLabels.join(read, TokenLabels.special(END))
        source_row = TokenRow.of((*source.ids, self.target.eos))
        target_row = TokenRow.of((self.target.bos, *target.ids))
        sides = LabelledRow(source_row, read, read), LabelledRow(target_row, *written.shifted)
        return dict(zip(("source", "target"), sides, strict=True))

    def read_words(self, text: str) -> RowWithWords:
        """Row of a source, with the positions of its words."""
        cut = self.source.segment(text)
        return RowWithWords.of_text(text, cut, TokenRow.of((*cut.ids, self.target.eos)))

    def label_all(self, first: str, second: str) -> list[LabelledInput]:
        return [self.label(first, second)]

    def save(self, folder: Path) -> None:
        """Write the vocabulary files, and remove the files of an earlier tokenizer."""
        files = {_SOURCE: self.source, _TARGET: self.target}
        files = {_JOINT: self.source} if self.joint else files
        for name, subwords in files.items():
            subwords.save(folder / name)
        for name in {*TranslationTokenizer.FILES, *OTHERS} - files.keys():
            (folder / name).unlink(missing_ok=True)

    def json_files(self) -> dict[str, str]:
        """Files of one vocabulary for both languages; two have no such files."""
        return cast(Subwords, self.source).json_files(end=True) if self.joint else {}

    @staticmethod
    def load(folder: Path) -> "TranslationTokenizer":
        """Read the tokenizer that ``save`` wrote."""
        if (folder / _SOURCE).exists():
            source, target = (Subwords.load(folder / name) for name in (_SOURCE, _TARGET))
            return TranslationTokenizer(source, target)
        shared = Subwords.load(folder / _JOINT)
        return TranslationTokenizer(shared, shared)


def train_translation_tokenizer(
    sources: Iterable[str],
    targets: Iterable[str],
    kind: str,
    vocab: int,
    *,
    joint: bool,
    normalise: str = "nfc",
    lower: bool = False,
) -> TranslationTokenizer:
    """Learn one vocabulary of ``vocab`` pieces for both sides, or one for each."""
    learn = partial(train_subwords, kind=kind, vocab=vocab, normalise=normalise, lower=lower)
    if not joint:
        return TranslationTokenizer(learn(sources), learn(targets))
    both = learn(chain(sources, targets))
    return TranslationTokenizer(both, both)
