"""Packed sparse weights and the operations on them, on torch tensors.

Nothing is implemented here yet. The package will hold

- one packed format for each pattern of ``permsearch``, with ``pack`` and ``unpack`` exact inverses,
- for every operation a plain torch reference that runs anywhere, and CPU and CUDA kernels that are
  compiled on first use and tested against it,
- a linear layer over a packed weight, and the benchmark that says whether it is faster than the
  dense one on the machine at hand.

Of the sibling packages it will import ``permsearch.patterns`` and the helpers of
``permsearch.cli`` only.
"""

from __future__ import annotations

__all__: list[str] = []
