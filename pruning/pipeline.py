"""From a dense model to a reordered, masked and refitted one, by a recipe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from permsearch.arrays import to_numpy
from permsearch.errors import ScoresError
from permsearch.patterns import Scores
from permsearch.problem import Problem
from permsearch.result import SearchResult
from permsearch.solve import solve
from pruning import formulate
from pruning.bundle import MaskBundle
from pruning.calibrate import calibrate, visible
from pruning.capture import unwrapped
from pruning.curvature import checked_mean
from pruning.errors import StateError
from pruning.gather import GatherCost, gather_, gathered_orders
from pruning.masks import attach_masks_, density, masks_of
from pruning.network import Network
from pruning.permute import checked, permute_
from pruning.plan import PlannedLayer, PrunePlan, needs_gram, plan_pruning
from pruning.pruned import Pruned, prune_tensor
from pruning.recipe import Recipe, as_recipe
from pruning.reorder import Move, moves_of
from pruning.scores import score_kind
from pruning.statistics import Inputs
from pruning.trace import trace
from pruning.verify import Report


@dataclass(frozen=True, slots=True, eq=False)
class PruneResult:
    """What `prune` did.

    Attributes
    ----------
    bundle
        Masks and orders, in the layout of the weights that came in.
    plan
        What the recipe came to, with all that was skipped and why.
    search
        The search for orders; None where no order was free or asked for.
    report
        The proof that the orders changed nothing; None where nothing was reordered.
    gathers
        What the indices at run time cost.
    density
        Share of all weights with rows and columns that is left, dense ones counted.
    """

    bundle: MaskBundle
    plan: PrunePlan
    search: SearchResult | None
    report: Report | None
    gathers: tuple[GatherCost, ...]
    density: float

    def __str__(self) -> str:
        lines = [f"{self.density:.1%} of the weights are left"]
        for name, entry in self.bundle.items():
            row = entry.record
            error = row.get("output_error")
            told = f", output error {error:.4f}" if error is not None else ""
            lines.append(
                f"{name}: {row['pattern']}, kept {row['retained']:.4f} of its scores "
                f"({row['baseline']:.4f} unordered){told}"
            )
        lines += [f"{name}: skipped, {why}" for name, why in self.plan.skipped.items()]
        return "\n".join(lines)


def prune(
    model: nn.Module,
    recipe: Recipe | Mapping[str, Any] | str | Path,
    *,
    example_inputs: Any,
    example_kwargs: Mapping[str, Any] | None = None,
    calibration: Iterable[Any] | None = None,
    network: Network | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    verify: bool = True,
) -> PruneResult:
    """Prune a model in place by a recipe: orders, masks, and the weights that make up for them.

    Orders that cost nothing at run time are searched and applied first, and proven to change
    nothing; then the weights are masked in their new order and fitted; then the masks are
    attached, so that training keeps them.

    Parameters
    ----------
    recipe
        A `Recipe`, a table alike, the path of a TOML file, or one pattern for all layers.
    example_inputs, example_kwargs
        What the model is called with: a tensor or a tuple of arguments, and keywords.
    calibration
        Batches that the model is called with, for scores and refits; read once.
    network
        The model's trace, where there is one already.
    optimizer
        Its state is reordered with the weights, and dropped weights are zeroed after its steps.
    verify
        As for `pruning.permute_`.

    Returns
    -------
    PruneResult
        The bundle, and a report on every layer.

    Raises
    ------
    RecipeError, CalibrationError, ScoresError, NothingEligible, TraceError, StateError
        Before anything was changed.
    VerificationError
        The orders changed an output; the model is as it was.

    Examples
    --------
    >>> model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    >>> result = prune(model, "2:4", example_inputs=torch.randn(3, 8))
    >>> result.density
    0.5
    """
    bare, own = unwrapped(model), as_recipe(recipe)
    if masks_of(bare):
        raise StateError("the model has masks already; detach_masks_ first.")
    if network is None:
        network = trace(bare, _args(example_inputs), dict(example_kwargs or {}))
    plan = make_plan(bare, own, network, calibrated=calibration is not None)
    statistics = _statistics(bare, plan, calibration)
    given = dict(bare.named_parameters(remove_duplicate=False))
    scores = {layer.base: _scored(given[layer.base], layer, statistics) for layer in plan.layers}
    search = _search(network, plan, own, scores)
    report, moves, costs = _reorder(bare, network, search, optimizer, verify=verify)
    pruned = [
        prune_tensor(
            base,
            given[base],
            [layer for layer in plan.layers if layer.base == base],
            network,
            scores[base],
            moves.get(base, ()),
            statistics,
        )
        for base in dict.fromkeys(layer.base for layer in plan.layers)
    ]
    names = {id(p): name for name, p in bare.named_parameters(remove_duplicate=False)}
    masks = {names[id(given[each.entry.name])]: each.stored_mask for each in pruned}
    attach_masks_(bare, masks, optimizer=optimizer)
    bundle = _bundle(own, plan, search, pruned)
    return PruneResult(bundle, plan, search, report, tuple(costs), density(bare))


def make_plan(model: nn.Module, recipe: Recipe, network: Network, *, calibrated: bool) -> PrunePlan:
    """Return what a recipe comes to for a traced model: see `pruning.plan.plan_pruning`."""
    return plan_pruning(network, recipe, seen=visible(model) if calibrated else None)


def _args(example: Any) -> tuple[Any, ...]:
    return tuple(example) if isinstance(example, tuple | list) else (example,)


def _statistics(
    model: nn.Module, plan: PrunePlan, calibration: Iterable[Any] | None
) -> dict[str, Inputs]:
    """Return the statistics that the layers need, by the tensors' names."""
    wanted = {layer.base: layer for layer in plan.layers if layer.seen is not None}
    if calibration is None or not wanted:
        return {}
    names = {str(layer.seen) for layer in wanted.values()}
    gram = any(map(needs_gram, plan.layers))
    found = calibrate(model, calibration, names=sorted(names), gram=gram)
    for layer in wanted.values():
        for part in found[str(layer.seen)].grams() if needs_gram(layer) else ():
            checked_mean(part, layer.base)
    return {base: found[str(layer.seen)] for base, layer in wanted.items()}


