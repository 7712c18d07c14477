"""What a pattern's text says, in the numbers that packing needs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from sparsekernels.errors import PackError

_SHARE = r"((?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)"
_FORMS = {
    "nm": re.compile(r"([0-9]+):([0-9]+)"),
    "vnm": re.compile(r"([0-9]+):([0-9]+):([0-9]+)"),
    "hinm": re.compile(rf"hinm:([0-9]+)@{_SHARE}:([0-9]+):([0-9]+)"),
    "vector": re.compile(rf"vector:([0-9]+)@{_SHARE}(?:/\w+)?"),
    "block": re.compile(rf"block:([0-9]+)x([0-9]+)@{_SHARE}"),
    "tile": re.compile(rf"tile:([0-9]+)@{_SHARE}(?:\+{_SHARE})?"),
    "transposable": re.compile(r"transposable:([0-9]+):([0-9]+)"),
}
KNOWN = "2:4, 64:2:8, hinm:32@0.5:2:4, vector:32@0.25, block:16x16@0.25, tile:128@0.25+0.01"


@dataclass(frozen=True, slots=True)
class Spec:
    """The kind of a pattern and its numbers; those that a kind does not have are 0.

    Parameters
    ----------
    kind
        nm, vnm, hinm, vector, block or tile.
    text
        The pattern as text.
    v, w
        Rows that share columns, and the width of a block.
    n, m
        Kept of every m.
    kept
        Share kept, as written.
    overlay
        Share of the single elements of a tile-wise weight.
    """

    kind: str
    text: str
    v: int = 0
    w: int = 0
    n: int = 0
    m: int = 0
    kept: float = 0.0
    overlay: float = 0.0


def read_spec(pattern: Any) -> Spec:
    """Return the numbers of a pattern, a text or any value whose text is one.

    Raises
    ------
    PackError
        When no packed format holds the pattern; the message lists those that are held.

    Examples
    --------
    >>> read_spec("vector:32@0.25")
    Spec(kind='vector', text='vector:32@0.25', v=32, w=0, n=0, m=0, kept=0.25, overlay=0.0)
    """
    text = str(pattern).strip()
    for kind, form in _FORMS.items():
        match = form.fullmatch(text)
        if match:
            spec = _spec(kind, text, match)
            _check(spec)
            return spec
    raise PackError(f"no packed format holds the pattern {text!r}; there are {KNOWN}.")


def _spec(kind: str, text: str, match: re.Match[str]) -> Spec:
    if kind in ("nm", "transposable"):  # a transposable mask is N:M along its rows as well
        return Spec("nm", text, n=int(match[1]), m=int(match[2]))
    if kind == "vnm":
        return Spec(kind, text, v=int(match[1]), n=int(match[2]), m=int(match[3]))
    if kind == "hinm":
        share, n, m = float(match[2]), int(match[3]), int(match[4])
        return Spec(kind, text, v=int(match[1]), n=n, m=m, kept=share)
    if kind == "block":
        return Spec(kind, text, v=int(match[1]), w=int(match[2]), kept=float(match[3]))
    overlay = float(match[3] or 0) if kind == "tile" else 0.0
    return Spec(kind, text, v=int(match[1]), kept=float(match[2]), overlay=overlay)


def _check(spec: Spec) -> None:
    if spec.kind in ("nm", "hinm") and not 1 <= spec.n <= spec.m <= 32:
        raise PackError(f"{spec.text}: N:M keeps N of every M columns, 1 <= N <= M <= 32.")
    if spec.kind == "vnm" and (spec.n != 2 or not 4 <= spec.m <= 256):
        raise PackError(f"{spec.text}: V:N:M keeps 2 of 4 live columns of every M, 4 <= M <= 256.")
    if spec.kind != "nm" and spec.v < 1:
        raise PackError(f"{spec.text}: at least one row has to share its columns.")
    if spec.kind == "block" and spec.w < 1:
        raise PackError(f"{spec.text}: a block has at least one column.")
    if not 0 <= spec.overlay <= spec.kept <= 1:
        raise PackError(f"{spec.text}: shares lie in 0..1, and the overlay within the share kept.")
