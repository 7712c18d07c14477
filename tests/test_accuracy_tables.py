"""What the accuracy benchmarks are built on: ledgers, spread, paired differences, tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

from benchmarks.accuracy import ledger, tables
from benchmarks.accuracy.base import Cell, Measure, Measured
from benchmarks.accuracy.spread import difference, summary

STORED = Cell("2:4", "mask")
DRAWS = [Cell("2:4", "mask", "random", seed) for seed in (1, 2)]


class Counted:
    """A task that tells how often it measured."""

    name = "counted"
    measures = (Measure("value"),)

    def __init__(self, cells: Iterable[Cell]) -> None:
        self.wanted = list(cells)
        self.calls: list[Cell] = []

    def cells(self) -> list[Cell]:
        """Return what was given."""
        return self.wanted

    def open(self) -> Callable[[Cell], Measured]:
        """Return a measurement that counts."""

        def measure(cell: Cell) -> Measured:
            self.calls.append(cell)
            return Measured({"value": [cell.order_seed, 1.0]}, {"error": 0.5})

        return measure


def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """Cells that stand in the ledger are not measured again."""
    task, rows = Counted([STORED, *DRAWS]), ledger.Ledger(tmp_path / "cells.jsonl")
    assert len(ledger.run(task, rows, limit=2)) == 2
    assert len(ledger.run(task, rows)) == 3
    assert task.calls == [STORED, *DRAWS]


def test_only_part_of_the_cells_is_run(tmp_path: Path) -> None:
    """``only`` means cells by parts of their keys."""
    task = Counted([STORED, *DRAWS])
    assert set(ledger.run(task, ledger.Ledger(tmp_path / "x"), only=["random/2"])) == {DRAWS[1]}


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_line_cut_short_is_measured_again(tmp_path: Path, cut: int) -> None:
    """What a kill leaves of a line is ignored, and spoils neither its neighbours nor the next."""
    path = tmp_path / "cells.jsonl"
    task, rows = Counted([STORED, *DRAWS]), ledger.Ledger(path)
    ledger.run(task, rows, limit=2)
    path.write_bytes(path.read_bytes()[: -cut - 1])
    assert set(rows.read()) == {STORED}
    assert set(ledger.run(task, rows)) == {STORED, *DRAWS}


def test_results_are_read_back(tmp_path: Path) -> None:
    """The kept file gives the cells again, with values rounded to one digit more than shown."""
    task = Counted([])
    path = tmp_path / "results.json"
    results = {STORED: Measured({"value": [0.123456, 2.0]}, {"error": 0.25})}
    path.write_text(ledger.as_results(task, results, {"threads": 1}))
    assert ledger.read_results(path)[STORED].items == {"value": [0.1235, 2.0]}
    assert ledger.read_results(tmp_path / "none.json") == {}


def test_differences_are_paired() -> None:
    """Items that are hard for both cancel; draws are averaged; the error is that over items."""
    hard = np.random.default_rng(0).normal(size=50) * 100
    gain = np.random.default_rng(1).normal(size=50)
    results = {
        STORED: Measured({"value": list(hard)}),
        DRAWS[0]: Measured({"value": list(hard + gain)}),
        DRAWS[1]: Measured({"value": list(hard + 3 * gain)}),
    }
    found = difference(
        results, "value", lambda c: c.order == "random", lambda c: c.order == "stored"
    )
    assert found is not None
    assert found.mean == pytest.approx(2 * gain.mean())
    assert found.error == pytest.approx(2 * gain.std(ddof=1) / 50**0.5)


def test_differences_need_a_shared_calibration() -> None:
    """Cells of different calibration sets are never compared."""
    results = {
        STORED: Measured({"value": [1.0, 2.0]}),
        Cell("2:4", "mask", "random", 1, calibration_seed=1): Measured({"value": [3.0, 4.0]}),
    }
    assert (
        difference(results, "value", lambda c: c.order == "random", lambda c: c.order == "stored")
        is None
    )


def test_summaries_tell_spread_over_seeds() -> None:
    """One cell has no spread; several have that of their means."""
    results = {cell: Measured({"value": [float(cell.order_seed)] * 3}) for cell in DRAWS}
    found = summary(results, "value", lambda c: c.order == "random")
    assert found is not None
    assert (found.mean, found.cells) == (1.5, 2)
    assert found.spread == pytest.approx(0.5**0.5)
    one = summary(results, "value", lambda c: c.order_seed == 1)
    assert one is not None
    assert one.spread is None
    assert summary(results, "value", lambda c: c.order == "stored") is None


def test_tables_show_means_and_differences() -> None:
    """A line for each method, a column for each order, nothing where nothing was measured."""
    results = {
        STORED: Measured({"value": [0.0, 2.0]}),
        DRAWS[0]: Measured({"value": [1.0, 2.0]}),
        DRAWS[1]: Measured({"value": [2.0, 2.0]}),
        Cell("4:8", "mask"): Measured({"value": [1.0, 1.0]}),
    }
    rows, orders = tables.rows_of(results), tables.orders_of(results)
    measure = Measure("value", 2)
    assert list(tables.means(results, measure, rows, orders)) == [
        "| pattern | method | stored | random |",
        "| --- | --- | --- | --- |",
        "| `2:4` | mask | 1.00 | 1.75 ± 0.35 (2) |",
        "| `4:8` | mask | 1.00 |  |",
    ]
    assert list(tables.differences(results, measure, rows)) == [
        "| pattern | method | random less stored |",
        "| --- | --- | --- |",
        "| `2:4` | mask | +0.75 ± 0.75 |",
    ]
    exact = list(tables.means(results, Measure("value", 2, np.exp), rows[:1], ["stored"]))
    assert exact[-1] == "| `2:4` | mask | 2.72 |"


def test_pages_are_filled_between_markers() -> None:
    """What stands between the markers is replaced, all else is left."""
    page = "a\n<!-- x -->\nold\n<!-- end -->\nb <!-- y --> <!-- end -->"
    done = tables.filled(page, "x", ["new"])
    assert done == "a\n<!-- x -->\n\nnew\n\n<!-- end -->\nb <!-- y --> <!-- end -->"
    assert tables.filled(done, "x", ["new"]) == done
    assert tables.filled(page, "z", ["new"]) == page
