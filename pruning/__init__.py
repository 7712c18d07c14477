"""Prune torch models with the orders that ``permsearch`` finds.

``trace`` finds which axes of which parameters must be reordered together so that a model computes
what it computed before; ``Network.problem`` makes them variables of a search; ``permute_`` applies
the orders found, and proves the function unchanged.
"""

from __future__ import annotations

from pruning.errors import StateError, TraceError, VerificationError
from pruning.gather import GatherCost, Gathered, gather_, gathered_orders
from pruning.network import Group, Member, Network, Pin
from pruning.permute import permute_
from pruning.trace import trace
from pruning.verify import Report

__all__ = [
    "GatherCost",
    "Gathered",
    "Group",
    "Member",
    "Network",
    "Pin",
    "Report",
    "StateError",
    "TraceError",
    "VerificationError",
    "gather_",
    "gathered_orders",
    "permute_",
    "trace",
]
