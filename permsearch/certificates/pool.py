"""A pool of groups that grows by exchanges of single columns around its best ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from permsearch.certificates.pricing import Found, Pricer, valued

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    I64 = NDArray[np.int64]

_ROUNDS = 2
_CENTRES = 4000  # groups whose exchanges are priced in one round
_MOST = 120_000


class Pool:
    """Groups of columns, each once, with their values.

    Parameters
    ----------
    pricer
        The columns.
    groups : int64 array, shape (K, m)
        The first groups, every row sorted.
    """

    def __init__(self, pricer: Pricer, groups: I64) -> None:
        count, m = len(pricer.stack.columns), groups.shape[1]
        self._digits = np.array([count**k for k in range(m)], dtype=np.int64)
        self._pricer = pricer
        self._keys = np.empty(0, np.int64)
        self._tried = np.empty(0, np.int64)
        self.found = Found(np.empty((0, m), np.int64), np.empty(0))
        self.add(valued(pricer.stack, groups))

    def add(self, some: Found) -> int:
        """Take groups; return how many of them are new."""
        keys = some.groups @ self._digits
        keys, first = np.unique(keys, return_index=True)
        new = ~np.isin(keys, self._keys)
        self._keys = np.concatenate([self._keys, keys[new]])
        more = some.where(first[new])
        self.found = Found(
            np.concatenate([self.found.groups, more.groups]),
            np.concatenate([self.found.values, more.values]),
        )
        return int(new.sum())

    def prune(self, duals: Floats, reach: float) -> None:
        """Drop groups that fall short of their duals by more than a reach.

        Where too many are left, those that are among the best of none of their columns go too.
        """
        worth = self.found.reduced(duals)
        self._keep(worth >= -reach)
        if len(self._keys) > _MOST:
            from permsearch.kernels.groups import leaders

            best = np.argsort(-worth[worth >= -reach], kind="stable")
            keep = np.empty(len(best), np.bool_)
            leaders(self.found.groups[best], len(duals), _MOST // len(duals), keep)
            self._keep(best[keep])

    def _keep(self, some: NDArray[Any]) -> None:
        self._keys, self.found = self._keys[some], self.found.where(some)

    def grow(self, duals: Floats, reach: float) -> int:
        """Add the exchanges around the best groups that fall short by less than a reach."""
        grown = 0
        for _ in range(_ROUNDS):
            worth = self.found.reduced(duals)
            open_ = np.nonzero((worth > -reach) & ~np.isin(self._keys, self._tried))[0]
            if not len(open_):
                break
            centres = open_[np.argsort(-worth[open_], kind="stable")[:_CENTRES]]
            self._tried = np.concatenate([self._tried, self._keys[centres]])
            near = self._pricer.near(self.found.groups[centres], duals, -reach)
            grown += self.add(self._fresh(near))
        return grown

    def _fresh(self, groups: I64) -> Found:
        """Return the groups that the pool does not hold, valued."""
        return valued(self._pricer.stack, groups[~np.isin(groups @ self._digits, self._keys)])
