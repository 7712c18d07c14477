"""Which tensors of a source a pattern can be searched for, and why the others cannot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from permsearch.errors import PatternError, PermsearchError
from permsearch.io.dtypes import FLOATS, SMALL_INTEGERS, WIDE_INTEGERS
from permsearch.io.source import TensorInfo, TensorSource, no_tensor
from permsearch.patterns import NM, Pattern, padded_shape


@dataclass(frozen=True, slots=True)
class Skipped:
    """A tensor that is left out, and the reason."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Unusable(Skipped):
    """A tensor that was meant to be searched and could not be: NaN, or not for this solver."""

    @classmethod
    def of(cls, name: str, error: Exception) -> Unusable:
        """Return the entry for an error about a tensor."""
        return cls(name, str(error).replace(f" of {name} ", " ", 1).rstrip("."))


@dataclass(frozen=True, slots=True)
class Selection:
    """The tensors to search, in the source's order, and those left out with reasons."""

    chosen: tuple[TensorInfo, ...]
    skipped: tuple[Skipped, ...]

    def surprising(self) -> tuple[Skipped, ...]:
        """Return the skipped tensors that have rows and columns: likely meant to be searched."""
        return tuple(skip for skip in self.skipped if not skip.reason.startswith(_VECTOR))


class NothingEligible(PermsearchError, ValueError):
    """No tensor of a source can carry the pattern; the message lists reasons by name."""


_VECTOR = "no rows and columns"


def match_names(source: TensorSource, globs: Iterable[str] | None) -> list[str]:
    """Return the names that match any of the globs, in the source's order; all without globs.

    Raises
    ------
    UnknownName
        A glob matches nothing; the message lists near names.
    """
    names = source.names()
    if globs is None:
        return list(names)
    wanted: set[str] = set()
    for glob in [globs] if isinstance(globs, str) else globs:
        found = {name for name in names if name == glob or fnmatchcase(name, glob)}
        if not found:
            raise no_tensor(glob, source)
        wanted |= found
    return [name for name in names if name in wanted]


def refusal(
    info: TensorInfo, pattern: Pattern, *, pad: bool = False, asked: bool = False
) -> str | None:
    """Return why a tensor cannot be searched for a pattern, or None when it can.

    Parameters
    ----------
    info
        The tensor.
    pattern
        The pattern.
    pad
        Whether zero columns may be added.
    asked
        Whether the user named this very tensor; then wide integers are taken for a weight.
    """
    if len(info.shape) < 2:
        return f"{_VECTOR}: shape {list(info.shape)}"
    if info.dtype in WIDE_INTEGERS and not asked:
        return f"{info.dtype} holds indices or packed data as a rule; ask for it by its full name"
    if info.dtype not in FLOATS | SMALL_INTEGERS | WIDE_INTEGERS:
        return f"{info.dtype} is no real number type that can be read"
    if pad and isinstance(pattern, NM) and info.shape[1] <= pattern.n:
        return f"{info.shape[1]} columns, all of which {pattern} would keep"
    try:
        pattern.check(padded_shape(pattern, info.shape) if pad else info.shape)
    except PatternError as error:
        return str(error).rstrip(".")
    return None


def select(
    source: TensorSource,
    pattern: Pattern,
    globs: Sequence[str] | str | None = None,
    *,
    exclude: Sequence[str] | str | None = None,
    pad: bool = False,
) -> Selection:
    """Return the tensors of a source that can be searched, and the others with reasons.

    Those that match no glob of `globs`, or one of `exclude`, are not mentioned.

    Raises
    ------
    UnknownName
        A glob matches nothing.
    NothingEligible
        Every tensor is left out: a run that does nothing must not look like success.
    """
    named = {globs} if isinstance(globs, str) else set(globs or ())
    chosen: list[TensorInfo] = []
    skipped: list[Skipped] = []
    excluded = set(match_names(source, exclude)) if exclude else set()
    for name in match_names(source, globs):
        if name in excluded:
            continue
        info = source.info(name)
        reason = refusal(info, pattern, pad=pad, asked=name in named)
        if reason is None:
            chosen.append(info)
        else:
            skipped.append(Skipped(name, reason))
    selection = Selection(tuple(chosen), tuple(skipped))
    if not chosen:
        raise NothingEligible(_nothing(source, pattern, selection, bool(excluded)))
    return selection


def _nothing(source: TensorSource, pattern: Pattern, selection: Selection, excluded: bool) -> str:
    if not selection.skipped and excluded:
        return f"{source.where}: every tensor is excluded."
    if not selection.skipped:
        return f"{source.where}: there are no tensors at all."
    shown = (selection.surprising() or selection.skipped)[:3]
    rest = len(selection.skipped) - len(shown)
    listed = "; ".join(map(str, shown)) + (f"; and {rest} more" if rest else "")
    return f"{source.where}: no tensor can be searched for {pattern}: {listed}."
