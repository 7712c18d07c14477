"""Checking certificates: every piece's limit is computed again from the scores and the duals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from permsearch.bounds import rest_of, row_limit, stackable, widened
from permsearch.certificates.certificate import (
    Certificate,
    Proof,
    agree,
    fingerprint_of,
    mismatch,
)
from permsearch.certificates.matching import matching_limit
from permsearch.certificates.partition import limit_of, obstacle
from permsearch.certificates.pricing import Pricer
from permsearch.errors import CertificateError
from permsearch.limits.rounding import ROUNDING
from permsearch.limits.value import Bound
from permsearch.problem import Problem
from permsearch.stack import Piece, pieces

_PRICES = 1e-9  # by which prices may differ, relative to the largest dual


def checked(certificate: Certificate, problem: Problem) -> Bound:
    """Return the limit that a certificate proves for a problem, or raise CertificateError."""
    try:
        return _checked(certificate, problem)
    except (ValueError, IndexError, TypeError) as error:
        if isinstance(error, CertificateError):
            raise
        raise mismatch(f"its arrays do not fit ({error})") from error


def _checked(certificate: Certificate, problem: Problem) -> Bound:
    if certificate.fingerprint != fingerprint_of(problem):
        raise mismatch("its fingerprint is that of other scores, patterns or domains")
    proofs = {(proof.variable, proof.first): proof for proof in certificate.proofs}
    covered: list[Piece] = []
    parts: list[Bound] = []
    for piece in pieces(problem, stackable(problem)):
        proof = proofs.pop((piece.variable, piece.first), None)
        if proof is None:
            raise mismatch(f"columns {piece.first} ... of {piece.variable!r} have no proof")
        parts.append(_checked_piece(problem, piece, proof))
        covered.append(piece)
    if proofs:
        raise mismatch(f"the problem has no pieces at {', '.join(map(str, proofs))}")
    found = Bound.total([*parts, *rest_of(problem, covered)])
    total = found.value
    if total > certificate.value * (1 + 4 * ROUNDING):
        raise mismatch(f"it states {certificate.value!r}, but proves only {total!r}")
    if not agree(certificate.value, total):
        raise mismatch(f"it states {certificate.value!r}, its proofs sum to {total!r}")
    return Bound(total, certificate.kind, certificate, found.slack)


def _checked_piece(problem: Problem, piece: Piece, proof: Proof) -> Bound:
    checks: dict[str, Callable[[Problem, Piece, Proof], Bound]] = {
        "partition": _partition,
        "matching": _matching,
        "row": lambda problem, piece, _: row_limit(problem, piece),
    }
    where = f"columns {piece.first} ... of {piece.variable!r}"
    if proof.kind not in checks:
        raise mismatch(f"{where} have a proof of the unknown kind {proof.kind!r}")
    if proof.kind != "row":
        count = len(piece.stack.columns)
        finite = np.isfinite(proof.duals).all() and np.isfinite(proof.level)
        if proof.duals.shape != (count,) or not finite:
            raise mismatch(f"{where} need {count} finite duals, got {proof.duals.shape}")
    found = checks[proof.kind](problem, piece, proof)
    if not agree(found.value, proof.value):
        raise mismatch(f"the limit of {where} is {found.value!r}, not {proof.value!r}")
    return found


def _partition(problem: Problem, piece: Piece, proof: Proof) -> Bound:
    stack = piece.stack
    reason = obstacle(stack)
    if reason is not None:
        raise mismatch(reason)
    priced = Pricer(stack).above(proof.duals, proof.level)
    assert priced is not None
    found, threshold = priced
    worth = found.reduced(proof.duals) - proof.level
    shapes = (len(proof.prices), stack.m)
    if proof.groups.shape != shapes:
        raise mismatch(f"its groups have the shape {proof.groups.shape}, not {shapes}")
    pairs = zip(proof.groups.tolist(), proof.prices.tolist(), strict=True)
    least = _PRICES * float(np.abs(proof.duals).max() + abs(proof.level))
    told = {tuple(group): price for group, price in pairs}
    for group, price in zip(found.groups.tolist(), worth.tolist(), strict=True):
        stated = told.pop(tuple(group), 0.0)
        if abs(stated - price) > least:
            raise mismatch(f"the group {group} is worth {price!r} too much, not {stated!r}")
    if any(price > least for price in told.values()):
        raise mismatch(f"groups that are worth no more than their duals are listed: {[*told][:3]}")
    value, _, slack = limit_of(stack, proof.duals, found, threshold)
    return widened(problem, piece, value, "partition", slack)


def _matching(problem: Problem, piece: Piece, proof: Proof) -> Bound:
    stack = piece.stack
    if (stack.n, stack.m) != (1, 2):
        raise mismatch(f"a matching proves nothing for {stack.n}:{stack.m}")
    if (proof.lengths % 2 == 0).any() or proof.lengths.sum() != len(proof.sets):
        raise mismatch("its sets of columns are not odd")
    sets = np.split(proof.sets, np.cumsum(proof.lengths)[:-1]) if len(proof.lengths) else []
    return widened(problem, piece, *matching_limit(stack, proof.duals, sets, proof.weights))
