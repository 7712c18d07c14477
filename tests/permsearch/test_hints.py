"""What people try first and is not meant: each such call says what is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import permsearch as ps

WEIGHT = ps.instances.gaussian(8, 16, seed=0)


class Module:
    """Stands for a torch module."""

    def state_dict(self) -> dict[str, Any]:
        """Return weights by name."""
        return {"weight": WEIGHT}


CALLS = [
    (lambda: ps.search(Module(), "2:4"), r"give its \.weight"),
    (lambda: ps.search_all(Module(), "2:4"), r"module\.state_dict\(\)"),  # type: ignore[arg-type]
    (lambda: ps.compare(Module(), "2:4"), r"module\.state_dict\(\)"),  # type: ignore[arg-type]
    (lambda: ps.bound(WEIGHT, "2:4"), r"bound\(single\(weight"),  # type: ignore[arg-type]
    (lambda: ps.solve(WEIGHT, "auto"), r"search\(weight"),  # type: ignore[arg-type]
    (lambda: ps.random_solution(WEIGHT), r"random_solution takes a Problem, got a ndarray"),  # type: ignore[arg-type]
    (lambda: ps.Term(abs(WEIGHT), "2:4", cols=[1]), r"cols of a term is the name of a variable"),  # type: ignore[arg-type]
    (lambda: ps.Term(abs(WEIGHT), "2:4", rows=3), r"rows of a term is the name of a variable"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "hint"), CALLS)
def test_what_people_try_first(call: Callable[[], Any], hint: str) -> None:
    """The message names the call that was meant."""
    with pytest.raises(ps.PermsearchError, match=hint):
        call()


def test_results_are_short_to_look_at() -> None:
    """In a session a result shows its numbers, not its arrays."""
    shown = repr(ps.search(WEIGHT, "2:4", solver="none"))
    assert "retained" in shown
    assert len(shown) < 250


def test_one_is_singular() -> None:
    """One zero column is no columns."""
    with pytest.raises(ps.PatternError, match=r"add 1 zero column,"):
        ps.search(np.ones((2, 7)), "2:4")
    result = ps.search(np.ones((2, 7)), "2:4", pad=True, solver="none")
    assert "1 zero column added" in str(result)


def test_padded_orders_are_used_as_told() -> None:
    """With as many zero columns appended, the order of a padded search stores the weight."""
    weight = WEIGHT[:, :14]
    r = ps.search(weight, "2:4", pad=True, solver="random", stop=ps.MaxSteps(20))
    stored = np.pad(weight, [(0, 0), (0, r.details["padding"])])[:, r.cols]
    assert ps.NM(2, 4).retained(np.abs(stored)) == pytest.approx(r.score)
