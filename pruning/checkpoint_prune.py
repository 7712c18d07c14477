"""Pruning a checkpoint folder that comes without code: orders, masks by magnitude, zeros."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from permsearch.arrays import magnitude as array_magnitude
from permsearch.bounds import Bound, cheap
from permsearch.io.folder import ShardedFolder
from permsearch.patterns import NM, Mask, Scores
from permsearch.problem import Problem
from permsearch.provenance import provenance
from pruning.checkpoint_job import Job
from pruning.drafts import Draft
from pruning.errors import RecipeError
from pruning.formulate import term_of
from pruning.model_folder import LazyTensors, write_folder
from pruning.network import Network
from pruning.plan import PlannedLayer, PrunePlan, plan_pruning
from pruning.pruned import best_mask, moved, moved_back, shares_of
from pruning.recipe import Recipe
from pruning.record import bound_of, with_bound
from pruning.reorder import Move
from pruning.scores import magnitude

_ENTRIES = 1 << 24  # of the rows whose masks are made at once


def prepare(
    folder: Path, recipe: Recipe, outputs: Literal["pin", "free"] = "pin"
) -> tuple[Job, PrunePlan]:
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
    if recipe.weigh != "sums":
        raise RecipeError(
            f"weigh = {recipe.weigh!r} is for pruning.prune in Python; this command adds scores up."
        )
    job = Job.open(folder, None, outputs=outputs)
    plan = plan_pruning(job.network, recipe)
    ordered = {layer.tensor for layer in plan.layers if layer.rule.permute}
    drafts = tuple(draft for draft in plan.search.drafts if draft.tensor in ordered)
    job.plan = replace(plan.search, drafts=drafts)
    return job, plan


def write_pruned(
    job: Job,
    plan: PrunePlan,
    target: Path,
    before: Callable[[Path, dict[str, dict[str, Any]]], None],
) -> None:
    """Write the folder with its orders applied and zeros where masks drop weights.

    Parameters
    ----------
    before
        Called before the whole folder takes its name: with the place where it was written aside,
        and what was kept of each weight's magnitude, as stored and in its order, and the bound of
        that, by name.
    """
    aliases = dict(job.network.aliases)
    masks = _Masks(job.folder, job.tensors, job.network, plan, job.moves, aliases)

    def whole(aside: Path) -> None:
        before(aside, masks.rows)

    write_folder(job.folder, target, job.moves, job.gathered, masks=masks, before=whole)


class _Masks(Mapping[str, Mask]):
    """The masks of a folder's tensors in their new order, each made when it is asked for."""

    def __init__(
        self,
        folder: Path,
        tensors: LazyTensors,
        network: Network,
        plan: PrunePlan,
        moves: Mapping[str, Sequence[Move]],
        aliases: Mapping[str, str],
    ) -> None:
        self.tensors = tensors
        self.source = ShardedFolder.open(folder)
        self.network = network
        self.plan = plan
        self.layers = plan.by_base()
        self.moves = moves
        self.aliases = aliases
        self.rows: dict[str, dict[str, Any]] = {}

    def __getitem__(self, name: str) -> Mask:
        layers = self.layers[self.aliases.get(name, name)]
        if self._by_rows(name, layers):
            return self._in_blocks(name, layers[0])
        scores = magnitude(self.tensors[name])
        moves = self.moves.get(name, ())
        stored, _ = best_mask(layers, self.network, moved(scores, moves))
        limit = bound_of(self.network, self.plan, layers[0].base, scores)
        shares = shares_of(layers, self.network, scores, moved_back(stored, moves))
        self.rows[name] = with_bound(shares, limit)
        found: Mask = stored.numpy()
        return found

    def _by_rows(self, name: str, layers: Sequence[PlannedLayer]) -> bool:
        """Decide whether each row's mask depends on nothing but the row, wherever it goes."""
        if len(layers) > 1 or layers[0].tensor in self.network.parts or layers[0].dim != 1:
            return False
        if not all(draft.take.by_rows for draft in self._drafts(layers[0])):
            return False
        simple = all(move.part is None and len(move.dims) == 1 for move in self.moves.get(name, ()))
        return simple and isinstance(layers[0].rule.sparse, NM) and self._shape(name) is not None

    def _shape(self, name: str) -> tuple[int, int] | None:
        """Return the shape of a matrix, None for tensors of another rank."""
        shape = self.source.info(name).shape
        return (shape[0], shape[1]) if len(shape) == 2 else None

    def _in_blocks(self, name: str, layer: PlannedLayer) -> Mask:
        """Return the mask of a matrix, some rows at a time: what one in full would take is much."""
        shape, pattern = self._shape(name), layer.rule.sparse
        assert shape is not None
        assert pattern is not None
        found = np.empty(shape, np.bool_)
        orders = [np.arange(size) for size in shape]
        for move in self.moves.get(name, ()):
            orders[move.dims[0]] = orders[move.dims[0]][move.index]
        total = kept = before = 0.0
        limits: list[Bound] = []
        height = max(1, _ENTRIES // shape[1])
        for first in range(0, shape[0], height):
            last = min(shape[0], first + height)
            told = f"{name}, rows {first} to {last - 1}"
            scores = array_magnitude(self.source.read_rows(name, first, last), told)
            stored = np.ascontiguousarray(scores[:, orders[1]])
            found[first:last] = pattern.keep(stored)
            total += float(stored.sum(dtype=np.float64))
            kept += float(stored.sum(dtype=np.float64, where=found[first:last]))
            before += float(scores.sum(dtype=np.float64, where=pattern.keep(scores)))
            limits.append(self._limit(scores, layer))
        scale = total if total > 0 else 1.0
        shares = {"retained": kept / scale, "baseline": before / scale, "total": total}
        self.rows[name] = with_bound(shares, Bound.total(limits))
        return found[orders[0]]

    def _limit(self, scores: Scores, layer: PlannedLayer) -> Bound:
        """Return the bound of some rows of a matrix, in the layout that came in."""
        drafts, domains = self._drafts(layer), self.plan.search.domains
        columns = {draft.cols: domains[draft.cols] for draft in drafts if draft.cols is not None}
        terms = tuple(term_of(replace(draft, rows=None), scores) for draft in drafts)
        return cheap(Problem(columns, terms))

    def _drafts(self, layer: PlannedLayer) -> list[Draft]:
        """Return what a layer is in the search."""
        return [draft for draft in self.plan.search.drafts if draft.tensor == layer.tensor]

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
