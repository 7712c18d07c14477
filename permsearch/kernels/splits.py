"""Every way to share the columns of a few groups out again, priced from one table of group values.

A window holds the w columns of k groups of m. A re-split is a set of k disjoint m-subsets, and two
re-splits have most of their subsets in common, so the window's C(w, m) subsets are valued once
and a re-split costs k table look-ups: 495 subsets price the 5,775 re-splits of 12 columns.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import get_num_threads, njit

from permsearch.kernels.subsets import subset_values
from permsearch.kernels.value import group_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

__all__ = ["apply_splits", "best_splits", "split_table"]

_WORTH_SPLITTING = 1 << 26  # subset values times rows below which threads cost more than they save


def _partitions(free: tuple[int, ...], m: int) -> Iterator[list[tuple[int, ...]]]:
    """Yield every partition into sets of m, each led by the smallest item still free."""
    if not free:
        yield []
        return
    for rest in combinations(free[1:], m - 1):
        first = (free[0], *rest)
        taken = set(first)
        for others in _partitions(tuple(i for i in free if i not in taken), m):
            yield [first, *others]


@cache
def split_table(m: int, k: int) -> tuple[Ints, Ints]:
    """Return the m-subsets of k*m places and all re-splits as indices into them.

    Returns
    -------
    subsets : int64 array, shape (C(k*m, m), m)
        In lexicographic order.
    splits : int64 array, shape (number of re-splits, k)
        Row 0 leaves every column where it is.
    """
    places = tuple(range(k * m))
    subsets = list(combinations(places, m))
    rank = {subset: i for i, subset in enumerate(subsets)}
    splits = [[rank[part] for part in parts] for parts in _partitions(places, m)]
    return np.array(subsets, dtype=np.int64), np.array(splits, dtype=np.int64)


@njit(nogil=True, cache=True)
def _best(values: Any, splits: Any) -> tuple[float, int]:
    """Return the gain of the best re-split over the present one, and its row."""
    best = -1.0
    row = 0
    present = 0.0
    for s in range(splits.shape[0]):
        total = 0.0
        for j in range(splits.shape[1]):
            total += values[splits[s, j]]
        if s == 0:
            present = total
        if total > best:
            best = total
            row = s
    return best - present, row


@njit(nogil=True, cache=True)
def _best_of_each(
    columns: Any, order: Any, sets: Any, n: int, m: int, tables: Any, gain: Any, best: Any
) -> None:
    """Do the work of `best_splits` on one core."""
    plan, splits = tables
    k = sets.shape[1]
    window = np.empty(k * m, np.int64)
    values = np.empty(splits.max() + 1)
    for i in range(sets.shape[0]):
        for j in range(k):
            g = sets[i, j]
            window[j * m : (j + 1) * m] = order[g * m : (g + 1) * m]
        subset_values(columns, window, n, m, plan, values)
        gain[i], best[i] = _best(values, splits)


def best_splits(
    columns: NDArray[np.float32],
    order: Ints,
    sets: NDArray[np.integer[Any]],
    n: int,
    m: int,
    tables: tuple[Ints, Ints],
) -> tuple[NDArray[np.float64], Ints]:
    """Return the best re-split of each set of groups: its gain and its row among the re-splits.

    Parameters
    ----------
    columns : float32 array, shape (C, R)
    order : int64 array, shape (C,)
    sets : int array, shape (K, k)
        Groups of each window, increasing.
    n, m : int
    tables : tuple of int64 arrays
        `subset_plan(k * m)` and the re-splits of `split_table(m, k)`.

    Returns
    -------
    gain : float64 array, shape (K,)
        Value of the best re-split less that of the present one; 0 where none is better.
    best : int64 array, shape (K,)
        The first one among equals. Any number of threads gives the same.
    """
    gain, best = np.empty(len(sets)), np.empty(len(sets), np.int64)
    work = len(sets) * (int(tables[1].max()) + 1) * columns.shape[1]
    threads = get_num_threads() if work >= _WORTH_SPLITTING else 1
    cuts = [len(sets) * i // threads for i in range(threads + 1)]
    parts = [
        (columns, order, sets[a:b], n, m, tables, gain[a:b], best[a:b]) for a, b in pairwise(cuts)
    ]
    if threads == 1:
        _best_of_each(*parts[0])
    else:
        with ThreadPoolExecutor(threads) as pool:
            for done in [pool.submit(_best_of_each, *part) for part in parts]:
                done.result()
    return gain, best


@njit(nogil=True, cache=True)
def _regroup(order: Any, groups: Any, subsets: Any, split: Any, out: Any) -> None:
    """Fill ``out`` with the columns of the groups, shared out as ``split`` says."""
    m = subsets.shape[1]
    for j in range(split.shape[0]):
        for i in range(m):
            place = subsets[split[j], i]
            out[j * m + i] = order[groups[place // m] * m + place % m]


@njit(nogil=True, cache=True)
def apply_splits(
    columns: Any, order: Any, sets: Any, n: int, tables: Any, found: Any, current: Any, least: float
) -> Any:
    """Apply the best re-splits to ``order``, largest gain first, no group twice.

    Parameters
    ----------
    columns : float32 array, shape (C, R)
    order : int64 array, shape (C,)
        Changed in place.
    sets : int array, shape (K, k)
    n : int
    tables : tuple of int64 arrays
        The two of `split_table`.
    found : tuple
        Gains and rows of `best_splits`, and the windows to try in this order. The gain of a
        window whose re-split fails the float64 check is set to 0.
    current : float64 array, shape (groups,)
        Values of the groups, changed in place.
    least : float
        Gain in float64 that a re-split must exceed.

    Returns
    -------
    touched : bool array, shape (groups,)
        Groups that changed.
    """
    subsets, splits = tables
    gain, best, ranking = found
    k = sets.shape[1]
    m = subsets.shape[1]
    touched = np.zeros(current.shape[0], np.bool_)
    window = np.empty(k * m, np.int64)
    values = np.empty(k)
    for i in ranking:
        groups = sets[i]
        free = True
        for j in range(k):
            free = free and not touched[groups[j]]
        if not free:
            continue
        _regroup(order, groups, subsets, splits[best[i]], window)
        before = 0.0
        for j in range(k):
            before += current[groups[j]]
            values[j] = group_value(columns, window[j * m : (j + 1) * m], n)
        if values.sum() <= before + least:
            gain[i] = 0.0
            continue
        for j in range(k):
            g = groups[j]
            order[g * m : (g + 1) * m] = window[j * m : (j + 1) * m]
            current[g] = values[j]
            touched[g] = True
    return touched
