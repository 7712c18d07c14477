"""From a plan to scores, and from scores to orders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from permsearch.arrays import to_numpy
from permsearch.errors import ScoresError
from permsearch.patterns import Scores
from permsearch.problem import Problem
from permsearch.result import SearchResult
from permsearch.solve import solve
from pruning import formulate
from pruning.network import Network
from pruning.plan import PlannedLayer, PrunePlan
from pruning.recipe import Recipe, Weigh
from pruning.scores import score_kind
from pruning.sources import Source
from pruning.statistics import Inputs

if TYPE_CHECKING:
    import torch


def scored(
    weights: Mapping[str, torch.Tensor],
    plan: PrunePlan,
    source: Source,
    scores: Mapping[str, str] | None = None,
) -> dict[str, torch.Tensor]:
    """Return the scores of all weights of a plan, by base name, in the layout that came in.

    Parameters
    ----------
    weights
        By base name.
    scores
        Names of other scores than the plan's, by base name.
    """
    other = scores or {}
    layers = {layer.base: layer for layer in plan.layers}
    kinds = {base: score_kind(other.get(base, layer.scores)) for base, layer in layers.items()}
    found: dict[str, torch.Tensor] = {}
    whole = any(kinds[base].needs == "gram" for base in other)
    for stage in source.before(whole=whole):
        for base, inputs in stage.items():
            found[base] = score_of(weights[base], layers[base], inputs, kinds[base].name)
    for base, layer in layers.items():
        if base not in found:
            found[base] = score_of(weights[base], layer, None, kinds[base].name)
    return {base: found[base] for base in layers}


def score_of(
    weight: torch.Tensor, layer: PlannedLayer, inputs: Inputs | None, name: str | None = None
) -> torch.Tensor:
    """Return the scores of a weight: the plan's, or those of another name.

    Raises
    ------
    ScoresError
        One is not finite, with its place and the weight there.
    """
    kind = score_kind(name or layer.scores)
    found = kind(weight, inputs)
    if not bool(found.isfinite().all()):
        at = tuple((~found.isfinite()).nonzero()[0].tolist())
        raise ScoresError(
            f"{layer.base}: its {kind.name} is {found[at].item()} at index {at}, from the "
            f"weight {weight[at].item()}; repair the weight, or leave the layer dense."
        )
    return found


def problem_of(
    network: Network, plan: PrunePlan, scores: Mapping[str, torch.Tensor], weigh: Weigh = "sums"
) -> Problem | None:
    """Return the search problem of the layers that have a say in orders; None without any.

    Parameters
    ----------
    weigh
        With "shares" the scores of each layer are divided by their sum.
    """
    ordered = {layer.tensor for layer in plan.layers if layer.rule.permute}
    drafts = [draft for draft in plan.search.drafts if draft.tensor in ordered]
    if not any(draft.variables for draft in drafts):
        return None
    by_tensor: dict[str, Scores] = {
        layer.tensor: to_numpy(network.pick(scores, layer.tensor)) for layer in plan.layers
    }
    if weigh == "shares":
        by_tensor = {name: _share(values) for name, values in by_tensor.items()}
    return Problem(plan.search.domains, tuple(formulate.terms(network, drafts, by_tensor)))


def _share(values: Scores) -> Scores:
    """Return scores as shares of their sum, in their type; zeros as they are."""
    total = float(values.sum(dtype=np.float64))
    shares: Scores = values / values.dtype.type(total) if total > 0 else values
    return shares


def searched(
    network: Network, plan: PrunePlan, recipe: Recipe, scores: Mapping[str, torch.Tensor]
) -> SearchResult | None:
    """Search the orders that some layer has a say in; None where there are none, or no solver."""
    problem = None if recipe.solver == "none" else problem_of(network, plan, scores, recipe.weigh)
    if problem is None:
        return None
    return solve(problem, recipe.solver, stop=recipe.stop, seed=recipe.seed)
