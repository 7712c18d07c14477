"""Solvers made of solvers take names as everything else does."""

from __future__ import annotations

import numpy as np
import pytest

import permsearch as ps
from permsearch.solvers import Deal, Swap

WEIGHT = ps.instances.gaussian(8, 16, seed=0)


def test_names_stand_for_solvers() -> None:
    """A short name in a compound is the solver it stands for."""
    assert ps.Then("deal", "swap") == ps.Then(Deal(), Swap())
    assert ps.Multistart("swap", 4) == ps.Multistart(Swap(), starts=4)
    result = ps.search(WEIGHT, "2:4", solver=ps.Then("random", "none"), stop=ps.MaxSteps(5))
    assert result.score >= result.baseline


def test_misspelt_parts_are_told() -> None:
    """A name that is none is told with the nearest ones, when the compound is made."""
    with pytest.raises(ps.UnknownName, match="swap"):
        ps.Then("deal", "swop")
    with pytest.raises(ps.UnknownName, match="swap"):
        ps.Multistart("swop")


@pytest.mark.parametrize("parts", [("deal", "swap"), [Deal(), Swap()]])
def test_a_list_of_parts_is_told(parts: object) -> None:
    """Then of one list says how to unpack it."""
    with pytest.raises(ValueError, match=r"one by one.*Then\(\*solvers\)"):
        ps.Then(parts)  # type: ignore[arg-type]


def test_a_term_takes_a_patterns_text() -> None:
    """The text of a pattern will do in a term, and a misspelt one is told."""
    scores = np.abs(WEIGHT)
    term = ps.Term(scores, "2:4", cols="x", name="w")
    assert (term.pattern, term.cols, term.name) == (ps.NM(2, 4), "x", "w")
    with pytest.raises(ps.UnknownName, match="pattern"):
        ps.Term(scores, "2-4")
    with pytest.raises(ps.PatternError, match=r"^w: 16 columns"):
        ps.Term(scores, "2:5", name="w")
