"""The conformance kit: promises that any solver or pattern, ours or a user's, must keep.

`check_solver` and `check_pattern` raise AssertionError with the broken promise. They use
nothing but the public protocols.

    import permsearch.testing as pt

    for problem in pt.tiny_problems().values():
        pt.check_solver(MySolver(), problem)
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator

import numpy as np

from permsearch import instances
from permsearch.domains import Domain, Fixed, Free, Segments, Units, contains
from permsearch.orders import Order, expand
from permsearch.patterns import (
    NM,
    PATTERNS,
    VNM,
    Block,
    HiNM,
    Pattern,
    Private,
    Scores,
    TileWise,
    TransposableNM,
    UnalignedBlock,
    Unstructured,
    VectorWise,
    parse_pattern,
)
from permsearch.problem import Problem, Solution, Term, random_solution
from permsearch.result import SearchResult, Status
from permsearch.solve import single
from permsearch.solvers.base import Solver
from permsearch.stop import MaxSteps

__all__ = [
    "all_orders",
    "best_by_enumeration",
    "check_pattern",
    "check_result",
    "check_solver",
    "tiny_patterns",
    "tiny_problems",
]

_TOLERANCE = 1e-9
_FEW = 10  # entries whose masks are all tried


def _promise(held: bool, text: str) -> None:
    if not held:
        raise AssertionError(text)


def _segment_orders(length: int, width: int) -> Iterator[Order]:
    for units in itertools.permutations(range(length // width)):
        yield expand(np.array(units), width)


def all_orders(domain: Domain) -> Iterator[Order]:
    """Yield every legal order of a domain; for tiny domains only."""
    parts = [list(_segment_orders(length, domain.width)) for length in domain.segments]
    starts = np.concatenate([[0], np.cumsum(domain.segments)[:-1]])
    for choice in itertools.product(*parts):
        yield np.concatenate([start + part for start, part in zip(starts, choice, strict=True)])


def _groupings(items: tuple[int, ...], m: int) -> Iterator[tuple[int, ...]]:
    """Yield one order for every way to split items into groups of `m`."""
    if not items:
        yield ()
        return
    for others in itertools.combinations(items[1:], m - 1):
        group = (items[0], *others)
        left = tuple(item for item in items if item not in group)
        yield from (group + rest for rest in _groupings(left, m))


def _candidates(problem: Problem, variable: str) -> Iterator[Order]:
    """Yield legal orders of a variable, one at least of every value that it can give."""
    domain = problem.domains[variable]
    patterns = {term.pattern for term in problem.terms_on(variable)}
    (pattern,) = patterns if len(patterns) == 1 else (None,)
    axes = {term.rows == variable for term in problem.terms_on(variable)}
    size = _group_size(pattern, on_rows=True in axes) if len(axes) == 1 else None
    if size is not None and isinstance(domain, Free):
        for grouping in _groupings(tuple(range(domain.count)), min(size, domain.count)):
            yield np.array(grouping)
    else:
        yield from all_orders(domain)


def _group_size(pattern: Pattern | None, *, on_rows: bool) -> int | None:
    """Return the size of groups, of which only what is in which matters; None if there are none."""
    if isinstance(pattern, VNM | HiNM) and on_rows:
        return pattern.v
    if isinstance(pattern, HiNM):
        return sys.maxsize  # tiles take what they like from all columns
    return pattern.m if isinstance(pattern, NM | VNM) and not on_rows else None


def best_by_enumeration(problem: Problem) -> tuple[float, Solution]:
    """Return the optimum of a tiny problem by trying every legal solution: the oracle.

    Variables that no term ties together are enumerated one after the other.
    """
    best = dict(problem.identity())
    for names in _tied(problem):
        terms = [term for term in problem.terms if term.sensitive & set(names)]
        value = sum(_most(term, best) for term in terms)
        for orders in itertools.product(*(_candidates(problem, name) for name in names)):
            tried = {**best, **dict(zip(names, orders, strict=True))}
            score = sum(_most(term, tried) for term in terms)
            if score > value:
                value, best = score, tried
    return sum(_most(term, best) for term in problem.terms), best


def _most(term: Term, solution: Solution) -> float:
    """Return what a term retains, tiles in the best of all orders of their own."""
    pattern = term.pattern
    if not isinstance(pattern, HiNM):
        return term.retained(solution)
    scores = term.permuted(solution)
    tiles, most = pattern.tile_orders(scores), 0.0
    for tile in range(len(tiles)):
        best = tiles[tile].copy()
        for kept in itertools.combinations(range(scores.shape[1]), tiles.shape[1]):
            for order in _groupings(kept, pattern.m):
                tiles[tile] = order
                value = pattern.retained(scores, tiles)
                if value > most:
                    most, best = value, tiles[tile].copy()
        tiles[tile] = best
    return most


def _tied(problem: Problem) -> list[tuple[str, ...]]:
    """Return the sensitive variables, those that share a term's value together."""
    clusters: list[set[str]] = []
    for term in problem.terms:
        names = set(term.sensitive) & set(problem.sensitive)
        joined = [cluster for cluster in clusters if cluster & names]
        clusters = [cluster for cluster in clusters if not cluster & names]
        clusters += [names.union(*joined)] if names else []
    return [tuple(sorted(cluster)) for cluster in clusters]