def _scored(
    weight: torch.Tensor, layer: PlannedLayer, statistics: Mapping[str, Inputs]
) -> torch.Tensor:
    found = score_kind(layer.scores)(weight, statistics.get(layer.base))
    if not bool(found.isfinite().all()):
        at = tuple((~found.isfinite()).nonzero()[0].tolist())
        raise ScoresError(
            f"{layer.base}: its {layer.scores} is {found[at].item()} at index {at}, from the "
            f"weight {weight[at].item()}; repair the weight, or leave the layer dense."
        )
    return found


def _search(
    network: Network, plan: PrunePlan, recipe: Recipe, scores: Mapping[str, torch.Tensor]
) -> SearchResult | None:
    """Search the orders that some layer has a say in."""
    ordered = {layer.tensor for layer in plan.layers if layer.rule.permute}
    drafts = [draft for draft in plan.search.drafts if draft.tensor in ordered]
    if recipe.solver == "none" or not any(draft.variables for draft in drafts):
        return None
    by_tensor: dict[str, Scores] = {
        layer.tensor: to_numpy(network.pick(scores, layer.tensor)) for layer in plan.layers
    }
    found = tuple(formulate.terms(network, drafts, by_tensor))
    problem = Problem(plan.search.domains, found)
    return solve(problem, recipe.solver, stop=recipe.stop, seed=recipe.seed)


def _reorder(
    model: nn.Module,
    network: Network,
    search: SearchResult | None,
    optimizer: torch.optim.Optimizer | None,
    *,
    verify: bool,
) -> tuple[Report | None, dict[str, list[Move]], list[GatherCost]]:
    """Apply orders; return the proof, and what happened to each tensor."""
    if search is None:
        return None, {}, []
    report = permute_(model, search, network=network, optimizer=optimizer, verify=verify)
    moves = moves_of(network, checked(network, search))
    gathered = gathered_orders(network, search)
    costs = gather_(model, gathered) if gathered else []
    for layer, order in gathered.items():
        moves.setdefault(f"{layer}.weight", []).append(Move((1,), np.asarray(order)))
    return report, moves, costs


def _bundle(
    recipe: Recipe, plan: PrunePlan, search: SearchResult | None, pruned: Sequence[Pruned]
) -> MaskBundle:
    settings: dict[str, Any] = {
        "rules": [
            {
                "match": list(rule.match),
                "pattern": str(rule.pattern),
                "scores": rule.scores,
                "method": rule.method,
                "permute": rule.permute,
                "gather": rule.gather,
                "damping": rule.damping,
            }
            for rule in recipe.layers
        ],
        "solver": recipe.solver,
        "seed": recipe.seed,
        "steps": recipe.steps,
        "seconds": recipe.seconds,
        "torch": torch.__version__,
    }
    if search is not None:
        settings["search"] = {
            "score": search.score,
            "baseline": search.baseline,
            "bound": search.bound,
            "bound_kind": search.bound_kind,
            "total": search.total,
            "steps": search.steps,
            "solver": search.solver,
        }
    return MaskBundle({each.entry.name: each.entry for each in pruned}, settings, plan.skipped)
