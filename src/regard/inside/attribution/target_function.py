"""The function that attribution explains: from the embeddings of one input to its target scores.

A tape edit puts other embeddings in place of the input's, so words are replaced, embeddings are
interpolated and gradients are taken without changing the model.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from regard.core.tape import Edit, Tape
from regard.inference.model_runner import ModelRunner
from regard.inside.attribution.input_words import InputWords, read_input
from regard.inside.attribution.targets import Scores, Targets, find_targets
from regard.models.trunk_with_heads import Outputs
from regard.text.segmentation import LabelledRows

TOKENS = 2_048  # of all copies of the input in one batch

Edits = Mapping[str, Edit]
Item = TypeVar("Item")


@dataclass(frozen=True, eq=False)
class TargetFunction:
    """Scores of the targets of one input as a function of its embeddings (L, D).

    ``x_LD`` are the embeddings of the input, ``baseline_LD`` those in which all words are replaced.
    """

    model: ModelRunner
    given: InputWords
    targets: Targets
    x_LD: Tensor
    baseline_LD: Tensor

    @classmethod
    def of(
        cls,
        model: ModelRunner,
        text: object,
        target: str | None = None,
        *,
        token: int | None = None,
        subwords: bool = False,
    ) -> "TargetFunction":
        """Function of a text, a pair of texts or an image.

        ``target`` is the name of a label or of a token, or the translation that is explained;
        ``token`` is the position that predicts it.
        """
        first, second = text if isinstance(text, tuple) and len(text) == 2 else (text, None)
        if len(model.facts.sides) > 1:
            second, target = target or second, None
        given = read_input(model, first, second, subwords=subwords)
        targets = find_targets(model, given.rows, target, token)
        x_LD = embeddings(model, given.rows)
        baseline_LD = torch.zeros_like(x_LD)
        if given.replaced is not None:
            baseline_LD = embeddings(model, given.replaced)
        kept = sorted({*range(len(x_LD))}.difference(*given.groups))  # special tokens
        baseline_LD[kept] = x_LD[kept]
        return cls(model, given, targets, x_LD, baseline_LD)

    @property
    def side(self) -> str:
        """The side whose embeddings are the argument."""
        return self.model.facts.encoder_path

    @property
    def copies(self) -> int:
        """The number of copies of the input in one batch."""
        lengths = [len(self.x_LD), *(len(row.row.tokens) for row in self.given.rows.values())]
        return max(1, TOKENS // max(lengths))

    def run(
        self, points_NLD: Tensor, *patterns: str, edits: Edits | None = None
    ) -> tuple[Scores, Tape]:
        """Scores of several embeddings, and the tape that recorded values by ``patterns``."""
        outputs, tape = self.outputs(points_NLD, *patterns, edits=edits)
        return self.targets.scores(outputs, len(points_NLD)), tape

    def outputs(
        self, points_NLD: Tensor, *patterns: str, edits: Edits | None = None
    ) -> tuple[Outputs, Tape]:
        """Outputs of the model for several embeddings, and the tape."""

        def replace(name: str, x_TD: Tensor) -> Tensor:
            return points_NLD.flatten(0, 1)

        tape = Tape(*patterns, edits={embedding_path(self.model): replace, **(edits or {})})
        # cuDNN computes gradients of RNNs only in training mode.
        with torch.backends.cudnn.flags(enabled=False):
            return self.model.run([self.given.rows] * len(points_NLD), tape), tape

    def gradients(self, points_NLD: Tensor, targets_N: Sequence[int]) -> Tensor:
        """Gradients (N, L, D) of the logit of one target each, by the embeddings."""
        points_NLD = points_NLD.detach().requires_grad_()
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            logits_NM = self.run(points_NLD)[0].logits_NM
            total = logits_NM[range(len(targets_N)), list(targets_N)].sum()
            return torch.autograd.grad(total, points_NLD)[0]

    @torch.no_grad()
    def scores_without(self, replaced_NW: np.ndarray, edits: Edits | None = None) -> Scores:
        """Scores without the words for which ``replaced_NW`` is true, in double precision."""
        parts = []
        for rows in self.in_batches(replaced_NW):
            parts.append(self.run(self.points_without(np.stack(rows)), edits=edits)[0])
        columns = zip(*parts, strict=True)
        return Scores(*(torch.cat(column).double().cpu() for column in columns))

    def points_without(self, replaced_NW: np.ndarray) -> Tensor:
        """Embeddings (N, L, D) in which the words with a true value are replaced."""
        replaced_NL = torch.zeros(len(replaced_NW), len(self.x_LD), dtype=torch.bool)
        for number, group in enumerate(self.given.groups):
            replaced_NL[:, list(group)] |= torch.from_numpy(replaced_NW[:, number, None])
        replaced_NL1 = replaced_NL[..., None].to(self.x_LD.device)
        return torch.where(replaced_NL1, self.baseline_LD, self.x_LD)

    def by_word(self, values_ML: np.ndarray) -> np.ndarray:
        """Sums (M, W) of values of tokens over the tokens of each word."""
        return np.stack([values_ML[:, list(group)].sum(1) for group in self.given.groups], axis=1)

    def in_batches(self, items: Iterable[Item]) -> Iterator[list[Item]]:
        """Lists of as many items as there are copies of the input in one batch."""
        rest = iter(items)
        while part := list(islice(rest, self.copies)):
            yield part


def embedding_path(model: ModelRunner) -> str:
    """Name of the embeddings of the side that is read, on a tape."""
    return f"{model.facts.encoder_path}.embed.output"


@torch.no_grad()
def embeddings(model: ModelRunner, rows: LabelledRows) -> Tensor:
    """Embeddings (L, D) of one input."""
    path = embedding_path(model)
    tape = Tape(path)
    model.run([rows], tape)
    return tape.records[path].clone()
