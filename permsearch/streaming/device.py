"""Where sums of absolute differences of bytes are computed: here, or on a device.

A device holds a block of columns and returns its distances to rows of bytes. All sums are exact
integers, so every device gives the same ones. Other packages offer devices through the entry-point
group ``permsearch.kernels``: the name is what ``--device`` begins with, the object a function of
the text behind the colon that returns a `Device`, or raises `RuntimeError` with the reason.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from permsearch.errors import UnknownName, unknown

GROUP = "permsearch.kernels"

Bytes = NDArray[np.uint8]


class Held(Protocol):
    """A block of columns on a device."""

    def distances(self, left: Bytes, first: int = 0) -> NDArray[np.int32]:
        """Return the sums of absolute differences of rows of `left` with columns `first`, ...

        Parameters
        ----------
        left
            Shape (P, W), as wide as the block.

        Returns
        -------
        int32 array, shape (P, columns - first)
        """


class Device(Protocol):
    """Something that computes distances."""

    @property
    def name(self) -> str:
        """What reports call it."""

    def hold(self, block: Bytes) -> Held:
        """Take a block (columns, W), C-contiguous, W a multiple of 32, at most 65536."""


class _Here:
    """A block in memory, and the kernel of this processor."""

    def __init__(self, block: Bytes) -> None:
        self._block = block

    def distances(self, left: Bytes, first: int = 0) -> NDArray[np.int32]:
        """Return the sums of absolute differences."""
        from permsearch.kernels.sad import sad_matrix

        right = self._block[first:]
        return sad_matrix(left, right, np.empty((len(left), len(right)), np.int32))


class Processor:
    """The processor of this machine: the kernel in `permsearch.kernels.sad`."""

    name = "cpu"

    def hold(self, block: Bytes) -> Held:
        """Take a block; nothing is copied."""
        return _Here(block)


def open_device(text: str = "cpu") -> Device:
    """Return a device by its text: ``cpu``, or what an installed package offers.

    Raises
    ------
    UnknownName
        Naming the devices that are offered, or why one is not there.

    Examples
    --------
    >>> open_device("cpu").name
    'cpu'
    """
    kind, _, rest = text.partition(":")
    if kind == "cpu" and not rest:
        return Processor()
    offered = {entry.name: entry for entry in entry_points(group=GROUP)}
    if kind not in offered:
        raise unknown("device", text, ["cpu", *sorted(offered)])
    try:
        device: Device = offered[kind].load()(rest)
    except RuntimeError as error:
        raise UnknownName(f"device {text!r} is not there: {error}") from error
    return device
