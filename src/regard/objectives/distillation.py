"""Distillation in pre-training (Sanh et al., 2019, section 3): a student imitates a teacher.

The teacher, a trained masked LM with the same vocabulary, reads the masked rows of the student. Two
losses join the masked-LM loss: T² · KL(teacher ‖ student) of distributions over tokens, softened by
the temperature T, and 1 - cosine of their last states. DistilBERT is
``Sum(MaskedLM(loss_weight=2.0), Distillation(Teacher(FOLDER)))``.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import ClassVar, Literal, cast

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from regard.core.batch import IGNORED, Batch
from regard.core.config import Config
from regard.core.errors import BadInput
from regard.layers.losses import soft_target_losses
from regard.models.folders.loaded_model import LoadedModel
from regard.models.heads import AnyHead
from regard.models.label_heads import MLMHead
from regard.models.macs import RowLengths
from regard.models.start import read_model
from regard.models.trunk_with_heads import Outputs, TrunkWithHeads, TrunkWithHeadsModule
from regard.objectives.rows import AnnotatedRow, RowBatch, RowObjective
from regard.weights.files import weights_of

HEAD = MLMHead.name
TEACHER_LOGITS, TEACHER_STATES = "teacher_logits", "teacher_states"  # among the targets of a batch


class DistillationConfig(Config):
    """The table ``[objective.distillation]``."""

    teacher: str
    """A masked LM with the same vocabulary: a folder, here or under the data root, or an id of the
    Hugging Face hub."""
    temperature: float = Field(2.0, gt=0)
    """The temperature of both distributions over tokens."""
    weight: float = Field(5.0, ge=0)
    """The weight of the KL divergence of the distributions."""
    cosine: float = Field(1.0, ge=0)
    """The weight of 1 - cosine of the last states, for a student as wide as its teacher."""
    tokens: Literal["masked", "all"] = "masked"
    """Compare distributions at the tokens that masked LM predicts, or at all tokens."""


class Teacher:
    """Trained model, read from a folder, that runs without gradients."""

    def __init__(self, name: str):
        self.name = name

    def read(self, data: Path, longest: int) -> None:
        """Read the folder; raise BadInput if the model cannot read rows of ``longest`` tokens."""
        model = read_model(f"objective.{Distillation.name}.teacher", self.name, data, hub=True)
        facts = cast(TrunkWithHeads, model.facts)
        if HEAD not in facts.head_names:
            self._refuse("has no masked-LM head")
        if model.tokenizer is None:
            self._refuse("has no tokenizer files")
        if (limit := facts.trunk.embed.limit) is not None and limit < longest:
            self._refuse(f"has {limit} positions, but batches.longest is {longest}")
        self.use(model)

    def use(self, model: LoadedModel) -> None:
        """Use a loaded model as the teacher."""
        self.model, whole = model, cast(TrunkWithHeadsModule, model.module)
        heads = {HEAD: whole.heads[HEAD]}
        module = TrunkWithHeadsModule(self._facts, whole.trunk, None, heads)
        self.module = module.eval().requires_grad_(False)

    def check(self, facts: TrunkWithHeads, *, same_width: bool) -> None:
        """Raise BadInput if this student cannot learn from the teacher."""
        ours, theirs = facts.trunk, self._facts.trunk
        if ours.embed.vocab != theirs.embed.vocab:
            self._refuse(f"has {theirs.embed.vocab} tokens, but the student {ours.embed.vocab}")
        if ours.embed.segments > 1 and theirs.embed.segments == 1:
            self._refuse("has one segment, but the student two")
        if same_width and ours.width != theirs.width:
            widths = f"states of size {theirs.width}, but the student of size {ours.width}"
            self._refuse(f"has {widths}; cosine = 0 removes the loss that compares states")

    @property
    def _facts(self) -> TrunkWithHeads:
        facts = cast(TrunkWithHeads, self.model.facts)
        return TrunkWithHeads(facts.trunk, None, (facts.head(HEAD),))

    def _refuse(self, why: str) -> None:
        raise BadInput(f"objective.{Distillation.name}.teacher: {self.name} {why}")

    @torch.no_grad()
    def __call__(self, batch: Batch) -> Outputs:
        """Outputs of the teacher, with logits at the positions that the student predicts."""
        positions = {head: at for head, at in batch.positions.items() if head == HEAD}
        return self.module(batch.inputs, positions=positions)

    def flops(self, lengths: RowLengths, positions: Mapping[str, int]) -> float:
        """Floating-point operations of the forward pass of the teacher."""
        return self._facts.training_flops(lengths, positions) / 3  # backward costs twice as much


@dataclass(frozen=True)
class Distillation(RowObjective):
    """Distillation objective, beside masked LM: a teacher's token distributions and states."""

    name, config, head = "distillation", DistillationConfig, "distillation"
    smooths = False
    teacher: Teacher
    temperature: float = 2.0
    loss_weight: float = 5.0
    cosine_weight: float = 1.0
    all_tokens: bool = False

    @classmethod
    def from_config(cls, config: DistillationConfig, smoothing: float) -> "Distillation":
        return cls(
            Teacher(config.teacher),
            temperature=config.temperature,
            loss_weight=config.weight,
            cosine_weight=config.cosine,
            all_tokens=config.tokens == "all",
        )

    @property
    def members(self) -> tuple[RowObjective, ...]:
        soft = SoftTargets(self.temperature, self.loss_weight, self.all_tokens)
        return (soft, StateCosine(self.cosine_weight)) if self.cosine_weight else (soft,)

    @property
    def reads_all_tokens(self) -> frozenset[str]:
        return frozenset({HEAD} if self.all_tokens else ())

    def make_heads(self) -> tuple[AnyHead, ...]:
        return ()

    def open(self, data: Path, longest: int) -> LoadedModel:
        self.teacher.read(data, longest)
        return self.teacher.model

    @property
    def fingerprint(self) -> str:
        weights = weights_of(self.teacher.module).values()
        content = (tensor.cpu().float().numpy().tobytes() for tensor in weights)
        return f", teacher {reduce(lambda crc, data: zlib.crc32(data, crc), content, 0):08x}"

    @property
    def teachers(self) -> tuple[nn.Module, ...]:
        return (self.teacher.module,)

    def to(self, device: torch.device | str) -> None:
        self.teacher.module.to(device)

    def check(self, facts: TrunkWithHeads) -> None:
        if facts.head(HEAD) is None:
            raise BadInput(
                "objective.distillation trains the masked-LM head: list masked-lm as well"
            )
        self.teacher.check(facts, same_width=bool(self.cosine_weight))

    def teach(self, batch: Batch) -> dict[str, Tensor]:
        outputs = self.teacher(batch)
        return {TEACHER_LOGITS: outputs.by_head[HEAD], TEACHER_STATES: outputs.encoded.states_TD}

    def extra_flops(
        self, facts: TrunkWithHeads, lengths: RowLengths, positions: Mapping[str, int]
    ) -> float:
        return self.teacher.flops(lengths, positions)


