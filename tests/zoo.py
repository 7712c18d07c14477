"""The zoo: small models of every kind, each with the exact list of its groups.

Comparing outputs cannot see freedom that was lost, so every model declares what is free.
"""

from __future__ import annotations

from tests.zoo_base import Model
from tests.zoo_dense import DENSE
from tests.zoo_odd import ODD
from tests.zoo_sequence import SEQUENCE
from tests.zoo_vision import VISION

ZOO: dict[str, Model] = {**DENSE, **VISION, **SEQUENCE, **ODD}
