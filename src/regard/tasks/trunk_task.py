"""What tasks of one trunk share, pre-training included: its facts, its start and its tokenizer.

The trunk may be a Transformer, a recurrent or a convolutional encoder, of any paper.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import torch
from torch import nn

from regard.ground.errors import BadInput
from regard.models import folder as folders
from regard.models.facts import TrunkWithHeads, change
from regard.models.paper import Paper
from regard.models.papers import paper, sized
from regard.models.stored import Stored
from regard.tasks.task import Prepared, RunFolder, Task
from regard.text.row_tokenizer import RowTokenizer
from regard.text.tokenizers import learn_tokenizer, load_tokenizer
from regard.weights.files import weights_of


class TrunkTask(Task):
    """A task of a trunk with heads. Facts that are ``decided`` elsewhere, a recipe cannot change."""

    decided: ClassVar[tuple[str, ...]] = ("vocab", "outputs", "output_heads")

    @abstractmethod
    def with_heads(self, facts: TrunkWithHeads) -> TrunkWithHeads:
        """The model with the heads of the task, and no others."""

    def facts(self, data: Path) -> tuple[Paper, TrunkWithHeads]:
        """That of ``model.start``, or one of a paper's sizes, with the heads of the task."""
        model, start = self.recipe.model, self.start(data)
        if model.target is not None:
            raise BadInput("model.target: this task has no target side")
        if start is not None and model.source is not None:
            raise BadInput("model.source: the trunk is that of model.start")
        for name in model.change:
            if name.split(".")[-1] in self.decided:
                raise BadInput(f"model.change.{name} follows from other tables of the recipe")
        facts = (sized(f"{model.paper}:{model.size}") if start is None else start.facts).as_trunk()
        if model.source is not None:
            facts = replace(facts, trunk=sized(model.source).encoder)
        layers = facts.trunk.stack.depth
        facts = change(self.with_heads(facts), **model.change)
        if start is not None and (depth := facts.trunk.stack.depth) < layers:
            problem = f"a depth of {depth} would drop layers of model.start, which has {layers}"
            raise BadInput(f"model.change: {problem}")
        return (paper(model.paper) if start is None else start.paper), facts

    def start(self, data: Path) -> Stored | None:
        """The model in the folder ``model.start``, if the recipe names one."""
        name = self.recipe.model.start
        if name is None:
            return None
        folder = next((path for path in (Path(name), data / name) if path.is_dir()), None)
        if folder is None:
            raise BadInput(f"model.start: {name} is no folder, here or under {data}")
        return _read(folder)

    def tokenizer(self, folder: RunFolder, texts: Callable[[], Iterable[str]]) -> RowTokenizer:
        """That of ``model.start``, that of an earlier run, or one learned from ``texts``."""
        start = self.start(folder.data)
        if start is not None:
            if start.tokenizer is None:
                raise BadInput(f"model.start: {self.recipe.model.start} has no tokenizer files")
            return start.tokenizer  # type: ignore[return-value]
        of_paper, facts = self.facts(folder.data)
        saved = None if folder.fresh else load_tokenizer(of_paper.tokenizer, folder.text)
        if saved is not None:
            return saved
        limit = facts.trunk.embed.limit
        learned = learn_tokenizer(of_paper.tokenizer, texts(), self.recipe.text, limit)
        folder.keep_text(learned)
        return learned

    def fit(self, facts: TrunkWithHeads, prepared: Prepared) -> TrunkWithHeads:
        """As many outputs as there are labels, and the vocabulary where it was learned."""
        if prepared.labels is not None:
            facts = change(facts, outputs=len(prepared.labels))
        if self.recipe.model.start is None:
            facts = change(facts, vocab=len(prepared.tokenizer.words))
        return facts

    @torch.no_grad()
    def begin(self, model: nn.Module, data: Path, prepared: Prepared) -> None:
        """Take over the weights of ``model.start``; what it lacks stays as it was drawn.

        A head of the same labels in another order is reordered, one of other labels is new.
        """
        start = self.start(data)
        if start is None:
            return
        given, reordered = weights_of(start.module), f"heads.{self.labelled_head}."
        order = None if prepared.labels is None else prepared.labels.order_in(start.labels)
        for name, tensor in weights_of(model).items():
            if prepared.labels is not None and name.startswith(reordered):
                if order is not None and name in given:
                    of_outputs = name.startswith(f"{reordered}out.")
                    tensor.copy_(given[name][order] if of_outputs else given[name])
            elif name in given and given[name].shape == tensor.shape:
                tensor.copy_(given[name])
            elif name.startswith("trunk."):
                raise BadInput(f"model.start: {name} there does not fit the model as changed")

    @property
    def labelled_head(self) -> str:
        """The head whose outputs are labels, if one is."""
        return ""


@lru_cache(maxsize=1)
def _read(folder: Path) -> Stored:
    """A folder, read once."""
    return folders.read(folder)
