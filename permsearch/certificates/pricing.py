"""Which groups of columns are worth more than their duals: all of them, proven, or near some.

`Pricer` screens with 8-bit sums where their error is small against what the groups' values differ
by, else with float32 sums; both errors are bounded, and what passes is valued in float64. So no
group above a threshold is missed, whatever the screen.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np

from permsearch.stack import Stack

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    I64 = NDArray[np.int64]

_UNIT = 2.0**-24  # rounding unit of float32
_SAMPLE = 1 << 16
_TASK = 5e9  # elements of work in one task of a thread
_FOUND = 1 << 18  # groups that a task hands over at a time, at least
_ROOM = 400_000  # groups kept, at most
_HALF_LEVEL = 2.0**-40  # relative rounding of costs in half levels
_DRAWS = 1 << 16  # random groups that tell how many pass a screen
_MOST_LEVELS = 2.0**28  # that the 32-bit integers of the 8-bit screen hold safely
_EXACT = 5.0  # cost of an exact value, in elements priced in float32
_GAIN = 0.8  # of the 8-bit screen, likewise
_WANTED = 200_000  # groups to find beyond those that a limit needs
_BATCH = 1 << 22  # entries of a matrix of exchanges
_NEAR = 100_000  # exchanges returned at a time, about
_FEW = 8  # of each place, at least


def work(count: int, rows: int, m: int) -> float:
    """Return the elements that pricing all groups once looks at, about."""
    return float(comb(count, m)) * rows


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Groups (K, m), every row sorted, and their values in the stack's units."""

    groups: I64
    values: Floats

    def reduced(self, duals: Floats) -> Floats:
        """Return what each group is worth beyond the duals of its columns."""
        from permsearch.kernels.groups import reduced

        out = np.empty(len(self.values))
        reduced(self.values, self.groups, duals, out)
        return out

    def where(self, keep: NDArray[Any]) -> Found:
        """Return some of the groups, by mask or by index."""
        return Found(self.groups[keep], self.values[keep])


def valued(stack: Stack, groups: I64) -> Found:
    """Return groups with their values, summed in float64."""
    from permsearch.kernels.groups import values_of

    values = np.empty(len(groups))
    values_of(stack.columns, groups, stack.n, values)
    return Found(groups, values)


