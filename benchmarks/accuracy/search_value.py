"""What a better search buys: kept score, layer error and whole-net cosine over many orders.

The best orders found are shuffled in part, so that orders of every quality between random and best
arise (the efficacy of Pool & Yu, NeurIPS 2021, as the horizontal axis); all 36 layers are pruned.
The same for one layer alone, with the error that is left after a refit.

    python -m benchmarks.accuracy search_value
    python -m benchmarks.accuracy.search_value      # the picture, docs/images/search_value.svg
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

from benchmarks.accuracy import encoder, fitting, ledger, minilm
from benchmarks.accuracy import tables as shown
from benchmarks.accuracy.base import Cell, Measure, Measured
from benchmarks.accuracy.orders import LayerOrder
from benchmarks.accuracy.spread import Results
from permsearch.patterns import NM
from pruning import scores as score
from pruning import update

LAYER = "encoder.layer.2.attention.self.query.weight"
LEVELS = (0, 5, 15, 40, 100)
PICTURE = Path("docs/images/search_value.svg")
PATTERN = NM(2, 4)


def shuffled(order: LayerOrder, percent: int, seed: int) -> LayerOrder:
    """Return an order with a share of its columns dealt anew among themselves."""
    draw, cols = np.random.default_rng(seed), order.cols.copy()
    some = np.sort(draw.choice(len(cols), round(len(cols) * percent / 100), replace=False))
    cols[some] = cols[draw.permutation(some)]
    return LayerOrder(order.rows, cols)


def whole(cell: Cell) -> Measured:
    """Prune all layers in orders that are shuffled alike."""
    how, errors, kept = minilm.SIMPLE[cell.method], [], []
    state = dict(encoder.tensors())
    best = minilm.ordered("stored" if cell.order == "stored" else "gathered", "2:4", 0, 0)
    for at, (name, inputs) in enumerate(minilm.seen(0).items()):
        own, dense = best[name], encoder.tensors()[name]
        if cell.order != "stored":
            own = shuffled(
                own, int(cell.order.removesuffix("% shuffled")), 100 * at + cell.order_seed
            )
        state[name] = minilm.pruned_layer(how, cell.pattern, own, dense, inputs)
        energy = update.output_error(dense, torch.zeros_like(dense), inputs)
        errors.append(update.output_error(dense, state[name], inputs) / energy)
        kept.append(_share(score.wanda_squared(dense, inputs), own))
    numbers = {"kept": float(np.mean(kept)), "error": float(np.mean(errors))}
    return Measured({"cosine": minilm.cosines(state)}, numbers)


def one_layer() -> Measured:
    """Measure many orders of one layer: items are orders."""
    weight, inputs = encoder.tensors()[LAYER], minilm.seen(0)[LAYER]
    values, best = (
        score.wanda_squared(weight, inputs),
        minilm.ordered("gathered", "2:4", 0, 0)[LAYER],
    )
    energy = update.output_error(weight, torch.zeros_like(weight), inputs)
    items: dict[str, list[float]] = {"kept": [], "error": [], "refitted": []}
    for seed in range(40):
        own = shuffled(best, LEVELS[seed % len(LEVELS)], seed)
        mask = fitting.masked(values, own, PATTERN)
        items["kept"].append(_share(values, own))
        for key, new in (
            ("error", torch.where(mask, weight, 0.0)),
            ("refitted", update.refit(weight, mask, inputs)),
        ):
            items[key].append(update.output_error(weight, new, inputs) / energy)
    return Measured(items)


def _share(values: torch.Tensor, order: LayerOrder) -> float:
    return float(values[fitting.masked(values, order, PATTERN)].sum() / values.sum())


class SearchValue:
    """The task that ``python -m benchmarks.accuracy search_value`` runs."""

    name = "search_value"
    measures = (Measure("cosine"), Measure("kept", 5), Measure("error", 5), Measure("refitted", 5))

    def cells(self) -> Iterator[Cell]:
        """Return the orders of the whole encoder, and the cell of one layer."""
        yield Cell("2:4", "one layer", "40 orders")
        yield Cell("2:4", "Wanda squared")
        for draw, levels in ((1, LEVELS), (2, LEVELS[1:])):
            yield from (Cell("2:4", "Wanda squared", f"{p}% shuffled", draw) for p in levels)
        yield Cell("2:4", "SparseGPT")
        yield from (Cell("2:4", "SparseGPT", f"{p}% shuffled", 1) for p in LEVELS[::2])

    def open(self) -> Callable[[Cell], Measured]:
        """Return what measures a cell."""
        torch.set_num_threads(1)
        return lambda cell: one_layer() if cell.method == "one layer" else whole(cell)


TASK = SearchValue()


def tables(results: Results) -> Iterator[tuple[str, Iterator[str]]]:
    """Yield kept score, layer error and cosine of the whole encoder, and correlations."""
    body = []
    for cell, measured in results.items():
        if cell.method != "one layer":
            means = (*measured.numbers.values(), float(np.mean(measured.items["cosine"])))
            body.append([cell.method, cell.order, *(f"{value:.4f}" for value in means)])
    head = ["method", "order", "kept, Wanda squared", "layer error", "cosine"]
    yield "search_value", shown.lines(head, body)


def draw(results: Results) -> None:
    """Draw the picture."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "search_value"
    mpl.rcParams["svg.fonttype"] = "none"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
    one = next(m for c, m in results.items() if c.method == "one layer").items
    for key, text in (("error", "mask"), ("refitted", "mask and refit")):
        axes[0].plot(one["kept"], one[key], ".", label=text)
    for method, sign in (("Wanda squared", "o"), ("SparseGPT", "^")):
        for stored in (False, True):
            some = [
                (m.numbers["kept"], m.numbers["error"], float(np.mean(m.items["cosine"])))
                for c, m in results.items()
                if c.method == method and (c.order == "stored") == stored
            ]
            if not some:
                continue
            kept, error, cosine = zip(*some, strict=True)
            text = f"{method}, stored" if stored else method
            mark = "x" if stored else sign
            axes[1].plot(kept, error, mark, label=text)
            axes[2].plot(kept, cosine, mark, label=text)
    for axis, title in zip(axes, ("one layer", "36 layers", "36 layers"), strict=True):
        axis.set(xlabel="kept share of Wanda squared", title=title)
        axis.legend(fontsize="small")
    axes[0].set_ylabel("output error of the layer")
    axes[1].set_ylabel("mean output error")
    axes[2].set_ylabel("cosine to dense embeddings")
    figure.savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    draw(
        ledger.Ledger(Path("out/accuracy/search_value.jsonl")).read()
        or ledger.read_results(Path(__file__).parent / "results" / "search_value.json")
    )
