"""Optimal assignment of rows to columns (Kuhn, 1955), by shortest augmenting paths."""

import numpy as np

from regard.metrics.intervals import FloatArray


def best_assignment(values: FloatArray) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the one-to-one assignment with the largest sum of values.

    The smaller side is assigned completely (Jonker & Volgenant, 1987).
    """
    if values.shape[0] > values.shape[1]:
        columns, rows = best_assignment(values.T)
        order = np.argsort(rows)
        return rows[order], columns[order]
    owners = _assign(values.max(initial=0.0) - values)
    columns = np.flatnonzero(owners >= 0)
    order = np.argsort(owners[columns])
    return owners[columns][order], columns[order]


def _assign(costs: FloatArray) -> np.ndarray:
    """The row that owns each column, or -1; there are at least as many columns as rows."""
    rows, columns = costs.shape
    owners, row_prices, column_prices = np.full(columns, -1), np.zeros(rows), np.zeros(columns)
    for start in range(rows):
        lengths, before = np.full(columns, np.inf), np.full(columns, -1)
        done, row, column, reached = np.zeros(columns, dtype=bool), start, -1, 0.0
        while row >= 0:
            through = reached + costs[row] - row_prices[row] - column_prices
            shorter = ~done & (through < lengths)
            lengths[shorter], before[shorter] = through[shorter], column
            column = int(np.where(done, np.inf, lengths).argmin())
            done[column], reached, row = True, lengths[column], int(owners[column])
        ends = done & (owners >= 0)
        row_prices[owners[ends]] += reached - lengths[ends]
        row_prices[start] += reached
        column_prices[done] += lengths[done] - reached
        while column >= 0:
            previous = int(before[column])
            owners[column] = start if previous < 0 else owners[previous]
            column = previous
    return owners
