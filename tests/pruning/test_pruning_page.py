"""The page on pruning tells the truth: its recipe, its code, its tables."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import torch
from torch import nn

import pruning
from pruning import exports, scores
from pruning.recipe import Method, as_recipe

if TYPE_CHECKING:
    import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "pruning.md"


class Encoder(nn.Module):
    """A model with the names of the page's recipe."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.intermediate = nn.Linear(8, 16), nn.Linear(16, 8)
        self.head = nn.Linear(8, 4)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        found: torch.Tensor = self.head(self.intermediate(self.attention(value).relu()))
        return found


def blocks(language: str) -> list[str]:
    """Return the page's blocks of code in a language."""
    text = PAGE.read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def code(of: str) -> Any:
    """Return the page's Python block that has a piece of code, compiled."""
    [found] = [block for block in blocks("python") if of in block]
    return compile(found.replace("steps=500", "steps=2"), "pruning.md", "exec")


def test_the_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's recipe prunes a model by the page's code, and a fresh one takes the bundle."""
    monkeypatch.chdir(tmp_path)
    recipe = blocks("toml")[0].replace("seconds = 20 ", "steps = 50 ")
    (tmp_path / "recipe.toml").write_text(recipe, "utf-8")
    torch.manual_seed(0)
    model = Encoder()
    fresh = Encoder()
    fresh.load_state_dict(model.state_dict())
    names: dict[str, Any] = {
        "model": model,
        "fresh_model": fresh,
        "batch": torch.randn(3, 8),
        "batches": [torch.randn(40, 8)],
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "print": lambda *_: None,
    }
    exec(code("pruning.prune(\n"), names)
    assert set(pruning.masks_of(fresh)) == {"attention.weight", "intermediate.weight"}
    assert torch.equal(fresh(names["batch"]), model(names["batch"]))
    names["masks"] = pruning.detach_masks_(model)
    exec(code("pruning.attach_masks_("), names)
    assert bool((model.attention.weight[~names["masks"]["attention.weight"]] == 0).all())
    (tmp_path / "pruned.safetensors").unlink()
    exec(code("told = pruning.export("), names)
    assert (tmp_path / "pruned.safetensors").is_file()


def test_the_code_for_other_loops_runs() -> None:
    """Calibration by blocks visits every layer, and training in stages leaves masks."""
    torch.manual_seed(0)
    model = Encoder()
    names: dict[str, Any] = {
        "pruning": pruning,
        "model": model,
        "batches": [torch.randn(40, 8)],
        "loss": lambda output, _: output.square().mean(),
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
    }
    exec(code("pruning.calibrate_blocks("), names)
    assert names["name"] == "head.weight"
    assert names["inputs"].gram is not None
    exec(code("pruning.train_in_stages_("), names)
    assert len(pruning.masks_of(model)) == 3
    assert names["stages"][-1].share == 0.25


def test_the_tables_are_complete() -> None:
    """Every score, method and export is on the page."""
    text = PAGE.read_text("utf-8")
    for name in (*scores.SCORES, *get_args(Method), *exports.__all__):
        told = f"`{name}" in text or f"`pruning.{name}" in text
        assert told or name in {"Exported", "SemiStructured", "Target"}, name
    for name, target in exports.TARGETS.items():
        row = text.partition(f"\n| `{name}` |")[2].partition("\n")[0]
        assert row
        assert all(f"`{option}`" in row for option in target.options)
    assert as_recipe("2:4").layers[0].fits("anything.weight")
