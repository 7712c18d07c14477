"""One search per tensor over a whole file, folder or dict, lazily."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from permsearch.bounds import Bound, bound
from permsearch.errors import PermsearchError
from permsearch.io.opening import Tensors, open_tensors
from permsearch.io.select import Selection, Skipped, select
from permsearch.io.source import TensorSource
from permsearch.patterns import Pattern, parse_pattern
from permsearch.result import SearchResult
from permsearch.solve import search
from permsearch.solvers.base import Solver
from permsearch.solvers.registry import get_solver
from permsearch.stop import MaxSteps, StoppingCriterion

_WARM_ROWS, _WARM_STEPS = 32, 8

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
        Whether zero columns may be added.
    bound
        Whether the tighter bound is computed after each search.
    """

    pattern: Pattern
    solver: str | Solver = "auto"
    stop: StoppingCriterion | None = None
    seed: int = 0
    pad: bool = False
    bound: bool = False

    def search(self, weight: NDArray[Any], name: str) -> SearchResult:
        """Return the result for one weight; errors name it."""
        try:
            result = search(
                weight,
                self.pattern,
                solver=self.solver,
                stop=self.stop,
                seed=self.seed,
                pad=self.pad,
                name=name,
            )
            return tightened(result, bound(result.problem)) if self.bound else result
        except PermsearchError as error:
            if name in str(error):
                raise
            raise type(error)(f"{name}: {error}") from error

    def warm_up(self, weight: NDArray[Any]) -> None:
        """Compile what a search of such a weight needs, so that no search pays for it in time.

        A few rows and steps do, since kernels are chosen by pattern and columns. Whatever is
        wrong with the weight is left for its own search to tell.
        """
        with contextlib.suppress(PermsearchError):
            replace(self, stop=MaxSteps(_WARM_STEPS), bound=False).search(weight[:_WARM_ROWS], "")

    @property
    def timed(self) -> bool:
        """Whether time may end a search."""
        horizon = None if self.stop is None else self.stop.horizon
        return horizon is None or horizon.seconds is not None or horizon.cpu is not None


def tightened(result: SearchResult, limit: Bound) -> SearchResult:
    """Return the result with the smaller of its bound and `limit`."""
    if limit.value >= result.bound:
        return result
    return replace(result, bound=max(limit.value, result.score), bound_kind=limit.kind)


class SearchAll(Iterator[tuple[str, SearchResult]]):
    """The searches of a run, one at each step of the iteration.

    Attributes
    ----------
    source
        Where the tensors come from.
    selection
        The tensors to search, and those left out.
    """

    def __init__(self, source: TensorSource, selection: Selection, options: SearchOptions) -> None:
        self.source = source
        self.selection = selection
        self.options = options
        self._names = iter([info.name for info in selection.chosen])
        self._cold = options.timed

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """The tensors left out, each with its reason."""
        return self.selection.skipped

    @property
    def surprising(self) -> tuple[Skipped, ...]:
        """The skipped tensors that have rows and columns: likely meant to be searched."""
        return self.selection.surprising()

    def __len__(self) -> int:
        return len(self.selection.chosen)

    def __next__(self) -> tuple[str, SearchResult]:
        name = next(self._names)
        weight = self.source.read(name)
        if self._cold:
            self.options.warm_up(weight)
            self._cold = False
        return name, self.options.search(weight, name)


def search_all(
    source: Tensors,
    pattern: str | Pattern,
    *,
    only: Sequence[str] | str | None = None,
    solver: str | Solver = "auto",
    stop: StoppingCriterion | None = None,
    seed: int = 0,
    pad: bool = False,
    bound: bool = False,
) -> SearchAll:
    """Return an iterator over (name, result), one search per tensor, in the file's order.

    Tensors are read one by one when their turn comes. Those that cannot carry the pattern are
    left out; the iterator's `skipped` tells which and why, and a line is logged for those that
    have rows and columns.

    Parameters
    ----------
    source
        A `.safetensors`, `.npy` or `.npz` file, a Hugging Face folder, or a mapping of names to
        arrays or torch tensors.
    pattern
        What the masks must look like, such as ``"2:4"``.
    only
        Globs that choose tensors by name; all without them.
    solver, stop, seed, pad
        As in `permsearch.search`, for each tensor anew.
    bound
        Whether the tighter bound is computed after each search.

    Raises
    ------
    FileError
        The source cannot be read.
    UnknownName
        A glob matches nothing, or the solver or pattern is misspelt.
    NothingEligible
        No tensor can carry the pattern.

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
    get_solver(solver)  # a misspelt one is told before anything is read
    selection = select(opened, parsed, only, pad=pad)
    for skip in selection.surprising():
        _log.warning("skipped %s", skip)
    return SearchAll(opened, selection, SearchOptions(parsed, solver, stop, seed, pad, bound))
