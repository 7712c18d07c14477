"""Large tensors of a file: the record, mask and fingerprint of a search in memory, by rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

import permsearch as ps
from permsearch.io.bundle_writer import packed
from permsearch.io.fingerprint import fingerprint
from permsearch.io.opening import open_tensors
from permsearch.io.source import TensorInfo, TensorSource
from permsearch.jobs.tensors import TensorComparison, needed_memory, tensor_tasks
from permsearch.rows import COLUMNS
from permsearch.search_all import SearchOptions
from permsearch.solvers.coarse import Coarse
from permsearch.streaming import tensor
from permsearch.streaming.tensor import TensorRows, streams, tensor_part

OPTIONS = SearchOptions(ps.NM(2, 4), "coarse", seed=3)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every tensor count as large, and a chunk hold eight rows."""
    monkeypatch.setattr(tensor, "MOST_HELD", 100)
    monkeypatch.setattr(tensor, "_ENTRIES", 200)


def source_of(folder: Path, weight: NDArray[Any]) -> TensorSource:
    """Return a file with one tensor."""
    save_file({"w": weight}, folder / "w.safetensors")
    return open_tensors(folder / "w.safetensors")


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "int8"])
@pytest.mark.parametrize("sent", [True, False])
def test_the_part_is_that_of_memory(tmp_path: Path, kind: str, sent: bool) -> None:
    """Mask, order, shares and fingerprint are those of the order found, of any number type."""
    weight = (ps.instances.gaussian(37, 24, seed=0) * 40).astype(kind)
    source = source_of(tmp_path, weight)
    info = source.info("w")
    assert streams(info, OPTIONS)
    part = tensor_part(source, info, OPTIONS, weight if sent else None)
    order = part.arrays["cols"].astype(np.int64)
    problem = ps.single(weight, "2:4")
    expected = packed(part.record, problem.terms[0].mask({"cols": order}), {"cols": order})
    assert np.array_equal(part.arrays["mask"], expected.arrays["mask"])
    assert part.record["orders"] == expected.record["orders"]
    assert part.record["sha256"] == fingerprint(weight)
    assert part.record["total"] == pytest.approx(problem.total, rel=1e-12)
    kept = problem.evaluate({"cols": order}) / problem.total
    assert part.record["retained"] == pytest.approx(kept, rel=1e-12)
    assert part.record["retained"] > part.record["baseline"]
    assert set(COLUMNS) <= set(part.record)
    held = ps.search(weight, "2:4", solver=Coarse(), seed=3)
    assert held.retained == pytest.approx(part.record["retained"], rel=2e-3)


@pytest.mark.usefixtures("small_chunks")
def test_only_rows_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is asked for some rows at a time, never for the tensor."""
    weight = ps.instances.gaussian(64, 24, seed=0).astype(np.float32)
    source = source_of(tmp_path, weight)
    info = source.info("w")
    asked = []

    def rows(self: Any, name: str, first: int, last: int) -> NDArray[Any]:
        asked.append(last - first)
        return weight[first:last]

    monkeypatch.setattr(type(source), "read", None)
    monkeypatch.setattr(type(source), "read_rows", rows)
    parts = [part for _, part in TensorRows(source, info).weights()]
    assert np.array_equal(np.concatenate(parts), weight)
    assert max(asked) == 8


@pytest.mark.usefixtures("small_chunks")
def test_a_large_tensor_is_compared_row_by_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No search, `auto` and `matching` never hold it; their rows are those of the single runs."""
    weight = ps.instances.gaussian(37, 24, seed=0).astype(np.float32)
    source = source_of(tmp_path, weight)
    held = ps.search(weight, "2:4", solver="none")
    monkeypatch.setattr(type(source), "read", None)
    found = ps.compare(tmp_path / "w.safetensors", "2:4", solvers=["none", "auto", "matching"])
    none, *searched = found.rows
    assert none["retained"] == none["baseline"] == pytest.approx(held.share(held.baseline))
    assert none["total"] == pytest.approx(held.total, rel=1e-12)
    assert none["bound"] >= held.share(held.bound) * (1 - 1e-9)
    assert (none["steps"], none["efficacy"], none["solver"]) == (0, 0.0, "none")
    for row in searched:
        options = SearchOptions(ps.NM(2, 4), row["solver"])
        alone = tensor_part(source, source.info("w"), options).record
        told = {key: row[key] for key in COLUMNS if "seconds" not in key}
        assert told == {key: alone[key] for key in told}


@pytest.mark.usefixtures("small_chunks")
def test_a_solver_that_must_hold_a_tensor_holds_it(tmp_path: Path) -> None:
    """Beside solvers that go row by row another gets the tensor, and memory is asked for it."""
    weight = ps.instances.gaussian(16, 24, seed=0).astype(np.float32)
    source = source_of(tmp_path, weight)
    infos, options = [source.info("w")], SearchOptions(ps.NM(2, 4), "none", ps.MaxSteps(40))
    both, one = (tensor_tasks(infos, options, names) for names in (["none", "swap"], ["none"]))
    assert both[0].memory == needed_memory(infos[0])
    assert one[0].memory != both[0].memory
    part = TensorComparison(source, ["none", "swap"], options)(infos[0])
    alone = ps.search(weight, "2:4", solver="swap", stop=ps.MaxSteps(40))
    assert part.record["rows"][1]["retained"] == alone.retained
    assert part.record["sha256"] == fingerprint(weight)


@pytest.mark.parametrize("kind", ["float16", "float32", "int8"])
def test_rows_of_a_file(tmp_path: Path, kind: str) -> None:
    """Any run of rows is what reading the whole tensor has there, for any rank."""
    weight = (ps.instances.gaussian(6, 20, seed=0) * 9).astype(kind).reshape(6, 4, 5)
    save_file({"a": weight, "b": weight + 1}, tmp_path / "model.safetensors")
    file, folder = open_tensors(tmp_path / "model.safetensors"), open_tensors(tmp_path)
    for first, last in ((0, 6), (2, 3), (5, 6), (3, 3)):
        for source in (file, folder):
            found = source.read_rows("b", first, last)  # type: ignore[attr-defined]
            assert np.array_equal(found, file.read("b")[first:last])
            assert found.dtype == file.read("b").dtype


def test_what_is_searched_in_memory() -> None:
    """Small tensors, other patterns, solvers and axes, and tighter bounds stay as they are."""
    large, small = TensorInfo("w", (1 << 20, 4096), "float32"), TensorInfo("w", (64, 64), "float32")
    assert streams(large, OPTIONS)
    assert streams(large, SearchOptions(ps.NM(2, 4)))
    assert not streams(small, OPTIONS)
    assert not streams(TensorInfo("w", (1 << 20, 4098), "float32"), OPTIONS)
    assert not streams(TensorInfo("w", (1 << 20, 512, 3, 3), "float32"), OPTIONS)
    for options in (
        SearchOptions(ps.NM(2, 4), "swap"),
        SearchOptions(ps.NM(2, 4), permute=("rows", "cols")),
        SearchOptions(ps.NM(2, 4), bound=True),
        SearchOptions(ps.NM(4, 4)),
        SearchOptions(ps.VectorWise(32, 0.5)),
    ):
        assert not streams(large, options)
