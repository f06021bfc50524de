"""Statistics of the results of a bulk run, kept as sums, which a resumed run continues."""

from collections import Counter
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.inference.component import AnyResult
    from regard.tasks.components import AnyComponent

LABEL = "label"  # the column whose values are counted
LABELS = 8  # of which the most frequent are printed
RESULTS, TOKENS, CUT = "results", "tokens", "results cut"
SUM, COUNT, CHARACTERS, TEXTS, EMPTY = "sum", "count", "characters", "texts", "empty texts"


def statistics_of(component: "AnyComponent", result: "AnyResult") -> dict[str, float]:
    """Summands of one result: tokens, and figures of the columns of its best value."""
    sums: dict[str, float] = {RESULTS: 1, TOKENS: result.usage, CUT: result.cut}
    vectors = component.arrays(result)
    for name, vector in vectors.items():
        sums |= _number(f"norm of {name}", float(vector @ vector) ** 0.5)
    cells = {} if vectors else next(iter(component.cells(result)), {})
    for column, value in cells.items():
        if isinstance(value, float) and isfinite(value):
            sums |= _number(column, value)
        elif isinstance(value, str) and column == LABEL:
            sums[f"{LABEL} {value}"] = 1
        elif isinstance(value, str):
            sums |= {f"{CHARACTERS} {column}": len(value), f"{TEXTS} {column}": 1}
            sums[f"{EMPTY} {column}"] = not value.strip()
    return sums


def _number(name: str, value: float) -> dict[str, float]:
    return {f"{SUM} {name}": value, f"{COUNT} {name}": 1}


def describe_statistics(sums: Mapping[str, float], inputs: int, bad: int) -> str:
    """The statistics of ``inputs``, of which some were bad and others blank, in one line."""
    results = int(sums.get(RESULTS, 0))
    counts = [f"{results:,} results of {inputs:,} inputs", f"{bad:,} bad"]
    if blank := inputs - results - bad:
        counts.append(f"{blank:,} blank")
    counts += [f"{sums.get(CUT, 0):,.0f} cut", f"{sums.get(TOKENS, 0):,.0f} tokens"]
    return "; ".join([", ".join(counts), *_columns(sums)])


def describe_speed(inputs: int, tokens: float, seconds: float) -> str:
    """The speed of a run, from its start to its end, in one line."""
    seconds = max(seconds, 1e-3)
    return f"{seconds:,.1f} s: {inputs / seconds:,.1f} inputs/s, {tokens / seconds:,.0f} tokens/s"


def _columns(sums: Mapping[str, float]) -> Iterator[str]:
    labels = Counter(_named(sums, LABEL))
    if total := sum(labels.values()):
        shares = (f"{name} {count / total:.1%}" for name, count in labels.most_common(LABELS))
        more = len(labels) - LABELS
        yield f"{LABEL}: {', '.join(shares)}" + (f", {more} more" if more > 0 else "")
    for name, count in _named(sums, COUNT).items():
        yield f"{name}: mean {sums[f'{SUM} {name}'] / count:.4g}"
    for name, count in _named(sums, TEXTS).items():
        mean, empty = sums[f"{CHARACTERS} {name}"] / count, sums[f"{EMPTY} {name}"]
        yield f"{name}: mean {mean:.1f} characters, {empty:,.0f} empty"


def _named(sums: Mapping[str, float], kind: str) -> dict[str, float]:
    """The sums of one kind, by the name of their column or label."""
    start = f"{kind} "
    return {key.removeprefix(start): value for key, value in sums.items() if key.startswith(start)}
