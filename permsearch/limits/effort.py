"""How much the limits of clustering patterns may cost."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

_EIGENVALUES = 2e-9  # seconds for all decompositions of one limit, times the cube of the side
_LISTED = 1e-7  # seconds for a column of one group of rows, over all prices
MOST_SIDE = 8192
MOST_GROUPS = 50_000


@dataclass(frozen=True, slots=True)
class Effort:
    """What limits are worth their time.

    Parameters
    ----------
    side
        The smaller side of a matrix up to which its singular values are computed.
    groups
        Groups of rows up to which all of them are listed.
    """

    side: int = 1024
    groups: int = 0

    @classmethod
    def within(cls, seconds: float, columns: int) -> Effort:
        """Return what is expected to fit into so many seconds for a matrix of so many columns."""
        side = (max(0.0, seconds) / _EIGENVALUES) ** (1 / 3)
        groups = max(0.0, seconds) / (_LISTED * max(1, columns))
        return cls(int(min(side, MOST_SIDE)), int(min(groups, MOST_GROUPS)))

    def spectral(self, shape: tuple[int, ...]) -> bool:
        """Decide whether singular values of a matrix are worth their time."""
        return min(shape) <= self.side

    def listing(self, rows: int, v: int) -> bool:
        """Decide whether listing all groups of `v` out of so many rows is worth its time."""
        return comb(rows, v) <= self.groups


CHEAP = Effort()
"""For limits that come with every search: less than a second."""
