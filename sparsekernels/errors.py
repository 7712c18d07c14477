"""What can go wrong with packed weights and their kernels, as types."""

from __future__ import annotations


class KernelError(Exception):
    """Base of every error this package raises on purpose; its text is one line."""


class PackError(KernelError, ValueError):
    """A weight, mask, pattern and orders do not fit together."""


class OperandError(KernelError, ValueError):
    """Activations do not fit the packed weight: type, shape or device."""


class PackedFileError(KernelError, OSError):
    """A file of packed weights is missing, truncated, altered or of another kind."""


class BuildError(KernelError, RuntimeError):
    """The compiled kernels cannot be built or loaded here; the message says what is missing."""


class ReferenceUsed(UserWarning):
    """A product was computed by the plain torch reference, and the text says why."""
