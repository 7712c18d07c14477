"""Published rules for transposable N:M masks: flow, two-approximation, entropic.

All of them take each m x m block by itself, and any n < m: the released code of the first two
hard-wires one half, and cuts a flattened row into runs of m^2 entries, which are no blocks of the
transpose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from permsearch.layout import taps_outside, weight_from_taps
from permsearch.patterns.base import Mask, Scores
from permsearch.patterns.transposable import TransposableNM, cut_blocks, joined_blocks

_UNITS = 1_000_000  # integer costs that a block's largest entry is cut into
Blocks = NDArray[np.floating[Any]]


def flow_mask(scores: Scores, pattern: TransposableNM) -> Mask:
    """Return the mask of a minimum-cost flow from rows to columns, n units through each.

    Costs are rounded to a millionth of a block's largest entry, since the solver counts in
    integers; the network simplex of the released code takes floats, on which it may cycle.

    References
    ----------
    Hubara, Chmiel, Island, Banner, Naor, Soudry: Accelerated sparse neural training: a provable
    and efficient method to find N:M transposable masks, NeurIPS 2021. Solver: OR-Tools.
    """
    return _by_block(scores, pattern, lambda blocks: _flows(blocks, pattern.n))


def two_approximation_mask(scores: Scores, pattern: TransposableNM) -> Mask:
    """Return the mask that is left when entries go from light to heavy while they have to.

    An entry is dropped if its row or its column still has too many; what is dropped weighs less
    than twice the least possible. Rows and columns may keep less than n.

    References
    ----------
    As `flow_mask`.
    """
    return _by_block(scores, pattern, lambda blocks: _light_to_heavy(blocks, pattern.n))


def entropic_mask(
    scores: Scores,
    pattern: TransposableNM,
    *,
    sharpness: float = 40.0,
    iterations: int = 100,
) -> Mask:
    """Return the rounded mask of an entropic optimal transport with capacities.

    Dykstra's algorithm scales all blocks at once to n in each row and column and at most one in
    each entry. Then entries are taken from large to small where row and column have room, and a
    row and a column that stay open are served by moving one entry where that gains. Rows and
    columns may keep less than n.

    Parameters
    ----------
    scores, pattern
        What is masked.
    sharpness
        The inverse of the entropy's weight, in units of a block's largest entry.
    iterations
        Of Dykstra's algorithm. Both defaults are our choice; the paper does not tell its own.

    References
    ----------
    TSENOR: Highly-efficient algorithm for finding transposable N:M sparse masks, NeurIPS 2025.
    """

    def rounded(blocks: Blocks) -> Mask:
        plan = _dykstra(_relative(blocks), pattern.n, sharpness, iterations)
        masks = _greedy(plan, pattern.n)
        for block, mask in zip(blocks, masks, strict=True):
            _repair(block, mask, pattern.n)
        return masks

    return _by_block(scores, pattern, rounded)


def _by_block(scores: Scores, pattern: TransposableNM, rule: Callable[[Blocks], Mask]) -> Mask:
    pattern.check(scores.shape)
    matrix = taps_outside(scores)
    masks = rule(cut_blocks(matrix, pattern.m))
    return weight_from_taps(joined_blocks(masks, matrix.shape[1]), scores.shape)


def _relative(blocks: Blocks) -> Blocks:
    """Return blocks in units of their largest entries, in float32 at least."""
    blocks = blocks.astype(np.result_type(blocks, np.float32), copy=False)
    top = blocks.max(axis=(1, 2), keepdims=True)
    relative = np.zeros_like(blocks)
    np.divide(blocks, top, out=relative, where=top > 0)
    return relative


def _flows(blocks: Blocks, n: int) -> Mask:
    from ortools.graph.python.min_cost_flow import SimpleMinCostFlow

    m = blocks.shape[1]
    rows, cols = np.divmod(np.arange(m * m), m)
    costs = -np.rint(_relative(blocks) * _UNITS).astype(np.int64).reshape(len(blocks), -1)
    ends = np.arange(2 * m)
    supply = np.where(ends < m, n, -n)
    masks = np.empty(costs.shape, np.bool_)
    for block, mask in zip(costs, masks, strict=True):
        flow = SimpleMinCostFlow()
        ones = np.ones(m * m, np.int64)
        arcs = flow.add_arcs_with_capacity_and_unit_cost(rows, cols + m, ones, block)
        flow.set_nodes_supplies(ends, supply)
        status = flow.solve()
        assert status == flow.OPTIMAL, f"the flow solver ended with status {status}"
        mask[:] = flow.flows(arcs) > 0
    return masks.reshape(blocks.shape)


def _light_to_heavy(blocks: Blocks, n: int) -> Mask:
    count, m = blocks.shape[:2]
    masks = np.ones(blocks.shape, np.bool_)
    rows, cols = np.full((count, m), m), np.full((count, m), m)
    every = np.arange(count)
    for entry in np.argsort(blocks.reshape(count, -1), axis=1, kind="stable").T:
        i, j = np.divmod(entry, m)
        dropped = (rows[every, i] > n) | (cols[every, j] > n)
        masks[every, i, j] = ~dropped
        rows[every, i] -= dropped
        cols[every, j] -= dropped
    return masks


def _dykstra(blocks: Blocks, n: int, sharpness: float, iterations: int) -> Blocks:
    """Return transport plans: the projections in turn, with the correction for the capacity."""
    plan: Blocks = np.exp(sharpness * (blocks - 0.5)).astype(blocks.dtype)
    correction = np.ones_like(plan)
    for _ in range(iterations):
        plan *= n / plan.sum(axis=2, keepdims=True)
        plan *= n / plan.sum(axis=1, keepdims=True)
        plan *= correction
        np.maximum(plan, 1, out=correction)
        np.minimum(plan, 1, out=plan)
    return plan


def _greedy(plan: Blocks, n: int) -> Mask:
    """Take entries from large to small where row and column have room."""
    count, m = plan.shape[:2]
    masks = np.zeros(plan.shape, np.bool_)
    rows, cols = np.zeros((count, m), np.int64), np.zeros((count, m), np.int64)
    every = np.arange(count)
    for entry in np.argsort(-plan.reshape(count, -1), axis=1, kind="stable").T:
        i, j = np.divmod(entry, m)
        taken = (rows[every, i] < n) & (cols[every, j] < n)
        masks[every, i, j] = taken
        rows[every, i] += taken
        cols[every, j] += taken
    return masks


def _repair(block: Blocks, mask: Mask, n: int) -> None:
    """Move one kept entry for each open row and column, where the two new ones are worth more."""
    while True:
        open_rows = np.flatnonzero(mask.sum(axis=1) < n)
        open_cols = np.flatnonzero(mask.sum(axis=0) < n)
        best, where = 0.0, None
        for i in open_rows:
            for j in open_cols:
                legal = mask & ~mask[i] & ~mask[:, [j]]
                gain = np.where(legal, block[i] + block[:, [j]] - block, -np.inf)
                k = int(gain.argmax())
                if gain.flat[k] > best:
                    best, where = float(gain.flat[k]), (i, j, *divmod(k, len(block)))
        if where is None:
            return
        i, j, other, moved = where
        mask[other, moved] = False
        mask[i, moved] = mask[other, j] = True
