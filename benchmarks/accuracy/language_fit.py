"""How long SmolLM2's masks and values are pulled together, where a method says *admm*."""

from __future__ import annotations

from pruning.alps import Splitting

#: Half as many steps as the library takes, with the same grip at the end.
STEPS = Splitting(steps=30, grip=0.05, growth=1.1, every=5)
