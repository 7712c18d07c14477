"""What a weight is worth: plain functions from tensors to importances that every search takes."""

from __future__ import annotations

from pruning.scores.plain import (
    energy,
    external,
    magnitude,
    obs_diagonal,
    ria,
    taylor,
    wanda,
    wanda_squared,
)
from pruning.scores.registry import SCORES, ScoreKind, score_kind

__all__ = [
    "SCORES",
    "ScoreKind",
    "energy",
    "external",
    "magnitude",
    "obs_diagonal",
    "ria",
    "score_kind",
    "taylor",
    "wanda",
    "wanda_squared",
]
