"""Lightning trains under masks: zeros at every step, in every checkpoint, and after a resume."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import get_ema_avg_fn
from torch.utils.data import DataLoader, TensorDataset

import pruning
from pruning.errors import BundleMismatch, StateError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:lightning.*"),
]


RECIPE = {"steps": 40, "layer": [{"match": ["net.0", "net.2"], "pattern": "2:4"}]}
VALUE = torch.randn(24, 16, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def lightning() -> Any:
    """Return lightning.pytorch, or skip."""
    pytest.importorskip("lightning", reason="needs the extra permsearch[lightning]")
    import lightning.pytorch

    return lightning.pytorch


@cache
def kind() -> Any:
    """Return the class of the module that is trained."""
    from lightning.pytorch import LightningModule

    class Module(LightningModule):
        """A small net under an optimizer with momentum and decay that began before the masks."""

        def __init__(self, name: str = "SGD") -> None:
            super().__init__()
            torch.manual_seed(0)
            self.net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
            self.name = name
            self.seen: list[bool] = []

        def forward(self, value: torch.Tensor) -> torch.Tensor:
            """Return outputs."""
            found: torch.Tensor = self.net(value)
            return found

        def training_step(self, batch: Any, _: int) -> torch.Tensor:
            """Return the loss; note whether dropped weights are zero."""
            self.seen.append(exact(self))
            return (self(batch[0]) - batch[1]).square().mean()

        def validation_step(self, batch: Any, _: int) -> None:
            """Run a batch."""
            assert exact(self)
            self(batch[0])

        test_step = validation_step

        def configure_optimizers(self) -> torch.optim.Optimizer:
            """Return the optimizer."""
            options = {"momentum": 0.9, "weight_decay": 0.1} if self.name == "SGD" else {}
            found: torch.optim.Optimizer = getattr(torch.optim, self.name)(
                self.parameters(), lr=0.05, **options
            )
            return found

    return Module


def exact(model: nn.Module) -> bool:
    """Tell whether everything that masks drop is zero, as stored and as computed."""
    for name, mask in pruning.masks_of(model).items():
        layer = model.get_submodule(name.removesuffix(".weight"))
        stored = layer.parametrizations.weight.original
        if bool((stored[~mask] != 0).any()) or bool((layer.weight[~mask] != 0).any()):
            return False
    return True


def batches() -> DataLoader[Any]:
    """Return six batches."""
    return DataLoader(TensorDataset(VALUE, VALUE[:, :8].sin()), batch_size=4)


def trainer(lightning: Any, path: Path, *callbacks: Any, **options: Any) -> Any:
    """Return a quiet trainer on the CPU."""
    options = {"max_epochs": 2, "limit_val_batches": 0, **options}
    return lightning.Trainer(
        accelerator="cpu", devices=1, logger=False, enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=path, callbacks=list(callbacks), **options,
    )  # fmt: skip


def masks_callback(**options: Any) -> Any:
    """Return the callback, by the recipe unless something else is asked for."""
    from pruning.callbacks.lightning import LightningMasks

    if "bundle" in options:
        return LightningMasks(**options)
    return LightningMasks(recipe=RECIPE, example_inputs=VALUE[:3], **options)


@cache
def bundle() -> Any:
    """Return the bundle that the recipe gives for the dense module."""
    return pruning.prune(kind()(), RECIPE, example_inputs=VALUE[:3]).bundle


@pytest.mark.parametrize("name", ["SGD", "AdamW"])
def test_zeros_stay_through_accumulated_steps(lightning: Any, name: str, tmp_path: Path) -> None:
    """Momentum, decay and accumulated gradients leave dropped weights at zero; training trains."""
    module, callback = kind()(name), masks_callback()
    run = trainer(lightning, tmp_path, callback, accumulate_grad_batches=3,
                  gradient_clip_val=1.0, enable_checkpointing=False)  # fmt: skip
    before = {n: p.detach().clone() for n, p in module.named_parameters()}
    run.fit(module, batches())
    assert len(module.seen) == 12
    assert all(module.seen)
    assert not pruning.masks_of(module)
    assert set(dict(module.named_parameters())) == set(before)
    for key, entry in callback.bundle.items():
        weight = module.get_parameter(key)
        mask = torch.from_numpy(entry.mask)
        assert bool((weight[~mask] == 0).all())
        assert bool((weight[mask] != 0).all())
        assert not torch.equal(weight, before[key])
        assert entry.pattern.accepts((weight != 0).numpy())


def test_checkpoints_have_plain_names_and_resume(lightning: Any, tmp_path: Path) -> None:
    """A resumed fit ends where an unbroken one does, bit for bit, in a module without masks."""
    whole = kind()()
    trainer(lightning, tmp_path, masks_callback(bundle=bundle()), max_epochs=4,
            enable_checkpointing=False).fit(whole, batches())  # fmt: skip
    saver = lightning.callbacks.ModelCheckpoint(tmp_path, filename="half", save_last=False)
    trainer(lightning, tmp_path, masks_callback(bundle=bundle()), saver).fit(kind()(), batches())
    path = tmp_path / "half.ckpt"
    stored = torch.load(path, weights_only=True)
    assert set(stored["state_dict"]) == set(kind()().state_dict())
    assert set(stored["callbacks"]["LightningMasks[]"]["entries"]) == set(bundle())
    plain = kind().load_from_checkpoint(path, map_location="cpu")
    mask = torch.from_numpy(bundle()["net.2.weight"].mask.copy())
    assert (plain.net[2].weight == 0).float().mean() == (~mask).float().mean()
    resumed, callback = kind()(), masks_callback(bundle=bundle())
    trainer(lightning, tmp_path, callback, max_epochs=4, enable_checkpointing=False).fit(
        resumed, batches(), ckpt_path=path
    )
    assert all(resumed.seen)
    assert len(resumed.seen) == 12
    for name, tensor in whole.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], tensor)
    fresh = copy.deepcopy(resumed)
    callback.bundle.apply_(fresh)
    assert torch.equal(fresh(VALUE), resumed(VALUE))


def test_resuming_takes_the_masks_of_the_checkpoint(lightning: Any, tmp_path: Path) -> None:
    """Where a recipe finds other masks the second time, those of the checkpoint are taken."""
    saver = lightning.callbacks.ModelCheckpoint(tmp_path, filename="half")
    first = masks_callback()
    trainer(lightning, tmp_path, first, saver).fit(kind()(), batches())
    other = {"solver": "none", "layer": RECIPE["layer"]}
    from pruning.callbacks.lightning import LightningMasks

    alone = pruning.prune(kind()(), other, example_inputs=VALUE[:3]).bundle
    assert any((entry.mask != first.bundle[name].mask).any() for name, entry in alone.items())
    second, module = LightningMasks(recipe=other, example_inputs=VALUE[:3]), kind()()
    trainer(lightning, tmp_path, second, max_epochs=3, enable_checkpointing=False).fit(
        module, batches(), ckpt_path=tmp_path / "half.ckpt"
    )
    assert all(module.seen)
    for name, entry in first.bundle.items():
        assert (entry.mask == second.bundle[name].mask).all()


def test_testing_the_best_checkpoint(lightning: Any, tmp_path: Path) -> None:
    """Validation within the fit and a test of its checkpoint afterwards run, strictly loaded."""
    module = kind()()
    saver = lightning.callbacks.ModelCheckpoint(tmp_path, save_weights_only=True)
    run = trainer(lightning, tmp_path, masks_callback(bundle=bundle()), saver, limit_val_batches=2)
    run.fit(module, batches(), batches())
    run.test(module, batches(), ckpt_path="best", verbose=False)
    stored = torch.load(saver.best_model_path, weights_only=True)["state_dict"]
    assert set(stored) == set(module.state_dict())


def test_averages_of_weights(lightning: Any, tmp_path: Path) -> None:
    """An exponential average stays exactly zero where masks drop, also through a checkpoint."""
    average = lightning.callbacks.WeightAveraging(avg_fn=get_ema_avg_fn(0.9))
    module, callback = kind()("AdamW"), masks_callback(bundle=bundle())
    saver = lightning.callbacks.ModelCheckpoint(tmp_path, filename="half")
    trainer(lightning, tmp_path, callback, average, saver).fit(module, batches())
    for name, entry in callback.bundle.items():
        dropped = ~torch.from_numpy(entry.mask)
        assert bool((module.get_parameter(name)[dropped] == 0).all())
    stored = torch.load(tmp_path / "half.ckpt", weights_only=True)
    assert set(stored["state_dict"]) == set(stored["current_model_state"])
    again = lightning.callbacks.WeightAveraging(avg_fn=get_ema_avg_fn(0.9))
    resumed = kind()("AdamW")
    trainer(lightning, tmp_path, masks_callback(bundle=bundle()), again, max_epochs=3,
            enable_checkpointing=False).fit(
        resumed, batches(), ckpt_path=tmp_path / "half.ckpt"
    )  # fmt: skip
    assert all(resumed.seen)
    late = trainer(lightning, tmp_path, again, masks_callback(bundle=bundle()))
    with pytest.raises(StateError, match="before it in Trainer"):
        late.fit(kind()(), batches())


def test_masks_that_are_on_already_stay_on(lightning: Any, tmp_path: Path) -> None:
    """After `prune`, the callback keeps what is there; it leaves it on, and saves plain names."""
    module = kind()()
    result = pruning.prune(module, RECIPE, example_inputs=VALUE[:3])
    saver = lightning.callbacks.ModelCheckpoint(tmp_path, filename="half")
    trainer(lightning, tmp_path, masks_callback(bundle=result.bundle), saver).fit(module, batches())
    assert all(module.seen)
    assert exact(module)
    assert set(pruning.masks_of(module)) == set(result.bundle)
    kind().load_from_checkpoint(tmp_path / "half.ckpt")
    with pytest.raises(StateError, match="give their bundle, not a recipe"):
        trainer(lightning, tmp_path, masks_callback()).fit(module, batches())


def test_a_part_of_the_module(lightning: Any, tmp_path: Path) -> None:
    """A bundle of a submodule trains there; a broken fit takes its masks off as well."""
    module = kind()()
    recipe = {"steps": 40, "layer": [{"match": "*", "pattern": "2:4"}]}
    part = pruning.prune(copy.deepcopy(module.net), recipe, example_inputs=VALUE[:3]).bundle
    part.save(tmp_path / "bundle")
    callback = masks_callback(bundle=tmp_path / "bundle", module="net")
    trainer(lightning, tmp_path, callback, enable_checkpointing=False).fit(module, batches())
    assert all(module.seen)
    assert set(callback.bundle) == {"0.weight", "2.weight"}
    other = kind()()
    with torch.no_grad():
        other.net[0].weight.add_(1.0)
    with pytest.raises(BundleMismatch):
        trainer(lightning, tmp_path, masks_callback(bundle=bundle())).fit(other, batches())
    unchecked = masks_callback(bundle=bundle(), check=False)
    trainer(lightning, tmp_path, unchecked, enable_checkpointing=False).fit(other, batches())
    assert all(other.seen)
    broken = kind()()
    broken.training_step = lambda *_: broken.missing
    with pytest.raises(AttributeError, match="missing"):
        trainer(lightning, tmp_path, masks_callback(), enable_checkpointing=False).fit(
            broken, batches()
        )
    assert not pruning.masks_of(broken)


def test_wrong_arguments(lightning: Any, tmp_path: Path) -> None:
    """Neither or both of bundle and recipe, gathers, and options of neither are told."""
    from pruning.callbacks.lightning import LightningMasks

    with pytest.raises(StateError, match="a bundle, or a recipe"):
        LightningMasks()
    with pytest.raises(StateError, match="example_inputs belong to a recipe"):
        LightningMasks(bundle(), example_inputs=VALUE)
    with pytest.raises(StateError, match="no masks yet"):
        _ = masks_callback().bundle
    recipe = {"layer": [{"match": "*", "pattern": "2:4", "gather": True}]}
    callback = LightningMasks(recipe=recipe, example_inputs=VALUE[:3])
    with pytest.raises(StateError, match="index their input"):
        trainer(lightning, tmp_path, callback).fit(kind()(), batches())


RANKS = """
import hashlib, json, sys
import torch
sys.path.insert(0, sys.argv[1])
from tests.pruning.test_callbacks_lightning import kind, batches, RECIPE, VALUE, exact
import pruning
from pathlib import Path
from lightning.pytorch import Trainer, Callback
from pruning.callbacks.lightning import LightningMasks

