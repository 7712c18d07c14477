"""MiniLM: 36 linear layers pruned without training, and how near embeddings stay to the dense ones.

Verses are split by one seeded shuffle: 200 on which cells are judged, 200 on which choices were
made, and calibration sets drawn from all others. Retrieval: for 200 of 600 short verses, the share
of their ten nearest in the dense encoder that are still among the ten nearest.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks.accuracy import encoder, fitting, kjv, orders, walk
from benchmarks.accuracy import tables as shown
from benchmarks.accuracy.base import Cell, Measure, Measured
from benchmarks.accuracy.orders import LayerOrder, Orders
from benchmarks.accuracy.spread import Results
from benchmarks.accuracy.walk import Fit
from permsearch.patterns import parse_pattern
from pruning import scores as score
from pruning import update
from pruning.statistics import Inputs

JUDGED, TUNED, NEAREST = slice(200, 400), slice(400, 600), 10
KEPT = Path("out/accuracy/minilm_orders")


DENSE = Fit()


@dataclass(frozen=True, slots=True)
class Method:
    """How a layer's mask and values are found.

    Parameters
    ----------
    mask
        A score of `pruning.scores`, or "sparsegpt".
    refit
        Whether what is kept is fitted by least squares.
    verses, fit
        Calibration text, and what layers are fitted to.
    """

    mask: str
    refit: bool = False
    verses: int = 128
    fit: Fit = DENSE
    damping: float = 0.01


BOTH = Method("sparsegpt", refit=True)
SIMPLE = {
    "magnitude": Method("magnitude"),
    "Wanda": Method("wanda"),
    "Wanda squared": Method("wanda_squared"),
    "SparseGPT": Method("sparsegpt"),
    "refit": Method("wanda_squared", refit=True),
    "SparseGPT + refit": BOTH,
}
RESIDUAL = Fit("residual", bias=True, norms=True)
BEST = "residual, 512 verses"
IDEAS = {
    "512 verses": replace(BOTH, verses=512),
    "corrected, 512 verses": replace(BOTH, verses=512, fit=Fit("corrected", bias=True)),
    "residual, 128 verses": replace(BOTH, fit=RESIDUAL),
    BEST: replace(BOTH, verses=512, fit=RESIDUAL),
    "residual without norms, 512 verses": replace(BOTH, verses=512, fit=Fit("residual", bias=True)),
    "sequential, 512 verses": replace(BOTH, verses=512, fit=Fit("sequential", bias=True)),
    "residual, Wanda-squared mask, 512 verses": Method("wanda_squared", True, 512, RESIDUAL),
    "residual, damping 0.1 %, 512 verses": replace(
        BOTH, verses=512, fit=replace(RESIDUAL, ridge=1e-3), damping=1e-3
    ),
    "residual, 1024 verses": replace(BOTH, verses=1024, fit=RESIDUAL),
}
METHODS = {**SIMPLE, **IDEAS}
#: Methods between which a choice was made, on verses for that.
CHOSEN = ("SparseGPT + refit", *IDEAS)
#: Methods of which several calibration sets are measured.
SEEDED = ("Wanda", "SparseGPT + refit", BEST, "SparseGPT")
LARGE = ("vector:32@0.25", "64:2:8")


@cache
def splits() -> tuple[list[str], list[str], list[str], list[str]]:
    """Return judged verses, those of choices, all that calibration draws from, and short ones."""
    everything = kjv.verses()
    shuffled = [everything[i] for i in np.random.default_rng(0).permutation(len(everything))]
    rest = shuffled[TUNED.stop :]
    short = list(dict.fromkeys(verse for verse in rest if len(verse) <= 60))
    return shuffled[JUDGED], shuffled[TUNED], [v for v in rest if len(v) > 60], short[:600]


def drawn(seed: int, count: int) -> list[str]:
    """Return a calibration set; a smaller one of the same seed is the start of it."""
    pool = splits()[2]
    return [pool[i] for i in np.random.default_rng(seed).permutation(len(pool))[:count]]


@lru_cache(2)
def seen(seed: int) -> dict[str, Inputs]:
    """Return the statistics of the 128 verses of a calibration set in the dense encoder."""
    return walk.statistics(drawn(seed, 128))


@lru_cache(8)
def ordered(order: str, pattern: str, draw: int, seed: int) -> Orders:
    """Return the orders of a cell; those that are searched are kept in files."""
    values = _searched(seed)
    if order in ("stored", "random"):
        return orders.stored(values) if order == "stored" else orders.random(values, draw)
    path = KEPT / f"{order}-{pattern.replace(':', '_').replace('@', '_')}-{seed}.npz"
    if not path.exists():
        rows = orders.looks_at_rows(pattern)
        if order == "gathered":
            found = orders.gathered(values, pattern, seed, 100 if rows else 4000)
        else:
            relative = order != "absorbed, sums"
            steps = 2000 if rows else 40_000
            found = orders.absorbed(values, pattern, seed, steps, relative=relative)
        orders.save(path, found)
    return orders.load(path)


def _searched(seed: int) -> dict[str, Tensor]:
    state = encoder.tensors()
    return {n: score.wanda_squared(state[n], i) for n, i in seen(seed).items()}


def pruned_layer(
    how: Method, pattern: str, order: LayerOrder, weight: Tensor, inputs: Inputs
) -> Tensor:
    """Return a layer's pruned weight."""
    if how.mask == "sparsegpt":
        n, m = (int(part) for part in pattern.split(":"))
        cols = torch.from_numpy(order.cols)
        new, mask = update.sparsegpt(weight, inputs, n, m, damping=how.damping, cols=cols)
    else:
        values = score.score_kind(how.mask)(weight, inputs)
        mask = fitting.masked(values, order, parse_pattern(pattern))
        new = torch.where(mask, weight, 0.0)
    start = new if how.mask == "sparsegpt" else None
    return update.refit(weight, mask, inputs, how.damping, start=start) if how.refit else new


