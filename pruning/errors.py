"""What can go wrong with a network, as types."""

from __future__ import annotations

from permsearch.errors import PermsearchError


class TraceError(PermsearchError, RuntimeError):
    """A model's forward cannot be captured as a graph."""


class VerificationError(PermsearchError, RuntimeError):
    """A model computed something else after its permutation; it was restored."""


class StateError(PermsearchError, ValueError):
    """Tensors do not fit the network they are to be permuted with."""
