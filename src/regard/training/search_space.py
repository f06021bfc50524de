"""Hyper-parameter search: settings with ranges or lists of values, and the trials made of them.

``optimiser.rate=1e-4..1e-3:log`` is a range, drawn from a logarithmic scale, and
``batches.rows=16,32,64`` a list. A grid tries every combination; random search (Bergstra & Bengio,
2012) draws each value of a trial at random. Trial n depends only on the seed and n, so that a
search can be resumed, and made longer.
"""

import math
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any

from regard.core.errors import BadInput

NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
RANGE = re.compile(rf"({NUMBER})\.\.({NUMBER})(:log)?(?::(\d+))?")
MOST = 10_000  # trials of a grid
OPENING, CLOSING = "[{", "]}"
Trial = dict[str, str]
"""The values of a trial as text, by the names of their keys."""


@dataclass(frozen=True)
class ValueList:
    """Key with a list of values."""

    name: str
    values: tuple[str, ...]

    def draw(self, draws: Random) -> str:
        """A value at random."""
        return draws.choice(self.values)

    def suggest(self, trial: Any) -> str:
        """The value that a sampler of Optuna chooses for a trial."""
        return str(trial.suggest_categorical(self.name, self.values))

    @property
    def points(self) -> tuple[str, ...]:
        """All values; none if there is no finite number of them."""
        return self.values


@dataclass(frozen=True)
class ValueRange:
    """Key with a range of numbers, both ends included; whole if both ends are.

    A grid takes ``count`` numbers of it, evenly spaced (if ``log``, their logarithms are).
    """

    name: str
    low: float
    high: float
    log: bool
    whole: bool
    count: int = 0

    def draw(self, draws: Random) -> str:
        """A value at random, uniform on the scale of the range."""
        return draws.choice(self.points) if self.count else self._at(draws.random())

    def suggest(self, trial: Any) -> str:
        """The value that a sampler of Optuna chooses for a trial."""
        if self.count:
            return str(trial.suggest_categorical(self.name, self.points))
        if self.whole:
            return str(trial.suggest_int(self.name, int(self.low), int(self.high), log=self.log))
        return f"{trial.suggest_float(self.name, self.low, self.high, log=self.log):.4g}"

    @property
    def points(self) -> tuple[str, ...]:
        """The numbers of a grid; none without ``count``."""
        shares = (number / max(1, self.count - 1) for number in range(self.count))
        return tuple(dict.fromkeys(map(self._at, shares)))

    def _at(self, share: float) -> str:
        """The number at a share of the way from the lower to the upper end."""
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        value = low + share * (high - low)
        value = min(max(math.exp(value) if self.log else value, self.low), self.high)
        return str(round(value)) if self.whole else f"{value:.4g}"


Dimension = ValueList | ValueRange


@dataclass(frozen=True)
class SearchSpace:
    """The keys that are searched, and settings that hold for all trials."""

    dimensions: tuple[Dimension, ...]
    fixed: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: Sequence[str]) -> "SearchSpace":
        """Parse settings: those with a range or a list of values are searched."""
        dimensions, fixed = [], []
        for setting in settings:
            name, _, text = setting.partition("=")
            dimension = parse_dimension(name.strip(), text.strip())
            if dimension is None:
                fixed.append(setting)
            else:
                dimensions.append(dimension)
        names = [dimension.name for dimension in dimensions]
        if twice := [name for name in names if names.count(name) > 1]:
            raise BadInput(f"setting {twice[0]}: is searched twice; give its values in one list")
        if not dimensions:
            example = "optimiser.rate=1e-4..1e-3:log or batches.rows=16,32"
            raise BadInput(f"no setting has several values; write one as in {example}")
        return cls(tuple(dimensions), tuple(fixed))

    def grid(self) -> list[Trial]:
        """Trials of all combinations; a range without a number of points is refused."""
        size = 1
        for dimension in self.dimensions:
            if not dimension.points:
                form = f"{dimension.name}=…:5"
                raise BadInput(
                    f"setting {dimension.name}: a grid needs the number of points of a range "
                    f"({form}); or give a number of trials, which are drawn at random"
                )
            size *= len(dimension.points)
        if size > MOST:
            raise BadInput(f"a grid of {size:,} trials; at most {MOST:,}: give a number of trials")
        names = [dimension.name for dimension in self.dimensions]
        values = product(*(dimension.points for dimension in self.dimensions))
        return [dict(zip(names, chosen, strict=True)) for chosen in values]

    def random(self, count: int, seed: int) -> list[Trial]:
        """Trials drawn at random; of a finite space, different ones, at most all."""
        sizes = [len(dimension.points) for dimension in self.dimensions]
        if all(sizes) and math.prod(sizes) <= MOST:
            trials = self.grid()
            Random(seed).shuffle(trials)
            return trials[:count]
        return [self._draw(seed, number) for number in range(count)]

    def _draw(self, seed: int, number: int) -> Trial:
        draws = Random(f"{seed} {number}")
        return {dimension.name: dimension.draw(draws) for dimension in self.dimensions}

    def settings(self, trial: Trial) -> list[str]:
        """The settings of a trial, as ``regard train --set`` takes them."""
        return [*self.fixed, *(f"{name}={value}" for name, value in trial.items())]


def parse_dimension(name: str, text: str) -> Dimension | None:
    """A range or a list of values; None: one value, which may be TOML of any type."""
    if match := RANGE.fullmatch(text):
        return _range(name, match)
    if ".." in text and re.match(NUMBER, text):
        raise BadInput(f"setting {name}={text}: write a range as low..high, low..high:log or …:5")
    values = tuple(_split(text))
    if len(values) < 2 or _is_toml(text):
        return None
    if "" in values:
        raise BadInput(f"setting {name}={text}: a value of the list is empty")
    return ValueList(name, tuple(dict.fromkeys(values)))


def _range(name: str, match: re.Match[str]) -> ValueRange:
    low, high, log, count = match.groups()
    whole = all(re.fullmatch(r"[-+]?\d+", end) for end in (low, high))
    setting = f"setting {name}={match[0]}"
    if not float(low) < float(high):
        raise BadInput(f"{setting}: the lower end of a range comes first")
    if log and float(low) <= 0:
        raise BadInput(f"{setting}: a logarithmic range begins above 0")
    if count and not 2 <= int(count) <= MOST:
        raise BadInput(f"{setting}: a range has 2 to {MOST:,} points")
    return ValueRange(name, float(low), float(high), bool(log), whole, int(count or 0))


def _is_toml(text: str) -> bool:
    try:
        tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return False
    return True


def _split(text: str) -> Iterator[str]:
    """Parts of a text between commas, except those in brackets, braces and quotes."""
    depth, quote, part = 0, "", ""
    for sign in text:
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        depth += 0 if quote else (sign in OPENING) - (sign in CLOSING)
        if sign == "," and not depth and not quote:
            yield part.strip()
            part = ""
        else:
            part += sign
    yield part.strip()
