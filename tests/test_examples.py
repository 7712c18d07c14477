"""The examples in the docstrings of `pruning` and `sparsekernels` run as they would be typed.

Each sees the public names of its own module and what it imports itself, nothing else.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

import pruning
import pruning.exports
import pruning.scores
import pruning.specs
import sparsekernels
from sparsekernels.build import cpu_recipe
from sparsekernels.compiling import load

if TYPE_CHECKING:
    from types import ModuleType

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
#: Modules that are an extra's, by the package that they cannot be imported without.
EXTRAS = {
    "pruning.callbacks.lightning": "lightning",
    "pruning.callbacks.huggingface": "transformers",
}
PUBLIC = (pruning, pruning.exports, pruning.scores, pruning.specs, sparsekernels)


def modules(package: ModuleType) -> list[str]:
    """Return the names of a package's modules that show examples."""
    top = Path(package.__path__[0])
    found = []
    for file in sorted(top.rglob("*.py")):
        parts = [package.__name__, *file.relative_to(top).with_suffix("").parts]
        if ">>> " in file.read_text("utf-8"):
            found.append(".".join(parts).removesuffix(".__init__"))
    return found


def examples(module: ModuleType) -> list[doctest.DocTest]:
    """Return the examples of a module, each with the names that its own users have."""
    own = {
        name: value
        for name, value in vars(module).items()
        if getattr(value, "__module__", None) == module.__name__ and not name.startswith("_")
    }
    found = doctest.DocTestFinder(exclude_empty=True).find(module, globs=own)
    return [each for each in found if each.examples]


def needs_kernels(name: str) -> None:
    """Skip what would compile where nothing compiles."""
    if name.startswith("sparsekernels"):
        try:
            load(cpu_recipe())
        except sparsekernels.BuildError as error:
            pytest.skip(f"the CPU kernels cannot be built here: {error}")


@pytest.mark.parametrize("name", [*modules(pruning), *modules(sparsekernels)])
def test_examples_run(name: str) -> None:
    """What an example prints is what it says, from imports of its own."""
    if name in EXTRAS:
        pytest.importorskip(EXTRAS[name])
    found = examples(importlib.import_module(name))
    assert found, f"{name} has examples that no docstring holds"
    needs_kernels(name)
    told: list[str] = []
    with torch.random.fork_rng():
        for each in found:
            torch.manual_seed(0)
            doctest.DocTestRunner(verbose=False, optionflags=FLAGS).run(each, out=told.append)
    assert not told, "".join(told)


def has_example(value: Any) -> bool:
    """Whether the docstring of a function, or of what it points to, shows how it is called."""
    return ">>> " in (inspect.getdoc(value) or "")


@pytest.mark.parametrize("package", PUBLIC, ids=lambda package: package.__name__)
def test_every_public_function_has_an_example(package: ModuleType) -> None:
    """Nobody has to guess how a function is called."""
    own = {name: getattr(package, name) for name in package.__all__}
    bare = [name for name, value in own.items() if inspect.isfunction(value)]
    assert not [name for name in bare if not has_example(own[name])]
