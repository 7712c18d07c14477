"""Block OBS on the empirical Fisher matrix, against its papers' formulas written out."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from permsearch.errors import PatternError
from pruning.errors import CalibrationError
from pruning.fisher import (
    Fisher,
    empirical_fisher,
    fisher_mask,
    fisher_update,
    obs_fisher,
)


def examples(count: int = 12) -> list[Any]:
    """Return batches of one example that a small net runs on, with targets."""
    dice = torch.Generator().manual_seed(0)
    draws = [torch.randn(1, 12, generator=dice) for _ in range(count)]
    return [(value,) for value in draws]


def net() -> nn.Module:
    """Return a small classifier."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(12, 6), nn.Tanh(), nn.Linear(6, 3)).double()


def loss(output: torch.Tensor, _: Any) -> torch.Tensor:
    """Return the loss for the first class."""
    return functional.cross_entropy(output, torch.zeros(len(output), dtype=torch.int64))


@pytest.fixture(scope="module")
def both() -> tuple[torch.Tensor, Fisher, np.ndarray]:
    """Return a weight, its Fisher blocks, and its gradients one by one."""
    model = net()
    data = [(value.double(),) for (value,) in examples()]
    found = empirical_fisher(model, data, loss, names=["0.weight"], block=8)
    rows = []
    for (value,) in data:
        model.zero_grad()
        loss(model(value), None).backward()
        rows.append(model[0].weight.grad.numpy().copy())
    return model[0].weight.detach(), found["0.weight"], np.stack(rows)


def inverse_by_ranks(gradients: np.ndarray, damping: float) -> np.ndarray:
    """Return the inverse of damping + mean of g g^T by one rank-one update for each gradient."""
    found = np.eye(gradients.shape[1]) / damping
    for g in gradients:
        column = found @ g
        found -= np.outer(column, column) / (len(gradients) + g @ column)
    return found


def slow_inverses(gradients: np.ndarray, size: int) -> list[list[np.ndarray]]:
    """Return the inverse of every block of every row, as the papers build it."""
    rows, cols = gradients.shape[1:]
    padded = np.zeros((len(gradients), rows, -(-cols // size) * size))
    padded[:, :, :cols] = gradients
    damping = 0.01 * float(np.square(padded).mean())
    starts = range(0, padded.shape[2], size)
    return [
        [inverse_by_ranks(padded[:, row, s : s + size], damping) for s in starts]
        for row in range(rows)
    ]


def test_scores_are_those_of_rank_one_updates(both: Any) -> None:
    """Weights cost w^2 / (2 (F^-1)_ii), with F^-1 built gradient by gradient (Woodbury)."""
    weight, fisher, gradients = both
    assert fisher.samples == 12
    found = obs_fisher(weight, fisher).numpy()
    for row, blocks in enumerate(slow_inverses(gradients, 8)):
        diagonal = np.concatenate([np.diag(block) for block in blocks])[:12]
        assert found[row] == pytest.approx(weight.numpy()[row] ** 2 / (2 * diagonal), rel=1e-6)


def cheapest_first(values: np.ndarray, inverse: np.ndarray, n: int, m: int) -> np.ndarray:
    """Return what a block keeps, each inverse made anew from what is left."""
    fisher, size = np.linalg.inv(inverse), len(values)
    kept, now = np.ones(size, dtype=bool), values.copy()
    for _ in range(size // m):
        left = np.linalg.inv(fisher[np.ix_(kept, kept)])
        at = {place: index for index, place in enumerate(np.flatnonzero(kept))}
        costs = {}
        for start in range(0, size, m):
            if kept[start : start + m].all():
                for some in combinations(range(start, start + m), m - n):
                    places = [at[place] for place in some]
                    own = left[np.ix_(places, places)]
                    costs[some] = now[list(some)] @ np.linalg.solve(own, now[list(some)])
        kept[list(min(costs, key=lambda q: costs[q]))] = False
        now = np.zeros(size)
        now[kept] = np.linalg.solve(fisher[np.ix_(kept, kept)], (fisher @ values)[kept])
    return kept


@pytest.mark.parametrize(("n", "m"), [(2, 4), (1, 2), (1, 4)])
def test_groups_are_dropped_cheapest_first(both: Any, n: int, m: int) -> None:
    """Downdates choose what choosing from scratch after each group does."""
    weight, fisher, gradients = both
    mask = fisher_mask(weight, fisher, n, m).numpy()
    values = np.zeros((6, 16))
    values[:, :12] = weight.numpy()
    for row, blocks in enumerate(slow_inverses(gradients, 8)):
        kept = [
            cheapest_first(values[row, start : start + 8], block, n, m)
            for block, start in zip(blocks, (0, 8), strict=True)
        ]
        assert np.array_equal(mask[row], np.concatenate(kept)[:12])


def test_the_update_is_the_papers(both: Any) -> None:
    """What is kept moves by -F^-1 E (F^-1_QQ)^-1 w_Q, and the rest is exactly zero."""
    weight, fisher, gradients = both
    mask = fisher_mask(weight, fisher, 2, 4)
    found = fisher_update(weight, mask, fisher)
    values, kept = np.zeros((6, 16)), np.zeros((6, 16), dtype=bool)
    values[:, :12], kept[:, :12] = weight.numpy(), mask.numpy()
    for row, blocks in enumerate(slow_inverses(gradients, 8)):
        for block, start in zip(blocks, (0, 8), strict=True):
            own = slice(start, start + 8)
            dropped = np.flatnonzero(~kept[row, own])
            some = values[row, own][dropped]
            values[row, own] -= block[:, dropped] @ np.linalg.solve(
                block[np.ix_(dropped, dropped)], some
            )
    assert found.numpy() == pytest.approx(values[:, :12], abs=1e-9)
    assert bool((found[~mask] == 0).all())


def test_it_helps_on_the_loss_that_it_models(both: Any) -> None:
    """By the quadratic model, the joint mask with its update beats magnitude without."""
    weight, fisher, _ = both

    def cost(new: torch.Tensor) -> float:
        change = fisher.blocks_of(new - weight)
        return float((change * (fisher.matrix @ change[..., None])[..., 0]).sum()) / 2

    mask = fisher_mask(weight, fisher, 2, 4)
    largest = weight.abs().reshape(6, -1, 4).argsort(-1).argsort(-1).reshape(6, 12) >= 2
    assert cost(fisher_update(weight, mask, fisher)) < cost(fisher_update(weight, largest, fisher))
    assert cost(fisher_update(weight, largest, fisher)) < cost(weight * largest)


def test_what_does_not_fit_is_told(both: Any) -> None:
    """Other shapes, groups across blocks, no batches and a blind loss are errors with names."""
    weight, fisher, _ = both
    with pytest.raises(CalibrationError, match=r"0\.weight: 2 blocks of 8 inputs for 6 rows"):
        obs_fisher(weight[:, :8], fisher)
    with pytest.raises(PatternError, match="groups of 3"):
        fisher_mask(weight, fisher, 1, 3)
    with pytest.raises(CalibrationError, match="no batches"):
        empirical_fisher(net(), [], loss)
    with pytest.raises(CalibrationError, match="all its gradients are zero"):
        empirical_fisher(net(), [(torch.ones(1, 12).double(),)], lambda out, _: (out * 0).sum())
