"""The page of a permuted or pruned network: its groups, its weights, and what stays and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from permsearch.report.drawn_groups import drawn_groups
from permsearch.report.environment import environment, in_words
from permsearch.report.levels import levels
from permsearch.report.scatter import scatter
from permsearch.result import TIGHT

Row = Mapping[str, Any]
_UNSAID = ("gathers", "skipped", "pins", "unread", "dense", "pruned")


def render_network(content: Row, *, title: str = "A network's orders") -> str:
    """Return the page of what `permsearch permute` or `prune` reports.

    Parameters
    ----------
    content
        The report as plain data, which ``--json`` writes: `total`, `proof`, `groups`, `layers`, and
        where there are any `pruned`, `gathers`, `skipped`, `pins`, `unread`, `unknown`, `dense`,
        and `about`, what was run. Groups that hold `cpu_seconds` are drawn by time.
    title
        The page's heading.

    Raises
    ------
    MissingExtra
        jinja2 is not installed.
    """
    pages = environment()
    total = content["total"]
    searched = [row for row in content["groups"] if row.get("retained") is not None]
    timed = [_timed(row, total) for row in searched if row.get("cpu_seconds") is not None]
    return pages.get_template("network.html.jinja").render(
        title=title,
        about={**in_words(content.get("about", {})), **_search(total)},
        total={**total, "certified": certified(total)},
        proof=content["proof"],
        groups=[{**_LEVELS, **row, "certified": certified(row)} for row in content["groups"]],
        drawn=drawn_groups(content["groups"]),
        levels=levels([_level(row) for row in _each_once(searched)]),
        pruned_levels=levels([_pruned_level(row) for row in content.get("pruned", ())]),
        scatter=scatter([row for row in timed if row["efficacy"] > 0]),
        weights=weights(content),
        unknown=content.get("unknown", {}),
        **{key: content.get(key, ()) for key in _UNSAID if key != "pruned"},
    )


_LEVELS = dict.fromkeys(("baseline", "retained", "bound", "bound_kind", "share"))


def certified(row: Row) -> float | None:
    """Return the share of the possible gain that is proven to be taken; None unless tight."""
    kinds = str(row.get("bound_kind", "")).split(" and ")
    if row.get("retained") is None or not TIGHT.issuperset(kinds):
        return None
    room = row["bound"] - row["baseline"]
    return float((row["retained"] - row["baseline"]) / room) if room > 1e-12 else 1.0


def weights(content: Row) -> list[dict[str, Any]]:
    """Return a row for each weight: what became of it, by which groups, and why not more.

    Those that a recipe left dense or passed over have one as well.
    """
    pruned = {row["tensor"]: row for row in content.get("pruned", ())}
    rows = [
        {
            "tensor": row["tensor"],
            "pattern": row["pattern"],
            "state": row["state"],
            "by": ", ".join(row["groups"]),
            "reason": row["reason"],
            "retained": pruned.get(row["tensor"], {}).get("retained"),
        }
        for row in content["layers"]
    ]
    told = {row["tensor"] for row in rows}
    rows += [
        {**_PLAIN, **_only(row, "tensor", "pattern", "state", "retained"), "reason": row["note"]}
        for name, row in pruned.items()
        if name not in told
    ]
    for row in content.get("skipped", ()):
        rows.append({**_PLAIN, **row, "state": "skipped"})
    for name in content.get("dense", ()):
        rows.append({**_PLAIN, "tensor": name, "state": "dense", "reason": "asked for"})
    return rows


_PLAIN = {"pattern": "", "state": "", "by": "", "reason": "", "retained": None}


def _only(row: Row, *keys: str) -> dict[str, Any]:
    return {key: row[key] for key in keys}


def _search(total: Row) -> dict[str, Any]:
    return {"solver": total["solver"], "seed": total["seed"], "steps": f"{total['steps']:,}"}


def _each_once(rows: Sequence[Row]) -> list[Row]:
    """Return one row for the groups that were searched together and share their numbers."""
    found: dict[frozenset[str], Row] = {}
    for row in rows:
        found.setdefault(frozenset([row["name"], *row.get("together_with", ())]), row)
    return list(found.values())


def _level(row: Row) -> dict[str, Any]:
    others = len(row.get("together_with", ()))
    more = f" and {others} more" if others else ""
    blocks = f" in each of {row['blocks']}" if row["blocks"] > 1 else ""
    return {
        "name": f"{row['name']}{more}",
        "note": f"{row['size']}{blocks}, {100 * row.get('share', 0.0):.1f} % of all scores",
        "weight": row.get("share", 0.0),
        **_only(row, "baseline", "retained", "bound"),
    }


def _pruned_level(row: Row) -> dict[str, Any]:
    kept = row["retained"]
    return {
        "name": row["tensor"],
        "note": row["pattern"],
        "weight": 1.0,
        "baseline": row.get("baseline"),
        "retained": 1.0 if kept is None else kept,
        "bound": row.get("bound"),
    }


def _timed(row: Row, total: Row) -> dict[str, Any]:
    """Return a group's row as the picture of time against quality takes it."""
    room = row["bound"] - row["baseline"]
    gained = (row["retained"] - row["baseline"]) / room if room > 1e-12 else 0.0
    return {
        "solver": total["solver"],
        "tensor": row["name"],
        "cpu_seconds": row["cpu_seconds"],
        "efficacy": gained,
    }
