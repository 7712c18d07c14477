"""Seeded weights to try solvers on: plain, heavy-tailed, column-scaled, and with a known optimum.

Every generator returns a float32 weight (rows, cols); the same arguments give the same array.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from permsearch.errors import PatternError, unknown
from permsearch.orders import Order, invert
from permsearch.patterns import NM, parse_pattern


def gaussian(rows: int, cols: int, *, seed: int = 0) -> NDArray[np.float32]:
    """Return independent standard normal entries."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((rows, cols)).astype(np.float32)


def laplace(rows: int, cols: int, *, seed: int = 0) -> NDArray[np.float32]:
    """Return independent entries of the two-sided exponential distribution."""
    return np.random.default_rng(seed).laplace(size=(rows, cols)).astype(np.float32)


def student_t(rows: int, cols: int, *, df: float = 3.0, seed: int = 0) -> NDArray[np.float32]:
    """Return independent entries of Student's t distribution: heavy tails."""
    return np.random.default_rng(seed).standard_t(df, (rows, cols)).astype(np.float32)


def lognormal_columns(rows: int, cols: int, *, seed: int = 0) -> NDArray[np.float32]:
    """Return normal entries times the exponential of one normal per column: outlier channels."""
    rng = np.random.default_rng(seed)
    entries = rng.standard_normal((rows, cols))
    return (entries * np.exp(rng.standard_normal(cols))).astype(np.float32)


def uniform(rows: int, cols: int, *, seed: int = 0) -> NDArray[np.float32]:
    """Return independent entries uniform in [0, 1)."""
    return np.random.default_rng(seed).random((rows, cols)).astype(np.float32)


KINDS: dict[str, Callable[..., NDArray[np.float32]]] = {
    "gaussian": gaussian,
    "laplace": laplace,
    "student_t": student_t,
    "lognormal_columns": lognormal_columns,
    "uniform": uniform,
}


def instance(kind: str, rows: int, cols: int, *, seed: int = 0) -> NDArray[np.float32]:
    """Return a weight of a named kind (a key of `KINDS`).

    Examples
    --------
    >>> instance("gaussian", 2, 3, seed=0).shape
    (2, 3)
    """
    if kind not in KINDS:
        raise unknown("kind of instance", kind, KINDS)
    return KINDS[kind](rows, cols, seed=seed)


def planted(
    rows: int, cols: int, pattern: str | NM = "2:4", *, seed: int = 0
) -> tuple[NDArray[np.float32], Order]:
    """Return a weight that fits an N:M pattern without loss under one hidden order.

    Parameters
    ----------
    rows, cols
        Shape of the weight; the pattern's M divides `cols`.
    pattern
        Any N:M.
    seed
        An integer >= 0.

    Returns
    -------
    weight
        float32 (rows, cols) with exactly N entries of 1 to 2 in every hidden group.
    order
        The order that recovers the groups: ``weight[:, order]`` retains everything.

    Raises
    ------
    PatternError
        When the pattern is not N:M, or its groups do not fill the columns.

    Examples
    --------
    >>> import permsearch as ps
    >>> weight, order = planted(4, 16)
    >>> stored = ps.magnitude(weight[:, order])
    >>> bool(ps.parse_pattern("2:4").retained(stored) == stored.sum(dtype="float64"))
    True
    """
    nm = parse_pattern(pattern)
    if not isinstance(nm, NM):
        raise PatternError(f"planted instances are N:M; got {nm}.")
    nm.check((rows, cols))
    rng = np.random.default_rng(seed)
    keys = rng.random((rows, cols // nm.m, nm.m))
    kept = np.argsort(np.argsort(keys, axis=2), axis=2) < nm.n
    entries = (1 + rng.random((rows, cols))) * kept.reshape(rows, cols)
    hidden = rng.permutation(cols)
    return entries[:, hidden].astype(np.float32), invert(hidden)
