"""Pruning a checkpoint folder that comes without code: orders, masks by magnitude, zeros."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from permsearch.patterns import Mask
from permsearch.provenance import provenance
from pruning.checkpoint_job import Job
from pruning.errors import RecipeError
from pruning.model_folder import LazyTensors, write_folder
from pruning.network import Network
from pruning.plan import PrunePlan, plan_pruning
from pruning.pruned import best_mask, moved, moved_back, shares_of
from pruning.recipe import Recipe
from pruning.record import bound_of, with_bound
from pruning.reorder import Move
from pruning.scores import magnitude


def prepare(folder: Path, recipe: Recipe) -> tuple[Job, PrunePlan]:
    """Return the job of a folder and what a recipe comes to for it; no numbers are read.

    Raises
    ------
    RecipeError
        A rule needs to run the model, which a folder cannot: calibrated scores or refits.
    """
    for rule in recipe.layers:
        if rule.method != "mask" or rule.scores not in (None, "magnitude"):
            raise RecipeError(
                f"{rule}: method = {rule.method!r} with scores = {rule.scores or 'magnitude'!r} "
                "runs the model on calibration data, which this command does not; use "
                "pruning.prune in Python for it."
            )
    job = Job.open(folder, None)
    plan = plan_pruning(job.network, recipe)
    ordered = {layer.tensor for layer in plan.layers if layer.rule.permute}
    drafts = tuple(draft for draft in plan.search.drafts if draft.tensor in ordered)
    job.plan = replace(plan.search, drafts=drafts)
    return job, plan


def write_pruned(job: Job, plan: PrunePlan, target: Path) -> dict[str, dict[str, Any]]:
    """Write the folder with its orders applied and zeros where masks drop weights.

    Returns
    -------
    dict
        What was kept of each weight's magnitude, as stored and in its order, and the bound of
        that, by name.
    """
    masks = _Masks(job.tensors, job.network, plan, job.moves, dict(job.network.aliases))
    write_folder(job.folder, target, job.moves, job.gathered, masks=masks)
    return masks.rows


class _Masks(Mapping[str, Mask]):
    """The masks of a folder's tensors in their new order, each made when it is asked for."""

    def __init__(
        self,
        tensors: LazyTensors,
        network: Network,
        plan: PrunePlan,
        moves: Mapping[str, Sequence[Move]],
        aliases: Mapping[str, str],
    ) -> None:
        self.tensors = tensors
        self.network = network
        self.plan = plan
        self.layers = plan.by_base()
        self.moves = moves
        self.aliases = aliases
        self.rows: dict[str, dict[str, Any]] = {}

    def __getitem__(self, name: str) -> Mask:
        layers = self.layers[self.aliases.get(name, name)]
        scores = magnitude(self.tensors[name])
        moves = self.moves.get(name, ())
        stored, _ = best_mask(layers, self.network, moved(scores, moves))
        limit = bound_of(self.network, self.plan, layers[0].base, scores)
        shares = shares_of(layers, self.network, scores, moved_back(stored, moves))
        self.rows[name] = with_bound(shares, limit)
        found: Mask = stored.numpy()
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.layers)


def about(folder: Path, recipe: str, own: Recipe) -> dict[str, Any]:
    """Return what was run, for the report's head."""
    given = {"target": ", ".join(own.target)} if own.target else {}
    return {"model": str(folder), "recipe": recipe, **given, **provenance()}


def told(
    plan: PrunePlan, content: Mapping[str, Any], rows: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the report: that of the search, with each weight's shares and the skipped ones."""
    return {
        **content,
        "pruned": [
            {
                "tensor": layer.tensor,
                "pattern": str(layer.rule.pattern),
                "state": layer.state,
                "note": layer.note,
                "scores": layer.scores,
                "targets": dict(layer.eligible),
                "retained": None,
                **rows.get(layer.base, {}),
            }
            for layer in plan.layers
        ],
        "skipped": [{"tensor": name, "reason": why} for name, why in plan.skipped.items()],
        "dense": list(plan.dense),
    }