def _joined_terms() -> Problem:
    """Two weights that read one hidden axis, and a third with an axis of its own."""
    hidden, other = Free(8), Free(8)
    terms = (
        Term(np.abs(instances.gaussian(3, 8, seed=1)), NM(2, 4), cols="hidden", name="a"),
        Term(np.abs(instances.laplace(5, 8, seed=2)), NM(2, 4), cols="hidden", name="b"),
        Term(np.abs(instances.student_t(8, 8, seed=3)), NM(1, 4), "hidden", "other", name="c"),
    )
    return Problem({"hidden": hidden, "other": other}, terms)


def _permuting(weight: Scores, pattern: str, domain: Domain) -> Problem:
    return single(weight, pattern, permute={"cols": domain})


def tiny_problems() -> dict[str, Problem]:
    """Return problems small enough for `best_by_enumeration`, by name.

    They cover one row, ties, zeros, one group, convolution taps, several terms on a variable,
    every kind of domain, and patterns from 1:2 to 3:4.
    """
    gaussian, scaled = instances.gaussian, instances.lognormal_columns
    conv = gaussian(4, 8 * 3, seed=8).reshape(4, 8, 3)
    return {
        "one-row": single(gaussian(1, 8, seed=1), "2:4"),
        "gaussian-1:2": single(gaussian(6, 8, seed=2), "1:2"),
        "gaussian-2:4": single(gaussian(6, 8, seed=3), "2:4"),
        "gaussian-1:4": single(gaussian(6, 8, seed=4), "1:4"),
        "gaussian-3:4": single(gaussian(6, 8, seed=5), "3:4"),
        "thirds-1:3": single(gaussian(6, 6, seed=6), "1:3"),
        "scaled-2:4": single(scaled(16, 8, seed=7), "2:4"),
        "ties": single(np.ones((3, 8), np.float32), "2:4"),
        "zeros": single(np.zeros((3, 8), np.float32), "2:4"),
        "one-group": single(gaussian(3, 4, seed=9), "2:4"),
        "keeps-all": single(gaussian(3, 8, seed=9), "4:4"),
        "convolution": single(conv, "2:4"),
        "planted": single(instances.planted(12, 8, "2:4", seed=3)[0], "2:4"),
        "tiny-scale": single(gaussian(4, 8, seed=10) * np.float32(2.0**-90), "2:4"),
        "small-scale-parts": _permuting(
            gaussian(5, 8, seed=10) * np.float32(2.0**-6), "1:2", Segments((4, 4))
        ),
        "segments": _permuting(gaussian(5, 8, seed=11), "1:2", Segments((4, 4))),
        "ragged-segments": _permuting(gaussian(5, 8, seed=12), "2:4", Segments((3, 5))),
        "units": _permuting(gaussian(5, 12, seed=13), "2:4", Units(6, 2)),
        "whole-groups": _permuting(gaussian(5, 12, seed=13), "2:4", Units(3, 4)),
        "fixed": _permuting(gaussian(5, 8, seed=14), "2:4", Fixed(8)),
        "joined-terms": _joined_terms(),
        "unstructured": single(gaussian(3, 4, seed=15), "unstructured@0.5"),
        **_clustered(),
        **_hierarchical(),
        **_two_sided(),
    }


