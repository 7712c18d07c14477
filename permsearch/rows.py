"""One row of numbers for one search: what JSON, CSV, tables and manifests hold."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from permsearch.result import PADDING, SearchResult

Row: TypeAlias = dict[str, Any]

COLUMNS = (
    "tensor",
    "rows",
    "cols",
    "pattern",
    "solver",
    "seed",
    "steps",
    "seconds",
    "cpu_seconds",
    "retained",
    "baseline",
    "bound",
    "bound_kind",
    "bound_slack",
    "efficacy",
    "gap",
    "certified",
    "status",
    "total",
    *PADDING,
)
"""The keys of a row. retained, baseline and bound are shares of `total`, the sum of all scores.

bound_slack is how much of the bound is room for rounding, a share of `total` too.
certified is the share of the possible gain that is proven to be taken, None without a tight bound.
"""


def result_row(tensor: str, shape: tuple[int, ...], result: SearchResult, *, solver: str) -> Row:
    """Return the row for a search of one tensor.

    Parameters
    ----------
    tensor
        Its name.
    shape
        Its shape as stored; a convolution counts every tap as a row of its own.
    result
        What the search returned.
    solver
        The solver as it was asked for.
    """
    return {
        "tensor": tensor,
        "rows": math.prod(shape) // shape[1],
        "cols": shape[1],
        "pattern": str(result.problem.terms[0].pattern),
        "solver": solver,
        "seed": result.seed,
        "steps": result.steps,
        "seconds": result.runtime,
        "cpu_seconds": result.cpu,
        "retained": result.retained,
        "baseline": result.share(result.baseline),
        "bound": result.share(result.bound),
        "bound_kind": result.bound_kind,
        "bound_slack": result.share(result.bound_slack) if result.total > 0 else 0.0,
        "efficacy": result.efficacy,
        "gap": result.gap,
        "certified": result.certified,
        "status": str(result.status),
        "total": result.total,
        **{key: int(result.details.get(key, 0)) for key in PADDING},
    }


def csv_text(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as CSV with a header line; what is unknown stays empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
