"""Slow twins of what the library does fast, written to be read.

Nothing here calls the library: plain loops over plain lists and arrays, so that a mistake in one
place cannot hide the same mistake in the other. The twins take matrices; `matrix` turns a
convolution weight into one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Matrix: TypeAlias = NDArray[np.floating[Any]]
Mask: TypeAlias = NDArray[np.bool_]


def matrix(weight: NDArray[Any]) -> NDArray[Any]:
    """Return one row per output channel and tap of a weight (out, in, *k)."""
    rows = []
    for out in range(weight.shape[0]):
        for tap in np.ndindex(*weight.shape[2:]):
            rows.append([weight[(out, column, *tap)] for column in range(weight.shape[1])])
    return np.array(rows)


# ------------------------------------------------------------------------------ orders


def is_permutation(order: Sequence[int]) -> bool:
    """Decide whether every item stands exactly once."""
    return sorted(order) == list(range(len(order)))


def inverted(order: Sequence[int]) -> list[int]:
    """Return where each item went."""
    return [list(order).index(item) for item in range(len(order))]


def composed(first: Sequence[int], second: Sequence[int]) -> list[int]:
    """Return what `second` picks from what `first` picked."""
    return [first[position] for position in second]


def expanded(order: Sequence[int], width: int) -> list[int]:
    """Return the items of the units in the units' order."""
    return [unit * width + inside for unit in order for inside in range(width)]


def legal(order: Sequence[int], segments: Sequence[int], width: int) -> bool:
    """Decide whether items stay in their segment and whole units move."""
    if not is_permutation(order) or len(order) != sum(segments):
        return False
    home = [index for index, length in enumerate(segments) for _ in range(length)]
    if any(home[position] != home[item] for position, item in enumerate(order)):
        return False
    for position, item in enumerate(order):
        if position % width and item != order[position - 1] + 1:
            return False
        if position % width == 0 and item % width:
            return False
    return True


# ------------------------------------------------------------------------------ N:M


def retained_nm(scores: Matrix, n: int, m: int) -> float:
    """Return the sum of the `n` largest entries of every `m` consecutive ones in a row."""
    total = 0.0
    for row in scores.tolist():
        for first in range(0, len(row), m):
            total += sum(sorted(row[first : first + m])[-n:])
    return total


def keep_nm(scores: Matrix, n: int, m: int) -> Mask:
    """Return the mask of the `n` largest of every group; of equals, the one further left."""
    mask = np.zeros(scores.shape, dtype=np.bool_)
    for r, row in enumerate(scores.tolist()):
        for first in range(0, len(row), m):
            places = range(first, first + m)
            for place in sorted(places, key=lambda at: (-row[at], at))[:n]:
                mask[r, place] = True
    return mask


def keep_unstructured(scores: NDArray[Any], kept: float) -> Mask:
    """Return the mask of the largest entries; round((1 - kept) * size) are dropped."""
    flat = scores.ravel().tolist()
    count = len(flat) - round((1 - kept) * len(flat))
    mask = np.zeros(len(flat), dtype=np.bool_)
    for place in sorted(range(len(flat)), key=lambda at: (-flat[at], at))[:count]:
        mask[place] = True
    return mask.reshape(scores.shape)


def row_ceiling(scores: Matrix, n: int, m: int) -> float:
    """Return what is kept when each row may keep its largest `n` / `m` anywhere."""
    count = scores.shape[1] // m * n
    return sum(sum(sorted(row)[-count:]) for row in scores.tolist())


def partitions(items: Sequence[int], m: int) -> Iterator[list[list[int]]]:
    """Yield every way to split items into groups of `m`, each once, by recursion."""
    if not items:
        yield []
        return
    first, rest = items[0], list(items[1:])
    for group in _picks(rest, m - 1):
        others = [item for item in rest if item not in group]
        for split in partitions(others, m):
            yield [[first, *group], *split]


def _picks(items: Sequence[int], count: int) -> Iterator[list[int]]:
    if count == 0:
        yield []
        return
    for at, item in enumerate(items):
        for rest in _picks(items[at + 1 :], count - 1):
            yield [item, *rest]


def best_partition(scores: Matrix, n: int, m: int) -> tuple[float, list[int]]:
    """Return the highest retained score of any grouping of the columns, and its order."""
    best, order = -1.0, list(range(scores.shape[1]))
    for split in partitions(range(scores.shape[1]), m):
        tried = [column for group in split for column in group]
        value = retained_nm(scores[:, tried], n, m)
        if value > best:
            best, order = value, tried
    return best, order


# ------------------------------------------------------------------------------ results


def efficacy(baseline: float, score: float, ceiling: float) -> float:
    """Return the share of the loss against the ceiling that was won back; 1 without a loss."""
    return 1.0 if ceiling <= baseline else (score - baseline) / (ceiling - baseline)


def in_place(mask: Mask, rows: Sequence[int], cols: Sequence[int]) -> Mask:
    """Return a mask that was made in storage order in the layout of the weight."""
    out = np.zeros(mask.shape, dtype=np.bool_)
    for stored_row, row in enumerate(rows):
        for stored_col, col in enumerate(cols):
            out[row, col] = mask[stored_row, stored_col]
    return out
