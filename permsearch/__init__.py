"""permsearch: orders of rows and columns that make structured sparsity cost less, with proof.

Arrays in, orders and masks out. ``ps.search(weight, "2:4")`` is what most users call.
"""

from __future__ import annotations

from permsearch import instances
from permsearch.allocation import allocate, layer_options
from permsearch.arrays import as_scores, magnitude
from permsearch.bounds import Bound, bound
from permsearch.certificates import Certificate
from permsearch.compare import Comparison, compare
from permsearch.domains import Domain, Fixed, Free, Segments, Units
from permsearch.errors import (
    CertificateError,
    FileError,
    MissingExtra,
    OrderError,
    PatternError,
    PermsearchError,
    ProblemError,
    ScoresError,
    UnknownName,
    UnsupportedProblem,
)
from permsearch.orders import Order, compose, expand, identity, invert
from permsearch.patterns import (
    NM,
    VNM,
    Block,
    HiNM,
    Pattern,
    TileWise,
    TransposableNM,
    UnalignedBlock,
    Unstructured,
    VectorWise,
    parse_pattern,
)
from permsearch.problem import Problem, Solution, Term, random_solution
from permsearch.result import SearchResult, Status, TracePoint
from permsearch.saving import save_bundle
from permsearch.search_all import search_all
from permsearch.solve import search, single, solve
from permsearch.solvers.base import Solver
from permsearch.solvers.compose import Multistart, Then
from permsearch.solvers.registry import get_solver, solver_names
from permsearch.stop import (
    AllOf,
    AnyOf,
    Horizon,
    MaxCpuSeconds,
    MaxSeconds,
    MaxSteps,
    Never,
    NoImprovement,
    Progress,
    ReachedScore,
    StoppingCriterion,
)
from permsearch.tile_shares import tile_shares

__version__ = "0.1.0"

__all__ = [
    "NM",
    "VNM",
    "AllOf",
    "AnyOf",
    "Block",
    "Bound",
    "Certificate",
    "CertificateError",
    "Comparison",
    "Domain",
    "FileError",
    "Fixed",
    "Free",
    "HiNM",
    "Horizon",
    "MaxCpuSeconds",
    "MaxSeconds",
    "MaxSteps",
    "MissingExtra",
    "Multistart",
    "Never",
    "NoImprovement",
    "Order",
    "OrderError",
    "Pattern",
    "PatternError",
    "PermsearchError",
    "Problem",
    "ProblemError",
    "Progress",
    "ReachedScore",
    "ScoresError",
    "SearchResult",
    "Segments",
    "Solution",
    "Solver",
    "Status",
    "StoppingCriterion",
    "Term",
    "Then",
    "TileWise",
    "TracePoint",
    "TransposableNM",
    "UnalignedBlock",
    "Units",
    "UnknownName",
    "Unstructured",
    "UnsupportedProblem",
    "VectorWise",
    "allocate",
    "as_scores",
    "bound",
    "compare",
    "compose",
    "expand",
    "get_solver",
    "identity",
    "instances",
    "invert",
    "layer_options",
    "magnitude",
    "parse_pattern",
    "random_solution",
    "save_bundle",
    "search",
    "search_all",
    "single",
    "solve",
    "solver_names",
    "tile_shares",
]
