"""What a search will cost before it starts: shapes and speeds in, seconds and bytes out."""

from __future__ import annotations

from permsearch.planning.costs import Cost, cost_of
from permsearch.planning.speed import Speed, measure

__all__ = ["Cost", "Speed", "cost_of", "measure"]
