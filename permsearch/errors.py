"""What can go wrong, as types: every message names the value, the place and the way out."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PermsearchError(Exception):
    """Base of the errors this library raises on purpose; the command line shows it in one line.

    Options that make no sense whatever the data, such as ``seed=-1`` or ``MaxSteps(-1)``, are
    plain ValueErrors.
    """


class PatternError(PermsearchError, ValueError):
    """A pattern is ill-formed, unknown, or does not tile the array it was given."""


class ScoresError(PermsearchError, ValueError):
    """Scores or weights cannot be used: NaN, infinite, negative, empty, or of a wrong type."""


class OrderError(PermsearchError, ValueError):
    """An array is not an order, or not one its domain allows."""


class ProblemError(PermsearchError, ValueError):
    """Variables, domains and terms do not fit together."""


class UnsupportedProblem(PermsearchError, ValueError):
    """A solver was handed a problem it does not solve; the message says why and what does."""


class UnknownName(PermsearchError, ValueError):
    """A name is not in its list of names; the message offers the nearest ones."""


class FileError(PermsearchError, OSError):
    """A file is missing, truncated, foreign or cannot be written."""


class CertificateError(PermsearchError, ValueError):
    """A certificate belongs to other scores or does not prove the limit it states."""


class MissingExtra(PermsearchError, ImportError):
    """An optional dependency is needed; the message names the extra that brings it."""


class WorkerDied(PermsearchError, RuntimeError):
    """A process that worked on a task ended without an answer; the message says how."""


def unknown(
    kind: str, name: object, known: Iterable[str], meant: Iterable[str] = ()
) -> UnknownName:
    """Return the error for a misspelt name, or for what is no text, with the nearest names.

    `meant` is what the name stands for elsewhere, if that is known; it is offered instead.
    """
    names = sorted(map(str, known))
    near = list(meant)
    if not near and isinstance(name, str):
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    return UnknownName(f"unknown {kind} {name!r}; {hint}known: {', '.join(names)}.")
