"""Plans: a recipe, resolved into a model, the models that it begins with, and its tokenizer."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar, cast

import torch
from torch import nn

from regard.core.batch import BatchLimits
from regard.core.config import Config, UnusableKey
from regard.core.errors import BadInput
from regard.core.reading import Reading
from regard.data.batches.training_data import Batching
from regard.data.data_tables import BatchConfig, DataConfig
from regard.data.readers.static_vectors import StaticVectors
from regard.models.encoder_decoder import EncoderDecoder, ModelFacts
from regard.models.facts import change
from regard.models.features import FeaturedTrunk, Features
from regard.models.folders.loaded_model import LoadedModel
from regard.models.heads import AnyHead
from regard.models.model_tables import ModelConfig, StartConfig, encoder_decoder_facts, trunk_facts
from regard.models.paper import Paper
from regard.models.papers import paper, sized
from regard.models.pools import FirstToken, LastToken, MeanPool
from regard.models.start import (
    copy_parts,
    copy_start,
    kept_pool,
    read_folder,
    read_model,
    read_start,
)
from regard.models.trunk_with_heads import TrunkWithHeads, TrunkWithHeadsModule
from regard.tasks.run_paths import RunPaths
from regard.text.label_sets import LabelSet
from regard.text.text_tables import EncoderTextConfig
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer
from regard.text.tokenizers.list import (
    PLAIN,
    Tokenizer,
    family_of,
    learn_tokenizer,
    load_tokenizer,
    unread_settings,
)
from regard.text.tokenizers.row_tokenizer import RowTokenizer
from regard.text.tokenizers.t5 import T5Tokenizer
from regard.text.tokenizers.unigram import T5Unigram
from regard.text.tokenizers.word_level import CharacterVocabulary, WordTokenizer
from regard.text.vocabulary import Spelling, matching_ids
from regard.text.words import Sentence

Table = TypeVar("Table", bound=Config)
WORD_VECTORS = ("features", "vectors")  # keys of [model] that give words vectors from elsewhere
DECIDED = {
    "vocab": "text.vocab",
    "outputs": "the labels of the training data",
    "output_heads": "the task",
}
"""Facts that a recipe cannot change, and what decides them."""
Sides = tuple[str, ...]
FAMILIES: dict[Sides, str] = {EncoderDecoder.sides: T5Unigram.name}
"""Families of the tokenizers that are learned for models with these sides; others: the paper's."""


@dataclass(frozen=True, eq=False)
class Tables:
    """Tables of a recipe that tasks read: the common ones, and the task's ``own``.

    Three keys of [train] are fields. ``by_default`` names the tables that are missing in the recipe
    and follow from its model.
    """

    data: DataConfig
    model: ModelConfig
    batches: BatchConfig
    seed: int
    smoothing: float
    metric: str
    own: tuple[Config, ...]
    by_default: tuple[str, ...] = ()

    def find(self, kind: type[Table]) -> Table | None:
        """The task's own table of this type, if the task has one."""
        return next((table for table in self.own if isinstance(table, kind)), None)

    def __getitem__(self, kind: type[Table]) -> Table:
        return cast(Table, self.find(kind))

    @property
    def batching(self) -> Batching:
        """Limits, seed and order of training batches."""
        batches = self.batches
        limits = BatchLimits(batches.tokens, batches.rows, batches.longest)
        return Batching(limits, self.seed, batches.mixed)

    @property
    def tokenizer_start(self) -> StartConfig | None:
        """Start folder whose tokenizer is used; None if a tokenizer is learned."""
        start = self.model.start
        has_tokens = start is not None and start.token_side is not None
        return start if has_tokens and not self.model.learns_vocabulary else None

    def tokenizer_family(self, of_paper: Paper, sides: Sides) -> str:
        """The family of the tokenizer that is learned for a model with these sides."""
        return FAMILIES.get(sides) or family_of(of_paper.tokenizer, self[EncoderTextConfig])

    @property
    def tokenizer_key(self) -> str | None:
        """Key of the recipe that names a model whose tokenizer is used; None if there is none."""
        return None if self.tokenizer_start is None else "model.start"

    def unread_text_keys(
        self,
        tokenizer_key: str | None,
        drawn: Collection[str] = (),
        sides: Sides = TrunkWithHeads.sides,
    ) -> Iterator[UnusableKey]:
        """Keys of [text] that nothing reads; ``drawn`` are the keys by which the task draws in
        training.

        ``tokenizer_key`` names a model whose tokenizer is used, if there is one. ``sides``: of the
        model.
        """
        model, text = self.model, self[EncoderTextConfig]
        if tokenizer_key is not None:
            has = f"beside {tokenizer_key}, which has a tokenizer"
            if text.model_fields_set.difference(text.row_keys):
                yield UnusableKey("text", f"{has}: text=false removes the table")
            if model.learns_vocabulary:
                yield UnusableKey("model.vocabulary", has)
            return
        family = self.tokenizer_family(paper(model.paper), sides)
        unread = unread_settings(family, text)
        for key, remedy in sorted(unread.items()):
            has = f"with model.paper = {model.paper!r}, whose tokenizer is {family!r}: {remedy}"
            yield UnusableKey(f"text.{key}", f"as {getattr(text, key)!r} {has}")
        for key in ("dropout", "unknown"):
            if key not in drawn and key in {*text.model_fields_set} - {*unread}:
                yield UnusableKey(f"text.{key}")