class Told(Callback):
    def on_train_end(self, trainer, module):
        masks = pruning.masks_of(module)
        digest = hashlib.sha256(b"".join(m.numpy().tobytes() for m in masks.values())).hexdigest()
        told = {"masks": digest, "exact": exact(module) and all(module.seen), "count": len(masks),
                "weights": float(module.net[0].weight.double().sum())}
        Path(sys.argv[2], f"{trainer.global_rank}.json").write_text(json.dumps(told))

class Half:
    def __iter__(self):
        rank = torch.distributed.get_rank()
        yield VALUE[12 * rank : 12 * rank + 12]

if __name__ == "__main__":
    recipe = {"seconds": 0.3, "layer": RECIPE["layer"]}  # each rank's clock is its own
    masks = LightningMasks(recipe=recipe, example_inputs=VALUE[:3], calibration=Half())
    Trainer(accelerator="cpu", devices=2, strategy="ddp_fork", max_epochs=1, logger=False,
            enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
            callbacks=[masks, Told()]).fit(kind()(), batches())
"""


def test_ranks_hold_the_same_masks(lightning: Any, tmp_path: Path) -> None:
    """Two ranks under DDP, which see other data, find one set of masks and keep it."""
    del lightning
    root = Path(__file__).resolve().parents[2]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", RANKS, str(root), str(tmp_path)],
        cwd=root, env=env, capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1)]
    assert told[0] == told[1]
    assert told[0]["exact"]
    assert told[0]["count"] == 2
