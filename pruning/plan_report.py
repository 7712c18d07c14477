"""What a permuted network is reported as: rows for JSON, a page of HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

import permsearch as ps
from permsearch.bounds import cheap
from pruning.formulate import Formulation
from pruning.network import Network
from pruning.verify import Report

Row = dict[str, Any]


def report_of(
    network: Network, found: Formulation, result: ps.SearchResult, proof: Report | None
) -> dict[str, Any]:
    """Return groups, layers and pins of a permuted network as plain data.

    Shares are shares of what the group's (or the whole network's) weights hold in total.
    """
    return {
        "total": {
            "retained": result.retained,
            "baseline": result.share(result.baseline),
            "bound": result.share(result.bound),
            "bound_kind": result.bound_kind,
            "solver": result.solver,
            "seed": result.seed,
            "steps": result.steps,
            "seconds": result.runtime,
            "cpu_seconds": result.cpu,
        },
        "proof": None if proof is None else _proof(proof),
        "groups": list(_groups(network, found, result)),
        "layers": [_layer(plan) for plan in found.layers],
        "skipped": [{"tensor": name, "reason": why} for name, why in found.skipped.items()],
        "pins": [
            {"tensor": pin.tensor, "dim": pin.dim, "size": pin.size, "reasons": list(pin.reasons)}
            for pin in network.pins
        ],
        "unread": list(network.unread),
        "unknown": dict(network.unknown),
    }


def _proof(proof: Report) -> Row:
    return {
        "difference": proof.difference,
        "limit": proof.limit,
        "dtype": proof.dtype,
        "runs": proof.runs,
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


def _groups(network: Network, found: Formulation, result: ps.SearchResult) -> Iterator[Row]:
    problem = found.problem
    for group in network.groups:
        row: Row = {
            "name": group.name,
            "size": group.size,
            "blocks": group.blocks,
            "kind": group.kind,
            "members": [str(member) for member in group.members],
        }
        terms = tuple(problem.terms_on(group.name))
        if terms:
            own = ps.Problem({group.name: problem.domains[group.name]}, terms)
            total = own.total or 1.0
            order = {group.name: result.solution[group.name]}
            row["baseline"] = own.evaluate(own.identity()) / total
            row["retained"] = own.evaluate(order) / total
            row["bound"] = cheap(own).value / total
            row["share"] = total / (problem.total or 1.0)
        yield row


_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem }
table { border-collapse: collapse; width: 100%; margin: 1rem 0 }
th, td { text-align: left; padding: .2rem .6rem; border-bottom: 1px solid #ddd }
td.n { text-align: right; font-variant-numeric: tabular-nums }
"""


def html_of(title: str, content: Mapping[str, Any]) -> str:
    """Return a report as one HTML page that needs nothing else."""
    total, proof = content["total"], content["proof"]
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>Kept {total['baseline']:.5f} before, <b>{total['retained']:.5f}</b> after; no order "
        f"keeps more than {total['bound']:.5f} ({escape(total['bound_kind'])} bound).</p>",
        "" if proof is None else f"<p>{escape(_told(proof))}</p>",
        "<h2>Groups</h2>",
        _table(
            ("group", "items", "blocks", "kind", "tensors", "before", "after", "bound"),
            [_cells(row) for row in content["groups"]],
        ),
        "<h2>Layers</h2>",
        _table(
            ("weight", "pattern", "state", "by, or why not"),
            [(row["tensor"], row["pattern"], row["state"], _why(row)) for row in content["layers"]]
            + [(row["tensor"], "", "skipped", row["reason"]) for row in content["skipped"]],
        ),
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


def _told(proof: Row) -> str:
    verdict = "unchanged" if proof["unchanged"] else "CHANGED"
    return (
        f"Outputs {verdict}: largest relative difference {proof['difference']:.1e} over "
        f"{proof['runs']} inputs ({proof['dtype']}, limit {proof['limit']:.0e})."
    )


def _why(row: Row) -> str:
    return row["reason"] if row["state"] == "left" else ", ".join(row["groups"])


def _cells(row: Row) -> Sequence[Any]:
    numbers = [f"{row[key]:.5f}" if key in row else "" for key in ("baseline", "retained", "bound")]
    size = (row["name"], row["size"], row["blocks"], row["kind"], len(row["members"]))
    return (*size, *numbers)


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    kind = ' class="n"' if isinstance(value, int | float) else ""
    return f"<td{kind}>{escape(str(value))}</td>"
