"""What can go wrong with a network, as types."""

from __future__ import annotations

from permsearch.errors import PermsearchError


class TraceError(PermsearchError, RuntimeError):
    """A model's forward cannot be captured as a graph."""


class VerificationError(PermsearchError, RuntimeError):
    """A model computed something else after its permutation; it was restored."""


class StateError(PermsearchError, ValueError):
    """Tensors do not fit the network they are to be permuted with."""


class CalibrationError(PermsearchError, ValueError):
    """Calibration data are empty, not finite, or never reach a layer that needs them."""


class RecipeError(PermsearchError, ValueError):
    """A recipe has unknown keys, or asks for what the model does not have."""


class BundleMismatch(PermsearchError, ValueError):
    """A bundle belongs to another model, or was altered; nothing was changed."""


class ValuesLost(UserWarning):
    """Masks were put on weights that a method had changed; the changed values are elsewhere."""


class ExportError(PermsearchError, ValueError):
    """What is to be exported breaks the rules of its target; nothing was written."""
