"""Results of searches as a mask bundle: what the commands, `pruning` and `sparsekernels` read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from permsearch.errors import FileError, ProblemError, ScoresError
from permsearch.io.bundle import MaskBundle
from permsearch.io.bundle_writer import BundleWriter, packed
from permsearch.io.fingerprint import fingerprint
from permsearch.io.mapping import MappingSource
from permsearch.io.parts import Part
from permsearch.io.source import TensorInfo
from permsearch.result import SearchResult
from permsearch.rows import result_row

_SOURCE = "searches in Python"


def save_bundle(
    folder: str | Path,
    results: Mapping[str, tuple[Any, SearchResult]],
    *,
    source: str | Path = _SOURCE,
    scores: str | None = None,
    overwrite: bool = False,
) -> MaskBundle:
    """Write masks and orders that were found in Python, as `permsearch search --out` does.

    Parameters
    ----------
    folder
        Where the bundle goes; created if need be.
    results
        For each tensor its name (as in the file of weights, so that `permsearch pack` and
        `permsearch export` find it there), and the weight with the result of its search. The
        weight, an array or a tensor (out, in, *k), is not stored: its fingerprint is.
    source
        Where the weights come from, for those who read the bundle.
    scores
        What the searches were given as ``scores=``, in a word such as ``"wanda"``; reports show
        it. None: not told.
    overwrite
        Whether a bundle in the folder is replaced.

    Returns
    -------
    MaskBundle
        The bundle, as `permsearch.io.MaskBundle.load` reads it.

    Raises
    ------
    FileError
        The folder holds something, or cannot be written.
    ProblemError
        There is no result, or one is not of a single weight.
    ScoresError
        A result is of a weight of another shape.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import permsearch as ps
    >>> weight = ps.instances.gaussian(16, 8, seed=0)
    >>> wanda = abs(weight) * 2.0
    >>> found = ps.search(weight, "2:4", scores=wanda, stop=ps.MaxSteps(20))
    >>> with tempfile.TemporaryDirectory() as place:
    ...     folder = Path(place) / "masks"
    ...     bundle = ps.save_bundle(folder, {"fc.weight": (weight, found)}, scores="wanda")
    ...     (bundle["fc.weight"].mask == found.mask).all()
    np.True_
    """
    target = Path(folder)
    tensors = MappingSource({name: weight for name, (weight, _) in results.items()})
    told = {} if scores is None else {"scores": scores}
    parts = [_part(tensors, name, result, told) for name, (_, result) in results.items()]
    if not parts:
        raise ProblemError("no results were given; a bundle needs one at least.")
    if not overwrite and target.is_dir() and any(target.iterdir()):
        raise FileError(f"{target} exists; choose another folder, or pass overwrite=True.")
    settings = {**_settings([result for _, result in results.values()]), **told}
    with BundleWriter(target, settings, source=str(source), overwrite=overwrite) as writer:
        for part in parts:
            writer.add_part(part)
        return writer.finish(list(results))


def result_part(
    info: TensorInfo, weight: NDArray[Any], result: SearchResult, *, solver: str
) -> Part:
    """Return what a bundle stores of a weight's search: the record, the packed mask, the orders.

    Parameters
    ----------
    info
        The weight's name, shape and number type where it is stored.
    weight, result
        Its values, and what the search of them returned.
    solver
        The solver as it was asked for.
    """
    record = {
        **result_row(info.name, info.shape, result, solver=solver),
        "shape": info.shape,
        "dtype": info.dtype,
        "axis": 1,
        "sha256": fingerprint(weight),
    }
    return packed(record, result.mask, _orders(result))


def _orders(result: SearchResult) -> dict[str, NDArray[Any] | None]:
    """Return the orders to store: those of the axes that were searched, and the tiles' own."""
    (term,) = result.problem.terms
    return {
        "rows": None if term.rows is None else result.rows,
        "cols": None if term.cols is None else result.cols,
        "tiles": result.tiles.get(0),
    }


def _part(tensors: MappingSource, name: str, result: SearchResult, told: Mapping[str, Any]) -> Part:
    """Return the part of one weight, after checking that the result may be of it."""
    info = tensors.info(name)
    if len(result.problem.terms) != 1:
        raise ProblemError(
            f"{name}: the result is of {len(result.problem.terms)} weights together; give each "
            "its own (pruning.MaskBundle is for whole models)."
        )
    if result.mask.shape != info.shape:
        raise ScoresError(
            f"{name}: the weight has shape {info.shape}, the result's mask {result.mask.shape}; "
            "give the weight that was searched."
        )
    part = result_part(info, tensors.read(name), result, solver=result.solver)
    return Part({**part.record, **told}, part.arrays)


def _settings(results: list[SearchResult]) -> dict[str, Any]:
    """Return what all searches have in common: pattern, solver, seed; None where they differ."""
    asked: dict[str, set[Any]] = {
        "pattern": {str(result.problem.terms[0].pattern) for result in results},
        "solver": {result.solver for result in results},
        "seed": {result.seed for result in results},
    }
    return {key: values.pop() if len(values) == 1 else None for key, values in asked.items()}