class Pricer:
    """The columns of a stack, prepared for pricing groups against duals.

    Parameters
    ----------
    stack
        At least four columns of scores.
    screen
        ``bytes``, ``floats``, or ``auto``: the one that is expected to be faster.
    """

    def __init__(self, stack: Stack, screen: str = "auto") -> None:
        self.stack = stack
        self._bytes = _Bytes.of(stack)
        self._screen = screen
        rng = np.random.default_rng(0)
        draws = np.stack([rng.integers(len(stack.columns), size=_DRAWS) for _ in range(stack.m)])
        draws = np.sort(draws, axis=0).T
        self._sample = valued(stack, draws[(np.diff(draws, axis=1) > 0).all(axis=1)])
        self._groups = comb(len(stack.columns), stack.m)

    def screen(self, duals: Floats, threshold: float) -> str:
        """Return which sums had better screen the groups: 8-bit ones, unless too much passes."""
        half_levels = 2 * (np.abs(duals).max() + abs(threshold)) / self._bytes.step
        if half_levels * self.stack.m > _MOST_LEVELS:  # any duals may be asked about
            return "floats"
        if self._screen != "auto":
            return self._screen
        rows = self.stack.columns.shape[1]
        slack = self.stack.m * float(self._bytes.error.mean())
        passed = self._above(duals, threshold - slack) * rows * _EXACT
        return "bytes" if passed < self._groups * rows * _GAIN else "floats"

    def margin(self, duals: Floats, wanted: float) -> float:
        """Return how far below its duals a group may be worth before too many are found."""
        worth = np.sort(self._sample.reduced(duals))[::-1]
        allowed = int(_WANTED / self._groups * len(worth))
        return float(np.clip(-worth[min(allowed, len(worth) - 1)], 0, wanted))

    def _above(self, duals: Floats, threshold: float) -> float:
        share = float((self._sample.reduced(duals) > threshold).mean())
        return float(share * self._groups)

    @property
    def _inflation(self) -> float:
        terms = 2 * self.stack.n * (self.stack.columns.shape[1] + 2)
        return float(terms * _UNIT / (1 - terms * _UNIT))

    def above(
        self, duals: Floats, threshold: float, *, halted: Callable[[], bool] | None = None
    ) -> tuple[Found, float] | None:
        """Return every group that exceeds its duals by more than a threshold, and that threshold.

        The threshold is raised where more groups exceed it than there is room for. The answer
        does not depend on the number of threads (numba's).

        Parameters
        ----------
        duals : float64 array, shape (C,)
        threshold : float
        halted : callable, optional
            Asked between pieces of the work; True gives up, and None is returned.
        """
        import numba

        kept = _Kept(self.stack.m, duals, threshold)
        prefixes = _prefixes(len(self.stack.columns), self.stack.m)
        screen = self.screen(duals, threshold)
        tasks = list(pairwise(_cuts(prefixes, self.stack.columns.shape)))

        def run(task: tuple[int, int]) -> Found | None:
            if halted is not None and halted():
                return None
            return self._task(duals, kept.threshold, screen, prefixes[slice(*task)])

        with ThreadPoolExecutor(numba.get_num_threads()) as pool:
            for some in pool.map(run, tasks):
                if some is None:
                    pool.shutdown(cancel_futures=True)
                    return None
                kept.add(some)
        return kept.all(), kept.threshold

    def _task(self, duals: Floats, threshold: float, screen: str, prefixes: I64) -> Found:
        """Return what exceeds the threshold behind some prefixes."""
        stack = self.stack
        count = len(stack.columns)
        buffer = np.empty((max(_FOUND, count * (count - 1) // 2), stack.m), np.int64)
        scan = self._scan(duals, threshold, screen)
        kept = _Kept(stack.m, duals, threshold)
        done = 0
        while done < len(prefixes):
            some, size = scan(prefixes[done:], buffer)
            done += some
            kept.add(valued(stack, buffer[:size]))
        return kept.all()

    def _scan(
        self, duals: Floats, threshold: float, screen: str
    ) -> Callable[[I64, I64], tuple[int, int]]:
        """Return the kernel with everything but prefixes and the room for groups filled in."""
        stack = self.stack
        if screen == "bytes":
            from permsearch.kernels.pricing import price_bytes
            from permsearch.kernels.sad import padded_bytes

            coded = self._bytes
            cost = (duals - coded.error) * (2 / coded.step)
            limit = threshold * (2 / coded.step) - _HALF_LEVEL * (1 + abs(cost).max())
            y = padded_bytes(len(stack.columns) + 2, stack.columns.shape[1])
            levels, sums = coded.levels, coded.sums
            return lambda some, out: price_bytes(levels, sums, cost, limit, stack.n, some, y, out)
        from permsearch.kernels.pricing_float import price_floats

        room = np.empty((len(stack.columns) + 1, stack.columns.shape[1]), np.float32)
        more = 1 + self._inflation
        return lambda some, out: price_floats(
            stack.columns, duals, more, threshold, stack.n, some, room, out
        )

    def near(self, groups: I64, duals: Floats, threshold: float) -> I64:
        """Return the one-column exchanges of some groups that look worth more than a threshold.

        A heuristic: 8-bit values are taken for what they are, whatever their error, and of many
        exchanges only the best few of each place are returned.
        """
        from permsearch.kernels.exchanges import byte_holes
        from permsearch.kernels.sad import padded_bytes, sad_matrix

        screen = self._bytes
        count, m = len(self.stack.columns), self.stack.m
        cost = (duals - screen.bias) * (2 / screen.step)
        last = screen.sums - cost
        batch = max(1, _BATCH // (count * m))
        few = int(np.clip(_NEAR // max(1, len(groups) * m), _FEW, count - 1))
        found = [np.empty((0, m), np.int64)]
        for first in range(0, len(groups), batch):
            some = groups[first : first + batch]
            holes = padded_bytes(len(some) * m, self.stack.columns.shape[1])
            heads = np.empty(len(holes))
            byte_holes(screen.levels, some, self.stack.n, holes, heads)
            rest = heads - (cost[some].sum(axis=1, keepdims=True) - cost[some]).ravel()
            sums = sad_matrix(holes, screen.levels, np.empty((len(holes), count), np.int32))
            worth = sums + last
            least = np.partition(worth, count - few, axis=1)[:, count - few]
            least = np.maximum(least, threshold * 2 / screen.step - rest)
            hole, column = np.nonzero(worth >= least[:, None])
            found.append(_exchanged(some, hole, column))
        return np.unique(np.concatenate(found), axis=0)


def _exchanged(groups: I64, hole: I64, column: I64) -> I64:
    """Return groups with the column of a hole replaced, sorted; those that hold it are left out."""
    m = groups.shape[1]
    group, place = np.divmod(hole, m)
    new = groups[group]
    fresh = (new != column[:, None]).all(axis=1)
    new[np.arange(len(new)), place] = column
    return np.sort(new[fresh], axis=1)


class _Kept:
    """Groups found so far, no more than there is room for; then the threshold rises."""

    def __init__(self, m: int, duals: Floats, threshold: float) -> None:
        self.threshold = threshold
        self._duals = duals
        self._parts = [Found(np.empty((0, m), np.int64), np.empty(0))]
        self._size = 0

    def add(self, some: Found) -> None:
        """Take what exceeds the threshold."""
        some = some.where(some.reduced(self._duals) > self.threshold)
        self._parts.append(some)
        self._size += len(some.values)
        if self._size > _ROOM:
            every = self.all()
            worth = every.reduced(self._duals)
            self.threshold = float(np.median(worth))
            self._parts = [every.where(worth > self.threshold)]
            self._size = len(self._parts[0].values)

    def all(self) -> Found:
        """Return the groups in the order they came."""
        return Found(
            np.concatenate([part.groups for part in self._parts]),
            np.concatenate([part.values for part in self._parts]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Bytes:
    """Columns in levels: ``columns <= levels * step`` but for ``error``, summed over each column.

    The sum of the n largest is monotone and subadditive, so a group keeps at most step times what
    its levels keep, and the errors of its columns. ``bias`` is what the two differ by on average.
    """

    levels: NDArray[np.uint8]
    step: float
    sums: I64
    error: Floats
    bias: Floats

    @classmethod
    def of(cls, stack: Stack) -> _Bytes:
        from permsearch.kernels.sad import padded_bytes

        columns = stack.columns
        step = _best_step(columns)
        levels = padded_bytes(*columns.shape)
        error = np.empty(len(columns))
        for c, column in enumerate(columns.astype(np.float64)):
            levels[c, : len(column)] = np.minimum(255, np.rint(column / step))
            off = column - step * levels[c, : len(column)].astype(np.float64)
            error[c] = np.maximum(off, 0).sum() * (1 + 1e-12)
        sums = levels.sum(axis=1, dtype=np.int64)
        bias = (columns.sum(axis=1, dtype=np.float64) - step * sums) / 2
        return cls(levels, step, sums, error, bias)


def _best_step(columns: NDArray[np.float32]) -> float:
    """Return the value of a level for which rounding and clipping cost least."""
    flat = columns.ravel()
    sample = flat[:: max(1, flat.size // _SAMPLE)].astype(np.float64)
    peak = float(flat.max())
    if peak <= 0:
        return 1.0

    def cost(step: float) -> float:
        levels = np.minimum(255, np.rint(sample / step))
        return float(np.maximum(0, sample - step * levels).sum())

    return min((peak / 255 * 2 ** (-k / 4) for k in range(20)), key=cost)


def _prefixes(count: int, m: int) -> I64:
    """Return all sorted prefixes of m - 2 columns, leaving room for two behind them."""
    if m == 4:
        return np.stack(np.triu_indices(count - 2, 1), axis=1).astype(np.int64)
    rows = list(combinations(range(count - 2), m - 2))
    return np.array(rows, dtype=np.int64).reshape(len(rows), m - 2)


def _cuts(prefixes: I64, shape: tuple[int, ...]) -> list[int]:
    """Return where to cut the prefixes into tasks of about equal work."""
    count, rows = shape
    behind = count - 1 - (prefixes[:, -1] if prefixes.shape[1] else np.full(len(prefixes), -1))
    done = np.cumsum(behind.astype(np.float64) ** 2 / 2 * rows)
    parts = max(1, int(done[-1] / _TASK))
    inner = np.searchsorted(done, done[-1] * np.arange(1, parts) / parts)
    return [0, *np.unique(inner[(inner > 0) & (inner < len(prefixes))]).tolist(), len(prefixes)]
