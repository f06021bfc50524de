"""Rules of embeddings: vectors of tokens, positions, segments and patches."""

import numpy as np


def look_up(ids, table, *, scale=1.0):
    """Row of the table for each id, times ``scale``."""
    return table[ids.astype(int)] * scale


def learned_positions(ids, table, *, offset):
    """Row of the table for each place, from ``offset`` on."""
    return table[offset : offset + len(ids)]


def sinusoids(ids, *, width, base, halves):
    """sin and cos of place / base^(2i / width), in turn, or all sines first."""
    angles = np.arange(len(ids))[:, None] * float(base) ** (-np.arange(0, width, 2) / width)
    if halves:
        return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)[:, :width]
    return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(len(ids), -1)[:, :width]


def total(*parts):
    """Sum of the vectors."""
    return sum(parts)


def beside(*parts):
    """Vectors side by side."""
    return np.concatenate(parts, axis=-1)


def patch_vectors(pixels, weight, bias=0.0, *, patch):
    """Linear layer over the pixels of all channels of each patch, row by row."""
    channels, height, width = pixels.shape
    rows, columns = height // patch[0], width // patch[1]
    cut = pixels.reshape(channels, rows, patch[0], columns, patch[1])
    flat = cut.transpose(1, 3, 0, 2, 4).reshape(rows * columns, -1)
    return flat @ weight.T + bias


def prefix_vectors(table):
    """Learned vectors before the patches."""
    return table


def grid_positions(patches, table):
    """Learned vector of each prefix token and patch."""
    return table


def grid_sinusoids(patches, *, prefix, grid, width):
    """Sinusoids of the column and of the row of each patch; zeros for the prefix."""
    quarter = width // 4
    frequencies = 10_000.0 ** (-np.arange(quarter) / max(1, quarter - 1))
    rows, columns = np.divmod(np.arange(grid[0] * grid[1]), grid[1])
    angles = [place[:, None] * frequencies for place in (columns, rows)]
    vectors = [function(angle) for angle in angles for function in (np.sin, np.cos)]
    return np.concatenate([np.zeros((prefix, width)), np.concatenate(vectors, axis=1)])


def placed_patches(patches, position, prefix=None):
    """Prefix vectors, then patches, plus positions."""
    vectors = patches if prefix is None else np.concatenate([prefix, patches])
    return vectors + position
