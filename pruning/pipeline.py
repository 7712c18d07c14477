"""From a dense model to a reordered, masked and refitted one, by a recipe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from permsearch.result import SearchResult
from pruning.bundle import MaskBundle
from pruning.calibrate import seen_weights, visible
from pruning.candidates import reranked
from pruning.capture import unwrapped
from pruning.correction import corrected
from pruning.errors import RecipeError, StateError
from pruning.gather import GatherCost, gather_, gathered_orders
from pruning.given import given_search
from pruning.layerwise import block_names
from pruning.masks import attach_masks_, density, masks_of
from pruning.network import Network
from pruning.padding import Rows, attended
from pruning.permute import checked, permute_
from pruning.plan import PrunePlan, plan_pruning
from pruning.pruned import Pruned, Task, prune_tensor
from pruning.ranks import from_first_rank
from pruning.recipe import Recipe, as_recipe
from pruning.record import bounds_of, bundle_of, fingerprint_of, told_settings
from pruning.reorder import Move, moves_of
from pruning.scores import score_kind
from pruning.searched import score_of, scored, searched
from pruning.sources import Source
from pruning.statistics import Inputs
from pruning.trace import trace
from pruning.verify import Report

if TYPE_CHECKING:
    import torch
    from torch import nn


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
        lines += [self._line(name, entry.record) for name, entry in self.bundle.items()]
        lines += [f"{name}: skipped, {why}" for name, why in self.plan.skipped.items()]
        return "\n".join(lines)

    def _line(self, name: str, row: Mapping[str, Any]) -> str:
        """Return what became of a weight; shares of scores only where they chose its mask."""
        told = f"{name}: {row['pattern']} by {row['method']}"
        if self._chosen_by_scores(name, row):
            kept, before = row["retained"], row["baseline"]
            told += f", kept {kept:.4f} of its scores ({before:.4f} unordered)"
        error = row.get("output_error")
        return told if error is None else f"{told}, output error {error:.4f}"

    def _chosen_by_scores(self, name: str, row: Mapping[str, Any]) -> bool:
        """Decide whether the mask is the best one of the scores that orders were searched by."""
        later = self.bundle.settings.get("calibration") == "sequential"
        if later and score_kind(row["scores"]).needs != "nothing":
            return False  # by scores of the pruned net's inputs
        return not self.plan.by_base()[name][0].rule.chooses


def prune(
    model: nn.Module,
    recipe: Recipe | Mapping[str, Any] | str | Path,
    *,
    example_inputs: Any,
    example_kwargs: Mapping[str, Any] | None = None,
    calibration: Iterable[Any] | Mapping[str, Inputs] | None = None,
    search: Any = None,
    rows: Rows | None = attended,
    network: Network | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    verify: bool = True,
) -> PruneResult:
    """Prune a model in place by a recipe: orders, masks, and the weights that make up for them.

    Orders that cost nothing at run time are searched and applied first, and proven to change
    nothing; then the weights are masked in their new order and fitted; then the masks are
    attached, so that training keeps them. Under `torch.distributed`, every rank calls this with
    batches of its own: statistics are those of all ranks, and orders those of the first.

    Parameters
    ----------
    recipe
        A `Recipe`, a table alike, the path of a TOML file, or one pattern for all layers.
    example_inputs, example_kwargs
        What the model is called with: a tensor or a tuple of arguments, and keywords.
    calibration
        Batches that the model is called with, for scores and refits; read once. Or what
        `pruning.calibrate` returned for this model, where the recipe takes dense inputs.
    search
        Orders that were found before, which are taken instead of a new search: the `search` of a
        `PruneResult` or another result for `network.problem(...)`, a mapping from groups to
        orders, or a bundle of single weights' orders (its folder, from `permsearch search`).
    rows
        Which rows of a batch count, as for `pruning.calibrate`: padded tokens do not.
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
    >>> import torch
    >>> from torch import nn
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
    if search is not None and own.rerank > 1:
        raise RecipeError("rerank searches other orders; leave it out where search= has them.")
    plan = make_plan(bare, own, network, calibrated=calibration is not None)
    known = fingerprint_of(bare)
    source = Source(bare, plan, own, calibration, rows)
    given = dict(bare.named_parameters(remove_duplicate=False))
    scores = scored(given, plan, source)
    if search is not None:
        orders: SearchResult | None = given_search(search, network, plan, given, scores, own.weigh)
    else:
        orders = searched(network, plan, own, scores)
    choice = None
    if orders is not None and own.rerank > 1:
        orders, choice = reranked(orders, network, plan, own, given, scores, source)
    if orders is not None:
        orders = replace(orders, solution=from_first_rank(orders.solution))
    limits = bounds_of(network, plan, scores)
    report, moves, costs = _reorder(bare, network, orders, optimizer, verify=verify)
    tasks = {
        base: Task(base, layers, network, scores[base], moves.get(base, ()))
        for base, layers in plan.by_base().items()
    }
    pruned = _pruned(tasks, given, source)
    names = {id(p): name for name, p in bare.named_parameters(remove_duplicate=False)}
    masks = {names[id(given[each.entry.name])]: each.stored_mask for each in pruned}
    attach_masks_(bare, masks, optimizer=optimizer)
    settings = told_settings(own, plan, orders, known, choice, source.runs)
    bundle = bundle_of(settings, plan, pruned, limits)
    return PruneResult(bundle, plan, orders, report, tuple(costs), density(bare))


def make_plan(model: nn.Module, recipe: Recipe, network: Network, *, calibrated: bool) -> PrunePlan:
    """Return what a recipe comes to for a traced model: see `pruning.plan.plan_pruning`."""
    seen = visible(model) if calibrated else None
    blocks: tuple[str, ...] = ()
    if calibrated and recipe.calibration != "together":
        blocks = block_names(model, seen_weights(model), recipe.blocks or None)
    return plan_pruning(network, recipe, seen=seen, blocks=blocks)


def _args(example: Any) -> tuple[Any, ...]:
    return tuple(example) if isinstance(example, tuple | list) else (example,)


def _pruned(
    tasks: Mapping[str, Task], given: Mapping[str, torch.Tensor], source: Source
) -> list[Pruned]:
    """Prune every weight in place, those that need statistics when these come in."""
    sequential, stored = source.recipe.onward, not source.together
    staged = source.staged()
    plain = [base for base in tasks if base not in staged]
    found: dict[str, Pruned] = {}
    if sequential:  # later inputs are to be those of the pruned net
        found.update((b, prune_tensor(tasks[b], given[b], None, stored=True)) for b in plain)
    for stage in source.after(given):
        for base, inputs in stage.items():
            layer, weight = tasks[base].layers[0], given[base]
            goal = corrected(weight, inputs, layer.rule.damping)
            again = sequential and score_kind(layer.scores).needs != "nothing"
            fresh = score_of(goal, layer, inputs) if again else None
            task = tasks[base]
            found[base] = prune_tensor(
                task, weight, inputs, fresh=fresh, stored=stored, goal=goal if sequential else None
            )
    if not sequential:  # dense statistics may still be coming in while the others are pruned
        found.update((b, prune_tensor(tasks[b], given[b], None, stored=stored)) for b in plain)
    return [found[base] for base in tasks]


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
