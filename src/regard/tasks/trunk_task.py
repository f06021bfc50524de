"""What tasks of one trunk share, pre-training included: its facts, its start and its tokenizer.

The trunk may be a Transformer, a recurrent or a convolutional encoder, of any paper.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
from torch import nn

from regard.data.files.static_vectors import StaticVectors
from regard.ground.errors import BadInput
from regard.models.config import StartConfig, trunk_facts
from regard.models.facts import change
from regard.models.features import Features
from regard.models.folders.loaded_model import LoadedModel
from regard.models.paper import Paper
from regard.models.papers import paper
from regard.models.start import (
    copy_parts,
    copy_start,
    kept_pool,
    read_folder,
    read_model,
    read_start,
)
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.tasks.run_paths import RunPaths
from regard.tasks.task import Prepared, Task
from regard.text.config import EncoderTextConfig
from regard.text.tokenizers.characters import CharacterVocabulary
from regard.text.tokenizers.list import (
    Tokenizer,
    family_of,
    learn_tokenizer,
    load_tokenizer,
    unread_settings,
)
from regard.text.tokenizers.row_tokenizer import RowTokenizer, Spelling
from regard.text.tokenizers.word_tokenizer import WordTokenizer
from regard.text.vocabularies.vocabulary import matching_ids
from regard.text.words import Sentence


class TrunkTask(Task):
    """A task of a trunk with heads. ``decided`` are facts that a recipe cannot change, and why."""

    has_bpe_dropout: ClassVar[bool] = False  # whether training can draw BPE-dropout
    has_unknown_words: ClassVar[bool] = False  # whether it can draw words that are unknown
    decided: ClassVar[Mapping[str, str]] = {
        "vocab": "text.vocab",
        "outputs": "the labels of the training data",
        "output_heads": "the task",
    }

    @property
    def special_tokens(self) -> tuple[str, ...]:
        """Those that its vocabulary has beside those of its family."""
        return ()

    @abstractmethod
    def with_heads(self, facts: TrunkWithHeads) -> TrunkWithHeads:
        """The model with the heads of the task, and no others."""

    def unread_keys(self) -> Iterator[str]:
        yield from super().unread_keys()
        model, text = self.recipe.model, self.table(EncoderTextConfig)
        if (key := self.vocabulary_key) is not None:
            if text.model_fields_set:
                yield f"text beside {key}, which has a tokenizer: text=false removes the table"
            if model.learns_vocabulary:
                yield f"model.vocabulary beside {key}, which has a tokenizer"
            return
        family = self._family(paper(model.paper))
        unread = sorted({*unread_settings(family, text)})
        for key in unread:
            value, tokenizer = getattr(text, key), f"whose tokenizer is {family!r}"
            yield f"text.{key} as {value!r} with model.paper = {model.paper!r}, {tokenizer}"
        for key, drawn in (("dropout", self.has_bpe_dropout), ("unknown", self.has_unknown_words)):
            if not drawn and key in {*text.model_fields_set} - {*unread}:
                yield f"text.{key}"

    @property
    def vocabulary_key(self) -> str | None:
        """The key of the recipe that names a model whose vocabulary is used, if one does."""
        return None if self._tokenizer_start is None else "model.start"

    @property
    def _tokenizer_start(self) -> StartConfig | None:
        """The start whose tokenizer is used, if one is."""
        model = self.recipe.model
        has_tokens = model.start is not None and model.start.token_side is not None
        return model.start if has_tokens and not model.learns_vocabulary else None

    def vocabulary(self, data: Path) -> RowTokenizer | None:
        """The tokenizer of that model."""
        if (start := self._tokenizer_start) is None:
            return None
        return cast(Any, self._start_tokenizer(data)).of_side(start.token_side)

    def _start_tokenizer(self, data: Path) -> Tokenizer:
        start: Any = self.recipe.model.start
        if (tokenizer := read_folder(start, data).tokenizer) is None:
            raise BadInput(f"model.start: {start.folder} has no tokenizer files")
        return tokenizer

    def start(self, data: Path) -> LoadedModel | None:
        """The model that the recipe starts from, unless it only takes parts of it."""
        return read_start(self.recipe.model, data)

    def facts(self, data: Path) -> tuple[Paper, TrunkWithHeads]:
        """The facts of ``model.start``, or of a paper's size, with the heads of the task.

        A start whose pool reads other tokens than the first goes on to do so.
        """
        start = self.start(data)
        if start is not None and self.recipe.model.learns_vocabulary:
            self._check_words(start, data)
        of_paper = paper(self.recipe.model.paper) if start is None else start.paper

        def with_heads(facts: TrunkWithHeads) -> TrunkWithHeads:
            fitted = of_paper.fit_heads(self.with_heads(facts))
            kept = None if start is None else kept_pool(facts)
            return fitted if fitted.pool is None else replace(fitted, pool=kept or fitted.pool)

        of_paper, facts = trunk_facts(self.recipe.model, start, with_heads, self.decided)
        return of_paper, self._with_features(facts, data)

    def _check_words(self, start: LoadedModel, data: Path) -> None:
        """Refuse a start whose token vectors cannot be those of another vocabulary."""
        self._start_tokenizer(data)
        if start.facts.encoder.ids_per_token:
            raise BadInput('model.vocabulary = "text": model.start reads words by their characters')

    def _with_features(self, facts: TrunkWithHeads, data: Path) -> TrunkWithHeads:
        """The model with the features of ``model.features``, if the recipe names them."""
        config = self.recipe.model
        if self._word_vectors and self._family(paper(config.paper)) != WordTokenizer.name:
            raise BadInput(f'model.{self._word_vectors[0]}: words have it: set text.kind = "words"')
        own = facts.trunk.features
        if (model := self._feature_model(data)) is None:
            if own is not None and not config.starts_whole:
                raise BadInput(f"model.features: {config.paper} needs a folder that gives features")
            return facts
        keys = {"at": config.features_at, "layers": config.features_layers}
        given: dict[str, Any] = {name: key for name, key in keys.items() if key is not None}
        encoder, spelling = model.facts.encoder, self._spelling_of(model)
        facts = self._spelled_alike(facts, encoder.embed.characters_per_word)
        given |= {"model": encoder, "pieces": None if encoder.ids_per_token else spelling.longest}
        features = Features(**given) if own is None else replace(own, **given)
        return replace(facts, trunk=replace(facts.trunk, features=features))

    def _spelled_alike(self, facts: TrunkWithHeads, characters: int) -> TrunkWithHeads:
        """The model, which reads as many characters of a word as that of features, if it does."""
        if not facts.trunk.embed.characters_per_word:
            return facts
        if not characters:
            folder, ours = self.recipe.model.features, self.recipe.model.paper
            raise BadInput(f"model.features: {folder} reads pieces of words, and {ours} characters")
        return change(facts, **{"trunk.embed.characters.longest": characters})

    @property
    def _takes_parts(self) -> bool:
        """Whether the model has facts of its own, and weights of ``model.start``."""
        model = self.recipe.model
        return model.start is not None and not model.starts_whole

    @property
    def _word_vectors(self) -> list[str]:
        """The keys of the recipe that give words vectors from elsewhere."""
        return [key for key in ("features", "vectors") if getattr(self.recipe.model, key)]

    def _feature_model(self, data: Path) -> LoadedModel | None:
        name = self.recipe.model.features
        return None if name is None else read_model("model.features", name, data)

    def _spelling(self, facts: TrunkWithHeads, data: Path) -> Spelling | None:
        """How words are read by the model, or by the one that gives features of them."""
        if (model := self._feature_model(data)) is not None:
            return self._spelling_of(model)
        characters = facts.trunk.embed.characters_per_word
        return CharacterVocabulary(characters) if characters else None

    def _spelling_of(self, model: LoadedModel) -> Spelling:
        if model.tokenizer is None:
            raise BadInput(f"model.features: {self.recipe.model.features} has no tokenizer files")
        try:
            return model.tokenizer.spelling
        except BadInput as error:
            raise BadInput(f"model.features: {error}") from None

    def _static_vectors(self, data: Path) -> StaticVectors | None:
        """The vectors of ``model.vectors``, a file here or under the data root."""
        if (name := self.recipe.model.vectors) is None:
            return None
        path = next((one for one in (Path(name), data / name) if one.is_file()), None)
        if path is None:
            raise BadInput(f"model.vectors: {name} is no file, here or under {data}")
        return StaticVectors.read(path)

    def _family(self, of_paper: Paper) -> str:
        """The family of the tokenizer that is learned."""
        return family_of(of_paper.tokenizer, self.table(EncoderTextConfig))

    def tokenizer(self, folder: RunPaths, texts: Callable[[], Iterable[Sentence]]) -> RowTokenizer:
        """The tokenizer of ``model.start``, of an earlier run, or learned from ``texts``."""
        if (given := self.vocabulary(folder.data)) is not None:
            return given
        of_paper, facts = self.facts(folder.data)
        family, more = self._family(of_paper), self.special_tokens
        saved = None if folder.fresh else load_tokenizer(family, folder.text)
        if saved is not None:
            return saved
        settings, limit = self.table(EncoderTextConfig), facts.trunk.embed.limit
        vectors = self._static_vectors(folder.data)
        known = () if vectors is None else vectors.words
        spelling = self._spelling(facts, folder.data)
        learned = learn_tokenizer(family, texts(), settings, limit, more, spelling, known)
        folder.keep_text(learned)
        return learned

    def fit(self, facts: TrunkWithHeads, prepared: Prepared) -> TrunkWithHeads:
        if prepared.labels is not None:
            facts = change(facts, outputs=len(prepared.labels))
        if self.vocabulary_key is None or self._takes_parts:
            # Characters of words, and models of features, have vocabularies of their own.
            place = "trunk.embed." if facts.trunk.ids_per_token else ""
            sizes = prepared.tokenizer.sizes
            facts = change(facts, **{place + name: size for name, size in sizes.items()})
        return facts

    @torch.no_grad()
    def begin(self, model: nn.Module, data: Path, prepared: Prepared) -> tuple[str, ...]:
        """Take over the weights of ``model.start``, or parts; others stay as they were drawn.

        A head of the same labels in another order is reordered, one of other labels is new.
        """
        remarks = self._begin_words(cast(Any, model), data, prepared)
        if self._takes_parts:
            return remarks + copy_parts(self.recipe.model.start, model, data)
        if (start := self.start(data)) is None:
            return remarks
        tokens, remark = self._tokens_in_start(data, prepared)
        if prepared.labels is None:
            copy_start(start, model, tokens=tokens)
        else:
            order = prepared.labels.order_in(start.labels)
            copy_start(start, model, self.labelled_head, order, tokens)
        return remarks + remark

    def _tokens_in_start(self, data: Path, prepared: Prepared) -> tuple[Any, tuple[str, ...]]:
        """The id in ``model.start`` of each token, where a vocabulary was learned; and a remark."""
        model = self.recipe.model
        if not model.learns_vocabulary:
            return None, ()
        theirs = cast(Any, self._start_tokenizer(data)).words
        tokens = matching_ids(cast(Any, prepared.tokenizer.words), theirs)
        known = sum(token is not None for token in tokens)
        others = f"{len(tokens) - known:,} with the mean of all"
        return tokens, (f"{known:,} words begin with vectors of {model.start.folder}, {others}",)

    def _begin_words(self, model: Any, data: Path, prepared: Prepared) -> tuple[str, ...]:
        """Take over the weights of the model of features, and static vectors."""
        if (features := self._feature_model(data)) is not None:
            module: Any = features.module
            model.trunk.frozen.trunk.load_state_dict(module.encoder.state_dict())
        if (vectors := self._static_vectors(data)) is None:
            return ()
        embed, width = model.trunk.embed, vectors.width
        table_VD = embed.token.weight
        if table_VD.shape[1] != width:
            here = f"the model has {table_VD.shape[1]} for each word"
            raise BadInput(f"model.vectors: vectors of {width} numbers, and {here}")
        words = cast(Any, prepared.tokenizer.words).lexicon.words
        known = vectors.indices_of(words)
        read_ND = vectors.vectors_ND[[*known.values()]] / embed.scale
        table_VD[[*known]] = torch.from_numpy(read_ND).to(table_VD)
        drawn = f"{len(words) - len(known):,} at random"
        return (f"{len(known):,} words begin with vectors of {self.recipe.model.vectors}, {drawn}",)

    def notes(self) -> dict[str, Any]:
        return {"longest": self.recipe.batches.longest}

    @property
    def labelled_head(self) -> str:
        """The head whose outputs are labels, if one is."""
        return ""
