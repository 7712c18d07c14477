"""One search per tensor over a whole file, folder or dict, lazily."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from permsearch.errors import PermsearchError, ScoresError, UnsupportedProblem
from permsearch.io.opening import Tensors, open_tensors
from permsearch.io.select import Selection, Skipped, Unusable, select
from permsearch.io.source import TensorSource
from permsearch.patterns import Axis, Pattern, parse_pattern
from permsearch.result import SearchResult
from permsearch.solve import check_matters, search, single
from permsearch.solvers.base import Solver
from permsearch.solvers.registry import get_solver
from permsearch.solvers.warm import limited_in_time, warm_up
from permsearch.stop import StoppingCriterion, check_criterion

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How every tensor of a run is searched.

    Parameters
    ----------
    pattern
        What the masks must look like.
    solver, stop, seed
        As in `permsearch.search`, for each tensor anew: a tensor's result does not depend on
        which others are searched.
    pad
        Whether zero rows and columns may be added.
    bound
        Whether the tight bound is computed after each search, where it takes about a minute or
        less.
    permute
        The axes to reorder; None: those that matter to the pattern.
    """

    pattern: Pattern
    solver: str | Solver = "auto"
    stop: StoppingCriterion | None = None
    seed: int = 0
    pad: bool = False
    bound: bool = False
    permute: tuple[Axis, ...] | None = None

    def __post_init__(self) -> None:
        check_matters(self.permute or (), self.pattern)

    def search(self, weight: NDArray[Any], name: str) -> SearchResult:
        """Return the result for one weight; errors name it."""
        try:
            return search(
                weight,
                self.pattern,
                permute=self.permute,
                solver=self.solver,
                stop=self.stop,
                seed=self.seed,
                pad=self.pad,
                bound=self.bound,
                name=name,
            )
        except PermsearchError as error:
            if name in str(error):
                raise
            raise type(error)(f"{name}: {error}") from error

    def warm_up(self, shape: tuple[int, ...]) -> None:
        """Compile what a search of a weight of a shape needs, so that the times told are its own.

        Where time is limited, `permsearch.solve` sees to that. Whatever is wrong with the shape
        is left for the search to tell.
        """
        if limited_in_time(self.stop):
            return
        with contextlib.suppress(PermsearchError):
            like = np.ones(shape, np.float32)  # what is compiled does not depend on values
            problem = single(like, self.pattern, permute=self.permute, pad=self.pad)
            warm_up(get_solver(self.solver), problem)


class SearchAll(Iterator[tuple[str, SearchResult]]):
    """The searches of a run, one at each step of the iteration.

    Attributes
    ----------
    source
        Where the tensors come from.
    selection
        The tensors to search, and those left out.
    failed
        The tensors so far that could not be searched, each with its reason: values that are NaN or
        infinite, or a solver that does not take the tensor.
    """

    def __init__(self, source: TensorSource, selection: Selection, options: SearchOptions) -> None:
        self.source = source
        self.selection = selection
        self.options = options
        self.failed: tuple[Unusable, ...] = ()
        self._names = iter([info.name for info in selection.chosen])
        self._found = 0
        self._warm: set[tuple[int, ...]] = set()
        self._error: PermsearchError | None = None

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """The tensors left out, each with its reason; those that failed so far are the last."""
        return (*self.selection.skipped, *self.failed)

    @property
    def surprising(self) -> tuple[Skipped, ...]:
        """The skipped tensors that have rows and columns: likely meant to be searched."""
        return self.selection.surprising()

    def __len__(self) -> int:
        return len(self.selection.chosen)

    def __next__(self) -> tuple[str, SearchResult]:
        for name in self._names:
            try:
                weight = self.source.read(name)
                if weight.shape not in self._warm:
                    self._warm.add(weight.shape)
                    self.options.warm_up(weight.shape)
                result = self.options.search(weight, name)
            except (ScoresError, UnsupportedProblem) as error:
                self._fail(name, error)
                continue
            self._found += 1
            return name, result
        if self._error is not None and not self._found:
            raise self._error
        raise StopIteration

    def _fail(self, name: str, error: PermsearchError) -> None:
        self._error = self._error or error
        self.failed = (*self.failed, Unusable.of(name, error))
        _log.warning("skipped %s", self.failed[-1])


def search_all(
    source: Tensors,
    pattern: str | Pattern,
    *,
    only: Sequence[str] | str | None = None,
    exclude: Sequence[str] | str | None = None,
    solver: str | Solver = "auto",
    stop: StoppingCriterion | None = None,
    seed: int = 0,
    pad: bool = False,
    bound: bool = False,
    permute: Iterable[Axis] | None = None,
) -> SearchAll:
    """Return an iterator over (name, result), one search per tensor, in the file's order.

    Tensors are read one by one when their turn comes. Those that cannot carry the pattern are
    left out; the iterator's `skipped` tells which and why, and a line is logged for those that
    have rows and columns. So is a tensor that turns out to hold NaN or infinities, or that the
    solver does not take (`failed` lists these alone), unless that goes for all of them.

    Parameters
    ----------
    source
        A `.safetensors`, `.npy` or `.npz` file, a Hugging Face folder, or a mapping of names to
        arrays or torch tensors.
    pattern
        What the masks must look like, such as ``"2:4"``.
    only
        Globs that choose tensors by name; all without them.
    exclude
        Globs of tensors to leave out of those.
    solver, stop, seed, pad
        As in `permsearch.search`, for each tensor anew.
    bound
        As in `permsearch.search`, after each search.
    permute
        The axes to reorder, "rows", "cols" or both; None: those that matter to the pattern.

    Raises
    ------
    FileError
        The source cannot be read.
    UnknownName
        A glob matches nothing, or the solver or pattern is misspelt.
    NothingEligible
        No tensor can carry the pattern.
    ScoresError
        While iterating: every tensor holds NaN or infinities.
    UnsupportedProblem
        While iterating: the solver takes none of the tensors.

    Examples
    --------
    >>> import permsearch as ps
    >>> weights = {"a": ps.instances.gaussian(16, 8, seed=0), "bias": [0.0, 1.0]}
    >>> run = ps.search_all(weights, "2:4", solver="none")
    >>> [(name, result.mask.shape) for name, result in run]
    [('a', (16, 8))]
    >>> print(run.skipped[0])
    bias: no rows and columns: shape [2]
    """
    opened = open_tensors(source)
    parsed = parse_pattern(pattern)
    axes = None if permute is None else tuple(permute)
    get_solver(solver)  # a misspelt one is told before anything is read
    if stop is not None:
        check_criterion(stop)
    selection = select(opened, parsed, only, exclude=exclude, pad=pad)
    for skip in selection.surprising():
        _log.warning("skipped %s", skip)
    return SearchAll(opened, selection, SearchOptions(parsed, solver, stop, seed, pad, bound, axes))
