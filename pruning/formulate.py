"""From a network's groups to a search problem: what each order is worth.

Every weight that is to carry a pattern is cut into the pieces of its columns that one group
reorders. A piece becomes a term on the group's variable where the pattern's groups of columns are
runs of the variable's items; all terms of a variable are searched at once. What no order can change
stays in the problem as a constant, so that shares are shares of all weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from permsearch.arrays import as_scores, magnitude
from permsearch.domains import Domain, Free
from permsearch.errors import PatternError, ProblemError, unknown
from permsearch.patterns import NM, Pattern, Scores, parse_pattern
from permsearch.problem import Problem, Term
from pruning.axes import Atom, Axis, flat, parts_of, size
from pruning.gather import GATHERED
from pruning.groups import Orbit
from pruning.network import Network

State: TypeAlias = Literal["absorbed", "gathered", "left"]
Patterns: TypeAlias = str | Pattern | Mapping[str, str | Pattern | None] | None
Positions: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LayerPlan:
    """What becomes of one weight that is to carry a pattern.

    Attributes
    ----------
    state
        "absorbed": the orders of `groups` reach its columns at no cost at run time;
        "gathered": its columns have an order of their own, and its input is indexed at run time;
        "left": no order helps it, and `reason` says why.
    """

    tensor: str
    pattern: Pattern
    state: State
    groups: tuple[str, ...] = ()
    reason: str = ""

    def __str__(self) -> str:
        how = self.reason if self.state == "left" else ", ".join(self.groups)
        return f"{self.tensor}: {self.pattern} {self.state} ({how})"


@dataclass(frozen=True, slots=True, eq=False)
class Formulation:
    """A network's search problem and what becomes of each weight in it."""

    problem: Problem
    layers: tuple[LayerPlan, ...]
    skipped: Mapping[str, str]


def formulate(
    network: Network,
    patterns: Patterns = None,
    scores: Any = "magnitude",
    *,
    state: Mapping[str, Any] | None = None,
    gather: Sequence[str] = (),
) -> Formulation:
    """Return the search problem of a network.

    Parameters
    ----------
    patterns
        One pattern for all weights that a contraction reads, or a mapping from globs over layer
        or tensor names to patterns (the first that fits counts, None leaves a layer out).
        None: the variables alone, no terms.
    scores
        "magnitude", a mapping from tensor names to importances, or a function of name and
        tensor that returns them.
    state
        The tensors to score, where the traced model's own are not the ones (a meta model).
    gather
        Globs of layers whose columns get an order of their own at run time: see
        `pruning.gathered_orders` and `pruning.gather_`.

    Returns
    -------
    Formulation
        The problem; for each weight with a pattern its plan; and why weights were skipped.
    """
    if patterns is None:
        return Formulation(Problem(network.domains, ()), (), {})
    own = not isinstance(scores, str)
    terms: list[Term] = []
    layers: list[LayerPlan] = []
    domains: dict[str, Domain] = dict(network.domains)
    skipped: dict[str, str] = {}
    tensors = network.whole if state is None else state
    for tensor, pattern in _targets(network, patterns, skipped, scored=own).items():
        dim = next(dim for name, dim in sorted(network.read) if name == tensor)
        importances = _scored(tensor, network.pick(tensors, tensor), scores)
        try:
            pattern.check(np.moveaxis(importances, dim, 1).shape)
        except PatternError as error:
            skipped[tensor] = str(error)
            continue
        if any(_fits(tensor, glob) for glob in gather):
            found, plan = _gathered_term(tensor, dim, importances, pattern, domains)
        else:
            found, plan = _terms(network, tensor, dim, importances, pattern)
        terms += found
        layers.append(plan)
    if not terms:
        raise ProblemError(
            f"no weight can carry the pattern: {'; '.join(map(': '.join, skipped.items()))}"
        )
    return Formulation(Problem(domains, tuple(terms)), tuple(layers), skipped)


def _gathered_term(
    tensor: str, dim: int, scores: Scores, pattern: Pattern, domains: dict[str, Domain]
) -> tuple[list[Term], LayerPlan]:
    """Return the term of a layer whose input is indexed at run time, and add its variable."""
    name = f"{layer_of(tensor)}{GATHERED}"
    domains[name] = Free(scores.shape[dim])
    term = Term(np.moveaxis(scores, dim, 1), pattern, cols=name, name=tensor)
    return [term], LayerPlan(tensor, pattern, "gathered", (name,))


