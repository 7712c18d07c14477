"""A dict of arrays or torch tensors as a source of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from permsearch.arrays import to_numpy
from permsearch.io.source import TensorInfo, no_tensor


@dataclass(frozen=True, slots=True, eq=False)
class MappingSource:
    """Arrays that are in memory already; a `TensorSource`.

    Parameters
    ----------
    arrays
        Name to numpy array or torch tensor (recognised by what it can do; torch is not imported).
    """

    arrays: Mapping[str, Any]

    @property
    def where(self) -> str:
        """A word for messages."""
        return "tensors in memory"

    def names(self) -> tuple[str, ...]:
        """Return the names in the mapping's order."""
        return tuple(self.arrays)

    def info(self, name: str) -> TensorInfo:
        """Return shape and number type of an array."""
        if name not in self.arrays:
            raise no_tensor(name, self)
        value = self.arrays[name]
        if not hasattr(value, "shape"):
            try:
                value = np.asarray(value)
            except (TypeError, ValueError):
                value = to_numpy(value, name)  # which says what is wrong
        dtype = str(value.dtype).removeprefix("torch.")
        return TensorInfo(name, tuple(int(n) for n in value.shape), dtype)

    def read(self, name: str) -> NDArray[Any]:
        """Return an array; a torch tensor of a type that numpy lacks comes as float32."""
        self.info(name)
        return to_numpy(self.arrays[name], name)
