"""The page of a mask bundle: what became of each weight, as its manifest tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from permsearch.report.environment import environment, in_words
from permsearch.report.levels import levels
from permsearch.report.network import certified


def render_bundle(manifest: Mapping[str, Any], *, title: str = "A bundle of masks") -> str:
    """Return the page of a bundle.

    Parameters
    ----------
    manifest
        The content of ``manifest.json`` (`docs/bundles.md`), as `permsearch search --out` and
        `pruning.MaskBundle.save` write it.
    title
        The page's heading.

    Raises
    ------
    MissingExtra
        jinja2 is not installed.
    """
    pages = environment()
    rows = [_row(name, record) for name, record in manifest["tensors"].items()]
    about = {
        "source": manifest.get("source"),
        **{key: _text(value) for key, value in manifest.get("settings", {}).items()},
        "complete": manifest.get("complete"),
    }
    return pages.get_template("bundle.html.jinja").render(
        title=title,
        about=in_words({key: value for key, value in about.items() if value not in (None, "")}),
        rows=rows,
        with_error=any(row["output_error"] is not None for row in rows),
        with_time=any(row["seconds"] is not None for row in rows),
        with_scores=any(row["scores"] for row in rows),
        skipped=manifest.get("skipped", ()),
        retained=_weighted(rows, "retained"),
        baseline=_weighted(rows, "baseline"),
        levels=levels([_level(row) for row in rows if row["retained"] is not None]),
    )


_KEYS = (
    *("pattern", "retained", "baseline", "bound", "bound_kind", "total", "status", "state"),
    *("method", "scores", "solver", "steps", "cpu_seconds", "seconds", "output_error"),
)


def _row(name: str, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with every key that the page shows; None where it says nothing."""
    row = {key: record.get(key) for key in _KEYS}
    shape = record["shape"]
    size = 1
    for length in shape:
        size *= length
    row |= {"tensor": name, "shape": " × ".join(map(str, shape)), "size": size}
    known = row["bound"] is not None and row["baseline"] is not None
    row["certified"] = certified(row) if known and row["bound_kind"] else None
    row["reordered"] = ", ".join(sorted(record.get("orders", {}))) or "nothing"
    return row


def _level(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": row["tensor"],
        "note": f"{row['shape']}, {row['pattern']}",
        "weight": row["size"],
        "baseline": row["baseline"],
        "retained": row["retained"],
        "bound": row["bound"],
    }


def _weighted(rows: list[dict[str, Any]], key: str) -> float | None:
    known = [row for row in rows if row[key] is not None and row["total"]]
    total = sum(row["total"] for row in known)
    return sum(row[key] * row["total"] for row in known) / total if total else None


def _text(value: Any) -> Any:
    return value if value is None or isinstance(value, str | int | float) else str(value)
