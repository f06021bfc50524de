"""Programs compiled by hand into weights: models whose circuit is known, to test methods on.

``PROGRAMS`` has them by name. As in RASP (Weiss et al., 2021, arXiv:2106.06981) and Tracr, a head
selects tokens and averages over them; the number of selected tokens is one over the weight of one.
"""

from collections.abc import Callable, Sequence

import numpy as np

from circuits.compiler import (
    SHARP,
    START,
    Circuit,
    CompiledHead,
    CompiledLayer,
    LookupTable,
    Pattern,
    Program,
)
from regard.models.heads import NextTokenHead
from regard.models.label_heads import TokenLabelHead

__all__ = ["PROGRAMS", "START", "Circuit", "Program"]

LETTERS = ("a", "b", "c", "d", "e", "x")
DIGITS = tuple("0123456789")
COUNTED = "x"  # the token whose share is computed
LONGEST = 16  # tokens of a row, with START
SPECIAL = 3  # ids before the first word: unknown, end, START
START_ID = SPECIAL - 1
LETTER_IDS, DIGIT_IDS = len(LETTERS) + SPECIAL, len(DIGITS) + SPECIAL
ONE = np.ones((1, 1))
POSITIONS = np.arange(LONGEST, dtype=float)


def _selected(select: Callable[[Sequence[str], int, int], bool]) -> Pattern:
    """Pattern of a head that attends to all tokens that ``select(tokens, query, key)`` names."""

    def pattern(tokens: Sequence[str]) -> np.ndarray:
        places = range(len(tokens))
        chosen = np.array([[select(tokens, q, k) for k in places] for q in places], dtype=float)
        return chosen / chosen.sum(1, keepdims=True)

    return pattern


def _drawn(words: Sequence[str], *, unique: bool = False) -> Callable[..., list[str]]:
    """Function that draws from 1 to ``LONGEST`` - 1 words, or as many as there are."""

    def draw(rng: np.random.Generator) -> list[str]:
        most = min(LONGEST - 1, len(words)) if unique else LONGEST - 1
        return [*map(str, rng.choice(words, rng.integers(1, most + 1), replace=not unique))]

    return draw


def _one_hot(number: int, size: int) -> np.ndarray:
    return np.eye(size)[number : number + 1]


def _stack(*rows: np.ndarray) -> np.ndarray:
    return np.concatenate([np.atleast_2d(row) for row in rows])


def _previous_head(into: str) -> CompiledHead:
    """Head of query i that attends to position i - 1; the first position attends to itself."""
    previous = np.eye(LONGEST, k=1)
    previous[0, 0] = 1.0
    return CompiledHead(
        queries={"position": SHARP * previous},
        keys={"position": np.eye(LONGEST)},
        values={"token": np.eye(LETTER_IDS)},
        into=into,
        pattern=_selected(lambda tokens, query, key: key == max(0, query - 1)),
    )


def _previous_token() -> Program:
    """At each position, the token before it."""
    return Program(
        name="previous-token",
        run=lambda tokens: [START, *tokens][:-1],
        draw=_drawn(LETTERS),
        words=LETTERS,
        longest=LONGEST,
        causal=True,
        head=NextTokenHead(tied=False),
        layers=(CompiledLayer({2: _previous_head("output")}),),
        spaces={"output": LETTER_IDS},
    )


def _induction() -> Program:
    """The token that followed the last earlier occurrence of this token, or ``START``.

    The first layer has a previous-token head; the second attends to the last token whose previous
    token is this one (Elhage et al., 2021; Olsson et al., 2022, arXiv:2209.11895).
    """

    def followed(tokens: Sequence[str], query: int) -> int:
        """Position after the last earlier occurrence of the query's token; 0 without any."""
        matches = (key for key in range(query, 0, -1) if tokens[key - 1] == tokens[query])
        return next(matches, 0)

    def run(tokens: Sequence[str]) -> list[str]:
        row = [START, *tokens]
        return [row[followed(row, query)] for query in range(1, len(row))]

    match = 2 * SHARP * LONGEST  # more than all differences by position
    ids, no_ids = np.eye(LETTER_IDS), np.zeros((LETTER_IDS, 1))
    head = CompiledHead(
        queries={"token": _stack(match * ids, no_ids.T), "one": _stack(no_ids, ONE)},
        keys={
            "previous": _stack(ids, no_ids.T),
            "position": _stack(no_ids @ POSITIONS[None], SHARP * POSITIONS),
            "token": _stack(0 * ids, match / 2 * ids[START_ID]),
        },
        values={"token": np.eye(LETTER_IDS)},
        into="output",
        pattern=_selected(lambda tokens, query, key: key == followed(tokens, query)),
    )
    return Program(
        name="induction",
        run=run,
        draw=_drawn(LETTERS),
        words=LETTERS,
        longest=LONGEST,
        causal=True,
        head=NextTokenHead(tied=False),
        layers=(CompiledLayer({1: _previous_head("previous")}), CompiledLayer({3: head})),
        spaces={"previous": LETTER_IDS, "output": LETTER_IDS},
    )


