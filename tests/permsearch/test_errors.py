"""A name that is none of the known ones is answered with those that are near."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import permsearch as ps
from permsearch.errors import UnknownName, unknown

WEIGHT = ps.instances.gaussian(6, 16, seed=0)
PROBLEM = ps.single(WEIGHT, "2:4")

CALLS: list[tuple[Callable[[], Any], str]] = [
    (lambda: ps.search(WEIGHT, "2:4", permute=[5]), "unknown axis 5; known: cols, rows"),  # type: ignore[list-item]
    (lambda: ps.search(WEIGHT, "2:4", permute={5: ps.Free(16)}), "unknown axis 5;"),  # type: ignore[dict-item]
    (lambda: ps.search(WEIGHT, "2:4", start={0: range(16)}), "unknown variable 0;"),  # type: ignore[dict-item]
    (lambda: ps.search(WEIGHT, "2:4", permute=5), "unknown axis 5;"),  # type: ignore[arg-type]
    (lambda: PROBLEM.complete({0: range(16)}), "unknown variable 0; known: cols"),  # type: ignore[dict-item]
    (lambda: ps.bound(PROBLEM, None), "unknown bound method None; known: auto"),  # type: ignore[arg-type]
    (lambda: ps.instances.instance(5, 4, 4), "unknown kind of instance 5; known: gaussian"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "words"), CALLS)
def test_names_that_are_no_text(call: Callable[[], Any], words: str) -> None:
    """A number or nothing in the place of a name is told like a misspelt name."""
    with pytest.raises(UnknownName, match=words):
        call()


def test_near_names_come_first() -> None:
    """The nearest names are offered, then all of them; keys need not be texts."""
    assert "did you mean 'swap'? known: 7, anneal, swap." in str(
        unknown("solver", "swpa", ["swap", "anneal", 7])  # type: ignore[list-item]
    )


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("shfl-bw:64@0.25", "vector:64@0.25"),
        ("shfl_bw", "vector:32@0.25"),
        ("venom:64:2:8", "64:2:8"),
        ("VENOM", "64:2:8"),
        ("tile-wise:64@0.5", "tile:64@0.5"),
        ("gyro", "hinm:32@0.5:2:4"),
        ("transposed:2:4", "transposable:2:4"),
        ("bsr:8x8@0.25", "block:8x8@0.25"),
        ("vector:32@25%", "vector:32@0.25"),
    ],
)
def test_patterns_by_their_names_elsewhere(name: str, here: str) -> None:
    """The text that means the same here is offered, and is one."""
    with pytest.raises(UnknownName, match=f"did you mean '{here}'"):
        ps.parse_pattern(name)
    assert str(ps.parse_pattern(here)) == here


def test_shares_in_percent() -> None:
    """A share above one is likely a percentage; one above a hundred is not."""
    with pytest.raises(ps.PatternError, match=r"25 % is 0\.25"):
        ps.parse_pattern("vector:32@25")
    with pytest.raises(ps.PatternError, match=r"got 250\.0\."):
        ps.parse_pattern("vector:32@250")


def test_solvers_by_their_names_elsewhere() -> None:
    """What literature calls a method leads to ours, which exist."""
    from permsearch.solvers.registry import _ELSEWHERE, solver_names

    with pytest.raises(UnknownName, match="did you mean 'swap'"):
        ps.search(WEIGHT, "2:4", solver="greedy")
    assert {name for names in _ELSEWHERE.values() for name in names} <= set(solver_names())
    assert not set(_ELSEWHERE) & set(solver_names())


@pytest.mark.parametrize(
    ("solver", "pattern", "told"),
    [
        ("kmeans", "2:4", r"has the pattern 2:4, it takes vector:V@SHARE.*'window', 'matching'"),
        ("gyro", "vector:2@0.5", r"it takes hinm:V@SHARE:N:M; use solver 'auto' or 'local'"),
        ("blocks", "2:4", r"it takes block:RxC@SHARE and unaligned:B@SHARE; use 'auto'"),
    ],
)
def test_a_solver_names_its_patterns(solver: str, pattern: str, told: str) -> None:
    """What a solver is not made for is told with what it is, and with what takes the problem."""
    with pytest.raises(ps.UnsupportedProblem, match=told):
        ps.search(WEIGHT, pattern, solver=solver)
