"""The entry points: `search` for one weight, `solve` for any problem."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from permsearch.arrays import as_scores, magnitude, pad_to, shape_of
from permsearch.domains import Domain, Free
from permsearch.errors import ProblemError, ScoresError, unknown
from permsearch.patterns import (
    Axis,
    Pattern,
    Scores,
    Tiled,
    kernel_note,
    padded_shape,
    parse_pattern,
)
from permsearch.problem import Problem, Term, check_problem, checked_seed
from permsearch.result import PADDING, SearchResult
from permsearch.solvers.base import Solver
from permsearch.solvers.registry import get_solver
from permsearch.solvers.warm import limited_in_time, warm_up
from permsearch.stop import StoppingCriterion, check_criterion

Permute: TypeAlias = str | Iterable[str] | Mapping[str, Domain] | None
Start: TypeAlias = ArrayLike | Mapping[str, ArrayLike] | None

_AXES: dict[str, Axis] = {"rows": "rows", "cols": "cols"}


def solve(
    problem: Problem,
    solver: str | Solver = "auto",
    *,
    stop: StoppingCriterion | None = None,
    seed: int = 0,
    start: Mapping[str, ArrayLike] | None = None,
) -> SearchResult:
    """Return orders of a problem's variables that retain more than the start's.

    Parameters
    ----------
    problem
        Variables and terms; `single` makes one from a weight.
    solver
        A short name (`solver_names()`), or a solver value where options matter, such as
        ``Swap(kicks=64)`` of `permsearch.solvers`, ``Then("deal", "swap")`` or
        ``Multistart("swap", 4)``.
    stop
        When to stop; None means the solver's own default, a few seconds at most on a
        1024 x 1024 weight. Before a limit in seconds begins to count, a tiny problem is solved, so
        that compiling takes nothing from it: half a minute on the first call ever on a machine,
        a millisecond or two once a process has the kernels.
    seed
        The same problem, seed and step budget give the same orders on any number of threads.
    start
        Orders to start from, by variable; missing ones stay in place.

    Returns
    -------
    SearchResult
        Never below the start; its score is recomputed in float64.

    Raises
    ------
    UnsupportedProblem, UnknownName, OrderError
        See the messages: each names the way out.

    Examples
    --------
    >>> import permsearch as ps
    >>> problem = ps.single(ps.instances.gaussian(32, 16, seed=1), "2:4")
    >>> result = ps.solve(problem, "swap")
    >>> result.score > result.baseline
    True
    """
    check_problem(problem, "solve", "search(weight, '2:4')")
    if stop is not None:
        check_criterion(stop)
    chosen, seed = get_solver(solver), checked_seed(seed)
    if limited_in_time(stop):
        warm_up(chosen, problem)
    return chosen.solve(problem, stop=stop, start=start, seed=seed)


def _domains(permute: Permute, pattern: Pattern, shape: tuple[int, ...]) -> dict[str, Domain]:
    """Return the variables of a single weight: its axes by name."""
    sizes = {"rows": shape[0], "cols": shape[1]}
    if isinstance(permute, Mapping):
        named = dict(permute)
    else:
        if permute is None:
            axes: Iterable[str] = sorted(pattern.axes)
        elif isinstance(permute, Iterable) and not isinstance(permute, str):
            axes = permute
        else:  # one axis, or what is none, which is told below
            axes = [permute]
        named = {axis: Free(sizes[axis]) for axis in axes if axis in sizes or _no_axis(axis)}
    for axis in named:
        if axis not in sizes:
            _no_axis(axis)
    return named


def check_matters(axes: Collection[str], pattern: Pattern) -> None:
    """Raise ProblemError where axes are to be reordered, and the order of none changes anything."""
    known = [axis for axis in _AXES if axis in axes]
    if known and pattern.axes and pattern.axes.isdisjoint(known):
        other, matter = " and ".join(known), " and ".join(sorted(pattern.axes))
        raise ProblemError(
            f"the order of {other} does not change what {pattern} keeps, only that of {matter} "
            "does; reorder that, which is the default."
        )


def _no_axis(axis: str) -> bool:
    raise unknown("axis", axis, _AXES)


def single(
    weight: Any,
    pattern: str | Pattern,
    *,
    scores: Any = None,
    permute: Permute = None,
    pad: bool = False,
    name: str = "",
) -> Problem:
    """Return the problem of one weight: one term on the variables "rows" and "cols".

    Parameters
    ----------
    weight, pattern, scores, permute, pad, name
        As in `search`, which raises the same errors. Only the axes to reorder become variables.

    Examples
    --------
    >>> import permsearch as ps
    >>> problem = ps.single(ps.instances.gaussian(8, 16, seed=0), "2:4")
    >>> dict(problem.domains)
    {'cols': Free(count=16)}
    """
    parsed = parse_pattern(pattern)
    used = magnitude(weight, name) if scores is None else _own_scores(weight, scores, name)
    if pad:
        used = _padded(used, parsed)
    used.setflags(write=False)  # so that the term need not copy it
    domains = _domains(permute, parsed, used.shape)
    axes = {axis: axis if axis in domains else None for axis in _AXES}
    return Problem(domains, (Term(used, parsed, axes["rows"], axes["cols"], name),))


def _own_scores(weight: Any, scores: Any, name: str) -> Scores:
    own = as_scores(scores, name)
    shape = None if weight is None else shape_of(weight, name)
    if shape is not None and shape != own.shape:
        raise ScoresError(f"scores have shape {own.shape}, but the weight has {shape}.")
    return own


def _padded(scores: Scores, pattern: Pattern) -> Scores:
    if not isinstance(pattern, Tiled):  # fits axes of any length
        return scores
    return pad_to(scores, padded_shape(pattern, scores.shape))


def search(
    weight: Any,
    pattern: str | Pattern,
    *,
    scores: Any = None,
    permute: Permute = None,
    solver: str | Solver = "auto",
    stop: StoppingCriterion | None = None,
    seed: int = 0,
    start: Start = None,
    pad: bool = False,
    bound: bool = False,
    name: str = "",
) -> SearchResult:
    """Return orders of a weight's axes under which its best mask retains more.

    Parameters
    ----------
    weight
        Array or tensor (out, in) or (out, in, *k) of any real dtype, bfloat16 and float16
        included; scored by magnitude. It is not changed.
    pattern
        What the mask must look like, such as ``"2:4"``.
    scores
        Non-negative scores of the same shape, finite, used instead of the magnitude; the
        weight may then be None.
    permute
        The axes to reorder: "rows", "cols", both, or a mapping from axis to `Domain`. None
        means those that matter to the pattern.
    solver, stop, seed
        As in `solve`.
    start
        Order of the one axis searched to start from, or a mapping from axis to order.
    pad
        Append zero rows and columns where the axes do not split into the pattern's tiles. The
        result's ``details["row_padding"]`` and ``details["padding"]`` (columns) tell how many,
        and ``rows`` and ``cols`` name them too: for columns, what to store is
        ``np.pad(weight, [(0, 0), (0, r.details["padding"])])[:, r.cols]``, for inputs with as
        many zeros appended. ``r.mask`` has the weight's own shape.
    bound
        Compute the tight bound as well, where it is expected to take a minute at most: see
        `permsearch.bound`, which can be given more. The bound that comes otherwise is cheap, and
        usually far from what can be reached.
    name
        How error messages call the weight.

    Returns
    -------
    SearchResult
        ``weight[r.rows][:, r.cols]`` is what to store, ``r.permuted_mask`` its mask, and
        ``r.mask`` the same mask in the layout of the weight that came in.

    Raises
    ------
    ScoresError
        NaN, infinite, complex, empty, one-dimensional, or negative `scores`.
    PatternError
        The axes do not split into the pattern's tiles, or the pattern is malformed.
    UnknownName
        A misspelt pattern, solver or axis.
    ProblemError
        `permute` names axes alone that do not matter to the pattern, such as the rows for N:M.

    Examples
    --------
    >>> import permsearch as ps
    >>> weight = ps.instances.gaussian(64, 32, seed=0)
    >>> r = ps.search(weight, "2:4", stop=ps.MaxSteps(500))
    >>> r.retained > r.share(r.baseline)
    True
    >>> r.mask.shape
    (64, 32)
    """
    problem = single(weight, pattern, scores=scores, permute=permute, pad=pad, name=name)
    check_matters(problem.domains.keys(), problem.terms[0].pattern)
    result = solve(problem, solver, stop=stop, seed=seed, start=_as_solution(problem, start))
    if bound:
        from permsearch.bounds import tightened

        result = tightened(result)
    shape = np.shape(scores if weight is None else weight)
    added = {
        key: problem.terms[0].scores.shape[axis] - int(shape[axis])
        for axis, key in enumerate(PADDING)
    }
    told: dict[str, Any] = {key: count for key, count in added.items() if count}
    note = kernel_note(problem.terms[0].pattern)
    if note is not None:
        told["note"] = note
    return replace(result, details={**result.details, **told}) if told else result


def _as_solution(problem: Problem, start: Start) -> Mapping[str, ArrayLike] | None:
    if start is None or isinstance(start, Mapping):
        return start
    if not problem.domains:
        raise ProblemError("no axis is reordered, so there is no order to start from.")
    if len(problem.domains) != 1:
        raise ProblemError(
            f"the axes {sorted(problem.domains)} are reordered; give start= as a mapping from "
            "axis to order."
        )
    return {next(iter(problem.domains)): start}
