"""Proofs of limits as values: saved, loaded, and checked again by whoever has the scores."""

from __future__ import annotations

import hashlib
import json
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from permsearch.errors import CertificateError, FileError
from permsearch.io.atomic import written_aside
from permsearch.io.fingerprint import fingerprint
from permsearch.problem import Problem

if TYPE_CHECKING:
    import os

    from permsearch.limits.value import Bound

_FORMAT = "permsearch certificate 1"
_AGREE = 1e-9  # relative difference of sums that only differ in their order of addition
_ARRAYS = ("duals", "groups", "prices", "sets", "lengths", "weights")


def _none() -> Any:
    return np.zeros(0)


@dataclass(frozen=True, slots=True, eq=False)
class Proof:
    """What proves the limit of one independent piece of a problem.

    Attributes
    ----------
    variable, first
        The piece: a run of positions of a variable, from `first` on.
    kind
        ``partition``, ``matching``, ``pair`` or ``row``; the last two need no evidence, they are
        computed again.
    value, slack
        The limit in the units of the scores, and how much of it is room, as in `Bound`.
    level
        Price of a group whatever its columns (the lam of the limit), in the stack's units, as are
        the duals and prices: powers of two away from the scores.
    duals : float64 array, shape (C,)
        Price of each column.
    groups : int64 array, shape (K, m), prices : float64 array, shape (K,)
        Every group worth more than its columns' duals and the level, and by how much.
    sets : int64 array, lengths : int64 array, weights : float64 array
        Of a matching: odd sets of columns, one after the other, and their weights.
    """

    variable: str
    first: int
    kind: str
    value: float
    level: float = 0.0
    duals: NDArray[np.float64] = field(default_factory=_none)
    groups: NDArray[np.int64] = field(default_factory=_none)
    prices: NDArray[np.float64] = field(default_factory=_none)
    sets: NDArray[np.int64] = field(default_factory=_none)
    lengths: NDArray[np.int64] = field(default_factory=_none)
    weights: NDArray[np.float64] = field(default_factory=_none)
    slack: float = 0.0

    def __repr__(self) -> str:
        return f"<Proof: {self.variable!r} from {self.first}, {self.kind} limit {self.value:.6g}>"

    def about(self) -> dict[str, Any]:
        """Return the numbers and words, without the arrays."""
        return {
            "variable": self.variable,
            "first": self.first,
            "kind": self.kind,
            "value": self.value,
            "level": self.level,
            "slack": self.slack,
        }


@dataclass(frozen=True, slots=True, eq=False)
class Certificate:
    """A limit of a whole problem and the proofs of its pieces.

    Attributes
    ----------
    kind, value
        As in `Bound`.
    fingerprint
        Of the problem: its scores, patterns and domains.
    proofs
        One for each piece; what no order can change needs none.
    """

    kind: str
    value: float
    fingerprint: str
    proofs: tuple[Proof, ...]

    def __repr__(self) -> str:
        pieces = f"{len(self.proofs)} proof{'' if len(self.proofs) == 1 else 's'}"
        told = f"{self.kind} limit {self.value:.6g}, {pieces}"
        return f"<Certificate: {told}, of problem {self.fingerprint[:12]}…>"

    def verify(self, problem: Problem) -> Bound:
        """Return the limit, computed anew from the scores and the duals.

        Every group of columns is priced again at the duals, with the error of the pricing, and
        summed in float64; nothing is taken from the certificate but the duals and the weights of
        odd sets, which may be any numbers. That takes as long as one pricing of the search.

        Raises
        ------
        CertificateError
            When the certificate belongs to other scores, or does not prove what it says.
        """
        from permsearch.certificates.checking import checked

        return checked(self, problem)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a `.npz` file, whole or not at all; arrays and a text of what they are.

        Raises
        ------
        FileError
            The file cannot be written.
        """
        about = {
            "format": _FORMAT,
            "kind": self.kind,
            "value": self.value,
            "fingerprint": self.fingerprint,
            "proofs": [proof.about() for proof in self.proofs],
        }
        arrays = {
            f"{index}.{name}": getattr(proof, name)
            for index, proof in enumerate(self.proofs)
            for name in _ARRAYS
        }
        with written_aside(Path(path)) as file:
            np.savez_compressed(file, about=np.array(json.dumps(about)), **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Certificate:
        """Return what `save` wrote; nothing in the file is believed before `verify`.

        Raises
        ------
        FileError
            The file is missing or no certificate, or it is damaged.
        """
        try:
            with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                return cls._read(arrays)
        except OSError as error:
            reason = error.strerror or error
            raise FileError(f"{path}: cannot be read ({reason}).") from error
        except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise FileError(f"{path}: no certificate, or a damaged one ({error}).") from error

    @classmethod
    def _read(cls, file: Any) -> Certificate:
        about = json.loads(str(file["about"]))
        if about["format"] != _FORMAT:
            raise ValueError(f"its format is {about['format']!r}, not {_FORMAT!r}")
        proofs = tuple(
            Proof(**words, **{name: file[f"{index}.{name}"] for name in _ARRAYS})
            for index, words in enumerate(about["proofs"])
        )
        return cls(about["kind"], about["value"], about["fingerprint"], proofs)


def fingerprint_of(problem: Problem) -> str:
    """Return the SHA-256, in hex, of what decides a problem's values: scores, patterns, domains."""
    domains = {
        name: [list(domain.segments), domain.width]
        for name, domain in sorted(problem.domains.items())
    }
    terms = [
        [str(term.pattern), term.rows, term.cols, fingerprint(term.scores)]
        for term in problem.terms
    ]
    text = json.dumps({"domains": domains, "terms": terms}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def agree(told: float, found: float) -> bool:
    """Decide whether two sums differ by no more than the order of their addition."""
    return abs(told - found) <= _AGREE * max(abs(told), abs(found))


def mismatch(text: str) -> CertificateError:
    """Return the error for a certificate that does not prove what it says."""
    return CertificateError(f"the certificate does not hold: {text}.")