def layer_of(tensor: str) -> str:
    """Return the name of the layer that holds a tensor."""
    return tensor.removesuffix(".weight")


def _targets(
    network: Network, patterns: Patterns, skipped: dict[str, str], *, scored: bool
) -> dict[str, Pattern]:
    """Return the pattern of each weight that has one."""
    wanted = patterns if isinstance(patterns, Mapping) else {"*": patterns}
    read = sorted({name for name, _ in network.read})
    for glob in wanted:
        if not any(_fits(name, glob) for name in read):
            raise unknown("layer", glob, map(layer_of, read))
    found = {}
    for name in network.tensors:
        pattern = next((wanted[glob] for glob in wanted if _fits(name, glob)), None)
        if pattern is None or len(network.axes[name]) < 2:
            continue
        if name not in read:
            skipped[name] = "no contraction reads it (a table, or a weight that others are made of)"
        elif name in network.computed and not scored:
            skipped[name] = "its layer computes the weight from it; pass scores= to prune it"
        elif sum(tensor == name for tensor, _ in network.read) > 1:
            skipped[name] = "contractions run over several of its dimensions"
        else:
            found[name] = parse_pattern(pattern)
    return found


def _fits(tensor: str, glob: str) -> bool:
    return fnmatchcase(tensor, glob) or fnmatchcase(layer_of(tensor), glob)


def _scored(name: str, tensor: Any, scores: Any) -> Scores:
    if isinstance(scores, str):
        if scores != "magnitude":
            raise unknown("score", scores, ["magnitude"])
        if getattr(tensor, "is_meta", False):
            raise ProblemError(f"{name} has no data on the meta device; pass state=.")
        return magnitude(tensor.detach(), name)
    given = scores(name, tensor) if isinstance(scores, Callable) else scores.get(name)  # type: ignore[arg-type]
    if given is None:
        raise ProblemError(f"scores= has no entry for {name}.")
    found = as_scores(given, name)
    if found.shape != tuple(tensor.shape):
        raise ProblemError(f"scores of {name} have shape {found.shape}, not {tuple(tensor.shape)}.")
    return found


def _terms(
    network: Network, tensor: str, dim: int, scores: Scores, pattern: Pattern
) -> tuple[list[Term], LayerPlan]:
    if not isinstance(pattern, NM):
        return _whole_term(network, tensor, dim, scores, pattern)
    terms: list[Term] = []
    reasons: dict[str, None] = {}
    left = np.ones(scores.shape[dim], np.bool_)
    for positions, factors in pieces(network.axes[tensor][dim]):
        found = _piece_term(network, tensor, dim, positions, factors, scores, pattern)
        if isinstance(found, Term):
            terms.append(found)
            left[positions] = False
        else:
            reasons[found] = None
    if left.any():
        rest = np.moveaxis(scores, dim, -1)[..., left].reshape(-1, int(left.sum()))
        terms.append(Term(rest, pattern, name=tensor))
    groups = tuple(dict.fromkeys(term.cols for term in terms if term.cols is not None))
    state: State = "absorbed" if groups else "left"
    return terms, LayerPlan(tensor, pattern, state, groups, "; ".join(reasons))


def pieces(of: Axis, positions: Positions | None = None) -> Iterator[tuple[Positions, Axis]]:
    """Yield an axis as products of leaves: positions in the shape of the leaves, and the leaves."""
    if positions is None:
        positions = np.arange(size(of), dtype=np.int64)
    product = flat(of)
    shaped = positions.reshape([atom.size for atom in product])
    index = next((at for at, atom in enumerate(product) if atom.parts is not None), None)
    if index is None:
        yield shaped, product
        return
    start = 0
    for part in parts_of(product[index]):
        taken = np.take(shaped, range(start, start + size(part)), axis=index)
        yield from pieces(product[:index] + part + product[index + 1 :], taken)
        start += size(part)


