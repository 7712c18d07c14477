"""The repeated blocks of a model: what calibration takes one after another."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from fnmatch import fnmatchcase

from torch import nn

from permsearch.errors import unknown


def repeated_blocks(model: nn.Module, layers: Collection[str]) -> tuple[str, ...]:
    """Return the modules of the class that repeats in a model's containers; none where none does.

    Blocks stand in a `ModuleList` or a `Sequential`, hold some of the layers and are none
    themselves. Of several classes the one with the most weights counts: transformer blocks, or
    the residual blocks of all stages of a convolutional net.

    Parameters
    ----------
    layers
        Names of the modules that calibration is to see.

    Examples
    --------
    >>> from torch import nn
    >>> block = lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    >>> repeated_blocks(nn.Sequential(block(), block()), {"0.0", "1.0"})
    ('0', '1')
    """
    found: dict[type[nn.Module], list[str]] = {}
    sizes: dict[type[nn.Module], int] = {}
    for name, child in _contained(model):
        if name in layers or not any(inside(layer, name) for layer in layers):
            continue
        found.setdefault(type(child), []).append(name)
        sizes[type(child)] = sizes.get(type(child), 0) + sum(p.numel() for p in child.parameters())
    several = {kind: names for kind, names in found.items() if len(names) > 1}
    if not several:
        return ()
    return outermost(several[max(several, key=lambda kind: sizes[kind])])


def _contained(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    for name, module in model.named_modules():
        if isinstance(module, nn.ModuleList | nn.Sequential):
            for leaf, child in module.named_children():
                yield joined(name, leaf), child


def chosen_blocks(model: nn.Module, globs: Iterable[str]) -> tuple[str, ...]:
    """Return the modules that globs name, without those that lie in another of them.

    Raises
    ------
    UnknownName
        A glob names no module.
    """
    names = [name for name, _ in model.named_modules() if name]
    found: list[str] = []
    for glob in globs:
        own = [name for name in names if fnmatchcase(name, glob)]
        if not own:
            raise unknown("module", glob, names)
        found += own
    return outermost(dict.fromkeys(found))


def outermost(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of modules that do not lie in another of them."""
    every = list(names)
    return tuple(n for n in every if not any(o != n and inside(n, o) for o in every))


def inside(name: str, block: str) -> bool:
    """Whether a module or parameter is a block or lies in it; the model itself is ""."""
    return not block or name == block or name.startswith(f"{block}.")


def joined(prefix: str, leaf: str) -> str:
    """Return the name of what lies in a module."""
    return f"{prefix}.{leaf}" if prefix else leaf
