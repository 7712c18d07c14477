"""The best pairing of all items: maximum-weight perfect matching on few edges, proven by duals.

Linear assignment relaxes pairing. From its duals every pair has a reduced cost r >= 0, a pairing
is worth (sum of duals) - (sum of its r), and a pairing worth more than one already known with sum
g of its r can only use pairs with r <= g. The g of a good pairing is tiny, so a few pairs for
each item are left, and the optimum among them is the optimum of all. Reduced costs also say which
partners are promising when the items' own weights differ by orders of magnitude.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    I64 = NDArray[np.int64]

_PARTNERS = 12  # candidates for each item in the first matching; 24 gave no more
_ROWS = 512  # rows of the reduced costs at hand at once
_SHARPENINGS = 20
_COST_RANGE = 1 << 26  # of the integer costs: assign() takes up to 2**28
_WEIGHT_RANGE = 1 << 40  # of the integer weights that are matched


def pair_up(count: int, edges: I64, weight: NDArray[np.float64]) -> I64:
    """Return the perfect pairing with the largest total weight, shape (count // 2, 2).

    To minimise a cost, pass it negated: reciprocals order sums differently.

    Parameters
    ----------
    count : int
        Number of items, even.
    edges : int64 array, shape (E, 2)
        Pairs allowed, each once. They must admit a perfect pairing.
    weight : float64 array, shape (E,)
        Any sign. Integers are made of them over their range, so that common offsets cost no
        precision.
    """
    import rustworkx

    low = weight.min()
    spread = float(weight.max() - low)
    scaled = np.zeros(len(weight)) if spread == 0 else (weight - low) * (_WEIGHT_RANGE / spread)
    whole = np.rint(scaled).astype(np.int64)
    graph: Any = rustworkx.PyGraph()
    graph.add_nodes_from(range(count))
    graph.add_edges_from(
        list(zip(edges[:, 0].tolist(), edges[:, 1].tolist(), whole.tolist(), strict=True))
    )
    found = rustworkx.max_weight_matching(graph, max_cardinality=True, weight_fn=int)
    return np.array(sorted(sorted(pair) for pair in found), dtype=np.int64)


def best_pairing(values: NDArray[Any], present: I64, *, exact: bool) -> I64:
    """Return the pairing of all items with the largest total value, shape (items // 2, 2).

    Parameters
    ----------
    values : float array, shape (items, items)
        Symmetric; the diagonal is not read. The number of items is even.
    present : int64 array, shape (items // 2, 2)
        Any pairing: it keeps the candidates feasible.
    exact : bool
        Whether to price out the pairs that were left out, so that the result is the optimum up
        to rounding. Otherwise it is the best among some twelve partners for each item.
    """
    count = len(values)
    if count == 2:
        return np.array([[0, 1]])
    costs = _Reduced.of(values)
    edges = costs.candidates(present)
    reduced = costs.at(edges)
    pairs = pair_up(count, edges, -reduced)
    if not exact:
        return pairs
    gap = float(costs.at(pairs).sum())
    slack = 1e-12 * float(np.abs(costs.dual).sum())
    if gap <= slack:
        return pairs
    needed = costs.below(gap + slack)
    if np.isin(_keys(needed, count), _keys(edges, count)).all():
        return pairs
    edges = _unique(np.concatenate([needed, pairs]), count)
    return pair_up(count, edges, -costs.at(edges))


def _keys(edges: I64, count: int) -> I64:
    """Return one number for each pair, whichever item comes first."""
    keys: I64 = edges.min(axis=1) * count + edges.max(axis=1)
    return keys


def _unique(edges: I64, count: int) -> I64:
    """Return the pairs of two different items, each once."""
    keys: I64 = np.unique(_keys(edges[edges[:, 0] != edges[:, 1]], count))
    return np.stack([keys // count, keys % count], axis=1)


@dataclass(frozen=True, slots=True)
class _Reduced:
    """Reduced costs dual[a] + dual[b] - values[a, b] >= 0 from an optimal assignment."""

    values: NDArray[Any]
    dual: NDArray[np.float64]
    partner: I64

    @classmethod
    def of(cls, values: NDArray[Any]) -> _Reduced:
        from permsearch.kernels.jv import assign

        count = len(values)
        # Doubly centred costs are close to reduced ones already: the assignment takes fewer
        # steps, and a few heavy items do not stretch the range of the integers.
        start = _centred(values)
        cost, unit = _whole(values, start)
        price = np.zeros(count, np.int32)
        partner, back = np.empty((2, count), np.int32)
        assign(cost, price, partner, back)
        column = _sharpened(values, start - price * unit, partner)
        # rows are priced from the values themselves: no rounding makes a reduced cost negative
        row = np.empty(count)
        for rows, part in _row_blocks(values):
            row[rows] = (part - column).max(axis=1)
        return cls(values, (row + column) / 2, partner.astype(np.int64))

    def at(self, edges: I64) -> NDArray[np.float64]:
        """Return the reduced costs of some pairs."""
        a, b = edges.T
        return np.asarray(self.dual[a] + self.dual[b] - self.values[a, b], dtype=np.float64)

    def blocks(self) -> Any:
        """Yield rows and their reduced costs, infinite for an item with itself."""
        for rows, part in _row_blocks(self.values):
            yield rows, self.dual[rows, None] + self.dual - part

    def candidates(self, present: I64) -> I64:
        """Return each item's promising partners, the assignment's and the present ones."""
        count = len(self.values)
        near = min(_PARTNERS, count - 1)
        # without a little noise tied items would all pick the same few partners
        rng = np.random.default_rng(0)
        noise = 1e-9 * float(np.ptp(self.values))
        found = [present, np.stack([np.arange(count), self.partner], axis=1)]
        for rows, reduced in self.blocks():
            reduced += noise * rng.random(reduced.shape)
            partners = np.argpartition(reduced, near - 1, axis=1)[:, :near]
            found.append(np.stack([np.repeat(rows, near), partners.ravel()], axis=1))
        return _unique(np.concatenate(found), count)

    def below(self, limit: float) -> I64:
        """Return all pairs whose reduced cost is at most ``limit``."""
        found = []
        for rows, reduced in self.blocks():
            at, partner = np.nonzero(reduced <= limit)
            found.append(np.stack([rows[at], partner], axis=1))
        return _unique(np.concatenate(found), len(self.values))


def _centred(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return what each item adds to the value of a pair, by least squares over all pairs."""
    count = len(values)
    sums = values.sum(axis=1, dtype=np.float64) - values.diagonal()
    means = sums / (count - 2)
    return np.asarray(means - means.sum() / (2 * count - 2))


def _sharpened(
    values: NDArray[Any], column: NDArray[np.float64], partner: NDArray[np.int32]
) -> NDArray[np.float64]:
    """Return column duals freed of the integers' rounding.

    Rows prefer their partners exactly once column[j] >= values[i, j] - values[i, partner]
    + column[partner] for all i, j: raise what falls short, some times over.
    """
    count = len(values)
    assigned = values[np.arange(count), partner].astype(np.float64)
    for _ in range(_SHARPENINGS):
        raised = column.copy()
        surplus = column[partner] - assigned
        for rows, part in _row_blocks(values):
            np.maximum(raised, (part + surplus[rows, None]).max(axis=0), out=raised)
        rise = (raised - column).max()
        column = raised
        if rise <= 1e-15 * np.abs(column).max():
            break
    return column


def _whole(values: NDArray[Any], start: NDArray[np.float64]) -> tuple[NDArray[np.int32], float]:
    """Return start[a] + start[b] - values[a, b], shifted, in integers, and the unit of them."""
    low, high = np.inf, -np.inf
    for rows, part in _row_blocks(values):
        costs = start[rows, None] + start - part
        low, high = (
            min(low, costs.min()),
            max(high, costs.max(where=np.isfinite(costs), initial=high)),
        )
    unit = (high - low) / _COST_RANGE if high > low else 1.0
    whole = np.empty(values.shape, np.int32)
    for rows, part in _row_blocks(values):
        costs = (start[rows, None] + start - part - low) / unit
        whole[rows] = np.minimum(costs, 4 * _COST_RANGE - 1)
    return whole, unit


def _row_blocks(values: NDArray[Any]) -> Any:
    """Yield row numbers and float64 copies of the rows, minus infinity on the diagonal."""
    for first in range(0, len(values), _ROWS):
        rows = np.arange(first, min(len(values), first + _ROWS))
        part = values[rows].astype(np.float64)
        part[np.arange(len(rows)), rows] = -np.inf
        yield rows, part
