"""What a bundle tells of how it was made: settings, versions, the model, bounds of every layer."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from permsearch.arrays import to_numpy
from permsearch.bounds import Bound, cheap
from permsearch.io.bundle import BundleEntry
from permsearch.io.fingerprint import fingerprint
from permsearch.problem import Problem
from permsearch.result import SearchResult
from pruning import formulate
from pruning.bundle import MaskBundle
from pruning.network import Network
from pruning.plan import PrunePlan
from pruning.pruned import Pruned
from pruning.recipe import Recipe


def fingerprint_of(model: nn.Module) -> str:
    """Return a SHA-256 over the names, types, shapes and values of a model's parameters."""
    digest = hashlib.sha256()
    for name, parameter in sorted(model.named_parameters(), key=lambda pair: pair[0]):
        own = fingerprint(to_numpy(parameter, name))
        digest.update(f"{name}\0{parameter.dtype}\0{own}\0".encode())
    return digest.hexdigest()


def bounds_of(
    network: Network, plan: PrunePlan, scores: Mapping[str, torch.Tensor]
) -> dict[str, Bound]:
    """Return the bound of every weight of a plan, by base name: see `bound_of`."""
    return {base: bound_of(network, plan, base, scores[base]) for base in plan.by_base()}


def bound_of(network: Network, plan: PrunePlan, base: str, scores: torch.Tensor) -> Bound:
    """Return what no orders make a weight keep, on its own.

    Orders that weights share cannot be best for all of them, so the bounds do not add up to
    what can be reached together. It costs no more than looking at every score once.

    Parameters
    ----------
    scores
        In the layout that came in.
    """
    parts = []
    for layer in plan.by_base()[base]:
        own = [draft for draft in plan.search.drafts if draft.tensor == layer.tensor]
        names = {name for draft in own for name in (draft.rows, draft.cols) if name is not None}
        domains = {name: plan.search.domains[name] for name in names}
        values = {layer.tensor: to_numpy(network.pick({base: scores}, layer.tensor))}
        parts.append(cheap(Problem(domains, tuple(formulate.terms(network, own, values)))))
    return Bound.total(parts)


def told_settings(
    recipe: Recipe,
    plan: PrunePlan,
    search: SearchResult | None,
    model: str,
    choice: Mapping[str, Any] | None,
    runs: Sequence[str],
) -> dict[str, Any]:
    """Return the settings of a bundle: the recipe, the search, the model, and versions.

    Parameters
    ----------
    model
        Its fingerprint.
    choice
        What `pruning.candidates.reranked` told.
    runs
        Blocks whose inputs took a run of the model.
    """
    import numpy as np

    import permsearch

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
        "calibration": recipe.calibration,
        "blocks": list(plan.blocks),
        "whole_runs": list(runs),
        "weigh": recipe.weigh,
        "rerank": recipe.rerank,
        "target": list(recipe.target),
        "model": model,
        "torch": torch.__version__,
        "versions": {
            "permsearch": permsearch.__version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "torch": torch.__version__,
        },
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
            "seconds": search.runtime,
        }
    if choice is not None:
        settings["choice"] = dict(choice)
    return settings


def bundle_of(
    settings: Mapping[str, Any],
    plan: PrunePlan,
    pruned: Sequence[Pruned],
    bounds: Mapping[str, Bound],
) -> MaskBundle:
    """Return the bundle of pruned weights, with the bound of each."""
    entries = {each.entry.name: _bounded(each.entry, bounds[each.entry.name]) for each in pruned}
    return MaskBundle(entries, settings, plan.skipped)


def _bounded(entry: BundleEntry, limit: Bound) -> BundleEntry:
    return replace(entry, record=with_bound(entry.record, limit))


def with_bound(record: Mapping[str, Any], limit: Bound) -> dict[str, Any]:
    """Return a record with its bound, and the share of the possible gain that is certain."""
    found = dict(record)
    found["bound"], found["bound_kind"] = limit.value / (record["total"] or 1.0), limit.kind
    room = found["bound"] - found["baseline"]
    gained = found["retained"] - found["baseline"]
    found["certified"] = (gained / room if room > 1e-12 else 1.0) if limit.tight else None
    return found
