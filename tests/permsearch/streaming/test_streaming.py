"""Stacks read row by row: exact sums, the same order however they are cut, honest values."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import permsearch as ps
from permsearch.errors import FileError, UnknownName
from permsearch.limits.rows import row_top
from permsearch.solvers.coarse import Coarse
from permsearch.stack import pieces
from permsearch.streaming import levels as levels_module
from permsearch.streaming import search as search_module
from permsearch.streaming import tables
from permsearch.streaming.device import Processor, open_device
from permsearch.streaming.levels import Levels, SomeLevels, held_levels, levels_of, step_of
from permsearch.streaming.rows import ArrayRows, SampledRows, survey
from permsearch.streaming.search import CoarseOptions, search_levels, value_of
from permsearch.streaming.stream import Streamed, StreamOptions, search_rows

PATTERNS = [(2, 4), (1, 2), (1, 4), (4, 8), (3, 6), (2, 5), (3, 4)]


def rows_of(seed: int, rows: int, columns: int) -> NDArray[np.float32]:
    """Return scores with columns of different scales, some of them zero."""
    rng = np.random.default_rng(seed)
    found = np.abs(rng.standard_normal((rows, columns))) * np.exp(rng.standard_normal(columns))
    return np.asarray(found * (rng.random((rows, columns)) < 0.9), np.float32)


def bytes_of(levels: Levels) -> NDArray[np.int64]:
    """Return all levels, shape (columns, rows, padding included)."""
    return np.concatenate([block.astype(np.int64) for block in levels.blocks()], axis=1)


def kept_slowly(columns: NDArray[Any], order: NDArray[np.int64], n: int, m: int) -> NDArray[Any]:
    """Return what each group keeps, by sorting."""
    groups = columns[order].reshape(-1, m, columns.shape[1])
    return np.asarray(np.sort(groups, axis=1)[:, m - n :].sum(axis=(1, 2)))


@given(
    seed=st.integers(0, 99),
    pattern=st.sampled_from(PATTERNS),
    groups=st.integers(2, 6),
    rows=st.integers(1, 90),
    heights=st.tuples(st.integers(1, 70), st.integers(1, 100)),
    on_disk=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_cuts_change_nothing(
    seed: int,
    pattern: tuple[int, int],
    groups: int,
    rows: int,
    heights: tuple[int, int],
    on_disk: bool,
) -> None:
    """Chunks, blocks and the scratch file leave every bit of the result as it is."""
    scores = rows_of(seed, rows, groups * pattern[1])
    whole = search_rows(ArrayRows([scores]), ps.NM(*pattern))
    cut = search_rows(
        ArrayRows([scores[: rows // 2], scores[rows // 2 :]] if rows > 1 else [scores], heights[0]),
        ps.NM(*pattern),
        StreamOptions(height=heights[1], memory=0 if on_disk else 1 << 20),
    )
    assert np.array_equal(whole.order, cut.order)
    for name in ("total", "baseline", "score", "bound"):
        assert getattr(whole, name) == getattr(cut, name), name


@given(seed=st.integers(0, 99), pattern=st.sampled_from(PATTERNS), rows=st.integers(1, 60))
@settings(max_examples=40, deadline=None)
def test_values_are_those_of_the_scores(seed: int, pattern: tuple[int, int], rows: int) -> None:
    """Total, start and score are sums of the scores; the bound holds for all orders of a row."""
    n, m = pattern
    scores = rows_of(seed, rows, 4 * m)
    found = search_rows(ArrayRows([scores]), ps.NM(n, m))
    wide = scores.astype(np.float64).T
    assert found.total == pytest.approx(float(wide.sum()), rel=1e-12)
    assert found.baseline == pytest.approx(
        float(kept_slowly(wide, np.arange(4 * m), n, m).sum()), rel=1e-12
    )
    assert found.score == pytest.approx(
        float(kept_slowly(wide, found.order, n, m).sum()), rel=1e-12
    )
    assert sorted(found.order.tolist()) == list(range(4 * m))
    assert found.baseline <= found.score <= found.bound
    best = row_top(scores, 4 * n)
    assert best * (1 - 1e-12) <= found.bound <= best * 1.05 + 1e-12


def test_the_bound_is_close() -> None:
    """On rows as wide as a model's the limit is that of sorting, to a thousandth."""
    scores = np.abs(ps.instances.gaussian(64, 1024, seed=3)).astype(np.float32)
    found = search_rows(ArrayRows([scores]), ps.NM(2, 4), StreamOptions(CoarseOptions(0, 0)))
    assert row_top(scores, 512) <= found.bound <= row_top(scores, 512) * 1.001


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_solver_is_the_same_search(pattern: tuple[int, int]) -> None:
    """`coarse` in memory goes through the orders of the stream and keeps the best in float64."""
    scores = rows_of(5, 70, 8 * pattern[1])
    streamed = search_rows(ArrayRows([scores]), ps.NM(*pattern), StreamOptions(seed=3, height=32))
    (piece,) = pieces(ps.single(scores, ps.NM(*pattern)))
    rng, budget = np.random.default_rng([3, 0]), None
    *_, last = Coarse()._run(piece.stack, np.arange(8 * pattern[1]), rng, budget)  # type: ignore[arg-type]
    assert np.array_equal(last.order, streamed.order)
    held = ps.search(scores, ps.NM(*pattern), solver=Coarse(), seed=3)
    assert held.score >= streamed.score * (1 - 1e-12)
    assert held.bound == pytest.approx(streamed.bound, rel=0.02)


