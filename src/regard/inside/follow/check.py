"""Check of a computation: differences of recomputed steps, with bounds."""

from dataclasses import dataclass

import numpy as np

from regard.core.errors import BadInput

BOUND = 1e-5  # of a difference, relative to the largest value of the step


@dataclass(frozen=True)
class CheckRow:
    """Largest difference of a step, relative to its largest value, and its bound."""

    step: str
    difference: float
    bound: float
    source: str

    @property
    def passed(self) -> bool:
        """Whether the difference is within the bound."""
        return self.difference <= self.bound  # false for NaN

    def __str__(self) -> str:
        sign = "ok" if self.passed else "FAILED"
        return f"{sign:<7}{self.difference:8.1e}  {self.step}  ({self.source})"


@dataclass(frozen=True)
class CheckReport:
    """Rows of a check, in the order of the steps."""

    rows: tuple[CheckRow, ...]

    @property
    def failed(self) -> tuple[CheckRow, ...]:
        """Steps whose values differ from those of their rules."""
        return tuple(row for row in self.rows if not row.passed)

    @property
    def largest(self) -> float:
        """The largest difference of all steps."""
        return max((row.difference for row in self.rows), default=0.0)

    def __str__(self) -> str:
        if not self.failed:
            figure = f"{self.largest:.1e}"
            return f"{len(self.rows)} checks passed; largest relative difference {figure}"
        return "\n".join(map(str, self.failed))

    def require(self) -> None:
        """Raise BadInput with the first step that failed, if any."""
        if self.failed:
            row = self.failed[0]
            figures = f"relative difference {row.difference:.1e}, bound {row.bound:.0e}"
            raise BadInput(
                f"step {row.step!r} is not what its rule gives: {figures} ({row.source})"
            )


def relative_difference(computed: np.ndarray, recorded: np.ndarray) -> float:
    """Largest difference, relative to the largest finite recorded value."""
    if computed.shape != np.shape(recorded):
        return float("inf")
    finite = np.isfinite(recorded)
    same = np.isfinite(computed) == finite
    if not same.all() or not np.array_equal(computed[~finite], recorded[~finite]):
        return float("inf")  # no number equals NaN, not even itself
    if not finite.any():
        return 0.0
    far = np.abs(computed[finite] - recorded[finite]).max()
    return float(far / (np.abs(recorded[finite]).max() or 1.0))
