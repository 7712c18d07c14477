"""What a permuted network is reported as: rows for JSON, a page of HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
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


_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem }
table { border-collapse: collapse; width: 100%; margin: 1rem 0 }
th, td { text-align: left; vertical-align: top; padding: .2rem .6rem; border-bottom: 1px solid }
td.n { text-align: right; font-variant-numeric: tabular-nums }
details li { font-family: ui-monospace, monospace; font-size: .85em }
"""


def html_of(title: str, content: Mapping[str, Any]) -> str:
    """Return a report as one HTML page that needs nothing else."""
    total = content["total"]
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>Kept {total['baseline']:.5f} before, <b>{total['retained']:.5f}</b> after; no order "
        f"keeps more than {total['bound']:.5f} ({escape(total['bound_kind'])} bound).</p>",
        f"<p>{escape(_told(content['proof']))}</p>",
        "<h2>Groups</h2>",
        _table(
            ("group and its members", "items", "blocks", "kind", "before", "after", "bound"),
            [_cells(row) for row in content["groups"]],
            first=_members,
        ),
        "<h2>Layers</h2>",
        _table(
            ("weight", "pattern", "state", "by, or why not"),
            [(row["tensor"], row["pattern"], row["state"], _why(row)) for row in content["layers"]]
            + [(row["tensor"], "", "skipped", row["reason"]) for row in content["skipped"]],
        ),
        *_gathers(content["gathers"]),
        "<h2>What stays, and why</h2>",
        _table(
            ("tensor", "dimension", "size", "reasons"),
            [
                (row["tensor"], row["dim"], row["size"], "; ".join(row["reasons"]))
                for row in content["pins"]
            ],
        ),
    ]
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    return f"<!doctype html><html><head>{head}</head><body>{''.join(parts)}</body></html>\n"


def _gathers(rows: Sequence[Row]) -> Iterator[str]:
    if rows:
        yield "<h2>What gathers cost</h2>"
        yield _table(
            ("layer", "bytes for each token", "more traffic"),
            [(row["layer"], row["bytes_per_token"], f"{row['share']:.1%}") for row in rows],
        )


def _told(proof: Row) -> str:
    if proof["unchanged"] is None:
        return f"Outputs were not compared: {proof['reason']}."
    verdict = "unchanged" if proof["unchanged"] else "CHANGED"
    return (
        f"Outputs {verdict}: largest relative difference {proof['difference']:.1e} over "
        f"{proof['runs']} inputs, {proof['resized']} of other sizes ({proof['dtype']}, limit "
        f"{proof['limit']:.0e})."
    )


def _why(row: Row) -> str:
    by = ", ".join(row["groups"])
    return f"{by} ({row['reason']})" if by and row["reason"] else by or row["reason"]


def _cells(row: Row) -> Sequence[Any]:
    numbers = [f"{row[key]:.5f}" if key in row else "" for key in ("baseline", "retained", "bound")]
    return (row, row["size"], row["blocks"], row["kind"], *numbers)


def _members(row: Row) -> str:
    items = "".join(f"<li>{escape(member)}</li>" for member in row["members"])
    told = f"{row['name']} ({len(row['members'])} tensors)"
    return f"<details><summary>{escape(told)}</summary><ul>{items}</ul></details>"


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]], first: Any = None) -> str:
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(_row(row, first))}</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _row(row: Sequence[Any], first: Any) -> Iterator[str]:
    for at, value in enumerate(row):
        if at == 0 and first is not None:
            yield f"<td>{first(value)}</td>"
            continue
        kind = ' class="n"' if isinstance(value, int | float) else ""
        yield f"<td{kind}>{escape(str(value))}</td>"
