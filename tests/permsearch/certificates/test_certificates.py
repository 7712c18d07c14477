"""Certificates hold, are tight, and a planted error in one is caught."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import permsearch as ps
from permsearch.certificates import Certificate, Proof
from permsearch.certificates.partition import limits
from permsearch.certificates.pricing import Pricer
from permsearch.errors import CertificateError, FileError, UnsupportedProblem
from permsearch.patterns import NM
from permsearch.problem import Problem, Term
from permsearch.stack import pieces
from tests.reference import best_partition

SHAPES = [(8, 2, 4), (8, 1, 4), (8, 3, 4), (9, 1, 3), (9, 2, 3), (8, 1, 2), (10, 1, 2), (10, 2, 5)]


def hard(kind: str, rows: int, count: int, seed: int) -> NDArray[Any]:
    """Return a small matrix that is hard on bounds."""
    rng = np.random.default_rng(seed)
    normal = np.abs(rng.standard_normal((rows, count)))
    if kind == "ties":
        return rng.integers(0, 3, (rows, count)).astype(np.float32)
    if kind == "zeros":
        return (normal * (rng.random(normal.shape) < 0.2)).astype(np.float32)
    if kind == "equal columns":
        return normal[:, rng.integers(0, 3, count)].astype(np.float32)
    if kind == "column scales":
        return (normal * np.exp(3 * rng.standard_normal(count))).astype(np.float32)
    return normal


def problem_of(weight: NDArray[Any], n: int, m: int) -> Problem:
    """Return the problem of one matrix whose columns move freely."""
    term = Term(weight, NM(n, m), cols="cols")
    return Problem({"cols": ps.Free(weight.shape[1])}, (term,))


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(SHAPES),
    st.sampled_from(["plain", "ties", "zeros", "equal columns", "column scales"]),
    st.sampled_from([1.0, 1e-6, 1e6]),
    st.integers(1, 12),
    st.integers(0, 2**31),
)
def test_no_kind_is_below_the_optimum(
    shape: tuple[int, int, int], kind: str, scale: float, rows: int, seed: int
) -> None:
    """Every kind of bound is at least the best of all groupings, and certificates verify."""
    count, n, m = shape
    weight = hard(kind, rows, count, seed) * scale
    best, _ = best_partition(weight.astype(np.float64), n, m)
    problem = problem_of(weight, n, m)
    methods = ["row", "pair", "partition", "auto", *(["matching"] if m == 2 else [])]
    for method in methods:
        limit = ps.bound(problem, method)
        assert limit.value >= best * (1 - 1e-14)
        if limit.certificate is not None:
            assert limit.certificate.verify(problem).value == pytest.approx(limit.value, rel=1e-12)


@pytest.mark.parametrize("pattern", ["1:4", "2:4", "3:4", "2:3", "1:2"])
def test_partition_is_tight(pattern: str) -> None:
    """The limit lies within half a percent of the optimum, far below the per-row one."""
    problem = ps.single(ps.instances.gaussian(64, 12, seed=5), pattern)
    best = ps.solve(problem, "exhaustive").score
    limit = ps.bound(problem, "partition")
    assert limit.kind == "partition"
    assert limit.tight
    assert best <= limit.value <= 1.005 * best < ps.bound(problem, "row").value


def test_matching_proves_the_optimum() -> None:
    """The dual of 1:2, odd sets included, meets the pairing that the solver finds."""
    for seed in range(4):
        problem = ps.single(ps.instances.gaussian(6, 30, seed=seed), "1:2")
        best = ps.solve(problem, "matching").score
        limit = ps.bound(problem, "matching")
        assert best <= limit.value <= best * (1 + 1e-6)


@pytest.mark.parametrize("screen", ["bytes", "floats"])
def test_pricing_equals_enumeration(screen: str) -> None:
    """All groups above a threshold are found with their exact values, whatever screens them."""
    problem = ps.single(ps.instances.lognormal_columns(30, 16, seed=1), "2:4")
    stack = next(pieces(problem)).stack
    duals = 0.4 * stack.columns.sum(axis=1, dtype=np.float64)
    every = Pricer(stack, screen).above(duals, -1e3)
    assert every is not None
    worth = every[0].reduced(duals)
    assert len(worth) == 1820
    threshold = float(np.quantile(worth, 0.9))
    some = Pricer(stack, screen).above(duals, threshold)
    assert some is not None
    assert some[0].groups.tolist() == every[0].groups[worth > threshold].tolist()
    assert some[0].values.tolist() == every[0].values[worth > threshold].tolist()


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any number of threads finds the same groups in the same order."""
    import numba

    problem = ps.single(ps.instances.gaussian(40, 40, seed=1), "2:4")
    stack = next(pieces(problem)).stack
    duals = 0.4 * stack.columns.sum(axis=1, dtype=np.float64)
    monkeypatch.setattr("permsearch.certificates.pricing._TASK", 1e5)
    answers = []
    for threads in (1, 3):
        monkeypatch.setattr(numba, "get_num_threads", lambda threads=threads: threads)
        found = Pricer(stack).above(duals, 0.0)
        assert found is not None
        answers.append(found[0].groups.tolist())
    assert answers[0] == answers[1]


