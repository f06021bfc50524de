"""What the tasks of an encoder have in common: its facts, and the folder it begins with."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

from torch import nn

from regard.ground.errors import BadInput
from regard.models.config import copy_start, read_start, trunk_facts
from regard.models.facts import TrunkWithHeads
from regard.models.formats.loaded_model import LoadedModel
from regard.models.paper import Paper
from regard.text.encoder_tokenizer import EncoderTokenizer
from regard.text.labels import LabelSet
from regard.training.run_paths import RunPaths

TASK_HEADS = {"classify": "label", "tag": "token_label", "answer": "span", "choose": "choice"}


@dataclass(frozen=True)
class Encoding:
    """A task of an encoder. ``follow`` are facts that a recipe cannot change: others decide."""

    recipe: Any
    follow: ClassVar[dict[str, str]]

    def facts(self, data: Path) -> tuple[Paper, TrunkWithHeads]:
        """The encoder it begins with, or one of a paper's sizes, with the layers of the task."""
        return trunk_facts(self.recipe.model, self.start(data), self.headed, self.follow)

    def headed(self, facts: TrunkWithHeads) -> TrunkWithHeads:
        """The same encoder with the layers of the task, and no others."""
        raise NotImplementedError

    def start(self, data: Path) -> LoadedModel | None:
        """The folder it begins with."""
        return read_start(self.recipe.model, data)

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
        head = TASK_HEADS.get(self.recipe.task, "")
        copy_start(start, model, head, self._outputs(start, labels))

    def _outputs(self, start: LoadedModel, labels: LabelSet | None) -> list[int] | None:
        """Which of the start's outputs mean what ours do; None if it was tuned for another task."""
        heads = {head.name: head for head in cast(TrunkWithHeads, start.facts).output_heads}
        if (head := heads.get(TASK_HEADS.get(self.recipe.task, ""))) is None:
            return None
        return list(range(head.outputs)) if labels is None else labels.order_in(start.labels)