def _piece_term(
    network: Network,
    tensor: str,
    dim: int,
    positions: Positions,
    factors: Axis,
    scores: Scores,
    pattern: NM,
) -> Term | str:
    """Return the term of one run of columns, or why no order can help it."""
    reasons = [
        f"{leaf.label or 'axis'} stays: {next(iter(leaf.pins))}" for leaf in factors if leaf.pins
    ]
    for name, orbit in network.orbits.items():
        if not set(orbit.leaves) <= set(factors):
            continue
        places = _places(orbit, factors, network.axes[tensor], dim)
        if places is None:
            reasons.append(f"{name} cannot be read off this weight alone")
            continue
        columns, outside = places
        laid = np.moveaxis(positions, columns, range(-len(columns), 0))
        runs = laid.reshape(-1, int(np.prod(laid.shape[laid.ndim - len(columns) :])))
        if _aligned(runs, pattern.m):
            matrix = _columns(scores, dim, runs, network.axes[tensor], outside, orbit)
            return Term(matrix, pattern, cols=name, name=tensor)
        reasons.append(_misfit(name, runs, pattern.m))
    return "; ".join(reasons) or "its columns are told apart one by one"


def _places(
    orbit: Orbit, factors: Axis, axes: tuple[Axis, ...], dim: int
) -> tuple[list[int], list[tuple[int, int]]] | None:
    """Return the factors of a piece that an orbit acts on, and those in other dimensions."""
    columns, outside = [], []
    for leaf in orbit.within:
        if factors.count(leaf) == 1:
            columns.append(factors.index(leaf))
            continue
        found = [
            (at, flat(of).index(leaf))
            for at, of in enumerate(axes)
            if at != dim and leaf in flat(of)
        ]
        if len(found) != 1:
            return None
        outside.append(found[0])
    if any(factors.count(leaf) != 1 for leaf in orbit.leaves):
        return None
    return columns + [factors.index(leaf) for leaf in orbit.leaves], outside


def _aligned(runs: Positions, m: int) -> bool:
    """Whether every group of the pattern is a run of m items."""
    if runs.shape[1] % m:
        return False
    groups = (runs // m).reshape(len(runs), -1, m)
    return bool((groups == groups[..., :1]).all())


def _misfit(name: str, runs: Positions, m: int) -> str:
    """Say why items of a group do not compete in a weight's groups of columns."""
    groups: dict[int, set[int]] = {}
    for run in runs:
        for item, position in enumerate(run):
            groups.setdefault(int(position) // m, set()).add(item)
    if all(len(items) == 1 for items in groups.values()):
        return f"{name} moves whole groups of {m} columns, which changes nothing"
    return f"groups of {m} columns straddle the items of {name}"


def _columns(
    scores: Scores,
    dim: int,
    runs: Positions,
    axes: tuple[Axis, ...],
    outside: list[tuple[int, int]],
    orbit: Orbit,
) -> Scores:
    """Return scores with the items of a group as columns and all else as rows."""
    if not outside:
        taken = np.moveaxis(scores, dim, -1)[..., runs]
        matrix: Scores = taken.reshape(-1, runs.shape[1])
        return matrix
    at, factor = outside[0]
    sizes = [atom.size for atom in flat(axes[at])]
    moved = np.moveaxis(scores, [at, dim], [0, -1])
    split = moved.reshape(*sizes, *moved.shape[1:])
    front = np.moveaxis(split, factor, -2)[..., runs]
    blocks = size(orbit.within)
    laid = np.moveaxis(front, -3, -2).reshape(-1, blocks, runs.shape[1])
    return laid.reshape(-1, blocks * runs.shape[1])


def _whole_term(
    network: Network, tensor: str, dim: int, scores: Scores, pattern: Pattern
) -> tuple[list[Term], LayerPlan]:
    """Return a term of the whole matrix, its axes tied where one group is all of them."""
    laid = np.moveaxis(scores, dim, 1)
    outer = 1 - dim if dim < 2 else 0
    axes = network.axes[tensor]
    cols, rows = (_whole_variable(network, axes[at]) for at in (dim, outer))
    if "rows" not in pattern.axes:
        rows = None
    if "cols" not in pattern.axes:
        cols = None
    term = Term(np.ascontiguousarray(laid), pattern, rows=rows, cols=cols, name=tensor)
    groups = tuple(dict.fromkeys(name for name in (rows, cols) if name is not None))
    reason = "" if groups else "no group orders a whole axis of it"
    return [term], LayerPlan(tensor, pattern, "absorbed" if groups else "left", groups, reason)


def _whole_variable(network: Network, of: Axis) -> str | None:
    product: tuple[Atom, ...] = flat(of)
    for name, orbit in network.orbits.items():
        if product == orbit.within + orbit.leaves:
            return name
    return None