def test_little_room_raises_the_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where too many groups are found the level rises, and the limit still holds."""
    monkeypatch.setattr("permsearch.certificates.pricing._ROOM", 40)
    problem = ps.single(ps.instances.gaussian(20, 12, seed=2), "2:4")
    stack = next(pieces(problem)).stack
    for limit in limits(stack, np.arange(12), lambda: False):
        assert limit.value * stack.scale >= ps.solve(problem, "exhaustive").score


def test_segments_are_certified_as_a_whole(tmp_path: Path) -> None:
    """Pieces are bounded one by one and summed; the file holds a proof of each."""
    weight = np.abs(ps.instances.gaussian(24, 40, seed=3))
    domain = ps.Segments((16, 4, 20))
    problem = Problem({"cols": domain}, (Term(weight, NM(2, 4), cols="cols"),))
    limit = ps.bound(problem, "partition")
    score = ps.solve(problem, "anneal").score
    assert score <= limit.value <= 1.005 * score
    assert limit.certificate is not None
    limit.certificate.save(tmp_path / "proof.npz")
    loaded = Certificate.load(tmp_path / "proof.npz")
    assert len(loaded.proofs) == 2
    assert loaded.verify(problem).value == limit.value


def test_a_stranger_can_check_a_saved_file(tmp_path: Path) -> None:
    """The lines of docs/bounds.md come to the same limit, with nothing but numpy and the file."""
    weight = ps.instances.gaussian(20, 12, seed=8)
    limit = ps.bound(ps.single(weight, "2:4"), "partition")
    assert limit.certificate is not None
    limit.certificate.save(tmp_path / "proof.npz")
    with np.load(tmp_path / "proof.npz") as file:
        duals = file["0.duals"]
        level = json.loads(str(file["about"]))["proofs"][0]["level"]
    unit = 2.0 ** np.frexp(np.abs(weight).max())[1]
    scores = np.abs(weight) / unit
    total = duals.sum() + 12 / 4 * level
    for group in itertools.combinations(range(12), 4):
        value = np.sort(scores[:, group], axis=1)[:, 2:].sum()
        total += max(0.0, value - duals[list(group)].sum() - level)
    assert limit.value - limit.slack <= total * unit * (1 + 1e-9)
    assert total * unit <= limit.value * (1 + 1e-9)


def test_stopped_early_leaves_a_valid_bound() -> None:
    """Without time the per-row bound stays; one pricing is a bound, and more lower it."""
    problem = ps.single(ps.instances.gaussian(48, 40, seed=4), "2:4")
    none = ps.bound(problem, "partition", stop=ps.MaxSeconds(0))
    one = ps.bound(problem, "partition", stop=ps.MaxSteps(1))
    full = ps.bound(problem, "partition")
    assert (none.kind, one.kind, full.kind) == ("row", "partition", "partition")
    assert full.value <= one.value < none.value
    assert ps.solve(problem, "anneal").score <= full.value


def test_more_time_never_makes_a_bound_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tight limit that its time cuts off leaves the pairwise one, as if it had not been tried."""
    problem = ps.single(ps.instances.gaussian(48, 40, seed=4), "2:4")
    cheap = ps.bound(problem, "pair")
    monkeypatch.setattr("permsearch.certificates.planning.partition_proof", lambda *_: None)
    for method in ("auto", "partition"):
        cut = ps.bound(problem, method, stop=ps.MaxSeconds(100))
        assert (cut.kind, cut.value, cut.certificate) == ("pair", cheap.value, None)


def test_without_a_limit_the_tight_kind_is_taken() -> None:
    """The weights that the pages speak of are expected to take less than is granted by default."""
    from permsearch.certificates.certify import expected_seconds
    from permsearch.certificates.planning import _PATIENCE

    for shape in ((384, 384), (1536, 384)):
        problem = ps.single(np.ones(shape, np.float32), "2:4")
        (piece,) = pieces(problem, ("cols",))
        assert expected_seconds(piece.stack) < _PATIENCE


