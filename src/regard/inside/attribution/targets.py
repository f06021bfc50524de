"""Targets of an attribution: the logits that are explained, and their log-probabilities."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.ground.errors import BadInput, shown
from regard.inference.encoder_model import EncoderModel
from regard.inside.inspected_model import InspectedModel, LabelledRows
from regard.inside.masked_text import mask_filler
from regard.inside.neighbours import inner_tokens
from regard.models.heads import NextTokenHead
from regard.models.label_heads import LabelHead, MLMHead, SentencePairHead
from regard.models.trunk_with_heads import Outputs
from regard.text.labels import MultiLabelSet, RegressionSet, SingleLabelSet
from regard.text.tokenizers.row_tokenizer import require_tokenizer
from regard.text.tokenizers.subwords import Subwords

BEST = 5  # labels or tokens that are compared
NO_TARGET = "this model has no target to explain: attribution needs a classifier, a language model"
NO_MASK = "the text has no mask token {mask}, and attribution explains the token at a mask"


def _log_softmax(logits: Tensor) -> Tensor:
    return logits.log_softmax(-1)


def _number(logits: Tensor) -> Tensor:
    return logits


NORMALISERS: dict[str, Callable[[Tensor], Tensor]] = {
    SingleLabelSet.problem_type: _log_softmax,
    MultiLabelSet.problem_type: F.logsigmoid,
    RegressionSet.problem_type: _number,
}
"""Log-probabilities of logits by the kind of labels; predicted numbers are kept."""


class Target(NamedTuple):
    """A label, or a word: its name, and the (position, index) of each of its logits.

    A word of several tokens has several logits, whose sum is explained. The logits of a row of a
    classifier have position 0.
    """

    name: str
    places: tuple[tuple[int, int], ...]


class Scores(NamedTuple):
    """Logits and log-probabilities (inputs, targets); of a number, both are the number."""

    logits_NM: Tensor
    log_probabilities_NM: Tensor


@dataclass(frozen=True, eq=False)
class Targets:
    """Targets of one input in the logits of a head; ``kind`` decides what probabilities are.

    ``name_all`` names the logits of one position by their indices; None: words of a translation.
    """

    head: str
    targets: tuple[Target, ...]
    kind: str = SingleLabelSet.problem_type
    name_all: Callable[[list[int]], Sequence[str]] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the targets."""
        return tuple(target.name for target in self.targets)

    @property
    def are_numbers(self) -> bool:
        """Whether targets are predicted numbers, which have no probability."""
        return NORMALISERS[self.kind] is _number

    def with_best(self, outputs: Sequence[Outputs]) -> "Targets":
        """Targets, and the five highest logits of each output; of a translation: its words."""
        if self.name_all is None:
            return self
        targets: list[Target] = []
        for target in self.targets:
            ((position, own),) = target.places
            numbers = {own: None}
            for each in outputs:
                logits_V = each.by_head[self.head].float()[position]
                numbers |= dict.fromkeys(logits_V.topk(min(BEST, len(logits_V))).indices.tolist())
            names = self.name_all([*numbers])
            places = ([(position, number)] for number in numbers)
            targets += (Target(name, (*at,)) for name, at in zip(names, places, strict=True))
        return replace(self, targets=tuple(targets))

    def scores(self, outputs: Outputs, count: int) -> Scores:
        """Scores of ``count`` copies of the input."""
        logits_NPV = outputs.by_head[self.head].float()
        logits_NPV = logits_NPV.reshape(count, -1, logits_NPV.shape[-1])
        numbers = range(len(self.targets))
        places = [place for target in self.targets for place in target.places]
        owners = [number for number in numbers for _ in self.targets[number].places]
        position_K, index_K = torch.tensor(places, device=logits_NPV.device).T
        owner_K = torch.tensor(owners, device=logits_NPV.device)
        chosen_NKV = logits_NPV[:, position_K]

        def summed(values_NKV: Tensor) -> Tensor:
            at_NK1 = index_K[None, :, None].expand(count, -1, 1)
            values_NK = values_NKV.gather(-1, at_NK1)[..., 0]
            return values_NK.new_zeros(count, len(numbers)).index_add(1, owner_K, values_NK)

        return Scores(summed(chosen_NKV), summed(NORMALISERS[self.kind](chosen_NKV)))

    def probabilities(self, log_probabilities: np.ndarray) -> np.ndarray:
        """Probabilities of targets, or the numbers themselves."""
        return log_probabilities if self.are_numbers else np.exp(log_probabilities)


