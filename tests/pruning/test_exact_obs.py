"""Optimal brain compression: the greedy rule of its paper, and what follows from it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from permsearch.errors import PatternError
from permsearch.patterns import NM
from pruning.curvature import damped
from pruning.errors import StateError
from pruning.exact_obs import check_work, obc
from pruning.scores import magnitude
from pruning.statistics import Inputs, Sums
from pruning.update import output_error, refit, sparsegpt


def problem(rows: int, features: int, seed: int) -> tuple[torch.Tensor, Inputs]:
    """Return a weight and the statistics of inputs that go along with one another."""
    dice = torch.Generator().manual_seed(seed)
    mixing = torch.eye(features) + torch.randn(features, features, generator=dice) / 2
    sums = Sums("layer", gram=True)
    sums.add((torch.randn(4 * features, features, generator=dice) @ mixing)[None])
    return torch.randn(rows, features, generator=dice, dtype=torch.float64), sums.finish()


def one_by_one(row: np.ndarray, hessian: np.ndarray, n: int, m: int) -> tuple[np.ndarray, ...]:
    """Return a row pruned by the definition: all refits of all single removals, from scratch."""
    kept = np.ones(len(row), dtype=bool)
    wanted = hessian @ row

    def fit(mask: np.ndarray) -> tuple[float, np.ndarray]:
        values = np.zeros(len(row))
        values[mask] = np.linalg.solve(hessian[np.ix_(mask, mask)], wanted[mask])
        return float((row - values) @ hessian @ (row - values)), values

    while any(kept[g : g + m].sum() > n for g in range(0, len(row), m)):
        tries = {}
        for at in np.flatnonzero(kept):
            if kept[at // m * m : at // m * m + m].sum() > n:
                mask = kept.copy()
                mask[at] = False
                tries[at] = fit(mask)[0]
        kept[min(tries, key=lambda at: tries[at])] = False
    return fit(kept)[1], kept


@given(st.sampled_from([(2, 4), (1, 4), (1, 2), (3, 8)]), st.integers(0, 10**6))
@settings(max_examples=15, deadline=None)
def test_it_is_the_definition(pattern: tuple[int, int], seed: int) -> None:
    """Removal by downdates is removal by refitting every candidate from scratch."""
    n, m = pattern
    weight, inputs = problem(3, 2 * m, seed)
    solid = damped(next(inputs.grams())).matrix.numpy()
    found, mask = obc(weight, inputs, n, m)
    for row, values, kept in zip(weight.numpy(), found.numpy(), mask.numpy(), strict=True):
        expected, own = one_by_one(row, solid, n, m)
        assert np.array_equal(kept, own)
        assert values == pytest.approx(expected, rel=1e-7, abs=1e-9)


def test_nothing_is_left_to_refit() -> None:
    """The kept values are those of least squares, and the mask beats others that are refitted."""
    weight, inputs = problem(24, 32, 1)
    found, mask = obc(weight, inputs, 2, 4)
    assert torch.allclose(found, refit(weight, mask, inputs), atol=1e-9)
    own = output_error(weight, found, inputs)
    swept = sparsegpt(weight, inputs, 2, 4)[1]
    largest = torch.from_numpy(NM(2, 4).keep(magnitude(weight).numpy()))
    assert own < output_error(weight, refit(weight, swept, inputs), inputs)
    assert own < output_error(weight, refit(weight, largest, inputs), inputs)


def test_columns_in_another_order() -> None:
    """Groups in an order are those of the permuted layer, given back in the layout that came."""
    weight, inputs = problem(5, 16, 2)
    order = torch.randperm(16, generator=torch.Generator().manual_seed(3))
    assert inputs.gram is not None
    moved = Inputs("layer", inputs.rows, inputs.squares, inputs.gram[:, order][:, :, order])
    expected, mask = obc(weight[:, order], moved, 2, 4)
    found, own = obc(weight, inputs, 2, 4, cols=order)
    assert torch.equal(own[:, order], mask)
    assert torch.allclose(found[:, order], expected)


def test_rows_may_be_taken_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many rows fit into memory, the result is the same."""
    weight, inputs = problem(7, 16, 4)
    whole = obc(weight, inputs, 2, 4)
    monkeypatch.setattr("pruning.exact_obs._ENTRIES", 16 * 16 * 2)
    batched = obc(weight, inputs, 2, 4)
    assert torch.equal(whole[1], batched[1])
    assert torch.allclose(whole[0], batched[0])


def test_large_layers_are_refused() -> None:
    """The work and the limit are told, before anything is done; so are groups that do not fit."""
    check_work((384, 1536), 2, 4, "layer")
    with pytest.raises(StateError, match=r"big: OBC of 4096 rows of 4096 inputs takes 1\.4e\+14"):
        check_work((4096, 4096), 2, 4, "big")
    weight, inputs = problem(2, 6, 5)
    with pytest.raises(PatternError, match="6 columns"):
        obc(weight, inputs, 2, 4)
