"""Parameters that no captured run read: another branch may read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from math import prod

from pruning.axes import pin
from pruning.rules.base import Shape, Value


def pin_unread(shapes: Mapping[str, Shape], ignored: Sequence[str], seen: Iterable[Value]) -> None:
    """Pin every axis that an unread tensor could be applied to, judged by sizes alone.

    A branch that was not captured may read any value of the network, as it is or with
    neighbouring dimensions flattened into one.
    """
    wanted = {
        count: name
        for name, shape in shapes.items()
        if not any(fnmatchcase(name, glob) for glob in ignored)
        for count in shape
        if count > 1
    }
    if not wanted:
        return
    for value in seen:
        shape = value.shape
        for first in range(len(shape)):
            for last in range(first, len(shape)):
                name = wanted.get(prod(shape[first : last + 1]))
                for of in value.axes[first : last + 1] if name else ():
                    pin(
                        of, f"{name} was not read by the captured run: another branch may read this"
                    )
