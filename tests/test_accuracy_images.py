"""What the benchmark of image networks is made of."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn

from benchmarks.accuracy import images_models
from benchmarks.accuracy.base import Cell, Measure
from benchmarks.accuracy.images import EPOCH, Images, Training, accuracy, all_orders
from benchmarks.accuracy.images_models import Data


def _data() -> Data:
    torch.manual_seed(0)
    classes = torch.randint(0, 2, (400,))
    images = torch.randn(400, 1, 6, 6) + classes[:, None, None, None]
    return Data(images[:300], classes[:300], images[300:], classes[300:])


def _net(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    first = [nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU()]
    second = [nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.ReLU()]
    return nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(32, 2)).eval()


def _task() -> Images:
    learning = Training(300, 0.05, partial(torch.optim.SGD, momentum=0.9))
    measures = (Measure("accuracy", 1), Measure("re-estimated", 1))
    return Images("tiny", _net, _data, ("3", "7"), learning, (), measures)


@pytest.mark.parametrize(
    "cell",
    [
        Cell("2:4", "refit", "absorbed"),
        Cell("2:4", "magnitude", "random", 3),
        Cell("2:4", "refit" + EPOCH, "stored", 0, 1),
        Cell("tile:4@0.25", "refit", "absorbed"),
    ],
    ids=lambda cell: cell.key,
)
def test_cells_prune_a_copy_and_judge_it_twice(cell: Cell) -> None:
    """Layers that are meant carry the pattern; the items are chunks; batch norms count."""
    measured = _task().measure(cell)
    assert set(measured.items) == {"accuracy", "re-estimated"}
    assert len(measured.items["accuracy"]) == 2
    assert measured.numbers["layers"] == 2
    assert measured.numbers["density"] < 0.6
    assert 0 < measured.numbers["kept"] < 1


def test_the_dense_network_gets_the_same_treatment() -> None:
    """Without a pattern nothing is pruned, and batch norms are estimated anew all the same."""
    measured = _task().measure(Cell("dense", ""))
    assert not measured.numbers
    assert set(measured.items) == {"accuracy", "re-estimated"}


def test_an_epoch_teaches() -> None:
    """The epoch is told by the method's text, for dense networks too."""
    task = _task()
    before = task.measure(Cell("dense", ""))
    after = task.measure(Cell("dense", EPOCH.removeprefix(", ")))
    assert sum(after.items["accuracy"]) > sum(before.items["accuracy"]) + 20


def test_accuracy_counts_chunks() -> None:
    """Chunks of fifty images each, in percent."""

    class Says(nn.Module):
        """Says class one for what is positive."""

        def forward(self, value: torch.Tensor) -> torch.Tensor:
            """Return logits."""
            return torch.stack([-value, value], 1)

    values = torch.ones(100)
    values[:10] = -1
    data = Data(values, torch.ones(100).long(), values, torch.ones(100).long())
    assert accuracy(Says(), data) == pytest.approx([80.0, 100.0])


def test_judged_images_are_balanced_and_apart() -> None:
    """Every ten judged images hold each class once, and none of them is learnt from."""
    classes = torch.arange(200) % 10
    data = images_models._split(torch.arange(200.0)[:, None], classes, 4)
    assert data.judged_classes.view(-1, 10).sort(1).values.tolist() == [list(range(10))] * 4
    assert not set(data.judged[:, 0].tolist()) & set(data.images[:, 0].tolist())


def test_random_orders_are_drawn_five_times() -> None:
    """The control has several draws, the searched order several seeds."""
    cells = list(all_orders("2:4", "refit", (0, 1)))
    assert len(cells) == len(set(cells)) == 9
    assert sum(cell.order == "random" for cell in cells) == 5
