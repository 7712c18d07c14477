"""What a place that holds named tensors can do, whatever it is: a file, a folder, a dict."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray

from permsearch.errors import UnknownName

_MOST_AXES = 64  # of numpy's arrays
_MOST_ENTRIES = 2**60  # 8 bytes each, and numpy counts bytes in 63 bits
_SHOWN = 80  # characters of a shape


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """What is known of a tensor without reading it.

    Attributes
    ----------
    name
        Its name, as the file spells it.
    shape
        Its shape; a linear layer's is (out, in), a convolution's (out, in, *kernel).
    dtype
        Its number type by numpy's name, or torch's where numpy has none (`bfloat16`).
    """

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        """The number of entries."""
        return math.prod(self.shape)


def can_be_array(shape: tuple[int, ...]) -> bool:
    """Decide whether numpy has arrays of such a shape, of numbers of 8 bytes or fewer."""
    # numpy counts an axis of length 0 as one of 1 here
    return len(shape) <= _MOST_AXES and math.prod(n or 1 for n in shape) < _MOST_ENTRIES


def shape_text(shape: tuple[int, ...]) -> str:
    """Return a shape as a list, cut where it would fill the screen."""
    text = str(list(shape))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(shape)} axes)"


@runtime_checkable
class TensorSource(Protocol):
    """Named tensors that are read one by one."""

    @property
    def where(self) -> str:
        """The place, for messages and manifests."""

    def names(self) -> tuple[str, ...]:
        """Return all names, in the order in which reading is cheapest."""

    def info(self, name: str) -> TensorInfo:
        """Return shape and number type without reading the tensor."""

    def read(self, name: str) -> NDArray[Any]:
        """Return the tensor as a numpy array; types that numpy lacks come as float32."""


def near_names(name: str, names: Iterable[str]) -> str:
    """Return a sentence with the names that resemble `name`, or with the first few of all."""
    every = list(names)
    near = difflib.get_close_matches(name.strip("*?"), every, n=3, cutoff=0.3)
    if near:
        return f"did you mean {', '.join(map(repr, near))}?"
    if not every:
        return "there are no tensors at all."
    more = f" and {len(every) - 3} more" if len(every) > 3 else ""
    return f"there are {', '.join(map(repr, every[:3]))}{more}."


def no_tensor(name: str, source: TensorSource) -> UnknownName:
    """Return the error for a name that a source does not hold."""
    return UnknownName(f"{source.where}: no tensor {name!r}; {near_names(name, source.names())}")