def _share_of(token: int, ids: int) -> dict[str, np.ndarray]:
    """Values that are 1 at a token and 0 at all others."""
    return {"token": _one_hot(token, ids)}


def _reverse() -> Program:
    """The tokens in reverse order.

    The first layer finds the length n of the row: the weight of ``START`` in uniform attention is
    1/n. In the second, query i attends to key n - i, where -(i + j - n)² is highest.
    """
    length = CompiledHead(
        queries={"one": ONE},
        keys={"one": 0 * ONE},
        values=_share_of(START_ID, LETTER_IDS),
        into="share",
        pattern=_selected(lambda tokens, query, key: True),
    )
    reverse = CompiledHead(
        queries={
            "one": _stack(SHARP * ONE, 0 * ONE),
            "position": _stack(0 * POSITIONS, SHARP * POSITIONS),
            "length": _stack(0 * ONE, -SHARP * ONE),
        },
        keys={"position": _stack(-(POSITIONS**2), -2 * POSITIONS)},
        values={"token": np.eye(LETTER_IDS)},
        into="output",
        pattern=_selected(
            lambda tokens, query, key: key == min(len(tokens) - query, len(tokens) - 1)
        ),
    )
    lengths = LookupTable("share", "length", {1 / n: (float(n),) for n in range(1, LONGEST + 1)})
    return Program(
        name="reverse",
        run=lambda tokens: [*reversed(tokens)],
        draw=_drawn(LETTERS),
        words=LETTERS,
        longest=LONGEST,
        causal=False,
        head=TokenLabelHead(LETTER_IDS),
        layers=(CompiledLayer({0: length}, lengths), CompiledLayer({2: reverse})),
        spaces={"share": 1, "length": 1, "output": LETTER_IDS},
    )


def _fraction() -> Program:
    """At each position, the share of "x" among the tokens so far, ``START`` not counted.

    The head attends to all of them uniformly; at ``START``, it attends to ``START``.
    """
    counted = LETTERS.index(COUNTED) + SPECIAL

    def select(tokens: Sequence[str], query: int, key: int) -> bool:
        return key <= query and (key > 0 or query == 0)

    head = CompiledHead(
        queries={"one": -SHARP * ONE},
        keys={"token": _one_hot(START_ID, LETTER_IDS)},
        values=_share_of(counted, LETTER_IDS),
        into="output",
        pattern=_selected(select),
    )
    return Program(
        name="fraction",
        run=lambda tokens: [
            tokens[:count].count(COUNTED) / count for count in range(1, len(tokens) + 1)
        ],
        draw=_drawn(LETTERS),
        words=LETTERS,
        longest=LONGEST,
        causal=True,
        head=TokenLabelHead(1),
        layers=(CompiledLayer({1: head}),),
        spaces={"output": 1},
    )


def _sort() -> Program:
    """Different digits in ascending order.

    In the first layer a token attends to ``START`` and to the digits up to its own, uniformly: the
    weight of ``START`` is 1/(1 + r) for the digit of rank r. In the second, query i attends to the
    key of rank i, where -(i - r)² is highest.
    """
    counted = np.zeros((DIGIT_IDS, DIGIT_IDS))  # keys, queries
    counted[SPECIAL:, SPECIAL:] = np.tri(len(DIGITS)).T
    counted[START_ID] = 1.0

    def selects(tokens: Sequence[str], query: int, key: int) -> bool:
        return key == 0 or (query > 0 and tokens[key] <= tokens[query])

    def places(tokens: Sequence[str], query: int, key: int) -> bool:
        return key == (tokens.index(sorted(tokens[1:])[query - 1]) if query else 0)

    count = CompiledHead(
        queries={"token": SHARP * counted},
        keys={"token": np.eye(DIGIT_IDS)},
        values=_share_of(START_ID, DIGIT_IDS),
        into="share",
        pattern=_selected(selects),
    )
    place = CompiledHead(
        queries={
            "one": _stack(SHARP * ONE, 0 * ONE),
            "position": _stack(0 * POSITIONS, SHARP * POSITIONS),
        },
        keys={"rank": np.array([[0.0, -1.0], [2.0, 0.0]])},
        values={"token": np.eye(DIGIT_IDS)},
        into="output",
        pattern=_selected(places),
    )
    ranks = {1 / (1 + rank): (float(rank), float(rank**2)) for rank in range(len(DIGITS) + 1)}
    return Program(
        name="sort",
        run=sorted,
        draw=_drawn(DIGITS, unique=True),
        words=DIGITS,
        longest=LONGEST,
        causal=False,
        head=TokenLabelHead(DIGIT_IDS),
        layers=(
            CompiledLayer({3: count}, LookupTable("share", "rank", ranks)),
            CompiledLayer({0: place}),
        ),
        spaces={"share": 1, "rank": 2, "output": DIGIT_IDS},
    )


PROGRAMS: dict[str, Program] = {
    program.name: program
    for program in (_previous_token(), _induction(), _reverse(), _fraction(), _sort())
}
"""Compiled programs by name."""
