"""What the tasks of an encoder have in common: its facts, and the folder it begins with."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, cast

from torch import nn

from regard.ground.errors import BadInput
from regard.models import folder as folders
from regard.models.facts import TrunkWithHeads, change
from regard.models.paper import Paper
from regard.models.papers import paper, sized
from regard.models.stored import Stored
from regard.text.encoder_tokenizer import EncoderTokenizer
from regard.text.labels import LabelSet
from regard.training.recipe import Recipe
from regard.training.run_paths import RunPaths
from regard.weights.files import weights_of

TASK_HEADS = {"classify": "label", "tag": "token_label", "answer": "span", "choose": "choice"}


@dataclass(frozen=True)
class Encoding:
    """A task of an encoder. ``follow`` are facts that a recipe cannot change: others decide."""

    recipe: Recipe
    follow: ClassVar[tuple[str, ...]] = ("vocab",)

    def facts(self, data: Path) -> tuple[Paper, TrunkWithHeads]:
        """The encoder it begins with, or one of a paper's sizes, with the layers of the task."""
        wanted, start = self.recipe.model, self.start(data)
        for name in ("source", "target"):
            if getattr(wanted, name) is not None:
                raise BadInput(f"model.{name}: an encoder has one side")
        for name in wanted.change:
            if name.split(".")[-1] in self.follow:
                raise BadInput(f"model.change.{name} follows from other tables of the recipe")
        facts = sized(f"{wanted.paper}:{wanted.size}") if start is None else start.facts
        if not isinstance(facts, TrunkWithHeads):
            raise BadInput(f"model: {wanted.start or wanted.paper} is no encoder")
        given = facts.trunk.stack.depth
        facts = change(self.headed(facts), **wanted.change)
        if start is not None and (depth := facts.trunk.stack.depth) < given:
            said = f"a depth of {depth} would drop layers of model.start, which has {given}"
            raise BadInput(f"model.change: {said}")
        return (paper(wanted.paper) if start is None else start.paper), facts

    def headed(self, facts: TrunkWithHeads) -> TrunkWithHeads:
        """The same encoder with the layers of the task, and no others."""
        raise NotImplementedError

    def start(self, data: Path) -> Stored | None:
        """The folder it begins with."""
        name = self.recipe.model.start
        if name is None:
            return None
        places = [place for place in (Path(name), data / name) if place.is_dir()]
        if not places:
            raise BadInput(f"model.start: {name} is no folder, here or under {data}")
        return _read(places[0])

    def text(self, place: RunPaths, learn: Callable[[], EncoderTokenizer]) -> EncoderTokenizer:
        """The vocabulary it begins with, that of an earlier run, or one to be learned now."""
        start = self.start(place.data)
        if start is not None:
            if not isinstance(start.tokenizer, EncoderTokenizer):
                raise BadInput(f"model.start: {self.recipe.model.start} has no tokenizer files")
            return start.tokenizer
        if not place.fresh and (known := EncoderTokenizer.load(place.text)) is not None:
            return known
        learned = learn()
        place.keep_text(learned)
        return learned

    def begin(self, model: nn.Module, data: Path, labels: LabelSet | None) -> None:
        """Take over what the start has; what it has not stays as it was drawn."""
        start = self.start(data)
        if start is None:
            return
        given, outputs_N = weights_of(start.module), self._outputs(start, labels)
        for name, tensor in weights_of(model).items():
            if name.startswith(f"heads.{TASK_HEADS.get(self.recipe.task)}."):
                if outputs_N is not None:
                    tensor.copy_(given[name][outputs_N] if ".out." in name else given[name])
            elif name in given and given[name].shape == tensor.shape:
                tensor.copy_(given[name])
            elif name.startswith("trunk."):
                raise BadInput(f"model.start: {name} there does not fit the model as changed")

    def _outputs(self, start: Stored, labels: LabelSet | None) -> list[int] | None:
        """Which of the start's outputs mean what ours do; None if it was tuned for another task."""
        heads = {head.name: head for head in cast(TrunkWithHeads, start.facts).output_heads}
        if (head := heads.get(TASK_HEADS.get(self.recipe.task, ""))) is None:
            return None
        return list(range(head.outputs)) if labels is None else labels.order_in(start.labels)


@lru_cache(maxsize=1)
def _read(folder: Path) -> Stored:
    """A folder, read once."""
    return folders.read(folder)