class TeacherLoss(RowObjective):
    """Base class of distillation losses, which compare the outputs of student and teacher."""

    dev_size = 2
    metric: ClassVar[str]

    def weight(self, example: AnnotatedRow) -> float:
        return len(example.row.tokens)

    def collate_targets(self, batch: RowBatch) -> tuple[None, Tensor | None]:
        count = sum(len(example.row.tokens) for example in batch.examples)
        return None, torch.arange(count if batch.limits is None else batch.limits.tokens) < count

    def losses(self, outputs: Outputs, targets: Mapping[str, Tensor]) -> Tensor:
        """The loss at each token, or at each token that masked LM predicts."""
        raise NotImplementedError

    def counts(self, batch: Batch) -> Tensor:
        """Mask of the losses that count: those at tokens that are not padding."""
        return batch.targets[self.head]

    def loss(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        loss = (self.losses(outputs, batch.targets) * self.counts(batch)).sum()
        return self.loss_weight * loss, loss.detach()

    def dev_sums(self, outputs: Outputs, batch: Batch) -> list[Tensor]:
        return [self.loss(outputs, batch)[1], self.counts(batch).sum()]

    def dev_metrics(self, loss: float, count: float, *sums: float) -> dict[str, float]:
        return {self.metric: loss}


@dataclass(frozen=True)
class SoftTargets(TeacherLoss):
    """Loss T² · KL(teacher ‖ student) at the tokens that masked LM predicts, or at all tokens."""

    head, metric = "soft_targets", "divergence"
    temperature: float = 2.0
    loss_weight: float = 5.0
    all_tokens: bool = False

    def weight(self, example: AnnotatedRow) -> float:
        return super().weight(example) if self.all_tokens else len(example.positions[HEAD])

    def collate_targets(self, batch: RowBatch) -> tuple[None, Tensor | None]:
        return super().collate_targets(batch) if self.all_tokens else (None, None)

    def counts(self, batch: Batch) -> Tensor:
        return super().counts(batch) if self.all_tokens else batch.targets[HEAD] != IGNORED

    def losses(self, outputs: Outputs, targets: Mapping[str, Tensor]) -> Tensor:
        return soft_target_losses(outputs.by_head[HEAD], targets[TEACHER_LOGITS], self.temperature)


@dataclass(frozen=True)
class StateCosine(TeacherLoss):
    """Loss 1 - cosine of the last states of student and teacher, at all tokens."""

    head, metric = "state_cosine", "state_distance"
    loss_weight: float = 1.0

    def losses(self, outputs: Outputs, targets: Mapping[str, Tensor]) -> Tensor:
        states_TD, teacher_TD = outputs.encoded.states_TD.float(), targets[TEACHER_STATES].float()
        return 1 - F.cosine_similarity(states_TD, teacher_TD, dim=-1)
