"""Prune SmolLM2's projections: from statistics of the dense network, or stage by stage.

Stage by stage (*sequential*), statistics come from the network as it is pruned so far, and weights
are fitted to what the dense network gives: least squares of W' x' on W x, where x' and x are
inputs of the pruned and of the dense network; where the output is added to the residual stream,
what is missing from that stream is made up for as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import torch
from torch import nn

from benchmarks.accuracy.language_fit import STEPS
from benchmarks.accuracy.language_orders import Orders
from benchmarks.accuracy.language_stages import STAGES, Seen, owner, side_by_side, walk
from benchmarks.accuracy.language_statistics import Grams, inputs_of, product
from permsearch.patterns import NM, parse_pattern
from pruning.alps import split
from pruning.correction import nearest
from pruning.curvature import damped, solid
from pruning.rerank import rerank
from pruning.scores import score_kind
from pruning.statistics import Inputs
from pruning.update import output_error, refit, sparsegpt

DAMPING = 0.01


@dataclass(frozen=True, slots=True)
class Method:
    """How a mask and its values are found.

    Parameters
    ----------
    scores
        What masks are chosen by; "sparsegpt" chooses in its sweep, "admm" while it fits.
    refit
        Whether what is kept is fitted by least squares.
    """

    scores: str
    refit: bool = False

    @classmethod
    def of(cls, text: str) -> Method:
        """Return the method that a cell's text means: ``NAME`` or ``NAME+refit``."""
        name, _, more = text.partition("+")
        return cls(name, more == "refit")


def pruned(
    weight: torch.Tensor, inputs: Inputs, pattern: str, method: Method, order: Any = None
) -> torch.Tensor:
    """Return a weight that carries the pattern in an order of its columns, in its own layout."""
    wanted = parse_pattern(pattern)
    assert isinstance(wanted, NM)
    if method.scores == "sparsegpt":
        cols = None if order is None else torch.as_tensor(order)
        new, mask = sparsegpt(weight, inputs, wanted.n, wanted.m, damping=DAMPING, cols=cols)
    elif method.scores == "admm":
        choose = partial(_largest, wanted, order)
        found = split(weight, solid(inputs, DAMPING), inputs, choose, STEPS)
        new, mask = found.values, found.mask
    else:
        scores = score_kind(method.scores)(weight, inputs)
        mask = rerank(weight, scores, [order], wanted, inputs)[0].mask
        new = torch.where(mask, weight, 0.0)
    return refit(weight, mask, inputs, DAMPING, start=new) if method.refit else new


def _largest(pattern: NM, order: Any, values: torch.Tensor) -> torch.Tensor:
    """Return the mask of the best scores of each group in an order of the columns."""
    cols = torch.arange(values.shape[1]) if order is None else torch.as_tensor(order)
    kept = torch.from_numpy(pattern.keep(values[:, cols].contiguous().numpy()))
    return torch.empty_like(kept).index_copy_(1, cols, kept)


@torch.no_grad()
def prune_from(
    model: nn.Module,
    dense: Mapping[str, torch.Tensor],
    grams: Grams,
    pattern: str,
    method: Method,
    orders: Orders,
) -> float:
    """Prune a model in place from the dense network's statistics.

    Returns
    -------
    float
        The error of the layers' outputs as a share of their energy, averaged over layers.
    """
    shared = lru_cache(8)(lambda first: inputs_of(first, grams[first]))

    @torch.no_grad()
    def one(name: str) -> float:
        weight, inputs = dense[name], shared(owner(name))
        new = pruned(weight, inputs, pattern, method, orders.get(name))
        model.get_parameter(f"{name}.weight").copy_(new)
        return _share(weight, new, inputs)

    errors = side_by_side(one, dense)
    return float(sum(errors) / len(errors))


def _share(weight: torch.Tensor, new: torch.Tensor, inputs: Inputs) -> float:
    return output_error(weight, new, inputs) / output_error(
        weight, torch.zeros_like(weight), inputs
    )


@torch.no_grad()
def prune_sequentially(
    model: nn.Module,
    teacher: nn.Module,
    windows: torch.Tensor,
    pattern: str,
    method: Method,
    orders: Orders,
    *,
    stream: float = 1.0,
) -> None:
    """Prune a model in place, stage by stage, towards what the dense teacher gives.

    Parameters
    ----------
    stream
        Share of what the residual stream lacks that is made up for.
    """

    def visit(first: str, seen: Sequence[Iterator[Seen]]) -> None:
        gram, cross, lack = _sums(zip(*seen, strict=True))
        inputs = inputs_of(first, gram)
        head = first.removesuffix(next(s[0] for s in STAGES if first.endswith(s[0])))
        stage = next(s for s in STAGES if first.endswith(s[0]))

        @torch.no_grad()
        def one(name: str) -> None:
            weight = teacher.get_parameter(f"{name}.weight").detach()
            aim = target(weight, gram, cross, None if lack is None else stream * lack)
            new = pruned(aim, inputs, pattern, method, orders.get(name))
            model.get_parameter(f"{name}.weight").copy_(new)

        side_by_side(one, [head + rest for rest in stage])

    walk([teacher, model], windows, visit)


def target(
    weight: torch.Tensor, gram: torch.Tensor, cross: torch.Tensor, lack: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the dense weight that gives W x (plus what lacks) from x' with least squares.

    Parameters
    ----------
    gram, cross
        Means of x' x'^T and of x x'^T.
    lack
        Mean of (r - r') x'^T, with r what the output is added to.
    """
    found = nearest(weight.double(), damped(gram, DAMPING), gram, cross, lack)
    return found.to(weight.dtype)


def _sums(
    batches: Iterator[tuple[Seen, Seen]],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    rows = 0
    gram = cross = lack = torch.zeros((), dtype=torch.float64)
    for (value, added), (other, other_added) in batches:
        rows += len(value)
        gram = gram + product(other, other)
        cross = cross + product(value, other)
        if added is not None and other_added is not None:
            lack = lack + product(added - other_added, other)
    return gram / rows, cross / rows, lack / rows if lack.dim() else None
