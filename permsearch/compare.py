"""Several solvers on the same tensors, and the numbers that come of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from permsearch.bounds import Bound, bound, tightened
from permsearch.errors import ScoresError, UnsupportedProblem
from permsearch.io.atomic import written_aside
from permsearch.io.jsontext import json_text
from permsearch.io.opening import Tensors, open_tensors
from permsearch.io.select import Selection, Skipped, Unusable, select
from permsearch.io.source import TensorInfo, TensorSource
from permsearch.patterns import NM, Axis, Block, HiNM, Pattern, VectorWise, parse_pattern
from permsearch.provenance import provenance
from permsearch.result import SearchResult
from permsearch.rows import Row, csv_text, result_row
from permsearch.search_all import SearchOptions
from permsearch.solvers.base import Solver
from permsearch.solvers.registry import get_solver
from permsearch.stop import MaxCpuSeconds, MaxSeconds, MaxSteps, StoppingCriterion
from permsearch.streaming.tensor import TensorRows, search_tensor, streams
from permsearch.summary import summarise, table_text

# The published search of a pattern, by its kind.
_PUBLISHED: dict[type, str] = {NM: "window", VectorWise: "kmeans", Block: "tetris", HiNM: "gyro"}

_PathLike = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What solvers reached on tensors.

    Attributes
    ----------
    rows
        One per tensor and solver, with the keys of `permsearch.rows.COLUMNS`.
    skipped
        Tensors left out, and tensors that a solver could not take, with reasons.
    about
        What was run, when and where: pattern, source, date, versions, machine and so on.
    by_steps
        Whether steps limited the searches. Every solver's step is another amount of work, so
        gains are not set against each other then.
    unfinished
        The tensor at which the run was interrupted, left out of the summary: not every solver
        has searched it.
    """

    rows: tuple[Row, ...]
    skipped: tuple[Skipped, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)
    by_steps: bool = False
    unfinished: str | None = None

    def __repr__(self) -> str:
        tensors, solvers = ({row[key] for row in self.rows} for key in ("tensor", "solver"))
        left = f", {len(self.skipped)} skipped" if self.skipped else ""
        return f"<Comparison: {len(tensors)} tensors, {len(solvers)} solvers{left}>"

    def __str__(self) -> str:
        """Return a line per tensor and solver, then one per solver, and what was skipped."""
        lines = table_text(self.rows)
        if len({row["tensor"] for row in self.rows}) > 1:
            lines += ["", *table_text(self.summary())]
        return "\n".join([*lines, *(f"{skip.name}: {skip.reason}" for skip in self.skipped)])

    def summary(self) -> list[Row]:
        """Return one row per solver: see `permsearch.summary.summarise`."""
        rows = summarise([row for row in self.rows if row["tensor"] != self.unfinished])
        return [{**row, "gain_over_window": None} for row in rows] if self.by_steps else rows

    def to_json(self, path: _PathLike | None = None) -> str:
        """Return rows, summary, skipped tensors and provenance as JSON, and write them to `path`.

        NaN and unknown values are null.
        """
        content = {
            "about": self.about,
            "summary": self.summary(),
            "rows": self.rows,
            "skipped": [{"tensor": skip.name, "reason": skip.reason} for skip in self.skipped],
        }
        return _written(path, json_text(content))

    def to_csv(self, path: _PathLike | None = None) -> str:
        """Return the rows as CSV, and write them to `path`."""
        return _written(path, csv_text(self.rows))

    def to_html(self, path: _PathLike | None = None) -> str:
        """Return the report as one self-contained page, and write it to `path`.

        Raises
        ------
        MissingExtra
            jinja2 is not installed; the message names the extra.
        """
        from permsearch.report import render

        skipped = [{"tensor": skip.name, "reason": skip.reason} for skip in self.skipped]
        page = render(self.rows, about=self.about, skipped=skipped, summary=self.summary())
        return _written(path, page)


def _written(path: _PathLike | None, text: str) -> str:
    if path is not None:
        with written_aside(Path(path)) as file:
            file.write(text.encode("utf-8"))
    return text


