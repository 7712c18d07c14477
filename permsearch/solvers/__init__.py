"""Solvers: frozen values that turn a problem and a budget into orders, one method per file.

``from permsearch.solvers import Swap`` gives the class of a method, for options other than the
defaults that its short name stands for: ``ps.search(w, "2:4", solver=Swap(kicks=64))``. A file is
loaded when its class is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from permsearch.solvers.anneal import Anneal
    from permsearch.solvers.assignment import Assignment
    from permsearch.solvers.auto import Auto
    from permsearch.solvers.blocks import Blocks
    from permsearch.solvers.coarse import Coarse
    from permsearch.solvers.deal import Deal
    from permsearch.solvers.exact import Exact
    from permsearch.solvers.exhaustive import Exhaustive
    from permsearch.solvers.gyro import Gyro
    from permsearch.solvers.hinm import HiNMSearch
    from permsearch.solvers.kmeans import KMeans
    from permsearch.solvers.local import Local
    from permsearch.solvers.matching import Matching
    from permsearch.solvers.none import NoSearch
    from permsearch.solvers.random import RandomOrders
    from permsearch.solvers.shuffle import Shuffle
    from permsearch.solvers.swap import Swap
    from permsearch.solvers.tetris import Tetris
    from permsearch.solvers.transposable import Transposable
    from permsearch.solvers.vnm import VNMSearch
    from permsearch.solvers.window import Window

__all__ = [
    "Anneal",
    "Assignment",
    "Auto",
    "Blocks",
    "Coarse",
    "Deal",
    "Exact",
    "Exhaustive",
    "Gyro",
    "HiNMSearch",
    "KMeans",
    "Local",
    "Matching",
    "NoSearch",
    "RandomOrders",
    "Shuffle",
    "Swap",
    "Tetris",
    "Transposable",
    "VNMSearch",
    "Window",
]

# files that are not called as their class is
_FILES = {"NoSearch": "none", "RandomOrders": "random", "VNMSearch": "vnm", "HiNMSearch": "hinm"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    file = _FILES.get(name, name.lower())
    return getattr(import_module(f"{__name__}.{file}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
