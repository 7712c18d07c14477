"""Scores by name, with what each of them needs to know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias

from permsearch.errors import unknown
from pruning.scores import plain

if TYPE_CHECKING:
    import torch

    from pruning.statistics import Inputs

Need: TypeAlias = Literal["nothing", "inputs", "gram"]


@dataclass(frozen=True, slots=True)
class ScoreKind:
    """A score that a recipe can name.

    Attributes
    ----------
    needs
        "nothing" but the weight, the "inputs" of calibration, or their "gram" matrices too.
    """

    name: str
    needs: Need
    _make: Callable[..., torch.Tensor]

    def __call__(self, weight: torch.Tensor, inputs: Inputs | None) -> torch.Tensor:
        """Return the scores of a weight."""
        return self._make(weight) if self.needs == "nothing" else self._make(weight, inputs)


SCORES: Mapping[str, ScoreKind] = MappingProxyType(
    {
        "magnitude": ScoreKind("magnitude", "nothing", plain.magnitude),
        "energy": ScoreKind("energy", "nothing", plain.energy),
        "wanda": ScoreKind("wanda", "inputs", plain.wanda),
        "wanda_squared": ScoreKind("wanda_squared", "inputs", plain.wanda_squared),
        "ria": ScoreKind("ria", "inputs", plain.ria),
        "obs_diagonal": ScoreKind("obs_diagonal", "gram", plain.obs_diagonal),
    }
)


def score_kind(name: str) -> ScoreKind:
    """Return a score by its name.

    Raises
    ------
    UnknownName
        With the nearest names.

    Examples
    --------
    >>> score_kind("obs_diagonal").needs
    'gram'
    """
    if name not in SCORES:
        raise unknown("score", name, SCORES)
    return SCORES[name]