@dataclass(frozen=True, eq=False)
class Plan:
    """A recipe, resolved: a paper, and the facts of a model except for sizes that the data decides.

    Weights begin as in ``start``, all or some parts. ``tokenizer`` is the tokenizer of a folder, if
    the recipe uses it; otherwise one is learned from the data, with ``special_tokens`` of the task.
    ``features`` is the model whose states are features of words, ``vectors_file`` the file of
    vectors that words begin with, ``teacher`` the model whose predictions are learned.
    """

    paper: Paper
    facts: ModelFacts
    tables: Tables
    start: LoadedModel | None = None
    tokenizer: RowTokenizer | None = None
    special_tokens: tuple[str, ...] = ()
    features: LoadedModel | None = None
    vectors_file: Path | None = None
    teacher: LoadedModel | None = None

    @property
    def trunk(self) -> TrunkWithHeads:
        """The facts of a model with one trunk."""
        return cast(TrunkWithHeads, self.facts)

    @cached_property
    def vectors(self) -> StaticVectors | None:
        """Static word vectors of ``model.vectors``; None if the recipe names no file."""
        return None if self.vectors_file is None else StaticVectors.read(self.vectors_file)

    def with_special_tokens(self, special: tuple[str, ...]) -> "Plan":
        """The plan with special tokens of the task in its tokenizer, learned or of a folder."""
        tokenizer, facts = self.tokenizer, self.facts
        if tokenizer is not None:
            tokenizer = tokenizer.with_special_tokens(special)
            facts = change(facts, vocab=max(facts.sizes["tokens"], len(tokenizer.words)))
        return replace(self, facts=facts, tokenizer=tokenizer, special_tokens=special)

    def read_texts(self, paths: RunPaths, texts: Callable[[], Iterable[Sentence]]) -> RowTokenizer:
        """Tokenizer: of a folder, of the run that is resumed, or learned from ``texts``."""
        if self.tokenizer is not None:
            return self.tokenizer
        family = self.tables.tokenizer_family(self.paper, self.facts.sides)
        saved = None if paths.fresh else load_tokenizer(family, paths.text)
        if saved is not None:
            return saved
        learned = learn_tokenizer(
            family,
            texts(),
            self.tables[EncoderTextConfig],
            self.facts.encoder.embed.limit,
            self.special_tokens,
            self._spelling,
            () if self.vectors is None else self.vectors.words,
        )
        paths.keep_text(learned)
        return learned

    def reading(self, tokenizer: RowTokenizer) -> Reading:
        """Tokenizer of the model: T5's around its encoder's, if the model is an encoder-decoder."""
        if self.facts.sides != EncoderDecoder.sides:
            return tokenizer
        if self.start is not None and self.tables.model.starts_whole:
            return cast(T5Tokenizer, self.start.tokenizer)
        return T5Tokenizer.of(cast(EncoderTokenizer, tokenizer))

    @property
    def _spelling(self) -> Spelling | None:
        """The spelling of words for a model of characters, or for the model of features."""
        if self.features is not None:
            return spelling_of(self.features, self.tables.model)
        characters = self.facts.encoder.embed.characters_per_word
        return CharacterVocabulary(characters) if characters else None

    def fit(self, reading: Reading, labels: LabelSet | None = None) -> ModelFacts:
        """Complete the facts by the sizes of a vocabulary, and of label heads."""
        facts, model = self.facts, self.tables.model
        if labels is not None:
            facts = change(facts, outputs=len(labels))
        if self.tokenizer is None or (model.start is not None and not model.starts_whole):
            # Characters of words, and models of features, have vocabularies of their own.
            prefix = "trunk.embed." if facts.encoder.ids_per_token else ""
            facts = change(facts, **{prefix + name: size for name, size in reading.sizes.items()})
        return facts

    @torch.no_grad()
    def copy_weights(
        self, model: nn.Module, reading: Reading, labels: LabelSet | None = None
    ) -> tuple[str, ...]:
        """Copy weights of the start, of features, and word vectors; return remarks to print.

        Other weights keep their random initialisation. The outputs of a head are reordered if its
        labels are the same in another order; a head with other labels is new.
        """
        config, start = self.tables.model, self.start
        remarks = self._copy_words(cast(TrunkWithHeadsModule, model), reading)
        if start is None or config.start is None:
            return remarks
        if not config.starts_whole:
            return remarks + copy_parts(config.start, start.module, model)
        tokens: list[int | None] | None = None
        if config.learns_vocabulary:
            theirs, ours = cast(RowTokenizer, start.tokenizer), cast(RowTokenizer, reading)
            tokens = matching_ids(ours.words, theirs.words)
            known = sum(token is not None for token in tokens)
            rest = f"{len(tokens) - known:,} with the mean of all"
            remarks += (f"{known:,} words begin with vectors of {config.start.folder}, {rest}",)
        head = "" if labels is None else self.trunk.output_heads[0].name
        order = None if labels is None else labels.order_in(start.labels)
        copy_start(start, model, head, order, tokens)
        if labels is not None and start.labels is not None and order is None:
            kinds = f"{', '.join(start.labels.names)}, not {', '.join(labels.names)}"
            remarks += (f"the labels of {config.start.folder} are {kinds}: the head is new",)
        return remarks

    def _copy_words(self, model: TrunkWithHeadsModule, reading: Reading) -> tuple[str, ...]:
        """Copy the weights of the model of features, and static vectors."""
        if self.features is not None:
            theirs = cast(TrunkWithHeadsModule, self.features.module)
            frozen = cast(FeaturedTrunk, model.trunk).frozen
            frozen.trunk.load_state_dict(theirs.encoder.state_dict())
        if (vectors := self.vectors) is None:
            return ()
        embed, width = model.trunk.embed, vectors.width
        table_VD = embed.token.weight
        if table_VD.shape[1] != width:
            here = f"word embeddings of the model have {table_VD.shape[1]}"
            raise BadInput(f"model.vectors: vectors have {width} dimensions, but {here}")
        words = cast(WordTokenizer, reading).words.lexicon.words
        known = vectors.indices_of(words)
        read_ND = vectors.vectors_ND[[*known.values()]] / embed.scale
        table_VD[[*known]] = torch.from_numpy(read_ND).to(table_VD)
        drawn, name = f"{len(words) - len(known):,} at random", self.tables.model.vectors
        return (f"{len(known):,} words begin with vectors of {name}, {drawn}",)


