"""Where a pruned weight can run sparse, and why not: told before anything is searched.

Eligibility goes by sizes, type and pattern. It promises no speed: which layers run sparse is up to
the target, and small ones seldom gain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import torch

from permsearch.errors import unknown
from permsearch.patterns import (
    NM,
    VNM,
    Block,
    HiNM,
    Pattern,
    TileWise,
    TransposableNM,
    VectorWise,
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """What there is to know of a weight before it is pruned.

    Attributes
    ----------
    shape, dtype
        Of the weight.
    axis
        Dimension along which its inputs lie, and groups of M with them.
    pattern
        What its mask will be.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    axis: int
    pattern: Pattern


def eligibility(weight: Candidate, targets: Sequence[str]) -> dict[str, str]:
    """Return, for each target, why it cannot run a weight sparse; "" where it can.

    Raises
    ------
    UnknownName
        There is no such target.

    Examples
    --------
    >>> import torch
    >>> from permsearch.patterns import NM
    >>> wide = Candidate((64, 128), torch.float16, 1, NM(2, 4))
    >>> eligibility(wide, ["torch-semi-structured", "tensorrt"])
    {'torch-semi-structured': '', 'tensorrt': ''}
    """
    return {name: target(name)(weight) for name in targets}


def target(name: str) -> Callable[[Candidate], str]:
    """Return the rules of a target by its name.

    Raises
    ------
    UnknownName
        With the nearest names.
    """
    if name not in TARGETS:
        raise unknown("target", name, TARGETS)
    return TARGETS[name]


def told(reasons: Mapping[str, str]) -> list[str]:
    """Return one phrase for each target."""
    return [
        f"eligible for {name}: {f'no, {reason}' if reason else 'yes'}"
        for name, reason in reasons.items()
    ]


def at_most(pattern: Pattern, n: int, m: int) -> bool:
    """Whether every mask of a pattern has at most n of each m consecutive entries of a row."""
    if isinstance(pattern, TransposableNM):
        pattern = NM(pattern.n, pattern.m)
    if not isinstance(pattern, NM | VNM):
        return False
    if m % pattern.m == 0:
        return pattern.n * (m // pattern.m) <= n
    return pattern.m % m == 0 and pattern.n <= n


def _semi_structured(weight: Candidate) -> str:
    from pruning.exports.semi_structured import RULES

    if len(weight.shape) != 2:
        return f"it has {len(weight.shape)} dimensions, not 2"
    if weight.axis != 1:
        return f"its inputs lie along dimension {weight.axis}, not 1"
    if weight.dtype not in RULES:
        return f"there is no layout for {weight.dtype}"
    *units, n, m = RULES[weight.dtype]
    for what, size, unit in zip(("rows", "columns"), weight.shape, units, strict=True):
        if size % unit:
            return f"{size} {what} are no multiple of {unit}, which {weight.dtype} needs"
    if at_most(weight.pattern, n, m):
        return ""
    half = "; as float16 it could be" if at_most(weight.pattern, 2, 4) else ""
    return f"{weight.pattern} is not {n}:{m}, which {weight.dtype} needs{half}"


def _tensorrt(weight: Candidate) -> str:
    channels = weight.shape[1]
    if weight.axis != 1:
        return (
            f"its inputs lie along dimension {weight.axis}; convolutions and linear layers have"
            " them along 1"
        )
    if channels % 4:
        return f"{channels} input channels are no multiple of 4"
    if not at_most(weight.pattern, 2, 4):
        return f"{weight.pattern} may keep more than 2 of 4 consecutive input channels"
    return ""


_PACKED = (NM, TransposableNM, VNM, HiNM, VectorWise, Block, TileWise)
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def _sparsekernels(weight: Candidate) -> str:
    pattern = weight.pattern
    if weight.axis != 1:
        return f"its inputs lie along dimension {weight.axis}; packed layers have them along 1"
    if weight.dtype not in _FLOATS:
        return f"there is no packed form for {weight.dtype}"
    if not isinstance(pattern, _PACKED):
        return f"there is no packed form of {pattern}"
    return ""


TARGETS: Mapping[str, Callable[[Candidate], str]] = MappingProxyType(
    {
        "torch-semi-structured": _semi_structured,
        "tensorrt": _tensorrt,
        "sparsekernels": _sparsekernels,
    }
)
