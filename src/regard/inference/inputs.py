"""Checks of inputs: lists of texts, pairs or token ids; a bad input is a ``BadItem``."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.core.batch import ImageRow, TokenRow
from regard.core.checks import is_whole, listed
from regard.core.errors import BadInput, BadItem, shown
from regard.generation.step import Search
from regard.models.encoder_decoder import ModelFacts
from regard.models.trunk import StackModule
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.text.words import check_text

# Messages of out-of-memory errors without a type of their own: host, C++, CUDA, its libraries.
NO_MEMORY = ("DefaultCPUAllocator", "bad_alloc", "CUDA error: out of memory", "ALLOC_FAILED")
TEXT_OR_IDS = "neither a text nor token ids"
VERBS = dict.fromkeys(("label", "token_label", "span", "choice", "sentence_pair"), "predict")
VERBS |= {"mlm": "fill", "context": "fill", "next_token": "generate"}
"""Verbs of the command line by the heads that they run."""


def verb_of(facts: ModelFacts) -> str:
    """What to call for a model: the verb of its first head, ``embed`` if none has one."""
    verbs = (VERBS[name] for name in facts.head_names if name in VERBS)
    verb = next(verbs, "embed") if facts.sides == TrunkWithHeads.sides else "translate"
    return f"regard {verb} (in Python, {verb}())"


@dataclass(frozen=True)
class InputLimits:
    """Limits of one side of a model: token ids below ``vocab``, at most ``longest`` of them.

    ``vocab`` is 0 if the side reads images. Rows have at most ``segments`` texts; 0: any number.
    ``max_length`` is the caller's limit. A token has one id, or ids of the shape ``per_token``.
    """

    vocab: int
    longest: int | None = None
    segments: int = 0
    max_length: int | None = None
    per_token: tuple[int, ...] = ()

    @classmethod
    def of(cls, side: StackModule, max_length: int | None = None) -> "InputLimits":
        """The limits of a side that embeds tokens."""
        embed, limits = side.embed, (side.embed.position_limit, side.embed.segments, max_length)
        return cls(embed.vocab, *limits, embed.ids_per_token)

    def check_row(self, row: TokenRow | ImageRow, number: int) -> None:
        """Refuse a row that the model cannot read."""
        self.check(row.tokens, number)
        if len(row.segments) != len(row.tokens) or np.min(row.segments, initial=0) < 0:
            raise BadItem(number, "each token needs a segment id, from 0")
        self.check_segments(row, number)

    def check_segments(self, row: TokenRow | ImageRow, number: int) -> None:
        """Refuse a row with more segments than the model distinguishes."""
        if self.segments and np.max(row.segments, initial=0) >= self.segments:
            raise BadItem(number, "the model reads one text at a time, not two")

    def check(self, ids: Sequence[int] | np.ndarray, number: int, marks: int = 0) -> None:
        """Refuse too many ids or unknown ids; the model adds ``marks`` special tokens."""
        if np.shape(ids)[1:] != self.per_token:
            raise BadItem(number, "this model reads characters: give a text or words, not ids")
        length = len(ids) + marks
        if self.max_length is not None and length > self.max_length:
            raise BadItem(number, f"{length:,} tokens, more than {self.max_length:,} (max_length)")
        if self.longest is not None and length > self.longest:
            reason = f"{length} tokens, but the model has {self.longest} positions: shorten it"
            raise BadItem(number, reason)
        if not len(ids) or not self.vocab:
            return
        first = np.asarray(ids)
        if self.per_token:  # the id of a token comes before those of its characters
            first = first.reshape(len(ids), -1)[:, 0]
        if not 0 <= (least := first.min()) <= (most := first.max()) < self.vocab:
            wrong = least if least < 0 else most
            reason = (
                f"token id {wrong} is not in the vocabulary, whose ids are 0 to {self.vocab - 1}"
            )
            raise BadItem(number, reason)


def check_texts(inputs: Iterable[object], first: int = 1) -> list[str]:
    """Inputs as a list of texts; errors count them from ``first``."""
    return [check_text(text, number) for number, text in enumerate(listed(inputs), first)]


def check_pairs(inputs: Iterable[object], of: str, *, texts: bool = False) -> list[tuple[Any, Any]]:
    """Return inputs as a list of pairs; ``of`` names their halves for messages.

    With ``texts``, both halves must be strings.
    """
    pairs = []
    for number, pair in enumerate(listed(inputs, "pairs"), 1):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise BadItem(number, f"{shown(pair)} is not a pair {of}")
        for half in pair if texts else ():
            check_text(half, number)
        pairs.append((pair[0], pair[1]))
    return pairs


def token_ids(ids: object, number: int, fault: str = TEXT_OR_IDS) -> np.ndarray:
    """At least one token id, from a list, an array or a tensor of integers."""
    values = ids
    if isinstance(ids, Tensor):
        values = ids.detach().cpu().numpy()
    elif isinstance(ids, Sequence) and not isinstance(ids, str | bytes):
        whole = {*map(type, ids)} <= {int} or all(map(is_whole, ids))  # the first is faster
        values = np.array(ids if whole else ["no ids"])
    if isinstance(values, np.ndarray) and values.ndim == 1 and not len(values):
        raise BadItem(number, "has no tokens")
    if not isinstance(values, np.ndarray) or values.ndim != 1 or values.dtype.kind not in "iu":
        raise BadItem(number, f"{shown(ids)} is {fault}")
    return values


def read_ids(
    inputs: Sequence[object],
    encode_all: Callable[[list[str]], list[list[int]]],
    limits: InputLimits,
    *,
    end: int | None = None,
    marks: int = 0,
    first: int = 1,
) -> list[list[int]]:
    """Texts in ids, followed by ``end`` if given, and ids unchanged; all are checked.

    The model adds ``marks`` special tokens to each; errors count inputs from ``first``.
    """
    numbered = list(enumerate(inputs, first))
    texts = [check_text(text, number) for number, text in numbered if isinstance(text, str)]
    encoded = iter(encode_all(texts) if texts else [])
    after = [] if end is None else [end]
    rows = []
    for number, given in numbered:
        own = None if isinstance(given, str) else token_ids(given, number)
        ids = [*next(encoded), *after] if own is None else own.tolist()
        limits.check(ids, number, marks)
        rows.append(ids)
    return rows


def title_of(text: object) -> str:
    """Title of a view: the texts, or the name of an image file."""
    if isinstance(text, Path):
        return text.name
    texts = text if isinstance(text, tuple) else (text,)
    return " ".join(one if isinstance(one, str) else "image" for one in texts)


def check_search(search: object) -> Search:
    """Return ``search`` if it is a ``Search``; refuse anything else, such as "beam" or ``Beam``."""
    if not isinstance(search, Search):
        raise BadInput(f"search must be a value such as Beam(5) or Greedy(), not {shown(search)}")
    return search


def ran_out_of_memory(error: BaseException) -> bool:
    """Whether an error of torch or numpy means out of memory."""
    named = any(sign in str(error) for sign in NO_MEMORY)
    return named or isinstance(error, MemoryError | torch.OutOfMemoryError)
