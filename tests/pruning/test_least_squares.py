"""The refit's quick ways against a plain solution of each row."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pruning import least_squares as ways
from pruning.curvature import damped
from pruning.least_squares import descended, direct, least_squares


def problem(rows: int, features: int, seed: int, thin: bool = False) -> tuple[torch.Tensor, ...]:
    """Return a Gram matrix of correlated inputs, fewer than features if thin, and a weight."""
    dice = torch.Generator().manual_seed(seed)
    mixing = torch.eye(features) + torch.randn(features, features, generator=dice) / 2
    count = features // 4 if thin else 4 * features
    value = (torch.randn(count, features, generator=dice) @ mixing).double()
    weight = torch.randn(rows, features, generator=dice, dtype=torch.float64)
    return value.T @ value / count, weight


def drawn(rows: int, features: int, share: float, seed: int) -> torch.Tensor:
    """Return a mask whose rows keep a share each, of their own, and the first one nothing."""
    dice = torch.Generator().manual_seed(seed)
    mask = torch.rand(rows, features, generator=dice) < share
    mask[0] = False
    return mask


def plain(gram: torch.Tensor, weight: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Solve one row after another."""
    found = torch.zeros_like(weight)
    for row, kept, new in zip(weight, mask, found, strict=True):
        if bool(kept.any()):
            new[kept] = torch.linalg.solve(gram[kept][:, kept], (gram @ row)[kept])
    return found


def errors(gram: torch.Tensor, gap: torch.Tensor) -> torch.Tensor:
    """Return each row's error."""
    return ((gap @ gram) * gap).sum(1)


@given(
    st.integers(1, 9),
    st.integers(2, 40),
    st.floats(0.05, 0.95),
    st.booleans(),
    st.booleans(),
    st.integers(0, 10**6),
)
@settings(max_examples=30, deadline=None)
def test_gradients_end_where_factors_do(
    rows: int, features: int, share: float, thin: bool, far: bool, seed: int
) -> None:
    """Rows that count as done are within the tolerance of the least error, whatever the start."""
    gram, weight = problem(rows, features, seed, thin and features > 8)
    solid = damped(gram)
    mask = drawn(rows, features, share, seed)
    start = 100 * torch.randn_like(weight) if far else weight
    found, done = descended(solid, weight, mask, start)
    assert bool((found[~mask] == 0).all())
    least = errors(solid.matrix, weight - plain(solid.matrix, weight, mask))
    own = errors(solid.matrix, weight - found)
    slack = 1e-4 * least + 1e-12 * errors(solid.matrix, weight)
    assert bool((own <= least + slack)[done].all())
    assert bool(done.all())


@pytest.mark.parametrize("wide", [0.0, 1e9])
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_every_way_leaves_the_least_error(
    monkeypatch: pytest.MonkeyPatch, wide: float, share: float
) -> None:
    """Whichever way is taken, errors are the least to 1e-4, and dropped entries are zero."""
    gram, weight = problem(24, 64, 1)
    monkeypatch.setattr(ways, "WIDE", wide)
    solid, mask = damped(gram), drawn(24, 64, share, 2)
    expected = errors(solid.matrix, weight - plain(solid.matrix, weight, mask))
    for start in (None, weight * 3):
        found = least_squares(solid, weight, mask, start)
        assert bool((found[~mask] == 0).all())
        assert torch.allclose(errors(solid.matrix, weight - found), expected, rtol=1e-4)


def test_rows_that_do_not_get_there_are_factored(monkeypatch: pytest.MonkeyPatch) -> None:
    """With too few steps for them, rows are solved directly instead."""
    gram, weight = problem(16, 48, 3)
    solid, mask = damped(gram), drawn(16, 48, 0.5, 4)
    monkeypatch.setattr(ways, "WIDE", 0.0)
    monkeypatch.setattr(ways, "_STEPS", 1)
    assert not bool(descended(solid, weight, mask, weight)[1].all())
    found = least_squares(solid, weight, mask)
    assert torch.allclose(found, plain(solid.matrix, weight, mask), rtol=1e-3, atol=1e-3)


def test_what_nearly_fits_already_takes_no_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A solution as the start is found good at once."""
    gram, weight = problem(16, 48, 5)
    solid, mask = damped(gram), drawn(16, 48, 0.5, 6)
    best = direct(solid, weight, mask)
    monkeypatch.setattr(ways, "_steps", None)
    found, done = descended(solid, weight, mask, best)
    assert bool(done.all())
    assert torch.equal(found, best)
