"""The best blocks of a whole matrix that may begin anywhere: one price, exact, with its proof.

For every price p the value is at most sum_r f_r(p) + p K, f_r the best value of row r at that
price (`permsearch.kernels.unaligned_rows`): the dual. The most that k blocks hold is a concave
function of k, since blocks of equal length overlap in chains that can be exchanged, so there is
no gap: at the price where the number of blocks passes K, rows that differ below and above it are
mixed, at most one of them by chains, to have exactly K.

The price is found by the secant method on the number of blocks (Illinois variant) in turn with
the meeting point of the two tangents of the dual, which is the price itself as soon as no row
changes in between. Rows that have the same blocks at both ends of the bracket have them
everywhere inside, and are not looked at again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from permsearch.kernels.unaligned_greedy import take_in_turn
from permsearch.kernels.unaligned_rows import mixed_starts, price_rows, row_starts

_SAMPLE = 64  # rows that the bracket is looked for in, at least
_SHARE = 16  # ... and one row in so many
_MARGIN = 0.02  # of the price, by which the sample may be wrong
_CLOSE = 2.0**-50  # relative
_MOST = 200  # prices


@dataclass(slots=True)
class _End:
    """One end of the bracket: a price, and value and number of blocks of every row at it."""

    price: float
    value: NDArray[np.float64]
    count: NDArray[np.int64]
    total: int = field(init=False)

    def __post_init__(self) -> None:
        self.total = int(self.count.sum())

    @property
    def kept(self) -> float:
        """The sum of the blocks themselves."""
        return float(self.value.sum()) + self.price * self.total


@dataclass(slots=True)
class _Search:
    """The bracket of the price at which a matrix has so many blocks."""

    matrix: NDArray[Any]
    size: int
    kept: int
    low: _End | None = None
    high: _End | None = None
    bound: float = np.inf

    def at(self, price: float, near: tuple[_End, _End] | None = None) -> _End:
        """Return all rows at a price; those that agree at two ends around it are carried over."""
        if near is None:
            value, count = np.empty(len(self.matrix)), np.empty(len(self.matrix), np.int64)
            rows = np.arange(len(self.matrix))
        else:
            other = near[1]
            value = other.value + (other.price - price) * other.count
            count = other.count.copy()
            rows = np.flatnonzero(near[0].count != near[1].count)
        price_rows(self.matrix, self.size, price, rows, value, count)
        end = _End(price, value, count)
        self.bound = min(self.bound, float(value.sum()) + price * self.kept)
        return end

    @property
    def ends(self) -> tuple[_End, _End]:
        """The bracket, once there is one."""
        assert self.low is not None
        assert self.high is not None
        return self.low, self.high

    def take(self, end: _End) -> bool:
        """Narrow the bracket by an end; return whether it is the lower one."""
        lower = end.total > self.kept
        if lower:
            self.low = end
        else:
            self.high = end
        return lower

    def bracket(self, guess: float | None, most: float) -> bool:
        """Find a price of too many blocks and one of few enough; return whether there are both."""
        if guess is not None:
            for price in (guess * (1 - _MARGIN), guess * (1 + _MARGIN)):
                self.take(self.at(price))
        if self.low is None:
            self.take(self.at(0.0))
        if self.high is None:
            self.high = _End(most, np.zeros(len(self.matrix)), np.zeros(len(self.matrix), np.int64))
        return self.low is not None

    def narrow(self) -> None:
        """Narrow the bracket until its ends prove each other or nothing lies between them."""
        low, high = self.ends
        excess = [float(low.total - self.kept), float(self.kept - high.total)]
        last: bool | None = None
        for turn in range(_MOST):
            low, high = self.ends
            if high.total == self.kept or high.price - low.price <= _CLOSE * high.price:
                return
            meeting = (low.kept - high.kept) / (low.total - high.total)
            tangent = turn % 2 == 1 or low.total - high.total == 1
            share = excess[0] / (excess[0] + excess[1])
            price = meeting if tangent else low.price + (high.price - low.price) * share
            if not low.price < price < high.price:
                price = (low.price + high.price) / 2
            end = self.at(price, (low, high))
            line = float(low.kept) - price * low.total
            if tangent and end.value.sum() <= line * (1 + 1e-14):
                return  # both ends are best at this price
            lower = self.take(end)
            excess[not lower] = float(abs(end.total - self.kept))
            if last is lower:
                excess[lower] /= 2
            last = lower


def best_starts(matrix: NDArray[Any], size: int, kept: int) -> tuple[NDArray[np.bool_], float]:
    """Return where the `kept` best blocks begin, and what no choice of as many exceeds.

    Parameters
    ----------
    matrix
        Scores, shape (R, C), >= 0.
    size
        Columns of a block, at most C.
    kept
        Blocks, at most R times those that fit into a row. Blocks of zeros are left out.

    Returns
    -------
    bool array, shape (R, C)
    float
        The price bound, not rounded up.
    """
    # kernels take no float16
    matrix = np.ascontiguousarray(matrix, np.result_type(matrix, np.float32))
    starts = np.zeros(matrix.shape, dtype=np.bool_)
    most = float(matrix.max(initial=0.0)) * size * 2
    if most == 0:
        return starts, 0.0
    search = _Search(matrix, size, kept)
    if search.bracket(_guess(matrix, size, kept, most), most):
        search.narrow()
        _place(starts, search, *search.ends)
    else:
        assert search.high is not None  # even for nothing no more blocks are worth having
        _place(starts, search, search.high, search.high)
    _fill(starts, search)
    return starts, search.bound


def _guess(matrix: NDArray[Any], size: int, kept: int, most: float) -> float | None:
    """Return the price that some of the rows have; None where they say nothing."""
    step = len(matrix) // max(_SAMPLE, len(matrix) // _SHARE)
    if step < 2:
        return None
    some = np.ascontiguousarray(matrix[step // 2 :: step])
    sample = _Search(some, size, kept * len(some) // len(matrix))
    if not sample.bracket(None, most):
        return None
    sample.narrow()
    return sample.ends[1].price


def _place(starts: NDArray[np.bool_], search: _Search, low: _End, high: _End) -> None:
    """Mark the blocks of the upper end, and of as many rows those of the lower as are missing."""
    size, missing = search.size, search.kept - high.total
    for r, row in enumerate(search.matrix):
        chosen = row_starts(row, size, high.price) if high.count[r] else np.empty(0, np.int64)
        more = min(int(low.count[r] - high.count[r]), missing)
        if more > 0:
            others = row_starts(row, size, low.price)
            chosen = mixed_starts(chosen, others, size, len(chosen) + more)
            missing -= more
        starts[r, chosen] = True


def _fill(starts: NDArray[np.bool_], search: _Search) -> None:
    """Add blocks, heavy ones first, that the recursion's rounding swallowed.

    Next to entries 2^53 times as large all others look like nothing.
    """
    missing = search.kept - int(starts.sum())
    if missing <= 0:
        return
    size, matrix = search.size, search.matrix
    last = matrix.shape[1] - size + 1
    mask, worth = starts.copy(), np.zeros(matrix.shape)
    for shift in range(size):
        worth[:, :last] += matrix[:, shift : shift + last]
        mask[:, shift:] |= starts[:, : matrix.shape[1] - shift]
    ranked = np.argsort(-worth, axis=None, kind="stable")[: np.count_nonzero(worth)]
    take_in_turn(ranked, size, missing, mask, starts)
