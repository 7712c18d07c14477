"""Which limit each piece of a problem gets, by what was asked for and the time there is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike, NDArray

from permsearch.bounds import row_limit, widened
from permsearch.certificates.certificate import Certificate, Proof, fingerprint_of
from permsearch.certificates.certify import (
    expected_seconds,
    good_order,
    matching_proof,
    partition_proof,
)
from permsearch.certificates.matching import MOST_COLUMNS
from permsearch.certificates.partition import obstacle
from permsearch.errors import UnsupportedProblem
from permsearch.limits.effort import CHEAP, MOST_GROUPS, MOST_SIDE, Effort
from permsearch.limits.terms import ceiling, free_axes, pattern_limits, term_limit
from permsearch.limits.value import Bound
from permsearch.problem import Problem, Term
from permsearch.stack import Piece
from permsearch.stop import Progress, StoppingCriterion

if TYPE_CHECKING:
    import numpy as np

_PATIENCE = 60.0  # seconds for a piece where no criterion limits them
_CERTIFIED = {"partition", "matching", "row"}
_PLAIN = {"row", "pair"}  # methods under which terms that are no pieces get their cheap limit


class Plan:
    """How the pieces of one problem are bounded.

    Parameters
    ----------
    problem, method, stop, start
        As for `permsearch.bound`; the criterion's clock is running.
    """

    def __init__(
        self,
        problem: Problem,
        method: str,
        stop: StoppingCriterion | None,
        start: Mapping[str, ArrayLike] | None,
    ) -> None:
        self._problem, self._method, self._stop = problem, method, stop
        self._start = None if start is None else problem.complete(start)
        self._checkable = True  # whether `Certificate.verify` comes to the same limits

    def proof(self, piece: Piece) -> Proof:
        """Return the limit of one piece and its proof; the per-row limit when time is over."""
        cheap = row_limit(self._problem, piece)
        row = Proof(piece.variable, piece.first, "row", cheap.value, slack=cheap.slack)
        if self._method == "row" or row.value == 0 or self._over():
            return row
        found = [row, *self._better(piece)]
        return min(found, key=lambda proof: proof.value)

    def limit(self, problem: Problem, term: Term) -> Bound:
        """Return the limit of a term that is not made of pieces; the cheap one without time."""
        free = free_axes(problem, term)
        if self._method in _PLAIN or self._over() or not free:
            return term_limit(problem, term)
        limits = [*pattern_limits(term, free, self._effort(term))]
        if self._method != "auto" and self._method not in {limit.kind for limit in limits}:
            raise UnsupportedProblem(
                f"no {self._method} bound for the pattern {term.pattern} on a weight of shape "
                f"{term.scores.shape}; use method 'auto'."
            )
        self._checkable = False
        cheap = Bound.rounded(ceiling(term), "unstructured")
        return min([cheap, *limits], key=lambda limit: limit.value)

    def _effort(self, term: Term) -> Effort:
        """Return what may be spent on the limits of a term."""
        if self._method == "spectral":
            return Effort(MOST_SIDE)
        if self._method == "partition":
            return Effort(CHEAP.side, MOST_GROUPS)
        return Effort.within(self._seconds(), math.prod(term.scores.shape[1:]))

    def certified(self, bound: Bound, proofs: Sequence[Proof]) -> Bound:
        """Return the bound with its certificate, where every piece can be checked again."""
        kinds = {proof.kind for proof in proofs}
        if kinds <= {"row"} or not (kinds <= _CERTIFIED and self._checkable):
            return bound
        fingerprint = fingerprint_of(self._problem)
        certificate = Certificate(bound.kind, bound.value, fingerprint, tuple(proofs))
        return replace(bound, certificate=certificate)

    def _over(self) -> bool:
        return self._stop is not None and self._stop(Progress(0, 0.0, 0.0, 0.0, 0))

    def _better(self, piece: Piece) -> Iterator[Proof]:
        """Yield limits that may be below the per-row one, the tight one last.

        Where time is limited it may end the tight one without a result, or never come to it: the
        pairwise one comes first then, so that more time never makes a limit worse.
        """
        limited = self._stop is not None
        pair = self._pair(piece) if limited else None
        tight = self._tight(piece)
        if tight is None and not limited:
            pair = self._pair(piece)
        yield from (proof for proof in (pair, tight) if proof is not None)

    def _tight(self, piece: Piece) -> Proof | None:
        """Return a tight limit where one was asked for, or is expected to fit into the time."""
        method = self._method
        if method == "pair":
            return None
        if method == "auto":
            if expected_seconds(piece.stack) > self._seconds():
                return None
            method = "matching" if piece.stack.m == 2 else "partition"
        self._require(piece, method)
        if method == "matching":
            return matching_proof(self._problem, piece, self._order(piece))
        return partition_proof(self._problem, piece, self._order(piece), self._stop)

    def _require(self, piece: Piece, method: str) -> None:
        stack = piece.stack
        if method == "matching":
            fits = stack.m == 2 and len(stack.columns) <= MOST_COLUMNS
            reason = None if fits else f"not 1:2 of at most {MOST_COLUMNS} columns"
        elif method == "spectral":
            reason = "N:M has none"
        else:
            reason = obstacle(stack)
        if reason is not None:
            raise UnsupportedProblem(
                f"no {method} bound for variable {piece.variable!r}: {reason}; use method 'auto'."
            )

    def _order(self, piece: Piece) -> NDArray[np.int64]:
        if self._start is None:
            return good_order(piece.stack)
        return piece.local(self._start[piece.variable])

    def _seconds(self) -> float:
        """Return the seconds that one piece may take."""
        if self._stop is None:
            return _PATIENCE
        horizon = self._stop.horizon
        limits = [limit for limit in (horizon.seconds, horizon.cpu) if limit is not None]
        return min(limits, default=_PATIENCE)

    def _pair(self, piece: Piece) -> Proof | None:
        from permsearch._pair_bound import pair_limit

        stack = piece.stack
        limit = pair_limit(stack.columns, stack.n, stack.m, stop=self._stop)
        if limit is None:
            return None
        bound = widened(self._problem, piece, limit.value, "pair", limit.slack)
        return Proof(piece.variable, piece.first, bound.kind, bound.value, slack=bound.slack)