def find_targets(model: InspectedModel, rows: LabelledRows, name: str | None = None) -> Targets:
    """Targets of an input: the label or token of this name, by default the most probable.

    Each mask of a masked LM, and each word of a translation, is a target.
    """
    with torch.no_grad():
        outputs = model.run([rows])
    finders = _FINDERS if len(model.facts.sides) == 1 else {NextTokenHead.name: _words_of_target}
    for head, find in finders.items():
        if head in outputs.by_head:
            logits = outputs.by_head[head].float()
            if (targets := find(model, rows, logits, name)) is not None:
                return targets
    if (filler := mask_filler(model)) is not None:
        raise BadInput(NO_MASK.format(mask=filler.mask))
    raise BadInput(f"{NO_TARGET} or a translator")


def _label(
    model: InspectedModel, rows: LabelledRows, logits_BV: Tensor, name: str | None
) -> Targets:
    labels = cast(EncoderModel, model.runner).labels
    if labels is None:
        raise BadInput("the model folder does not name its labels: attribution needs their names")
    names = labels.names
    chosen = names[int(logits_BV[0].argmax())] if name is None else labels.name(name, "target")
    target = Target(chosen, ((0, names.index(chosen)),))
    return Targets(LabelHead.name, (target,), labels.problem_type, _names_of(names))


def _sentence_pair(
    model: InspectedModel, rows: LabelledRows, logits_BV: Tensor, name: str | None
) -> Targets:
    names = SentencePairHead.classes
    chosen = names[int(logits_BV[0].argmax())] if name is None else name
    if chosen not in names:
        raise BadInput(f"target: no label is called {shown(name)}; known: {', '.join(names)}")
    target = Target(chosen, ((0, names.index(chosen)),))
    return Targets(SentencePairHead.name, (target,), name_all=_names_of(names))


def _names_of(names: Sequence[str]) -> Callable[[list[int]], Sequence[str]]:
    return lambda numbers: [names[number] for number in numbers]


def _masks(
    model: InspectedModel, rows: LabelledRows, logits_TV: Tensor, name: str | None
) -> Targets | None:
    tokenizer = require_tokenizer(model.tokenizer)
    at = np.flatnonzero(np.equal(rows["trunk"].row.tokens, tokenizer.mask)).tolist()
    if not at:
        return None
    if name is not None and len(at) > 1:
        raise BadInput(f"target: the text has {len(at)} masks; name the token of a single mask")
    targets = tuple(_token(tokenizer.words, logits_TV, position, name) for position in at)
    return Targets(MLMHead.name, targets, name_all=tokenizer.words.pieces)


def _next_token(
    model: InspectedModel, rows: LabelledRows, logits_TV: Tensor, name: str | None
) -> Targets | None:
    if not model.facts.writes:
        return None
    words = require_tokenizer(model.tokenizer).words
    target = _token(words, logits_TV, len(rows["trunk"].row.tokens) - 1, name)
    return Targets(NextTokenHead.name, (target,), name_all=words.pieces)


def _token(words: Subwords, logits_TV: Tensor, position: int, name: str | None) -> Target:
    """Target at one position: the token of this name, or the most probable one."""
    number = int(logits_TV[position, : len(words)].argmax())
    if name is not None:
        ids = inner_tokens(words, name).tolist()
        if len(ids) != 1 and words.has(name):  # a piece, as it is printed
            ids = [words.number(name)]
        if len(ids) != 1:
            pieces = " ".join(words.pieces(ids)) or "none"
            raise BadInput(f"target: {shown(name)} is {len(ids)} tokens ({pieces}); name one token")
        (number,) = ids
    return Target(words.pieces([number])[0], ((position, number),))


def _words_of_target(
    model: InspectedModel, rows: LabelledRows, logits_TV: Tensor, name: str | None
) -> Targets:
    """Every word of a translation, and its end."""
    row, eos = rows["target"], require_tokenizer(model.tokenizer).target.eos
    ids = [*(int(token) for token in row.row.tokens[1:]), eos]
    labels = row.queries
    targets = (
        Target(word, tuple((at, ids[at]) for at in group))
        for word, group in zip(labels.words, labels.groups, strict=True)
        if group
    )
    return Targets(NextTokenHead.name, tuple(targets))


_FINDERS: dict[str, Callable[..., Targets | None]] = {
    LabelHead.name: _label,
    MLMHead.name: _masks,
    SentencePairHead.name: _sentence_pair,
    NextTokenHead.name: _next_token,
}
