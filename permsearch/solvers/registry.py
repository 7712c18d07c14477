"""The solvers' short names."""

from __future__ import annotations

from importlib import import_module

from permsearch.errors import UnknownName, unknown
from permsearch.solvers.base import Solver

# name: module and class; modules are imported when a name is used
_SOLVERS = {
    "none": ("none", "NoSearch"),
    "random": ("random", "RandomOrders"),
    "local": ("local", "Local"),
    "deal": ("deal", "Deal"),
    "swap": ("swap", "Swap"),
    "window": ("window", "Window"),
    "matching": ("matching", "Matching"),
    "coarse": ("coarse", "Coarse"),
    "assignment": ("assignment", "Assignment"),
    "anneal": ("anneal", "Anneal"),
    "exhaustive": ("exhaustive", "Exhaustive"),
    "exact": ("exact", "Exact"),
    "blocks": ("blocks", "Blocks"),
    "tetris": ("tetris", "Tetris"),
    "transposable": ("transposable", "Transposable"),
    "shuffle": ("shuffle", "Shuffle"),
    "kmeans": ("kmeans", "KMeans"),
    "vnm": ("vnm", "VNMSearch"),
    "hinm": ("hinm", "HiNMSearch"),
    "gyro": ("gyro", "Gyro"),
    "auto": ("auto", "Auto"),
}
# What methods are called elsewhere.
_ELSEWHERE = {
    "greedy": ("swap",),
    "exchange": ("swap",),
    "annealing": ("anneal",),
    "sa": ("anneal",),
    "asp": ("window",),
    "apex": ("window",),
    "channel_swap": ("window",),
    "hungarian": ("assignment",),
    "brute": ("exhaustive",),
    "bruteforce": ("exhaustive",),
    "ilp": ("exact",),
    "identity": ("none",),
    "k-means": ("kmeans",),
    "shfl-bw": ("kmeans", "shuffle"),
    "venom": ("vnm",),
}


def solver_names() -> tuple[str, ...]:
    """Return the short names that `solve`, `search` and the command line take.

    Examples
    --------
    >>> "auto" in solver_names()
    True
    """
    return tuple(_SOLVERS)


def get_solver(solver: str | Solver) -> Solver:
    """Return the solver of a short name with its default options; solvers pass through.

    Raises
    ------
    UnknownName
        With the nearest known names.

    Examples
    --------
    >>> get_solver("none")
    NoSearch()
    """
    if not isinstance(solver, str):
        if isinstance(solver, type) or not isinstance(solver, Solver):
            raise UnknownName(
                f"{solver!r} is no solver; give a name ({', '.join(_SOLVERS)}) or a value such as "
                "Multistart('swap')."
            )
        return solver
    if solver not in _SOLVERS:
        raise unknown_solver(solver)
    module, name = _SOLVERS[solver]
    made: Solver = getattr(import_module(f"permsearch.solvers.{module}"), name)()
    return made


def unknown_solver(name: str) -> UnknownName:
    """Return the error for a name that no solver has, with those that were likely meant."""
    return unknown("solver", name, _SOLVERS, _ELSEWHERE.get(name.lower(), ()))