def compare(
    tensors: Tensors,
    pattern: str | Pattern,
    *,
    solvers: Sequence[str | Solver] | str | Solver | None = None,
    only: Sequence[str] | str | None = None,
    exclude: Sequence[str] | str | None = None,
    stop: StoppingCriterion | None = None,
    seed: int = 0,
    pad: bool = False,
    bound: bool = False,
    permute: Iterable[Axis] | None = None,
) -> Comparison:
    """Return what several solvers retain on the same tensors.

    What the solvers need is compiled before any clock starts. Tensors that hold NaN or infinities
    are listed in the comparison's `skipped`, as are those that cannot carry the pattern.

    Parameters
    ----------
    tensors
        A `.safetensors`, `.npy` or `.npz` file, a Hugging Face folder, or a mapping of names to
        arrays or torch tensors.
    pattern
        What the masks must look like, such as ``"2:4"``.
    solvers
        Short names or solver values, or one of them; None: no search, the published search for
        the pattern where there is one, and ``auto``.
    only
        Globs that choose tensors by name; all without them.
    exclude
        Globs of tensors to leave out of those.
    stop, seed, pad
        As in `permsearch.search`, for each tensor and solver anew. A step is another amount of
        work for every solver: limit seconds to compare them.
    bound
        Whether the tighter bound is computed, once per tensor.
    permute
        The axes to reorder, "rows", "cols" or both; None: those that matter to the pattern.

    Raises
    ------
    FileError
        The source cannot be read.
    UnknownName
        A glob matches nothing, or a solver or the pattern is misspelt.
    NothingEligible
        No tensor can carry the pattern.

    Examples
    --------
    >>> import permsearch as ps
    >>> weights = {"a": ps.instances.gaussian(16, 8, seed=0)}
    >>> comparison = ps.compare(weights, "2:4", solvers=["none", "exhaustive"])
    >>> [row["solver"] for row in comparison.rows], comparison.rows[1]["status"]
    (['none', 'exhaustive'], 'optimal')
    """
    parsed = parse_pattern(pattern)
    chosen = default_solvers(parsed) if solvers is None else _listed(solvers)
    source = open_tensors(tensors)
    axes = None if permute is None else tuple(permute)
    options = SearchOptions(parsed, "none", stop, seed, pad, bound, axes)
    selection = select(source, options.pattern, only, exclude=exclude, pad=pad)
    rows: list[Row] = []
    skipped = list(selection.skipped)
    for found in compared(source, selection, chosen, options):
        if isinstance(found, Skipped):
            skipped.append(found)
        else:
            rows.append(found)
    told = about(source, chosen, options)
    return Comparison(tuple(rows), tuple(skipped), told, by_steps(stop))


def default_solvers(pattern: Pattern) -> tuple[str, ...]:
    """Return what is compared where nobody says: no search, the published one if any, auto."""
    published = (name for kind, name in _PUBLISHED.items() if isinstance(pattern, kind))
    return ("none", *published, "auto")


def _listed(solvers: Sequence[str | Solver] | str | Solver) -> Sequence[str | Solver]:
    if isinstance(solvers, str) or not isinstance(solvers, Sequence):
        return [solvers]
    if not solvers:
        raise ValueError("name at least one solver, such as solvers=['none', 'auto'].")
    return solvers


def by_steps(stop: StoppingCriterion | None) -> bool:
    """Whether a criterion counts on steps, which differ from solver to solver."""
    return stop is not None and stop.horizon.steps is not None


def about(
    source: TensorSource, solvers: Sequence[str | Solver], options: SearchOptions
) -> dict[str, Any]:
    """Return what a comparison's report says at its top."""
    return {
        "pattern": str(options.pattern),
        "source": source.where,
        "solvers": ", ".join(map(str, solvers)),
        "limit": _limit(options.stop),
        "seed": options.seed,
        **provenance(),
    }


def _limit(stop: StoppingCriterion | None) -> str:
    if stop is None:
        return "each solver's default"
    if isinstance(stop, MaxSteps):
        return f"{stop.steps:,} steps a search; a step differs from solver to solver"
    if isinstance(stop, MaxSeconds | MaxCpuSeconds):
        kind = "CPU " if isinstance(stop, MaxCpuSeconds) else ""
        return f"{stop.seconds:g} {kind}seconds a search"
    return str(stop)


def compared(
    source: TensorSource,
    selection: Selection,
    solvers: Sequence[str | Solver],
    options: SearchOptions,
) -> Iterator[Row | Skipped]:
    """Yield a row per tensor and solver, why a solver could not take a tensor, or why none can."""
    for solver in solvers:
        get_solver(solver)
    warm = set()
    for info in selection.chosen:
        rows = TensorRows(source, info)
        try:
            if info.shape not in warm:
                warm.add(info.shape)
                warm_up_all(info, solvers, options)
            yield from compare_tensor(rows, solvers, options)
        except ScoresError as error:
            yield Unusable.of(info.name, error)


def warm_up_all(info: TensorInfo, solvers: Sequence[str | Solver], options: SearchOptions) -> None:
    """Compile what solvers that hold a tensor need: what is compared is their searching."""
    asked = [replace(options, solver=solver) for solver in solvers]
    held = [own for own in asked if not streams(info, own)]
    for own in held:
        own.warm_up(info.shape)


def compare_tensor(
    rows: TensorRows, solvers: Sequence[str | Solver], options: SearchOptions
) -> Iterator[Row | Skipped]:
    """Yield a row per solver, or why a solver could not take the tensor.

    A large tensor is in memory only for solvers that cannot go through it row by row.

    Raises
    ------
    ScoresError
        No solver can: the weight holds NaN or infinities.
    """
    info, limit = rows.info, None
    weight: NDArray[Any] | None = None
    for solver in solvers:
        own = replace(options, solver=solver)
        if streams(info, own):
            yield search_tensor(rows, own)[1]
            continue
        weight = rows.whole() if weight is None else weight
        try:
            result = replace(own, bound=False).search(weight, info.name)
        except UnsupportedProblem as error:
            yield Skipped(info.name, f"not searched by {solver}: {error}".rstrip("."))
            continue
        if options.bound and limit is None:
            limit = bound(result.problem)
        yield _row(info, result, limit, str(solver))


def _row(info: TensorInfo, result: SearchResult, limit: Bound | None, label: str) -> Row:
    best = result if limit is None else tightened(result, limit)
    return result_row(info.name, info.shape, best, solver=label)
