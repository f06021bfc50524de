"""Data that needs no file: texts with repetitions, and sums modulo a prime; drawn by a seed."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random

from regard.core.errors import BadInput
from regard.data.readers.examples import LabelledExample
from regard.data.readers.fields import Dropped

PARTS = ("train", "dev", "test")
WORDS = tuple(map("".join, product("bdgkmnst", "aeiou")))  # 40 words of two letters
SHORTEST, LONGEST, LENGTH = 6, 24, 47  # words that are repeated, and words of a text
COUNTS = {"train": 8_000, "dev": 200, "test": 200}


def repeats(
    path: Path, dropped: Dropped = None, part: str = "train", seed: int = 1
) -> Iterator[LabelledExample]:
    """Texts of 47 words, for task "pretrain": 6 to 24 random words, again and again.

    A word can be predicted only where its text has begun again, from what followed it before.
    """
    draw = _generator(part, seed)
    for number in range(COUNTS[part]):
        words = draw.choices(WORDS, k=draw.randint(SHORTEST, LONGEST))
        text = " ".join((words * LENGTH)[:LENGTH])
        yield LabelledExample(f"repeats[{number}]", (text,), None)


def modular_sums(
    path: Path,
    dropped: Dropped = None,
    part: str = "train",
    modulus: int = 113,
    share: float = 0.3,
    seed: int = 0,
) -> Iterator[LabelledExample]:
    """All pairs "a b" of numbers below the modulus, labelled with a + b modulo it.

    A ``share`` of the pairs, chosen at random, is in part "train", the others in "dev" and "test".
    """
    if modulus < 2 or not 0 < share < 1:
        raise BadInput("options.modulus must be at least 2, and options.share between 0 and 1")
    _generator(part, seed)
    pairs = [*product(range(modulus), repeat=2)]
    Random(f"sums {seed}").shuffle(pairs)
    cut = round(share * len(pairs))
    for a, b in pairs[:cut] if part == "train" else pairs[cut:]:
        yield LabelledExample(f"{a} + {b}", (f"{a} {b}",), (str((a + b) % modulus),))


def _generator(part: str, seed: int) -> Random:
    if part not in PARTS:
        raise BadInput(f"options.part must be one of {', '.join(PARTS)}, not {part!r}")
    return Random(f"{part} {seed}")
