"""A limit as a value: how much, of which kind, and how much of it is room for rounding."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from permsearch.limits.rounding import ROUNDING, up
from permsearch.result import TIGHT

if TYPE_CHECKING:
    from permsearch.certificates.certificate import Certificate


@dataclass(frozen=True, slots=True)
class Bound:
    """A proven upper limit of the retained score.

    Attributes
    ----------
    value
        No legal solution retains more, in the units of the scores.
    kind
        ``exact``, ``row``, ``pair``, ``partition``, ``matching``, ``spectral``, ``price``,
        ``unstructured``, or ``mixed`` for a sum of several kinds.
    certificate
        A `permsearch.certificates.Certificate`: what a stranger needs to check the value again.
        None where a piece has a kind that is recomputed instead, such as ``pair``.
    slack
        How much of the value is room that the computation needed to be a proof: rounding of
        sums, scores narrowed to float32, what a pricing may have passed over. The kind's limit in
        exact arithmetic lies in [value - slack, value]; that it is close to what can be reached
        is not said by it, but by `tight`.
    """

    value: float
    kind: str
    certificate: Certificate | None = None
    slack: float = 0.0

    @classmethod
    def rounded(cls, value: float, kind: str) -> Bound:
        """Return the limit that a sum of float64 numbers proves."""
        return cls(up(value), kind, slack=up(value) - value)

    @classmethod
    def total(cls, parts: Iterable[Bound]) -> Bound:
        """Return the sum of limits of independent parts; exact ones do not change its kind."""
        parts = tuple(parts)
        kinds = {part.kind for part in parts if part.kind != "exact"}
        kind = "exact" if not kinds else "mixed" if len(kinds) > 1 else kinds.pop()
        value, slack = sum(part.value for part in parts), sum(part.slack for part in parts)
        return cls(value, kind, slack=slack)

    @property
    def tight(self) -> bool:
        """Whether limits of this kind usually lie close to what can be reached."""
        return self.kind in TIGHT

    def proves(self, score: float) -> bool:
        """Decide whether a retained score is as large as the limit, up to rounding."""
        return score >= self.value * (1 - 4 * ROUNDING)
