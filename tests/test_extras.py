"""Without an extra, what needs it says which one; everything else works."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import pruning
from permsearch.errors import MissingExtra
from permsearch.io.parts import Part
from permsearch.jobs import Task, executor
from permsearch.report import page_of, render_bundle, render_network
from tests.report_data import bundle_content, comparison_content, network_content


def drawn() -> None:
    """Draw the groups of a network."""
    pruning.trace(nn.Linear(8, 8), torch.ones(2, 8)).draw("groups.svg")


def exported(to: str) -> Callable[[], Any]:
    """Return a call that exports a small model."""

    def call() -> Any:
        model = nn.Sequential(nn.Linear(16, 32), nn.Linear(32, 16))
        batch = torch.randn(2, 16)
        bundle = pruning.prune(model, "2:4", example_inputs=batch).bundle
        options = {"example_inputs": (batch,)} if to == "onnx" else {}
        return pruning.export(bundle, model, to=to, path=Path("out"), **options)

    return call


def imported(name: str) -> Callable[[], Any]:
    """Return a call that imports a module anew."""

    def call() -> Any:
        sys.modules.pop(name, None)
        return importlib.import_module(name)

    return call


def on_ray() -> None:
    """Do a task on Ray."""
    list(executor(2, engine="ray").run(lambda payload: Part({}), [Task("t")], lambda task: None))


CASES: list[tuple[str, str, Callable[[], Any]]] = [
    ("report", "jinja2", lambda: page_of(comparison_content())),
    ("report", "jinja2", lambda: render_network(network_content())),
    ("report", "jinja2", lambda: render_bundle(bundle_content())),
    ("plot", "matplotlib", drawn),
    ("onnx", "onnx", exported("onnx")),
    ("modelopt", "modelopt", exported("modelopt")),
    ("lightning", "lightning", imported("pruning.callbacks.lightning")),
    ("hf", "transformers", imported("pruning.callbacks.huggingface")),
    ("ray", "ray", on_ray),
]


@pytest.mark.parametrize(("extra", "package", "call"), CASES)
def test_a_missing_extra_is_named(
    extra: str,
    package: str,
    call: Callable[[], Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """The error tells what to install, and is an ImportError as well."""
    monkeypatch.chdir(tmp_path)
    loaded = [name for name in sys.modules if name == package or name.startswith(f"{package}.")]
    before = dict(sys.modules)
    for name in {package, *loaded}:
        monkeypatch.setitem(sys.modules, name, None)
    try:
        with pytest.raises(MissingExtra, match=rf"permsearch\[{extra}\]") as caught:
            call()
    finally:
        sys.modules.update({name: before[name] for name in before if name.startswith("pruning")})
    assert isinstance(caught.value, ImportError)
    assert not list(tmp_path.iterdir())
