"""Base class of tokenizer families: reading, writing and learning their vocabularies."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NotRequired, TypedDict, TypeVar

from tokenizers import Tokenizer, processors

from regard.core.errors import BadInput, shown
from regard.core.files import JSON
from regard.text.templates import TEXTS, RowBuilder, Template
from regard.text.tokenizers.subwords import Subwords
from regard.text.vocabulary import check_pieces

SPACE = "▁"  # a space in a readable piece
Flag = TypeVar("Flag", bool, bool | None)


class Vocab(TypedDict):
    """Model of a tokenizer.json: pieces with their ids, and merges or scores."""

    vocab: dict[str, int]
    merges: NotRequired[Sequence[Sequence[str]]]
    scores: NotRequired[list[tuple[str, float]]]
    charsmap: NotRequired[bytes]


Learned = tuple[Vocab, Mapping[str, JSON]]  # a model, and its tokenizer_config.json


def lines_by_id(model: Vocab) -> str:
    """The pieces in the order of their ids, one on each line."""
    ids = model["vocab"]
    return "".join(f"{piece}\n" for piece in sorted(ids, key=ids.__getitem__))


@dataclass(frozen=True)
class TokenizerSettings:
    """Content of a tokenizer_config.json; messages name ``where``."""

    content: Mapping[str, JSON]
    where: str = ""

    def flag(self, key: str, default: Flag) -> bool | Flag:
        """The value of a boolean key, or the default."""
        value = self.content.get(key, default)
        if value is default:
            return default
        if not isinstance(value, bool):
            raise BadInput(f"{self.where}: {key} is neither true nor false")
        return value


@dataclass(frozen=True)
class TokenizerFamily(ABC):
    """Family of tokenizers: a kind of vocabulary, its special tokens by role, its row template.

    ``kind`` is the ``text.kind`` of a recipe, ``model`` the type in tokenizer.json, ``classes`` the
    tokenizer_class in tokenizer_config.json (the first is written), ``files`` the files that hold a
    vocabulary without tokenizer.json. ``word_prefix`` is put before a word that is encoded alone,
    ``separator`` is the role of the token between the documents of a row. If ``unchanged``,
    tokenizer.json is used as it stands, whatever its tokenizer_class, with its own row template.
    """

    name: ClassVar[str]
    kind: ClassVar[str]
    model: ClassVar[str]
    classes: ClassVar[tuple[str, ...]]
    files: ClassVar[tuple[str, ...]]
    special_tokens: ClassVar[Mapping[str, str]]
    template: ClassVar[Template]
    word_prefix: ClassVar[str] = ""
    separator: ClassVar[str] = "sep_token"
    unchanged: ClassVar[bool] = False

    @abstractmethod
    def read_files(self, folder: Path) -> Vocab:
        """Read the vocabulary from ``files`` of a folder."""

    @abstractmethod
    def write_files(self, model: Vocab) -> dict[str, str]:
        """Return the content of each of ``files`` by file name. Nothing is written."""

    def model_in(self, content: Mapping[str, JSON], path: Path) -> Vocab:
        """Vocabulary of a tokenizer.json; unused ids get names that occur in no text."""
        model = self.check(content.get("model"), path)
        pieces = check_pieces(model.get("vocab"), path)
        unused = set(range(max(pieces.values(), default=-1))).difference(pieces.values())
        return {"vocab": pieces | {f"(no piece {number})": number for number in unused}}

    def check(self, model: JSON, path: Path) -> dict[str, JSON]:
        """Return the model of a tokenizer.json; refuse a model of another family."""
        if not isinstance(model, dict):
            raise BadInput(f"{path}: not a {self.model} vocabulary")
        if (kind := model.get("type", self.model)) != self.model:
            setting = "tokenizer_class in tokenizer_config.json"
            remedy = "" if self.unchanged else f": set {setting} to the class of its tokenizer"
            raise BadInput(f"{path}: not a {self.model} vocabulary, but {shown(kind)}{remedy}")
        return model

    @abstractmethod
    def build(self, model: Vocab, unk: str, settings: TokenizerSettings) -> Tokenizer:
        """Build a ``tokenizers.Tokenizer``, without special tokens and row template."""

    def complete(self, tokenizer: Tokenizer) -> Tokenizer:
        """The tokenizer with all its tokens, as vocabularies use it; default: unchanged."""
        return tokenizer

    @abstractmethod
    def learn(self, texts: Iterable[str], vocab: int, lower: bool) -> Learned:
        """Learn a model of at most ``vocab`` pieces; returns it and its tokenizer_config.json."""

    def processor(
        self, names: Mapping[str, str], ids: Mapping[str, int], settings: TokenizerSettings
    ) -> processors.PostProcessor:
        """Row template as a post-processor of ``tokenizers``; ``names`` and ``ids`` are by role."""
        written = {**{text: f"${text}" for text in TEXTS}, **names}
        single, pair = (
            [f"{written[name]}:{segment}" for name, segment in self.template.parts(texts)]
            for texts in (1, 2)
        )
        special = [(names[role], ids[role]) for role in names]
        return processors.TemplateProcessing(single=single, pair=pair, special_tokens=special)

    def row_builder(self, words: Subwords, special: Mapping[str, int]) -> RowBuilder:
        """Builder of rows; ``special`` are the ids of special tokens by role."""
        roles = {part.name for part in self.template.parts(2)} - {*TEXTS}
        ids = {role: special[f"{role}_token"] for role in roles}
        if (separator := special.get(self.separator)) is not None:
            ids["sep"] = separator
        return RowBuilder(self.template, ids)

    def continues_word(self, piece: str) -> bool:
        """Whether a readable piece continues the word before it, because it has no space."""
        return not piece.startswith(SPACE)

    def join(self, text: str, piece: str) -> str:
        """Append a readable piece to a text; the piece has its own space."""
        return text.rstrip() + piece.replace(SPACE, " ") if text.strip() else piece.lstrip(SPACE)