def levels_for(scores: NDArray[np.float32], n: int, m: int, height: int = 32) -> Levels:
    """Return levels in blocks of a few rows."""
    seen = survey(ArrayRows([scores]))
    step = step_of(seen, n, m, len(scores))
    return held_levels(np.ascontiguousarray(scores.T), step, height)


@pytest.mark.parametrize(("size", "n"), [(1, 1), (2, 2), (2, 1), (1, 2), (4, 3)])
def test_unions_are_summed_exactly(size: int, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the value of every union, summed over blocks, in matrices cut anywhere."""
    levels = levels_for(rows_of(1, 75, 24), 2, 4)
    columns = bytes_of(levels)
    parts = np.random.default_rng(0).permutation(24).reshape(-1, size)
    values = {}
    for at_once in (512, 5):
        monkeypatch.setattr(tables, "_ROWS", at_once)
        values[at_once] = tables.union_values(levels, parts, n, Processor())
    assert (values[5] == values[512]).all() or (np.diag(values[5]) != np.diag(values[512])).any()
    for a, b in combinations(range(len(parts)), 2):
        # a part that holds more than n columns passes on its n largest
        union = columns[np.concatenate([parts[a], parts[b]])]
        expected = 2 * np.sort(union, axis=0)[-n:].sum()
        for found in values.values():
            assert found[a, b] == found[b, a] == expected


@pytest.mark.parametrize("pattern", PATTERNS)
def test_groups_are_summed_exactly(pattern: tuple[int, int]) -> None:
    """What groups keep is what sorting the bytes says."""
    n, m = pattern
    levels = levels_for(rows_of(2, 75, 5 * m), n, m)
    order = np.random.default_rng(1).permutation(5 * m)
    assert (tables.kept(levels, order, n, m) == kept_slowly(bytes_of(levels), order, n, m)).all()


@pytest.mark.parametrize("pattern", PATTERNS)
def test_it_ends_where_no_swap_of_bytes_gains(pattern: tuple[int, int]) -> None:
    """Given enough passes, no exchange of two columns keeps more levels."""
    n, m = pattern
    levels = levels_for(rows_of(4, 75, 4 * m), n, m)
    rng, options = np.random.default_rng(0), CoarseOptions(1, 200)
    *_, last = search_levels(levels, np.arange(4 * m), pattern, rng, options, Processor())
    best = value_of(levels, last.order, pattern)
    for p, q in combinations(range(4 * m), 2):
        other = last.order.copy()
        other[[p, q]] = other[[q, p]]
        assert value_of(levels, other, pattern) <= best


@given(rows=st.integers(1, 60), stride=st.integers(1, 9), height=st.integers(1, 20))
@settings(max_examples=30, deadline=None)
def test_a_sample_is_every_kth_row(rows: int, stride: int, height: int) -> None:
    """Counted over the whole stream, wherever chunks end."""
    scores = rows_of(10, rows, 8)
    sample = SampledRows(ArrayRows([scores[: rows // 2], scores[rows // 2 :]], height), stride)
    found = np.concatenate([np.empty((0, 8), np.float32), *sample.chunks()])
    assert np.array_equal(found, scores[::stride])
    assert sample.rows == len(found)


def test_tall_stacks_are_searched_by_a_sample() -> None:
    """Where the columns' scales are the signal a third of the rows finds most; values are exact."""
    scores = rows_of(12, 900, 64)
    whole = search_rows(ArrayRows([scores]), ps.NM(2, 4))
    some = search_rows(ArrayRows([scores]), ps.NM(2, 4), StreamOptions(most_rows=300))
    assert some.baseline == whole.baseline
    assert some.bound == whole.bound
    assert not np.array_equal(some.order, whole.order)
    assert some.score - some.baseline > 0.9 * (whole.score - whole.baseline)


def test_wide_sums_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of 64-bit sums, which tall stacks need, lead to the same order."""
    scores = rows_of(6, 100, 48)
    narrow = search_rows(ArrayRows([scores]), ps.NM(2, 4))
    monkeypatch.setattr(tables, "_NARROW", 0)
    wide = search_rows(ArrayRows([scores]), ps.NM(2, 4))
    assert np.array_equal(narrow.order, wide.order)


def test_many_columns_go_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """More parts or columns than one table takes are dealt out, and more is kept than before."""
    scores = rows_of(7, 100, 96)
    monkeypatch.setattr(search_module, "_MOST_PARTS", 20)
    monkeypatch.setattr(search_module, "_MOST_COLUMNS", 40)
    found = search_rows(ArrayRows([scores]), ps.NM(2, 4))
    whole = ps.search(scores, "2:4", solver="swap")
    assert found.score > whole.baseline + 0.9 * (whole.score - whole.baseline)
    assert np.array_equal(np.sort(found.order), np.arange(96))


def test_some_columns_are_those_columns() -> None:
    """A choice of columns has their bytes, in every block."""
    levels = levels_for(rows_of(8, 75, 16), 2, 4)
    chosen = np.array([3, 1, 15, 8])
    some = SomeLevels(levels, chosen)
    assert (bytes_of(some) == bytes_of(levels)[chosen]).all()
    assert (some.columns, some.rows) == (4, 75)


@pytest.mark.parametrize("scores", [np.zeros((4, 8)), np.eye(8), np.full((3, 8), 2.0**-140)])
def test_odd_scores(scores: NDArray[np.float64]) -> None:
    """Zeros, a single entry a row and tiny numbers are searched and valued."""
    found = search_rows(ArrayRows([scores.astype(np.float64)]), ps.NM(2, 4))
    assert found.baseline <= found.score <= found.bound <= found.total * (1 + 1e-9) + 1e-300


def test_the_start_stays_where_nothing_is_won() -> None:
    """Columns that stand in a best order already are not moved."""
    weight, _ = ps.instances.planted(48, 16, "2:4", seed=1)
    best = ps.search(weight, "2:4", solver="exhaustive")
    sorted_scores = np.abs(weight)[:, best.cols]
    found = search_rows(ArrayRows([sorted_scores]), ps.NM(2, 4))
    assert found.score == found.baseline
    assert found.order.tolist() == list(range(16))


def test_scratch_leaves_nothing_behind(tmp_path: Path) -> None:
    """The file has no name while it is used, and no bytes when it is not."""
    scores = rows_of(9, 100, 16)
    with levels_of(ArrayRows([scores]), 0.1, budget=0, scratch=tmp_path / "new") as levels:
        assert bytes_of(levels).shape == (16, 128)
        assert list((tmp_path / "new").iterdir()) == []


def test_a_scratch_folder_without_room_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk is told with the folder, the size and the option; so is a file in its place."""
    source = ArrayRows([rows_of(9, 100, 16)])

    def full(*args: object) -> int:
        raise OSError(28, "No space left on device")

    (tmp_path / "file").write_text("")
    with (
        pytest.raises(FileError, match="--scratch"),
        levels_of(source, 0.1, budget=0, scratch=tmp_path / "file"),
    ):
        pass
    monkeypatch.setattr(levels_module.os, "write", full)
    with (
        pytest.raises(FileError, match=r"No space left on device.*--scratch"),
        levels_of(source, 0.1, budget=0, scratch=tmp_path),
    ):
        pass


def test_a_scratch_file_that_shrinks_is_told(tmp_path: Path) -> None:
    """Bytes that are gone are not taken for zeros."""
    source = ArrayRows([rows_of(9, 100, 16)])
    with levels_of(source, 0.1, budget=0, scratch=tmp_path) as levels:
        assert isinstance(levels, levels_module.FileLevels)
        levels.file.truncate(10)
        with pytest.raises(FileError, match="changed while it was in use"):
            list(levels.blocks())


class _Bad:
    """Rows that fail after some chunks."""

    columns, rows = 8, 100

    def chunks(self) -> Iterator[NDArray[np.float32]]:
        """Yield one chunk."""
        yield rows_of(0, 10, 8)
        raise FileError("shard.safetensors: cannot be read.")


def test_errors_of_the_source_come_through() -> None:
    """A shard that vanishes ends the search with its own message."""
    with pytest.raises(FileError, match="shard"):
        search_rows(_Bad(), ps.NM(2, 4))


def test_unknown_devices_are_told() -> None:
    """A device that nobody offers is named, with those that are known."""
    with pytest.raises(UnknownName, match=r"known: .*cpu"):
        open_device("abacus")
    with pytest.raises(UnknownName):
        open_device("cpu:3")


class _Entry:
    """An entry point that offers a device, or says why it is not there."""

    name = "slow"

    def load(self) -> Any:
        """Return what makes the device."""

        def make(rest: str) -> Any:
            if rest:
                raise RuntimeError(f"there is no {rest}")
            return Slow()

        return make


class Slow:
    """A device in plain numpy."""

    name = "slow"

    def __init__(self) -> None:
        self.block = np.empty((0, 0), np.uint8)

    def hold(self, block: NDArray[np.uint8]) -> Slow:
        """Keep a copy of the block."""
        self.block = block.astype(np.int32)
        return self

    def distances(self, left: NDArray[np.uint8], first: int = 0) -> NDArray[np.int32]:
        """Return the sums of absolute differences."""
        wide = left.astype(np.int32)
        found = np.abs(wide[:, None] - self.block[None, first:]).sum(axis=2, dtype=np.int32)
        return np.asarray(found)


def test_devices_come_in_by_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device of another package is opened by its name and finds the same order."""
    monkeypatch.setattr(
        "permsearch.streaming.device.entry_points", lambda group: [_Entry()] if group else []
    )
    scores = rows_of(11, 60, 16)
    found: Streamed = search_rows(
        ArrayRows([scores]), ps.NM(2, 4), StreamOptions(device=open_device("slow"))
    )
    assert np.array_equal(found.order, search_rows(ArrayRows([scores]), ps.NM(2, 4)).order)
    held = [ps.search(scores, "2:4", solver=Coarse(device=name)).cols for name in ("slow", "cpu")]
    assert np.array_equal(*held)
    with pytest.raises(UnknownName, match="device 'slow:x' is not there: there is no x"):
        open_device("slow:x")
