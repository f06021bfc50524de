"""What tasks of one trunk share, pre-training included: its facts, its start and its tokenizer.

The trunk may be a Transformer, a recurrent or a convolutional encoder, of any paper.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
from torch import nn

from regard.ground.errors import BadInput
from regard.models.config import trunk_facts
from regard.models.facts import TrunkWithHeads, change
from regard.models.formats.loaded_model import LoadedModel
from regard.models.paper import Paper
from regard.models.papers import paper
from regard.models.start import copy_start, read_start
from regard.tasks.run_paths import RunPaths
from regard.tasks.task import Prepared, Task
from regard.text.config import EncoderTextConfig
from regard.text.row_tokenizer import RowTokenizer
from regard.text.tokenizers import learn_tokenizer, load_tokenizer, unread_settings


class TrunkTask(Task):
    """A task of a trunk with heads. ``decided`` are facts that a recipe cannot change, and why."""

    has_bpe_dropout: ClassVar[bool] = False  # whether training can draw BPE-dropout
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
        """Settings of a tokenizer that is not learned, or that its family does not have."""
        yield from super().unread_keys()
        model, text = self.recipe.model, self.table(EncoderTextConfig)
        if (key := self.vocabulary_key) is not None:
            if text.model_fields_set:
                yield f"text beside {key}, which has a tokenizer: text=false removes the table"
            return
        family = paper(model.paper).tokenizer
        unread = {*unread_settings(family, text)}
        if not self.has_bpe_dropout and "dropout" in text.model_fields_set:
            unread.add("dropout")
        yield from (f"text.{key}" for key in sorted(unread))

    @property
    def vocabulary_key(self) -> str | None:
        """The key of the recipe that names a model whose vocabulary is used, if one does."""
        return None if self.recipe.model.start is None else "model.start"

    def vocabulary(self, data: Path) -> RowTokenizer | None:
        """The tokenizer of that model."""
        if (start := self.start(data)) is None:
            return None
        if start.tokenizer is None:
            raise BadInput(f"model.start: {self.recipe.model.start} has no tokenizer files")
        return cast(RowTokenizer, start.tokenizer)

    def start(self, data: Path) -> LoadedModel | None:
        """The model in the folder ``model.start``, if the recipe names one."""
        return read_start(self.recipe.model, data)

    def facts(self, data: Path) -> tuple[Paper, TrunkWithHeads]:
        """That of ``model.start``, or one of a paper's sizes, with the heads of the task."""
        start = self.start(data)
        of_paper = paper(self.recipe.model.paper) if start is None else start.paper

        def with_heads(facts: TrunkWithHeads) -> TrunkWithHeads:
            return of_paper.fit_heads(self.with_heads(facts))

        return trunk_facts(self.recipe.model, start, with_heads, self.decided)

    def tokenizer(self, folder: RunPaths, texts: Callable[[], Iterable[str]]) -> RowTokenizer:
        """That of ``model.start``, that of an earlier run, or one learned from ``texts``."""
        if (given := self.vocabulary(folder.data)) is not None:
            return given
        of_paper, facts = self.facts(folder.data)
        saved = None if folder.fresh else load_tokenizer(of_paper.tokenizer, folder.text)
        if saved is not None:
            return saved
        settings, limit = self.table(EncoderTextConfig), facts.trunk.embed.limit
        family, more = of_paper.tokenizer, self.special_tokens
        characters = sum(facts.trunk.embed.ids_per_token)
        learned = learn_tokenizer(family, texts(), settings, limit, more, characters)
        folder.keep_text(learned)
        return learned

    def fit(self, facts: TrunkWithHeads, prepared: Prepared) -> TrunkWithHeads:
        """As many outputs as there are labels, and the vocabulary where it was learned."""
        if prepared.labels is not None:
            facts = change(facts, outputs=len(prepared.labels))
        if self.vocabulary_key is None:
            facts = change(facts, vocab=len(prepared.tokenizer.words))
        return facts

    @torch.no_grad()
    def begin(self, model: nn.Module, data: Path, prepared: Prepared) -> None:
        """Take over the weights of ``model.start``; what it lacks stays as it was drawn.

        A head of the same labels in another order is reordered, one of other labels is new.
        """
        if (start := self.start(data)) is None:
            return
        if prepared.labels is None:
            copy_start(start, model)
        else:
            copy_start(start, model, self.labelled_head, prepared.labels.order_in(start.labels))

    def notes(self) -> dict[str, Any]:
        """The length of rows in training."""
        return {"longest": self.recipe.batches.longest}

    @property
    def labelled_head(self) -> str:
        """The head whose outputs are labels, if one is."""
        return ""