def _clustered() -> dict[str, Problem]:
    """Rows in groups that keep columns in common: one group, ties, taps, a lower last tile."""
    gaussian = instances.gaussian
    return {
        "vectors": single(gaussian(4, 4, seed=16), "vector:2@0.5"),
        "vectors-by-group": single(gaussian(4, 5, seed=17), "vector:2@0.4/group"),
        "vectors-one-group": single(gaussian(4, 4, seed=18), "vector:4@0.5"),
        "vectors-ties": single(np.ones((4, 4), np.float32), "vector:2@0.3"),
        "vectors-taps": single(gaussian(4, 6, seed=19).reshape(4, 3, 2), "vector:2@0.5"),
        "tiles": single(gaussian(5, 3, seed=20), "tile:2@0.5"),
        "tiles-overlay": single(gaussian(4, 4, seed=21), "tile:2@0.5+0.1"),
    }


def _hierarchical() -> dict[str, Problem]:
    """Two levels: live columns of blocks, vectors of tiles; one group, ties, taps."""
    gaussian = instances.gaussian
    return {
        "blocks-of-live-columns": single(gaussian(4, 10, seed=22), "2:2:5"),
        "one-block-wide": single(gaussian(4, 6, seed=23), "2:2:6"),
        "all-columns-live": single(gaussian(4, 8, seed=24), "2:2:4"),
        "live-ties": single(np.ones((4, 10), np.float32), "2:2:5"),
        "live-taps": single(gaussian(4, 20, seed=25).reshape(4, 10, 2), "2:2:5", permute="rows"),
        "private-columns": single(gaussian(4, 6, seed=26), "hinm:2@0.8:2:4"),
        "private-pairs": single(gaussian(4, 5, seed=27), "hinm:2@0.8:1:2"),
        "private-ties": single(np.ones((4, 5), np.float32), "hinm:2@0.8:1:2"),
        "private-taps": single(gaussian(4, 10, seed=28).reshape(4, 5, 2), "hinm:2@0.8:2:4"),
    }


def _two_sided() -> dict[str, Problem]:
    """Blocks and transposable masks, whose rows and columns both matter, and unaligned blocks."""
    gaussian = instances.gaussian
    return {
        "blocks": single(gaussian(4, 4, seed=30), "block:2x2@0.5"),
        "blocks-flat": single(gaussian(3, 6, seed=31), "block:1x2@0.4"),
        "blocks-taps": single(gaussian(4, 8, seed=32).reshape(4, 4, 2), "block:2x2@0.3"),
        "blocks-ties": single(np.ones((4, 4), np.float32), "block:2x2@0.5"),
        "transposable": single(gaussian(4, 4, seed=33), "transposable:1:2"),
        "transposable-taps": single(gaussian(2, 8, seed=34).reshape(2, 4, 2), "transposable:1:2"),
        "unaligned": single(gaussian(3, 5, seed=36), "unaligned:2@0.5"),
        "unaligned-taps": single(gaussian(2, 8, seed=37).reshape(2, 4, 2), "unaligned:3@0.4"),
    }


