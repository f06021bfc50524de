"""Sum of several pre-training objectives: BERT is ``Sum(MaskedLM(), NextSentence())``."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.core.batch import Batch, BatchLimits, Limits
from regard.core.errors import BadInput
from regard.core.tape import NULL_TAPE, NullTape
from regard.data.rows.documents import Documents
from regard.data.rows.row_plans import Passage
from regard.models.folders.loaded_model import LoadedModel
from regard.models.heads import AnyHead
from regard.models.macs import RowLengths, first_lengths
from regard.models.trunk_with_heads import Outputs, TrunkWithHeads
from regard.objectives.objective import Objective
from regard.objectives.rows import (
    AnnotatedRow,
    RowMaker,
    RowObjective,
    Rows,
    at_all_tokens,
    collate_rows,
)
from regard.text.tokenizers.row_tokenizer import RowTokenizer


class Sum(Objective[AnnotatedRow, object]):
    """Sum of several objectives (members), trained on the same rows in one forward pass.

    A call returns the loss of each member, summed over the batch; the training loop divides it by
    the member's weights over the step, so that each loss becomes a mean over its own targets, and
    adds the members up. An objective may consist of several members. At most one makes the rows
    (``row_maker``); the others add targets to them, in the order given.
    """

    def __init__(self, *objectives: RowObjective):
        makers = [objective for objective in objectives if objective.makes_rows]
        if len(makers) > 1:
            both = " and ".join(objective.name for objective in makers)
            raise BadInput(
                f"objective: {both} cannot be combined, as both make the rows; choose one"
            )
        if not objectives:
            raise BadInput("objective: list at least one objective")
        if len({objective.sides for objective in objectives}) > 1:
            all_names = " and ".join(objective.name for objective in objectives)
            raise BadInput(
                f"objective: {all_names} cannot be combined: one trains an encoder-decoder, "
                "another a model with one trunk; choose one"
            )
        self.objectives = objectives
        self.members = tuple(member for each in objectives for member in each.members)
        self.row_maker: RowMaker = (*makers, *objectives)[0]
        for head in {member.head for member in self.members}:
            names = [o.name for o in objectives for member in o.members if member.head == head]
            if len(names) > 1:
                raise BadInput(f"objective: {' and '.join(names)} train the same head; choose one")

    @property
    def heads(self) -> tuple[AnyHead, ...]:
        """The heads of all objectives."""
        return tuple(head for objective in self.objectives for head in objective.make_heads())

    def fit(self, facts: TrunkWithHeads) -> TrunkWithHeads:
        """Return the model with the heads of all objectives, and no others."""
        pool = facts.pool if any(head.per_row for head in self.heads) else None
        return replace(facts, pool=pool, output_heads=self.heads)

    def check(self, facts: TrunkWithHeads) -> None:
        """Raise BadInput if the model cannot be trained with all objectives."""
        for objective in self.objectives:
            objective.check(facts)

    def check_vocabulary(self, size: int) -> None:
        """Raise BadInput if a vocabulary of this size is too small for an objective."""
        for objective in self.objectives:
            objective.check_vocabulary(size)

    def extend(
        self, facts: TrunkWithHeads, fit_heads: Callable[[TrunkWithHeads], TrunkWithHeads]
    ) -> Any:
        """Return the model to train, which may be a ``Joint`` of two models."""
        for objective in self.objectives:
            facts = objective.extend(facts, fit_heads)
        return facts

    def open(self, data: Path, longest: int) -> LoadedModel | None:
        """Read the teachers of all objectives; return the first, whose vocabulary is used."""
        teachers = [objective.open(data, longest) for objective in self.objectives]
        return next(filter(None, teachers), None)

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(member.head for member in self.members)

    @property
    def fingerprint(self) -> str:
        return "".join(objective.fingerprint for objective in self.objectives)

    @property
    def teachers(self) -> tuple[nn.Module, ...]:
        return tuple(teacher for objective in self.objectives for teacher in objective.teachers)

    def to(self, device: torch.device | str) -> None:
        for objective in self.objectives:
            objective.to(device)

    def count_words(self, documents: Sequence[Documents], vocab: int) -> "Sum":
        """Return the sum with word counts of the training documents, where they are needed."""
        return Sum(*(objective.count_words(documents, vocab) for objective in self.objectives))

    def annotator(self, tokenizer: RowTokenizer) -> Callable[..., list[AnnotatedRow]]:
        """A function that makes rows with the targets of all members from passages."""
        annotators = [member.annotator(tokenizer) for member in self.members]
        head = self.row_maker.head

        def annotate_all(
            passages: Sequence[Passage], indices: np.ndarray, key: tuple[int, ...]
        ) -> list[AnnotatedRow]:
            own = [(row, {} if target is None else {head: target}) for row, target in passages]
            rows = [AnnotatedRow(row, {}, targets) for row, targets in own]
            for annotate in filter(None, annotators):
                rows = annotate(rows, indices, key)
            return rows

        return annotate_all

    def expected_positions(self, tokens: int) -> dict[str, int]:
        """Expected number of ``tokens`` that each head reads; heads that read all are left out."""
        counts = {member.head: member.expected_positions(tokens) for member in self.members}
        some = {head: n for head, n in counts.items() if n is not None}
        return {head: n for head, n in some.items() if head not in self._heads_of_all_tokens}

    @property
    def _heads_of_all_tokens(self) -> set[str]:
        return {head for objective in self.objectives for head in objective.reads_all_tokens}

    def flops(self, facts: TrunkWithHeads, lengths: RowLengths) -> float:
        """Floating-point operations of one step over rows of these lengths."""
        positions = self.expected_positions(int(first_lengths(lengths).sum()))
        extra = sum(each.extra_flops(facts, lengths, positions) for each in self.objectives)
        return facts.training_flops(lengths, positions) + extra

    def initial_state(self, model: nn.Module, streams: int) -> object:
        """The state at the beginning of ``streams`` streams."""
        return self.row_maker.initial_state(model, streams)

    @property
    def eager(self) -> bool:
        return any(member.eager for member in self.members)

    def length(self, example: AnnotatedRow) -> tuple[int, ...]:
        return self.members[0].length(example)

    def weight(self, example: AnnotatedRow) -> float | np.ndarray:
        weights = [member.weight(example) for member in self.members]
        return weights[0] if len(weights) == 1 else np.array(weights, dtype=np.float64)

    def collate(self, examples: Rows, limits: Limits = None) -> Batch:
        """Make a batch of rows with the targets of all members.

        The chunks of streams have one length, lie in a rectangle and are never padded.
        """
        lengths = [len(example.row.tokens) for example in examples]
        if self.row_maker.carries_state and (limits is not None or len({*lengths}) == 1):
            limits = BatchLimits(sum(lengths), len(lengths), max(lengths))
        if len(self.members) == 1:
            batch = self.members[0].collate(examples, limits)
        else:
            batch = collate_rows(self.members, examples, limits)
        for head in sorted(self._heads_of_all_tokens):
            batch = at_all_tokens(batch, head)
        return batch

    def outputs(self, model: nn.Module, batch: Batch, tape: NullTape = NULL_TAPE) -> Outputs:
        """Run the model; it starts from the state of the batch, if there is one."""
        state = {} if batch.state is None else {"state": batch.state}
        return model(batch.inputs, positions=batch.positions, tape=tape, **state)

    def with_teachers(self, batch: Batch) -> Batch:
        """Return the batch with the predictions of the teachers among its targets."""
        predicted = {name: x for each in self.objectives for name, x in each.teach(batch).items()}
        return replace(batch, targets={**batch.targets, **predicted}) if predicted else batch

    def __call__(self, model: nn.Module, batch: Batch, tape: NullTape = NULL_TAPE) -> tuple:
        """Return (loss, negative log-likelihood) of each member, summed over the batch.

        If the batch has a state, the state after it comes third.
        """
        batch = self.with_teachers(batch)
        outputs = self.outputs(model, batch, tape)
        losses, nlls = zip(*(member.loss(outputs, batch) for member in self.members), strict=True)
        carried = () if batch.state is None else (outputs.encoded.state,)
        if len(losses) == 1:
            return (losses[0], nlls[0], *carried)
        return (torch.stack(losses), torch.stack(nlls), *carried)
