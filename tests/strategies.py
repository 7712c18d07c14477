"""What Hypothesis draws: patterns, scores, orders, domains and problems."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from permsearch import instances
from permsearch.domains import Domain, Fixed, Free, Segments, Units, size_of
from permsearch.patterns import NM, Pattern, Unstructured
from permsearch.problem import Problem, Term

Scores: TypeAlias = NDArray[np.floating[Any]]

seeds = st.integers(0, 2**32 - 1)


@st.composite
def nm_patterns(draw: st.DrawFn, max_m: int = 32, *, sensitive: bool = False) -> NM:
    """Draw N:M; `sensitive` leaves out N = M, where no order changes anything."""
    m = draw(st.integers(2 if sensitive else 1, max_m))
    return NM(draw(st.integers(1, m - 1 if sensitive else m)), m)


def patterns() -> st.SearchStrategy[Pattern]:
    """Draw a pattern of any kind."""
    shares = st.floats(0.01, 1.0, allow_subnormal=False)
    return st.one_of(nm_patterns(), shares.map(Unstructured))


@st.composite
def orders(draw: st.DrawFn, size: int | None = None) -> NDArray[np.intp]:
    """Draw an order of a given or a small size."""
    count = draw(st.integers(1, 12)) if size is None else size
    return np.array(draw(st.permutations(range(count))), dtype=np.intp)


def _ties(rows: int, cols: int) -> st.SearchStrategy[Scores]:
    """Few different values, zeros among them."""
    values = st.sampled_from([0.0, 0.25, 0.5, 1.0])
    return hnp.arrays(np.float32, (rows, cols), elements=values)


def _any_floats(rows: int, cols: int) -> st.SearchStrategy[Scores]:
    """Whatever Hypothesis thinks of, subnormal numbers included."""
    values = st.floats(0, 2.0**100, width=32)
    return hnp.arrays(np.float32, (rows, cols), elements=values)


@st.composite
def _instances(draw: st.DrawFn, rows: int, cols: int) -> Scores:
    """Draw a seeded instance, heavy tails and outlier columns among them, at some scale."""
    kind = draw(st.sampled_from(sorted(instances.KINDS)))
    weight = np.abs(instances.instance(kind, rows, cols, seed=draw(seeds)))
    exponent = draw(st.sampled_from([0, 0, -60, 60]))
    scaled: Scores = np.ldexp(weight, exponent).astype(draw(st.sampled_from([np.float32, float])))
    zeros = draw(st.sampled_from([0.0, 0.0, 0.5]))
    if zeros:
        scaled[np.random.default_rng(draw(seeds)).random(scaled.shape) < zeros] = 0
    return scaled


def scores(rows: int, cols: int) -> st.SearchStrategy[Scores]:
    """Draw scores of a given shape: ties, zeros, heavy tails, tiny and huge scales."""
    return st.one_of(_instances(rows, cols), _ties(rows, cols), _any_floats(rows, cols))


@st.composite
def scored_patterns(
    draw: st.DrawFn, max_m: int = 32, max_groups: int = 4, *, sensitive: bool = False
) -> tuple[Scores, NM]:
    """Draw an N:M pattern and scores that it fits; one row and one group are likely."""
    pattern = draw(nm_patterns(max_m, sensitive=sensitive))
    groups = draw(st.integers(1, max_groups))
    return draw(scores(draw(st.integers(1, 6)), groups * pattern.m)), pattern


@st.composite
def domains(draw: st.DrawFn, size: int | None = None) -> Domain:
    """Draw a domain of any kind, of a given or a small size."""
    count = draw(st.integers(1, 12)) if size is None else size
    kind = draw(st.sampled_from(["free", "segments", "units", "fixed"]))
    if kind == "segments":
        cuts = sorted(draw(st.sets(st.integers(1, count - 1)))) if count > 1 else []
        edges = [0, *cuts, count]
        return Segments(tuple(b - a for a, b in pairwise(edges)))
    if kind == "units":
        width = draw(st.sampled_from([w for w in range(1, count + 1) if count % w == 0]))
        return Units(count // width, width)
    return Free(count) if kind == "free" else Fixed(count)


@st.composite
def problems(draw: st.DrawFn, *, max_groups: int = 3) -> Problem:
    """Draw a small N:M problem: one to three terms on one or two variables of any domain."""
    pattern = draw(nm_patterns(6))
    sizes = {
        name: pattern.m * draw(st.integers(1, max_groups))
        for name in draw(st.sampled_from([("a",), ("a", "b")]))
    }
    axes = {name: draw(domains(size)) for name, size in sizes.items()}
    terms = []
    for index in range(draw(st.integers(1, 3))):
        cols = draw(st.sampled_from(sorted(axes)))
        rows = draw(st.sampled_from([None, *(name for name in sorted(axes) if name != cols)]))
        height = draw(st.integers(1, 4)) if rows is None else size_of(axes[rows])
        drawn = draw(scores(height, size_of(axes[cols])))
        terms.append(Term(drawn, pattern, rows, cols, name=f"term{index}"))
    return Problem(axes, tuple(terms))


@st.composite
def column_problems(draw: st.DrawFn, *, max_m: int = 8, max_groups: int = 4) -> tuple[Scores, NM]:
    """Draw scores and a pattern with at least two groups, so that there is something to search."""
    pattern = draw(nm_patterns(max_m, sensitive=True))
    groups = draw(st.integers(2, max_groups))
    return draw(scores(draw(st.integers(1, 6)), groups * pattern.m)), pattern