def pruned(cell: Cell) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Return the encoder's tensors after a cell's pruning, and what is known of its layers."""
    how = METHODS[cell.method]
    own = ordered(cell.order, cell.pattern, cell.order_seed, cell.calibration_seed)

    def prune(name: str, weight: Tensor, inputs: Inputs) -> Tensor:
        return pruned_layer(how, cell.pattern, own[name], weight, inputs)

    if how.fit != DENSE or how.verses != 128:
        return walk.pruned(drawn(cell.calibration_seed, how.verses), prune, how.fit), {}
    state, errors = dict(encoder.tensors()), []
    for name, inputs in seen(cell.calibration_seed).items():
        dense = state[name]
        state[name] = prune(name, dense, inputs)
        energy = update.output_error(dense, torch.zeros_like(dense), inputs)
        errors.append(update.output_error(dense, state[name], inputs) / energy)
    return state, {"layer error": float(np.mean(errors))}


def judged(state: dict[str, Tensor], numbers: dict[str, float]) -> Measured:
    """Return how near the embeddings of tensors are to the dense ones."""
    near = _nearest(encoder.embeddings(state, splits()[3]))
    wanted = _nearest(_dense(3))
    shared = [len(set(a) & set(b)) / NEAREST for a, b in zip(near, wanted, strict=True)]
    return Measured({"cosine": cosines(state), "nearest": shared}, numbers)


@cache
def _dense(split: int) -> Tensor:
    return encoder.embeddings(encoder.tensors(), splits()[split])


def cosines(state: dict[str, Tensor], split: int = 0) -> list[float]:
    """Return the cosine of each verse of a split to its dense embedding."""
    found = (encoder.embeddings(state, splits()[split]) * _dense(split)).sum(1)
    return [float(value) for value in found]


def _nearest(vectors: Tensor) -> list[list[int]]:
    """Return the ten nearest of all, for the first 200."""
    near = vectors[:200] @ vectors.T
    near[torch.arange(200), torch.arange(200)] = -1
    found: list[list[int]] = near.topk(NEAREST, dim=1).indices.tolist()
    return found


def _draws(pattern: str, methods: Sequence[str]) -> Iterator[Cell]:
    for draw in range(1, 6):
        yield from (Cell(pattern, method, "random", draw) for method in methods)


class MiniLM:
    """The task that ``python -m benchmarks.accuracy minilm`` runs."""

    name = "minilm"
    measures = (Measure("cosine", 3), Measure("nearest", 3))

    def cells(self) -> Iterator[Cell]:
        """Return all cells, the most telling ones first."""
        plain = [method for method in SIMPLE if method != "Wanda squared"]
        for method in (BEST, *plain):
            yield from (Cell("2:4", method, order) for order in ("stored", "absorbed", "gathered"))
        yield from _draws("2:4", [method for method in plain if method != "refit"])
        yield from (Cell("2:4", method) for method in list(IDEAS)[:4])
        for pattern in LARGE:
            for method in ("magnitude", "Wanda squared", "refit"):
                for order in ("stored", "absorbed", "gathered"):
                    yield Cell(pattern, method, order)
        yield from _draws("2:4", [BEST])
        for seed in (1, 2):
            for method, order in itertools.product(SEEDED, ("stored", "absorbed")):
                yield Cell("2:4", method, order, calibration_seed=seed)
        for pattern in LARGE:
            yield from _draws(pattern, ["magnitude", "Wanda squared", "refit"])
        yield from _draws("2:4", ["refit"])
        yield Cell("2:4", "SparseGPT + refit", "absorbed, sums")
        yield from (Cell("2:4", method) for method in list(IDEAS)[4:])
        yield Cell("2:4", "residual, 1024 verses", "absorbed")

    def open(self) -> Callable[[Cell], Measured]:
        """Return what measures a cell, after a comparison with `transformers`."""
        torch.set_num_threads(1)
        off = encoder.checked(splits()[1][:4])
        if off > 1e-5:
            raise ValueError(f"embeddings are {off:.1e} off those of transformers")

        def measure(cell: Cell) -> Measured:
            state, numbers = pruned(cell)
            if cell.method in CHOSEN:
                numbers["cosine on the verses of choices"] = float(np.mean(cosines(state, 1)))
            return judged(state, numbers)

        return measure


TASK = MiniLM()


def tables(results: Results) -> Iterator[tuple[str, Iterator[str]]]:
    """Yield the tables of the page."""
    groups = {
        "minilm": [("2:4", method) for method in (*SIMPLE, BEST)],
        "minilm large": [(pattern, method) for pattern in LARGE for method in SIMPLE],
    }
    for name, wanted in groups.items():
        rows = [row for row in wanted if row in shown.rows_of(results)]
        for measure in TASK.measures:
            yield f"{name} {measure.name}", shown.means(results, measure, rows, shown.ORDERS)
            yield (
                f"{name} {measure.name} differences",
                shown.differences(results, measure, rows),
            )
    yield "minilm ideas", _ideas(results)


def _ideas(results: Results) -> Iterator[str]:
    rows = []
    for method in ("SparseGPT + refit", *IDEAS):
        for order in ("stored", "absorbed"):
            measured = results.get(Cell("2:4", method, order))
            if measured is not None:
                means = (float(np.mean(values)) for values in measured.items.values())
                tuned = measured.numbers.get("cosine on the verses of choices", float("nan"))
                rows.append([method, order, *(f"{value:.3f}" for value in (*means, tuned))])
    head = [
        "SparseGPT + refit, with",
        "order",
        "cosine",
        "ten nearest",
        "cosine, verses of choices",
    ]
    yield from shown.lines(head, rows)
