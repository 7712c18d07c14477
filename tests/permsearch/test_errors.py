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
