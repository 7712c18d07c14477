"""Prune torch models with the orders that ``permsearch`` finds.

Nothing is implemented here yet. The package will hold

- importance scores of a model's weights (magnitude, activation-weighted, Hessian-based),
- the symmetries of a network: which axes of which parameters must be reordered together, read
  from its exported graph, and the change of a model in place that leaves its function alone,
- recipes that say which layer gets which pattern, masks that survive training, and bundles that
  store masks and orders,
- exports to the formats that other tools read.

It will import torch and ``permsearch``; ``sparsekernels`` only inside its export functions.
"""

from __future__ import annotations

__all__: list[str] = []
