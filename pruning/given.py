"""Orders that were found before: by a search of the network, or for single weights in a bundle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from permsearch import io
from permsearch.arrays import to_numpy
from permsearch.errors import unknown
from permsearch.io.bundle import BundleEntry
from permsearch.io.fingerprint import fingerprint
from permsearch.orders import Order, as_order
from permsearch.problem import Problem
from permsearch.result import SearchResult
from permsearch.solve import solve
from pruning.bundle import MaskBundle
from pruning.errors import BundleMismatch, StateError
from pruning.gather import GATHERED
from pruning.layers import rows_dim
from pruning.network import Network
from pruning.permute import checked
from pruning.plan import PrunePlan
from pruning.recipe import Weigh
from pruning.searched import problem_of

if TYPE_CHECKING:
    import torch


def given_search(
    search: Any,
    network: Network,
    plan: PrunePlan,
    weights: Mapping[str, torch.Tensor],
    scores: Mapping[str, torch.Tensor],
    weigh: Weigh = "sums",
) -> SearchResult:
    """Return orders that are there already as the result of a search, with this plan's scores.

    Parameters
    ----------
    search
        A result of `permsearch.solve` or of `PruneResult.search`; a mapping from groups to orders;
        or a bundle or its folder, as `permsearch search --out` writes it.
    weights, scores
        By base name, in the layout that came in.
    weigh
        As the recipe says.

    Raises
    ------
    UnknownName, OrderError
        It has orders for what is no group of the network, or ones that a group does not allow.
    StateError
        A bundle's order is none of a group's, or two of its weights want other orders of one.
    BundleMismatch
        A bundle's orders were found for other values.
    """
    orders = _orders(search, network, plan, weights)
    _check(orders, network, plan)
    problem = problem_of(network, plan, scores, weigh) or Problem(plan.search.domains, ())
    solution = problem.complete(orders)
    found = replace(solve(problem, "none"), solution=solution, score=problem.evaluate(solution))
    if not isinstance(search, SearchResult):
        return replace(found, solver="given", steps=0)
    return replace(
        found,
        solver=search.solver,
        seed=search.seed,
        steps=search.steps,
        runtime=search.runtime,
        cpu=search.cpu,
        status=search.status,
    )


def _orders(
    search: Any, network: Network, plan: PrunePlan, weights: Mapping[str, torch.Tensor]
) -> Mapping[str, Any]:
    if isinstance(search, str | Path):
        search = MaskBundle.load(search)
    if isinstance(search, MaskBundle | io.MaskBundle):
        return _of_bundle(search, network, plan, weights)
    orders = getattr(search, "solution", search)
    if not isinstance(orders, Mapping):
        raise StateError(
            "search= takes a result of a search, a mapping from groups to orders, or a bundle, "
            f"not a {type(search).__name__}."
        )
    return orders


def _check(orders: Mapping[str, Any], network: Network, plan: PrunePlan) -> None:
    """Refuse orders that the network, or the recipe's gathers, have no place for."""
    checked(network, orders)
    domains = plan.search.domains
    for name in orders:
        if name not in domains:
            layer = name.removesuffix(GATHERED)
            raise StateError(
                f"search= has an order for the input of {layer}, which no rule gathers; give it a "
                "rule with gather = true, or leave the order out."
            )


def _of_bundle(
    bundle: Mapping[str, BundleEntry],
    network: Network,
    plan: PrunePlan,
    weights: Mapping[str, torch.Tensor],
) -> dict[str, Order]:
    """Return the orders of groups that those of single weights come to."""
    found: dict[str, Order] = {}
    source: dict[str, str] = {}
    for name, entry in bundle.items():
        base = network.aliases.get(name, name)
        if base not in network.whole:
            raise unknown("weight", name, network.whole)
        for dim, order in _moved(entry):
            variable = _variable(base, dim, network, plan)
            if variable is None:
                raise StateError(
                    f"{name}: its dimension {dim} cannot take an order of its own at no cost; give "
                    "it a rule with gather = true, or search the network instead of the weight."
                )
            _check_values(entry, weights[base] if base in weights else network.whole[base])
            if variable in found and not np.array_equal(found[variable], order):
                raise StateError(
                    f"{source[variable]} and {name} share the order {variable!r}, but the bundle "
                    "has other ones for them; search the network instead of single weights."
                )
            found[variable], source[variable] = order, name
    return found


def _moved(entry: BundleEntry) -> Iterator[tuple[int, Order]]:
    """Yield the dimensions of a weight that have an order, with it."""
    if entry.record.get("entangled"):
        raise StateError(
            f"{entry.name}: its blocks have orders of their own, which do not tell those of groups;"
            " hand in the result of the search instead of the bundle."
        )
    dim = int(entry.record.get("axis", 1))
    for at, order in ((rows_dim(dim), entry.rows), (dim, entry.cols)):
        if order is not None and not np.array_equal(order, np.arange(len(order))):
            yield at, as_order(order, int(entry.record["shape"][at]), f"an order of {entry.name}")


def _variable(tensor: str, dim: int, network: Network, plan: PrunePlan) -> str | None:
    """Return the group that orders a whole dimension of a weight item by item, or its gather."""
    for draft in plan.search.drafts:
        if draft.tensor == tensor and (draft.cols or "").endswith(GATHERED):
            layer = next(layer for layer in plan.layers if layer.tensor == tensor)
            if dim == layer.dim:
                return draft.cols
    size = network.whole[tensor].shape[dim]
    for group in network.groups:
        if group.blocks == 1 and group.size == size:
            for member in group.members:
                if (member.tensor, member.dim, member.block) == (tensor, dim, 1):
                    return group.name
    return None


def _check_values(entry: BundleEntry, weight: torch.Tensor) -> None:
    wanted = entry.record.get("sha256")
    if wanted is not None and fingerprint(to_numpy(weight, entry.name)) != wanted:
        raise BundleMismatch(
            f"{entry.name} holds other values than the weight that its order was found for; search "
            "again for this model, or load the weights that were searched."
        )