def test_methods_say_what_they_cannot_bound() -> None:
    """A method asked for by name is refused with a reason and a way out."""
    wide = ps.single(np.ones((2, 64)), "8:16")
    with pytest.raises(UnsupportedProblem, match=r"too many to price; use method 'auto'"):
        ps.bound(wide, "partition")
    with pytest.raises(UnsupportedProblem, match=r"not 1:2"):
        ps.bound(wide, "matching")
    assert not ps.bound(wide).tight


# ------------------------------------------------------------------------------ planted errors


@pytest.fixture(scope="module")
def proven() -> tuple[Problem, Certificate]:
    """Return a problem and its certificate."""
    problem = ps.single(ps.instances.gaussian(32, 24, seed=6), "2:4")
    certificate = ps.bound(problem, "partition").certificate
    assert certificate is not None
    assert len(certificate.proofs[0].prices) > 0
    return problem, certificate


def nudged(array: NDArray[Any], by: float) -> NDArray[Any]:
    """Return a copy with one entry changed."""
    changed = array.copy()
    changed.flat[0] += by
    return changed


PLANTED: dict[str, Callable[[Proof], Proof]] = {
    "dual": lambda proof: replace(proof, duals=nudged(proof.duals, -0.05)),
    "dual that is no number": lambda proof: replace(proof, duals=nudged(proof.duals, np.nan)),
    "missing dual": lambda proof: replace(proof, duals=proof.duals[1:]),
    "price": lambda proof: replace(proof, prices=nudged(proof.prices, 0.01)),
    "group": lambda proof: replace(proof, groups=nudged(proof.groups, 1)),
    "level": lambda proof: replace(proof, level=proof.level + 0.01),
    "value": lambda proof: replace(proof, value=0.999 * proof.value),
    "kind": lambda proof: replace(proof, kind="row"),
    "unknown kind": lambda proof: replace(proof, kind="magic"),
    "place": lambda proof: replace(proof, first=4),
    "variable": lambda proof: replace(proof, variable="rows"),
}


@pytest.mark.parametrize("error", PLANTED)
def test_planted_errors_are_caught(error: str, proven: tuple[Problem, Certificate]) -> None:
    """A certificate with one wrong number does not verify."""
    problem, certificate = proven
    wrong = replace(certificate, proofs=(PLANTED[error](certificate.proofs[0]),))
    with pytest.raises(CertificateError):
        wrong.verify(problem)


def test_wrong_totals_and_scores_are_caught(proven: tuple[Problem, Certificate]) -> None:
    """The total must be what the pieces sum to, and the scores those that were certified."""
    problem, certificate = proven
    assert certificate.verify(problem).value == certificate.value
    with pytest.raises(CertificateError, match="proves only"):
        replace(certificate, value=0.9999 * certificate.value).verify(problem)
    with pytest.raises(CertificateError, match="its proofs sum to"):
        replace(certificate, value=1.01 * certificate.value).verify(problem)
    with pytest.raises(CertificateError, match="no proof"):
        replace(certificate, proofs=()).verify(problem)
    other = ps.single(ps.instances.gaussian(32, 24, seed=7), "2:4")
    with pytest.raises(CertificateError, match="fingerprint"):
        certificate.verify(other)


def test_wrong_matchings_are_caught() -> None:
    """Even sets, sets of unknown columns, and missing weights are refused."""
    problem = ps.single(ps.instances.gaussian(6, 20, seed=1), "1:2")
    certificate = ps.bound(problem, "matching").certificate
    assert certificate is not None
    proof = certificate.proofs[0]
    for sets, lengths, weights in (
        ([0, 1], [2], [1.0]),
        ([0, 1, 99], [3], [1.0]),
        ([0, 1, 2], [3], []),
        ([0, 1, 1], [3], [1.0]),
        ([0, 1, 2], [3], [5.0]),
    ):
        wrong = replace(
            proof,
            sets=np.array(sets, dtype=np.int64),
            lengths=np.array(lengths, dtype=np.int64),
            weights=np.array(weights),
        )
        with pytest.raises(CertificateError):
            replace(certificate, proofs=(wrong,)).verify(problem)


def test_damaged_files_are_refused(tmp_path: Path, proven: tuple[Problem, Certificate]) -> None:
    """A truncated, foreign or missing file is told in one line that names it."""
    path = tmp_path / "proof.npz"
    proven[1].save(path)
    content = path.read_bytes()
    for wrong in (content[: len(content) // 2], b"", b"nonsense"):
        path.write_bytes(wrong)
        with pytest.raises(FileError, match=r"proof\.npz"):
            Certificate.load(path)
    np.savez(path, about=np.array('{"format": "other"}'))
    with pytest.raises(FileError, match="format"):
        Certificate.load(path)
    path.unlink()
    with pytest.raises(FileError, match="cannot be read"):
        Certificate.load(path)
