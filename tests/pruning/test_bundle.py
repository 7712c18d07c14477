"""Bundles of whole models: saved, loaded, refused for other models and when altered."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import permsearch as ps
import pruning
from permsearch.errors import FileError
from pruning.bundle import MaskBundle
from pruning.errors import BundleMismatch

ROOT = Path(__file__).resolve().parents[2]


def model_of(seed: int = 0) -> nn.Sequential:
    """Return a small model with fixed values."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


@pytest.fixture
def saved(tmp_path: Path) -> tuple[nn.Module, Path]:
    """Return a pruned model and the folder with its bundle."""
    model = model_of()
    own = {"steps": 100, "layer": [{"match": "*", "pattern": "2:4"}]}
    result = pruning.prune(model, own, example_inputs=torch.randn(3, 8))
    result.bundle.save(tmp_path / "bundle")
    return model, tmp_path / "bundle"


def test_a_bundle_applies_to_both_layouts(saved: tuple[nn.Module, Path]) -> None:
    """The dense model takes the masks as they came in, the pruned one as they are stored."""
    model, folder = saved
    bundle, value = MaskBundle.load(folder), torch.randn(5, 8)
    dense = model_of()
    bundle.apply_(dense)
    assert torch.allclose(dense(value), model(value), atol=1e-6)
    masks = pruning.detach_masks_(model)
    bundle.apply_(model)
    assert all(torch.equal(mask, masks[name]) for name, mask in pruning.masks_of(model).items())
    record = bundle["2.weight"].record
    assert record["scores"] == "magnitude"
    assert 0 < record["baseline"] <= record["retained"] < 1
    assert bundle.settings["search"]["bound"] >= bundle.settings["search"]["score"]


def test_a_bundle_loads_in_a_second_process(saved: tuple[nn.Module, Path]) -> None:
    """Another process that builds the model computes the same with the loaded masks."""
    model, folder = saved
    code = (
        "import sys, torch, pruning\nfrom torch import nn\ntorch.manual_seed(0)\n"
        "model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))\n"
        "pruning.MaskBundle.load(sys.argv[1]).apply_(model)\n"
        "print(model(torch.ones(1, 8)).double().sum().item())"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(folder)], cwd=ROOT, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert float(run.stdout) == pytest.approx(model(torch.ones(1, 8)).sum().item(), abs=1e-5)


def test_other_models_are_refused(saved: tuple[nn.Module, Path]) -> None:
    """Other values, shapes or names are refused by name, and nothing is attached."""
    bundle = MaskBundle.load(saved[1])
    other = model_of(seed=1)
    with pytest.raises(BundleMismatch, match=r"0\.weight holds other values"):
        bundle.apply_(other)
    assert pruning.masks_of(other) == {}
    bundle.apply_(other, check=False)
    assert set(pruning.masks_of(other)) == {"0.weight", "2.weight"}
    with pytest.raises(BundleMismatch, match="shape"):
        bundle.apply_(nn.Sequential(nn.Linear(8, 8)))
    wider = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))  # only the last differs
    with pytest.raises(BundleMismatch, match=r"2\.weight has shape.*1 of the bundle's 2 weights"):
        bundle.apply_(wider)
    with pytest.raises(BundleMismatch, match=r"no weight '0\.weight'"):
        bundle.apply_(nn.Linear(8, 8))


@pytest.mark.parametrize("name", ["masks.safetensors", "permutations.safetensors"])
def test_altered_files_are_refused(saved: tuple[nn.Module, Path], name: str) -> None:
    """One flipped bit, a truncation or a missing file is told with the file's name."""
    path = saved[1] / name
    content = path.read_bytes()
    flipped = content[:-1] + bytes([content[-1] ^ 1])
    for other in (flipped, content[:-5], content[: len(content) // 2]):
        path.write_bytes(other)
        with pytest.raises(FileError, match=name):
            MaskBundle.load(saved[1])
    path.unlink()
    with pytest.raises(FileError, match=name):
        MaskBundle.load(saved[1])


def test_an_altered_manifest_is_refused(saved: tuple[nn.Module, Path]) -> None:
    """A manifest whose numbers were changed by hand, or that has no checksums, is refused."""
    path = saved[1] / "manifest.json"
    manifest = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(manifest), "utf-8")  # laid out otherwise: still the same
    assert len(MaskBundle.load(saved[1])) == 2
    manifest["tensors"]["2.weight"]["retained"] = 1.0
    path.write_text(json.dumps(manifest), "utf-8")
    with pytest.raises(FileError, match=r"manifest\.json: was altered"):
        MaskBundle.load(saved[1])
    del manifest["sha256"]
    path.write_text(json.dumps(manifest), "utf-8")
    with pytest.raises(FileError, match="no checksums"):
        MaskBundle.load(saved[1])


def test_a_bundle_of_the_command_line_applies(tmp_path: Path) -> None:
    """What `permsearch search --out` writes for a model's weights can be put onto the model."""
    from click.testing import CliRunner
    from safetensors.torch import save_file

    from permsearch.cli.search import search_command

    model = model_of()
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    command = [str(tmp_path / "model.safetensors"), "-p", "2:4", "--steps", "50"]
    run = CliRunner().invoke(search_command, [*command, "--out", str(tmp_path / "masks")])
    assert run.exit_code == 0, run.output
    bundle = MaskBundle.load(tmp_path / "masks")
    bundle.apply_(model)
    entry = bundle["2.weight"]
    assert ps.NM(2, 4).accepts(entry.mask[:, entry.cols])
    assert pruning.density(model) == pytest.approx(0.5)


def test_saving_keeps_what_was_there(
    saved: tuple[nn.Module, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bundle replaces another when asked to, whole; a full disk leaves the old one as it was."""
    bundle = MaskBundle.load(saved[1])
    with pytest.raises(FileError, match="exists"):
        bundle.save(saved[1])
    bundle.save(saved[1], overwrite=True)  # onto the folder that it reads from
    again = MaskBundle.load(saved[1])
    assert again.settings == bundle.settings
    before = {p.name: p.read_bytes() for p in saved[1].iterdir() if p.is_file()}

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(FileError, match="No space left"):
            again.save(saved[1], overwrite=True)
    assert {p.name: p.read_bytes() for p in saved[1].iterdir() if p.is_file()} == before
    assert [p.name for p in tmp_path.iterdir()] == ["bundle"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("kept", "utf-8")
    with pytest.raises(FileError, match="not a mask bundle"):
        again.save(tmp_path / "other", overwrite=True)
    assert (tmp_path / "other" / "mine.txt").read_text("utf-8") == "kept"