def resolve_trunk(
    tables: Tables,
    data: Path,
    heads: Callable[[TrunkWithHeads], tuple[AnyHead, ...]],
    *,
    decided: Mapping[str, str] = DECIDED,
    add_pool: bool = False,
) -> Plan:
    """The plan of a model with one trunk: of ``model.start``, or of a paper's size, with ``heads``.

    With ``add_pool``, a model that has no pool gets one if its heads read whole rows.
    """
    config = tables.model
    start = read_start(config, data)
    if start is not None and config.learns_vocabulary:
        _check_tokenizer(start.tokenizer, config)
        if start.facts.encoder.ids_per_token:
            raise BadInput('model.vocabulary = "text": model.start reads words by their characters')
    of_paper = paper(config.paper) if start is None else start.paper

    def with_heads(facts: TrunkWithHeads) -> TrunkWithHeads:
        """The model with the task's heads in the form of its paper, and the pool under them.

        The pool is decided here, unless ``model.change.pool`` names another. There is none if no
        head reads whole rows. Otherwise it is the pool of a start that reads other tokens than the
        first; the pool that the paper has under its heads; the model's own; or one chosen by the
        stack: the last token of a causal model, the only one that attends to the whole row, the
        first token of other Transformers, and the mean of recurrent states.
        """
        needed, stack = heads(facts), facts.trunk.stack
        if not any(head.per_row for head in needed):
            return of_paper.fit_heads(replace(facts, output_heads=needed, pool=None))
        by_stack = LastToken() if stack.causal else FirstToken() if stack.attends else MeanPool()
        pool = facts.pool or (by_stack if add_pool else None)
        fitted = of_paper.fit_heads(replace(facts, output_heads=needed, pool=pool))
        kept = None if start is None else kept_pool(facts)
        return replace(fitted, pool=kept or fitted.pool)

    of_paper, facts = trunk_facts(config, start, with_heads, decided)
    family = tables.tokenizer_family(paper(config.paper), facts.sides)
    for key in WORD_VECTORS:
        if getattr(config, key) and family != WordTokenizer.name:
            advice = 'set text.kind = "words"' if family == PLAIN else "choose another paper"
            raise BadInput(f"model.{key} needs a vocabulary of words: {advice}")
    features = config.features and read_model("model.features", config.features, data)
    if features:
        facts = _with_features(facts, features, config)
    elif facts.trunk.features is not None and not config.starts_whole:
        raise BadInput(
            f"model.features: {config.paper} needs the folder of an ELMo model or a translator"
        )
    if start is None and config.start is not None:
        start = read_folder(config.start, data)
    tokenizer = None
    if start is not None and tables.tokenizer_start is not None:
        if not facts.trunk.embed.reads_images:
            _check_tokenizer(start.tokenizer, config)
        side = str(tables.tokenizer_start.token_side)
        tokenizer = cast(RowTokenizer, start.tokenizer and start.tokenizer.of_side(side))
    vectors = _vectors_file(config, data)
    return Plan(of_paper, facts, tables, start, tokenizer, (), features or None, vectors)