def check_result(result: SearchResult, problem: Problem) -> None:
    """Check that a result is legal and that its numbers agree with the problem."""
    names = problem.domains.keys()
    _promise(result.solution.keys() == names, f"the solution does not order {', '.join(names)}")
    for name, domain in problem.domains.items():
        _promise(contains(domain, result.solution[name]), f"the order of {name!r} is not legal")
    value = problem.evaluate(result.solution, result.tiles)
    close = _close(problem)
    _promise(abs(result.score - value) <= close, "score is not the recomputed score")
    _promise(abs(result.total - problem.total) <= close, "total is not the sum of the scores")
    _promise(result.score >= result.baseline, "score is below the start's")
    _promise(result.score <= result.bound, "score exceeds the bound")
    _promise(result.bound <= problem.total + close, "the bound exceeds the total")
    _promise(result.steps >= 0 and result.runtime >= 0, "negative steps or seconds")
    scores = [point.score for point in result.trace]
    _promise(scores == sorted(scores), "the trace of best scores falls")
    _promise(not scores or scores[-1] <= result.score + close, "the trace ends above the score")
    for index, term in enumerate(problem.terms):
        mask = term.permuted_mask(result.solution, result.tiles.get(index))
        _promise(term.pattern.accepts(mask), f"the mask of {term.name!r} breaks its pattern")


def _close(problem: Problem) -> float:
    """Return the difference that rounding may make between two sums of the scores."""
    return _TOLERANCE * max(problem.total, 1e-300)


def check_solver(solver: Solver, problem: Problem, *, steps: int = 200, seed: int = 0) -> None:
    """Check one solver on one problem against every promise of the `Solver` protocol.

    The solver may refuse the problem through `supports`; then `solve` must refuse it too.

    Raises
    ------
    AssertionError
        Naming the broken promise.
    """
    if solver.supports(problem) is not None:
        _check_refusal(solver, problem)
        return
    label = f"{solver}"
    scores = [term.scores.copy() for term in problem.terms]
    result = _solved(solver, problem, problem.identity(), steps, seed)
    again = _solve(solver, problem, steps, None, seed)
    _promise(_same(result, again), f"{label}: same seed and steps, another order")
    none = _solved(solver, problem, problem.identity(), 0, seed)
    _promise(none.steps == 0, f"{label} did steps although none were allowed")
    _solved(solver, problem, random_solution(problem, seed=seed + 1), steps, seed)
    for before, term in zip(scores, problem.terms, strict=True):
        _promise(np.array_equal(before, term.scores), f"{label} changed the scores")
    _check_optimum(solver, problem, result)


def _solved(
    solver: Solver, problem: Problem, start: Solution, steps: int, seed: int
) -> SearchResult:
    """Return a checked result from a start."""
    given = {name: order.copy() for name, order in start.items()}
    result = _solve(solver, problem, steps, given, seed)
    check_result(result, problem)
    _promise(result.steps <= steps, f"{solver} did {result.steps} of at most {steps} steps")
    value = problem.evaluate(start)
    _promise(
        abs(result.baseline - value) <= _close(problem),
        f"{solver}: the baseline is not the start's score",
    )
    _promise(
        all(np.array_equal(given[name], start[name]) for name in start),
        f"{solver} changed the start",
    )
    return result


def _solve(
    solver: Solver, problem: Problem, steps: int, start: Solution | None, seed: int
) -> SearchResult:
    """Return what a solver returns; an order that is none, or a refusal, breaks a promise."""
    try:
        return solver.solve(problem, stop=MaxSteps(steps), start=start, seed=seed)
    except (ValueError, IndexError) as error:
        raise AssertionError(
            f"{solver} fails on a problem that it supports, {type(error).__name__}: {error}"
        ) from error


def _check_refusal(solver: Solver, problem: Problem) -> None:
    try:
        solver.solve(problem, stop=MaxSteps(1))
    except ValueError:
        return
    raise AssertionError(f"{solver} solves a problem that it says it does not support")


