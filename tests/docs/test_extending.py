"""The worked examples of the page on extending do what the page says of them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import permsearch as ps
import permsearch.testing as pt
from tests.docs.test_pages import blocks_of, pages


@pytest.fixture(scope="module")
def names() -> dict[str, object]:
    """Return what the first two blocks define: a solver and a pattern."""
    found: dict[str, object] = {"__name__": "__main__"}
    for block in blocks_of(pages()["extending.md"])[:2]:
        exec(compile(block, "extending.md", "exec"), found)
    return found


def sections() -> dict[str, str]:
    """Return the Python of each section of the page, by its heading."""
    text = pages()["extending.md"].read_text(encoding="utf-8")
    found = {}
    for section in text.split("\n## ")[1:]:
        blocks = re.findall(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
        if blocks:
            found[section.partition("\n")[0]] = "\n".join(blocks)
    return found


@pytest.mark.parametrize("heading", list(sections()))
def test_each_example_stands_alone(heading: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An example imports all that it uses: none leans on the one before."""
    from pruning.rules import RULES

    monkeypatch.setattr("pruning.interpret.RULES", known := dict(RULES))
    monkeypatch.setattr("pruning.rules.RULES", known)
    exec(compile(sections()[heading], heading, "exec"), {"__name__": "__main__"})


def test_the_solver_finds_something(names: dict[str, object]) -> None:
    """It does as many steps as it says, and gains by them."""
    solver = names["RandomSwaps"]()  # type: ignore[operator]
    result = ps.search(ps.instances.gaussian(8, 32, seed=0), "2:4", solver=solver)
    assert result.score > result.baseline
    assert result.steps == solver.tries


@pytest.mark.parametrize("shape", [(1, 4), (3, 8), (2, 12)])
def test_the_pattern_keeps_every_promise(names: dict[str, object], shape: tuple[int, int]) -> None:
    """It passes the conformance kit on several shapes, and an order gains under it."""
    pattern = names["Banks"](2, 0.5)  # type: ignore[operator]
    pt.check_pattern(pattern, np.random.default_rng(1).random(shape))
    assert ps.search(ps.instances.gaussian(9, 16, seed=2), pattern).score > 0


def test_an_order_gains_under_the_pattern(names: dict[str, object]) -> None:
    """The search that the page prints wins something over the stored order."""
    banked = names["banked"]
    assert isinstance(banked, ps.SearchResult)
    assert banked.score > banked.baseline
