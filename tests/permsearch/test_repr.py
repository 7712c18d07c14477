"""What values print: a line or a page, whatever they hold."""

from __future__ import annotations

import numpy as np
import pytest

import permsearch as ps
from permsearch.certificates.certificate import Certificate, Proof
from permsearch.io.bundle import BundleEntry
from permsearch.patterns import NM


def problem(count: int) -> ps.Problem:
    """Return a problem of many terms, which read one variable and are written by another."""
    weights = [ps.instances.gaussian(8, 16, seed=seed) for seed in range(count)]
    terms = [
        ps.Term(ps.magnitude(weight), "2:4", rows="out", cols="in", name=f"w{seed}")
        for seed, weight in enumerate(weights)
    ]
    return ps.Problem({"in": ps.Free(16), "out": ps.Segments((4, 4))}, tuple(terms))


@pytest.mark.parametrize("count", [1, 13, 40])
def test_a_problem_prints_a_page(count: int) -> None:
    """Variables that matter are told from others, terms by shape and pattern, many by number."""
    found = problem(count)
    assert repr(found) == f"<Problem: {count} terms of 2:4 on 2 variables>"
    lines = str(found).splitlines()
    assert lines[1] == "  in: 16 items"
    assert lines[2] == "  out: 8 items in 2 segments, which no term depends on"
    assert lines[3] == "  Term 'w0': 2:4 on 8 x 16, rows='out', cols='in'"
    assert len(lines) == 3 + min(count, 13)
    assert ("... and 28 more" in lines[-1]) == (count == 40)
    assert repr(found.terms[0]) == f"<{lines[3].strip()}>"
    assert "array" not in repr(found.terms)


def test_entries_and_certificates_print_a_line() -> None:
    """Neither shows its arrays."""
    mask = np.tile([True, True, False, False], (96, 32))
    entry = BundleEntry("fc.weight", NM(2, 4), mask, None, np.arange(128), None, {"sha256": "0"})
    assert repr(entry) == "<BundleEntry 'fc.weight': 2:4 on 96 x 128, orders of cols>"
    proof = Proof("cols", 0, "partition", 12.5, duals=np.arange(1000.0))
    assert repr(proof) == "<Proof: 'cols' from 0, partition limit 12.5>"
    certificate = Certificate("partition", 12.5, "0123456789abcdef", (proof,))
    told = "<Certificate: partition limit 12.5, 1 proof, of problem 0123456789ab…>"
    assert repr(certificate) == told


def test_a_comparison_prints_its_table() -> None:
    """Rows, a line per solver where there are several tensors, and what was skipped, aligned."""
    tensors = {name: ps.instances.gaussian(8, 16, seed=seed) for seed, name in enumerate("ab")}
    tensors["odd"] = ps.instances.gaussian(3, 3, seed=2)
    found = ps.compare(tensors, "2:4", solvers=["none", "swap"], stop=ps.MaxSteps(20))
    assert repr(found) == "<Comparison: 2 tensors, 2 solvers, 1 skipped>"
    lines = str(found).splitlines()
    rows, summary = lines[:5], lines[6:9]
    assert [line.split()[:2] for line in rows[1:]] == [
        [t, s] for t in "ab" for s in ("none", "swap")
    ]
    assert f"{found.rows[1]['retained']:.4f}" in rows[2]
    assert [line.split()[2] for line in summary[1:]] == ["none", "swap"]
    assert len({len(line) for line in rows}) == len({len(line) for line in summary}) == 1
    assert lines[9].startswith("odd: 3 columns")
    assert len(lines) == 10