def _check_optimum(solver: Solver, problem: Problem, result: SearchResult) -> None:
    optimum, solution = best_by_enumeration(problem)
    close = _close(problem)
    for found in (result, _solved(solver, problem, solution, 1, result.seed)):
        _promise(found.score <= optimum + close, f"{solver} beats the enumerated optimum")
        _promise(found.bound >= optimum - close, f"{solver}: the bound is below the optimum")
        if found.status is Status.OPTIMAL:
            claim = f"{solver} claims an optimum that it missed"
            _promise(found.score >= optimum - close, claim)


def _same(one: SearchResult, two: SearchResult) -> bool:
    names = one.solution.keys()
    return all(np.array_equal(one.solution[name], two.solution[name]) for name in names)


def check_pattern(pattern: Pattern, scores: Scores) -> None:
    """Check a pattern on scores of a shape that it accepts.

    Raises
    ------
    AssertionError
        Naming the broken promise.
    """
    before = scores.copy()
    mask = pattern.keep(scores)
    _promise(np.array_equal(before, scores), "keep changed the scores")
    _promise(mask.dtype == np.bool_ and mask.shape == scores.shape, "the mask has another shape")
    _promise(pattern.accepts(mask), "the pattern does not accept its own best mask")
    kept = float(scores[mask].sum(dtype=np.float64))
    close = _TOLERANCE * max(float(scores.sum(dtype=np.float64)), 1e-300)
    _promise(abs(kept - pattern.retained(scores)) <= close, "keep and retained disagree")
    again = pattern.keep(np.where(mask, scores, 0).astype(scores.dtype))
    masked = float(np.where(mask, scores, 0)[again].sum(dtype=np.float64))
    _promise(abs(masked - kept) <= close, "masking a masked weight again loses something")
    if isinstance(pattern, PATTERNS):  # the parser does not know a user's own kinds
        _promise(parse_pattern(str(pattern)) == pattern, "the text does not name the pattern")
    if scores.size <= _FEW and not isinstance(pattern, Private):  # whose tiles need a search
        _check_best(pattern, scores, kept - close, kept + close)
    for axis in ("rows", "cols"):
        if axis not in pattern.axes:
            _check_insensitive(pattern, scores, axis)


def _check_best(pattern: Pattern, scores: Scores, least: float, most: float) -> None:
    """Check by trying all masks that none keeps more."""
    best = 0.0
    for bits in itertools.product([False, True], repeat=scores.size):
        mask = np.array(bits).reshape(scores.shape)
        if pattern.accepts(mask):
            best = max(best, float(scores[mask].sum(dtype=np.float64)))
    _promise(least <= best <= most, "keep does not return the best mask")


def _check_insensitive(pattern: Pattern, scores: Scores, axis: str) -> None:
    position = 0 if axis == "rows" else 1
    value = pattern.retained(scores)
    close = _TOLERANCE * max(float(scores.sum(dtype=np.float64)), 1e-300)
    rng = np.random.default_rng(0)
    for _ in range(3):  # no fixed order will do: one that is reversed keeps all groups of N:M
        moved = np.take(scores, rng.permutation(scores.shape[position]), axis=position)
        same = abs(pattern.retained(moved) - value) <= close
        _promise(same, f"the order of the {axis} does matter")


def tiny_patterns() -> dict[str, Pattern]:
    """Return a pattern of every kind, by its text."""
    kinds: tuple[Pattern, ...] = (
        *(NM(1, 2), NM(2, 4), NM(4, 8), NM(3, 4), Unstructured(0.3)),
        *(VectorWise(2, 0.5), VectorWise(2, 0.4, "group"), TileWise(2, 0.4)),
        TileWise(2, 0.5, 0.2),
        *(VNM(2, 2, 5), HiNM(1, 0.8, 2, 4)),
        *(Block((2, 2), 0.5), TransposableNM(2, 3), UnalignedBlock(2, 0.5)),
    )
    return {str(pattern): pattern for pattern in kinds}
