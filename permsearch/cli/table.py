"""Results for people: a table on a terminal, aligned lines in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from permsearch.report.text import clean, percent, points, seconds, share, times
from permsearch.result import TIGHT

Format = Callable[[Mapping[str, Any]], str]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: heading, how a row's cell reads, its width in a pipe, its side."""

    heading: str
    cell: Format
    width: int
    left: bool = False


TENSOR = Column("tensor", lambda row: clean(row["tensor"]), 0, left=True)
SHAPE = Column("shape", lambda row: "x".join(map(str, row["shape"])), 11)
SOLVER = Column("solver", lambda row: str(row["solver"]), 10, left=True)
RETAINED = Column("retained", lambda row: share(row["retained"]), 8)
START = Column("start", lambda row: share(row["baseline"]), 6)
GAIN = Column("gain", lambda row: points(row["retained"] - row["baseline"]), 6)
EFFICACY = Column("efficacy", lambda row: percent(row["efficacy"]), 8)
BOUND = Column("bound", lambda row: share(row["bound"]), 6)
MARKED_BOUND = Column("bound", lambda row: share(row["bound"]) + _loose(row), 12, left=True)
KIND = Column("kind", lambda row: _kind(row["bound_kind"]), 15, left=True)
SLACK = Column("slack", lambda row: f"{row['bound_slack']:.0e}", 6)
CERTIFIED = Column("of gain", lambda row: percent(row["certified"]), 7)
GAP = Column("gap", lambda row: percent(row["gap"]), 6)
MARKED_GAP = Column("gap", lambda row: percent(row["gap"]) + _loose(row), 12, left=True)
STEPS = Column("steps", lambda row: str(row["steps"]), 9)
TIME = Column("cpu", lambda row: seconds(row["cpu_seconds"]), 9)
STATUS = Column("status", lambda row: str(row["status"]), 9, left=True)
OVER_WINDOW = Column("vs window", lambda row: times(row["gain_over_window"]), 9)
COUNT = Column("tensors", lambda row: str(row["tensors"]), 7)

SEARCHED = (TENSOR, SHAPE, RETAINED, START, GAIN, EFFICACY, MARKED_BOUND, CERTIFIED, TIME, STATUS)
COMPARED = (TENSOR, SHAPE, SOLVER, RETAINED, GAIN, EFFICACY, MARKED_GAP, CERTIFIED, TIME, STATUS)
SUMMARY = (SOLVER, COUNT, RETAINED, GAIN, EFFICACY, GAP, TIME, OVER_WINDOW)
BOUNDED = (TENSOR, SHAPE, START, BOUND, KIND, SLACK, TIME)


def _kind(kind: str) -> str:
    return kind if kind in TIGHT else f"{kind} (loose)"


def _loose(row: Mapping[str, Any]) -> str:
    return "" if row.get("bound_kind") in TIGHT else " loose"


class Table:
    """Rows that appear as they come in a pipe, and as one table at the end on a terminal.

    Parameters
    ----------
    columns
        What to show.
    first
        The widest first cell to expect, so that lines in a pipe are aligned from the start.
    quiet
        Whether nothing is shown, since JSON has the standard output.
    """

    def __init__(self, columns: Sequence[Column], first: int = 8, *, quiet: bool = False) -> None:
        self._columns = columns
        self._first = first
        self._quiet = quiet
        self._terminal = sys.stdout.isatty()
        self._rows: list[tuple[int, list[str]]] = []

    def add(self, row: Mapping[str, Any], place: int = 0) -> None:
        """Take a row; a table at the end has the rows by `place`, then as they came."""
        if self._quiet:
            return
        cells = [column.cell(row) for column in self._columns]
        if not self._terminal:
            if not self._rows:
                click.echo(self._line([column.heading for column in self._columns]))
            click.echo(self._line(cells))
        self._rows.append((place, cells))

    def show(self, title: str | None = None) -> None:
        """Show the table where the rows did not appear yet."""
        if not self._terminal or not self._rows:
            return
        from rich import box
        from rich.console import Console
        from rich.table import Table as RichTable

        table = RichTable(title=title, title_justify="left", box=box.SIMPLE_HEAD)
        for column in self._columns:
            table.add_column(
                column.heading,
                justify="left" if column.left else "right",
                overflow="fold",
                no_wrap=column is not TENSOR,
            )
        for _, cells in sorted(self._rows, key=lambda row: row[0]):
            table.add_row(*map(_literal, cells))
        Console().print(table)

    def _line(self, cells: Sequence[str]) -> str:
        parts = []
        for column, cell in zip(self._columns, cells, strict=True):
            width = column.width or self._first
            parts.append(cell.ljust(width) if column.left else cell.rjust(width))
        return "  ".join(parts).rstrip()


def _literal(cell: str) -> str:
    """Return a cell in which rich sees no markup."""
    from rich.markup import escape

    return escape(cell)


def name_width(names: Sequence[str]) -> int:
    """Return the width that names take when shown."""
    return max([len("tensor"), *(len(clean(name)) for name in names)])
