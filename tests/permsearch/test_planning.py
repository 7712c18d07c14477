"""Estimates: they grow with what grows, follow the speeds, and say where there are none."""

from __future__ import annotations

from dataclasses import replace

import pytest

import permsearch as ps
from permsearch.planning import cost_of, measure
from permsearch.planning.costs import Shape
from permsearch.planning.speed import TYPICAL

FFN = Shape(14336, 4096, 2, 4)
STREAM = Shape(4096, 1_114_112, 2, 4)
METHODS = ("coarse", "matching", "swap", "anneal", "auto", "assignment")


@pytest.mark.parametrize("solver", METHODS)
def test_more_costs_more(solver: str) -> None:
    """Columns, rows and segments each make a search dearer, and slower kernels do."""
    cost = cost_of(FFN, solver, None, TYPICAL)
    assert cost.cpu is not None
    for other in (
        replace(FFN, columns=2 * FFN.columns),
        replace(FFN, rows=2 * FFN.rows),
        replace(FFN, segments=2),
    ):
        more = cost_of(other, solver, None, TYPICAL)
        assert more.cpu is not None
        assert more.cpu > cost.cpu
        assert more.memory >= cost.memory
    slow = replace(TYPICAL, distances=TYPICAL.distances / 4, maxima=TYPICAL.maxima / 4)
    dear = cost_of(FFN, solver, None, slow)
    assert dear.cpu is not None
    assert dear.cpu > 1.2 * cost.cpu


@pytest.mark.parametrize("solver", METHODS)
def test_limits_are_believed(solver: str) -> None:
    """A limit in seconds is the estimate; fewer steps cost less where steps have one price."""
    limited = cost_of(FFN, solver, ps.MaxSeconds(7), TYPICAL)
    reading = cost_of(FFN, "none", None, TYPICAL)
    assert limited.cpu is not None
    assert reading.cpu is not None
    assert limited.cpu - reading.cpu == pytest.approx(7)
    few = cost_of(FFN, "anneal", ps.MaxSteps(40), TYPICAL)
    full = cost_of(FFN, "anneal", None, TYPICAL)
    assert few.cpu is not None
    assert full.cpu is not None
    assert few.cpu < full.cpu / 20


def test_no_limit_cuts_what_is_streamed() -> None:
    """Row by row the search ends by itself, and is planned so."""
    whole = cost_of(STREAM, "auto", None, TYPICAL, streamed=True)
    assert cost_of(STREAM, "auto", ps.MaxSeconds(7), TYPICAL, streamed=True) == whole


def test_methods_without_an_estimate_say_so() -> None:
    """No number is made up."""
    assert cost_of(FFN, "window", None, TYPICAL).cpu is None


def test_levels_are_held_or_on_the_disk() -> None:
    """A streamed stack takes its bytes in memory, or beyond the budget on the disk."""
    levels = STREAM.columns * STREAM.rows
    on_disk = cost_of(STREAM, "auto", None, TYPICAL, streamed=True, budget=1 << 30)
    held = cost_of(STREAM, "auto", None, TYPICAL, streamed=True, budget=1 << 40)
    assert (on_disk.disk, held.disk) == (levels, 0)
    assert held.memory - on_disk.memory == levels
    assert on_disk.memory < 6 << 30
    assert cost_of(STREAM, "auto", None, TYPICAL).memory > 40 << 30


def test_very_tall_stacks_are_planned_by_their_sample() -> None:
    """Beyond two million rows only reading grows."""
    tall = replace(STREAM, rows=1 << 25)
    cost = cost_of(tall, "coarse", None, TYPICAL, streamed=True)
    assert cost.disk == STREAM.columns << 21
    reading = 6 * tall.entries / TYPICAL.rows
    full = cost_of(replace(STREAM, rows=1 << 21), "coarse", None, TYPICAL, streamed=True)
    assert cost.cpu is not None
    assert full.cpu is not None
    assert reading < cost.cpu < reading + full.cpu


def test_this_machine_is_measured() -> None:
    """Speeds are positive, and bytes are not slower than floats."""
    speed = measure()
    assert speed.distances >= speed.maxima > 1e7
    assert min(speed.pairing, speed.rows) > 0