def resolve_encoder_decoder(tables: Tables, data: Path, *, joint: bool) -> Plan:
    """The plan of an encoder-decoder; ``joint``: both sides share one vocabulary."""
    config = tables.model
    if config.starts_whole:
        return _started_encoder_decoder(tables, data)
    of_paper, facts = encoder_decoder_facts(config, joint=joint)
    start = None if config.start is None else read_folder(config.start, data)
    return Plan(of_paper, facts, tables, start)


def is_encoder_decoder(tables: Tables, data: Path) -> bool:
    """Whether the model of a recipe, or of the folder that it starts from, is one."""
    config = tables.model
    whole = config.start if config.starts_whole else None
    facts = sized(config.name) if whole is None else read_folder(whole, data).facts
    return facts.sides == EncoderDecoder.sides


def _started_encoder_decoder(tables: Tables, data: Path) -> Plan:
    """The plan of an encoder-decoder that starts from a folder, with T5's tokenizer."""
    config = tables.model
    if config.layers != "all" or config.learns_vocabulary:
        key = "layers" if config.layers != "all" else "vocabulary"
        raise BadInput(f"model.{key}: model.start is an encoder-decoder; remove the key")
    start = cast(LoadedModel, read_start(config, data))
    folder = cast(StartConfig, config.start).folder
    if start.facts.sides != EncoderDecoder.sides:
        raise BadInput(f"model.start: {folder} is not an encoder-decoder, which this task needs")
    _check_tokenizer(start.tokenizer, config)
    tokenizer = cast(Reading, start.tokenizer)
    if tokenizer.name != T5Tokenizer.name:
        needs = f"this task needs T5's, for encoder-decoders; {folder} has {tokenizer.name!r}"
        raise BadInput(f"model.start: its tokenizer has no sentinels: {needs}")
    config.check_changes({"vocab": "model.start"})
    facts = config.changed(cast(EncoderDecoder, start.facts), config.change)
    encoder = cast(RowTokenizer, tokenizer.of_side("source"))
    return Plan(start.paper, facts, tables, start, encoder)


def _check_tokenizer(tokenizer: Reading | None, config: ModelConfig) -> None:
    if tokenizer is None and config.start is not None:
        raise BadInput(f"model.start: {config.start.folder} has no tokenizer files")


def _with_features(
    facts: TrunkWithHeads, model: LoadedModel, config: ModelConfig
) -> TrunkWithHeads:
    """The model with features of words, which another model computes.

    A character-based model reads as many characters of a word as that model does.
    """
    encoder, spelling = model.facts.encoder, spelling_of(model, config)
    if facts.trunk.embed.characters_per_word:
        if not (characters := encoder.embed.characters_per_word):
            pieces = f"{config.features} reads pieces of words, but {config.paper} reads characters"
            raise BadInput(f"model.features: {pieces}")
        facts = change(facts, **{"trunk.embed.characters.longest": characters})
    keys = {"at": config.features_at, "layers": config.features_layers}
    fields: dict[str, object] = {name: key for name, key in keys.items() if key is not None}
    fields |= {"model": encoder, "pieces": None if encoder.ids_per_token else spelling.longest}
    own = facts.trunk.features
    features = Features(**fields) if own is None else replace(own, **fields)  # type: ignore
    return replace(facts, trunk=replace(facts.trunk, features=features))


def spelling_of(model: LoadedModel, config: ModelConfig) -> Spelling:
    """The spelling by which the model of ``model.features`` reads words."""
    if model.tokenizer is None:
        raise BadInput(f"model.features: {config.features} has no tokenizer files")
    try:
        return cast(Tokenizer, model.tokenizer).spelling
    except BadInput as error:
        raise BadInput(f"model.features: {error}") from None


def _vectors_file(config: ModelConfig, data: Path) -> Path | None:
    """The file of ``model.vectors``, here or under the data root."""
    if (name := config.vectors) is None:
        return None
    path = next((file for file in (Path(name), data / name) if file.is_file()), None)
    if path is None:
        raise BadInput(
            f"model.vectors: no file {name}, neither in the working directory nor under {data}"
        )
    return path
