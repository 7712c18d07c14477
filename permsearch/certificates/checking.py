"""Checking certificates: every piece's limit is computed again from the scores and the duals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from permsearch.bounds import ROUNDING, Bound, rest_of, row_limit, widened
from permsearch.certificates.certificate import (
    Certificate,
    Proof,
    agree,
    fingerprint_of,
    mismatch,
)
from permsearch.certificates.matching import pair_limit_of
from permsearch.certificates.partition import limit_of, obstacle
from permsearch.certificates.pricing import Pricer
from permsearch.problem import Problem
from permsearch.stack import Piece, pieces


def checked(certificate: Certificate, problem: Problem) -> Bound:
    """Return the limit that a certificate proves for a problem, or raise CertificateError."""
    if certificate.fingerprint != fingerprint_of(problem):
        raise mismatch("its fingerprint is that of other scores, patterns or domains")
    proofs = {(proof.variable, proof.first): proof for proof in certificate.proofs}
    covered: list[Piece] = []
    total = 0.0
    for piece in pieces(problem, {variable for variable, _ in proofs}):
        proof = proofs.pop((piece.variable, piece.first), None)
        if proof is None:
            raise mismatch(f"columns {piece.first} ... of {piece.variable!r} have no proof")
        total += _checked_piece(problem, piece, proof)
        covered.append(piece)
    if proofs:
        raise mismatch(f"the problem has no pieces at {', '.join(map(str, proofs))}")
    total += sum(part.value for part in rest_of(problem, covered))
    if total > certificate.value * (1 + 4 * ROUNDING):
        raise mismatch(f"it states {certificate.value!r}, but proves only {total!r}")
    if not agree(certificate.value, total):
        raise mismatch(f"it states {certificate.value!r}, its proofs sum to {total!r}")
    return Bound(total, certificate.kind, certificate)


def _checked_piece(problem: Problem, piece: Piece, proof: Proof) -> float:
    checks: dict[str, Callable[[Problem, Piece, Proof], float]] = {
        "partition": _partition,
        "matching": _matching,
        "row": lambda problem, piece, _: row_limit(problem, piece),
    }
    where = f"columns {piece.first} ... of {piece.variable!r}"
    if proof.kind not in checks:
        raise mismatch(f"{where} have a proof of the unknown kind {proof.kind!r}")
    if proof.kind != "row":
        count = len(piece.stack.columns)
        if proof.duals.shape != (count,) or not np.isfinite(proof.duals).all():
            raise mismatch(f"{where} need {count} finite duals, got {proof.duals.shape}")
    value = checks[proof.kind](problem, piece, proof)
    if not agree(value, proof.value):
        raise mismatch(f"the limit of {where} is {value!r}, not {proof.value!r}")
    return value


def _partition(problem: Problem, piece: Piece, proof: Proof) -> float:
    stack = piece.stack
    reason = obstacle(stack)
    if reason is not None:
        raise mismatch(reason)
    priced = Pricer(stack).above(proof.duals, proof.level)
    assert priced is not None
    found, threshold = priced
    worth = found.reduced(proof.duals) - proof.level
    told = {tuple(group): price for group, price in zip(proof.groups.tolist(), proof.prices, strict=True)}
    for group, price in zip(found.groups.tolist(), worth.tolist(), strict=True):
        stated = told.get(tuple(group), 0.0)
        if abs(stated - price) > 1e-9 * float(np.abs(proof.duals).max() + abs(proof.level)):
            raise mismatch(f"the group {group} is priced at {price!r}, not {stated!r}")
    value, _ = limit_of(stack, proof.duals, found, threshold)
    return widened(problem, piece, value)


def _matching(problem: Problem, piece: Piece, proof: Proof) -> float:
    stack = piece.stack
    if (stack.n, stack.m) != (1, 2):
        raise mismatch(f"a matching proves nothing for {stack.n}:{stack.m}")
    bounds = np.concatenate([[0], np.cumsum(proof.lengths)]).astype(np.int64)
    sets = [proof.sets[a:b] for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
    return widened(problem, piece, pair_limit_of(stack, proof.duals, sets, proof.weights))
