"""What a permuted network is reported as: rows for JSON, and for `permsearch.report`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pruning.formulate import Plan
from pruning.gather import GatherCost
from pruning.groupwise import Found
from pruning.network import Network
from pruning.verify import Report

Row = dict[str, Any]


def report_of(
    network: Network,
    planned: Plan,
    found: Found,
    proof: Report | str,
    costs: Sequence[GatherCost] = (),
) -> dict[str, Any]:
    """Return groups, layers and pins of a permuted network as plain data.

    Shares are shares of what the group's (or the whole network's) weights hold in total. `proof`
    is a text where nothing was compared.
    """
    kinds = {part.bound_kind for part in found.scores if part.groups}
    return {
        "total": {
            "retained": found.retained,
            "baseline": found.share("baseline"),
            "bound": found.share("bound"),
            "bound_kind": " and ".join(sorted(kinds)) or "exact",
            "solver": found.solver,
            "seed": found.seed,
            "steps": found.steps,
            "seconds": found.runtime,
            "cpu_seconds": found.cpu,
        },
        "proof": _proof(proof),
        "groups": list(_groups(network, found)),
        "layers": [_layer(plan) for plan in planned.layers],
        "gathers": [
            {"layer": cost.layer, "bytes_per_token": cost.moved, "share": cost.share}
            for cost in costs
        ],
        "skipped": [{"tensor": name, "reason": why} for name, why in planned.skipped.items()],
        "pins": [
            {"tensor": pin.tensor, "dim": pin.dim, "size": pin.size, "reasons": list(pin.reasons)}
            for pin in network.pins
        ],
        "unread": list(network.unread),
        "unknown": dict(network.unknown),
    }


def _proof(proof: Report | str) -> Row:
    if isinstance(proof, str):
        return {"unchanged": None, "reason": proof}
    return {
        "difference": proof.difference,
        "limit": proof.limit,
        "dtype": proof.dtype,
        "runs": proof.runs,
        "resized": proof.resized,
        "unchanged": proof.same,
    }


def _layer(plan: Any) -> Row:
    return {
        "tensor": plan.tensor,
        "pattern": str(plan.pattern),
        "state": plan.state,
        "groups": list(plan.groups),
        "reason": plan.reason,
    }


def _groups(network: Network, found: Found) -> Iterator[Row]:
    """Yield a row for each group; groups that were searched together share their numbers."""
    parts = {name: part for part in found.scores for name in part.groups}
    total = sum(part.total for part in found.scores) or 1.0
    for group in network.groups:
        row: Row = {
            "name": group.name,
            "size": group.size,
            "blocks": group.blocks,
            "kind": group.kind,
            "members": [str(member) for member in group.members],
        }
        part = parts.get(group.name)
        if part is not None:
            own = part.total or 1.0
            row["baseline"], row["retained"] = part.baseline / own, part.score / own
            row["bound"], row["bound_kind"] = part.bound / own, part.bound_kind
            row["share"] = part.total / total
            row["cpu_seconds"] = part.cpu
            row["together_with"] = [name for name in part.groups if name != group.name]
        yield row
