"""The Hugging Face Trainer trains under masks: zeros in every step and checkpoint, and resumes."""

from __future__ import annotations

import copy
import json
import os
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import pruning
from permsearch.patterns import NM
from pruning.callbacks.plain_state import save_plainly
from pruning.errors import StateError
from tests.pruning.test_callbacks_lightning import exact

transformers = pytest.importorskip("transformers", reason="needs the extra permsearch[hf]")
pytest.importorskip("accelerate", reason="needs the extra permsearch[hf]")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*pin_memory.*:UserWarning"),
]

RECIPE = {"steps": 40, "layer": [{"match": "*proj*", "pattern": "2:4"}]}
TOKENS = torch.randint(48, (12, 10), generator=torch.Generator().manual_seed(2))
EXAMPLE = {"example_inputs": (), "example_kwargs": {"input_ids": TOKENS[:2]}}


def dense(tied: bool = False) -> Any:
    """Return a tiny language model."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, vocab_size=48, max_position_embeddings=32, use_cache=False,
        tie_word_embeddings=tied,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


@cache
def bundle() -> Any:
    """Return the bundle that the recipe gives for the dense model."""
    return pruning.prune(dense(), RECIPE, **EXAMPLE).bundle


def masks(*args: Any, **options: Any) -> Any:
    """Return the callback."""
    from pruning.callbacks.huggingface import TrainerMasks

    return TrainerMasks(*args, **options)


class Watch(transformers.TrainerCallback):  # type: ignore[misc]
    """Notes after each step whether dropped weights are zero."""

    def __init__(self) -> None:
        self.seen: list[bool] = []

    def on_step_end(self, args: Any, state: Any, control: Any, *, model: Any, **_: Any) -> None:
        """Look."""
        assert pruning.masks_of(model)
        self.seen.append(exact(model))


def trainer(model: Any, path: Path, *callbacks: Any, steps: int = 4, **options: Any) -> Any:
    """Return a quiet trainer on the CPU."""
    options = {"save_strategy": "no", "gradient_accumulation_steps": 1, **options}
    args = transformers.TrainingArguments(
        output_dir=str(path), max_steps=steps, per_device_train_batch_size=2, learning_rate=0.01,
        weight_decay=0.1, report_to=[], use_cpu=True, disable_tqdm=True, logging_strategy="no",
        dataloader_num_workers=0, seed=3, **options,
    )  # fmt: skip
    rows = [{"input_ids": row, "labels": row} for row in TOKENS]
    return transformers.Trainer(
        model, args, train_dataset=rows, eval_dataset=rows[:2], callbacks=list(callbacks)
    )


def assert_pruned(model: Any, bundle: Any) -> None:
    """Check that a model without masks has zeros where a bundle drops, and the pattern."""
    assert not pruning.masks_of(model)
    for name, entry in bundle.items():
        weight = model.get_parameter(name)
        dropped = ~torch.from_numpy(entry.mask.copy())
        assert bool((weight[dropped] == 0).all())
        assert bool((weight[~dropped] != 0).all())


def test_a_recipe_prunes_when_training_begins(tmp_path: Path) -> None:
    """Accumulated, clipped steps under decay keep zeros; the saved model is an ordinary one."""
    model, watch = dense(), Watch()
    callback = masks(recipe=RECIPE, **EXAMPLE)
    run = trainer(model, tmp_path, callback, watch, gradient_accumulation_steps=3)
    run.train()
    assert watch.seen == [True] * 4
    assert len(callback.bundle) == 7
    assert_pruned(model, callback.bundle)
    run.save_model(tmp_path / "final")
    loaded = type(model).from_pretrained(tmp_path / "final")
    assert_pruned(loaded, callback.bundle)
    callback.bundle.apply_(loaded)
    told = pruning.export(callback.bundle, tmp_path / "final", path=tmp_path / "zeros")
    assert len(told.layers) == 7


def test_checkpoints_resume(tmp_path: Path) -> None:
    """Training that resumes in a dense model ends where unbroken training does, bit for bit."""
    whole = dense()
    trainer(whole, tmp_path / "whole", masks(bundle()), steps=6).train()
    trainer(dense(), tmp_path / "run", masks(bundle()), steps=6, save_strategy="steps",
            save_steps=3).train()  # fmt: skip
    checkpoint = tmp_path / "run" / "checkpoint-3"
    stored = load_file(checkpoint / "model.safetensors")
    assert set(stored) == set(load_file_of(dense(), tmp_path / "dense"))
    saved = pruning.MaskBundle.load(checkpoint / "masks")
    loaded = type(whole).from_pretrained(checkpoint)
    saved.apply_(loaded)
    for again in (masks(bundle()), masks(recipe=RECIPE, **EXAMPLE)):
        resumed, watch = dense(), Watch()
        trainer(resumed, tmp_path / "run", again, watch, steps=6).train(
            resume_from_checkpoint=str(checkpoint)
        )
        assert watch.seen == [True] * 3
        for name, tensor in whole.state_dict().items():
            assert torch.equal(resumed.state_dict()[name], tensor), name


def load_file_of(model: Any, path: Path) -> dict[str, torch.Tensor]:
    """Return what transformers saves of a model."""
    model.save_pretrained(path)
    return load_file(path / "model.safetensors")


def test_the_best_checkpoint_is_loaded_at_the_end(tmp_path: Path) -> None:
    """`load_best_model_at_end` finds every weight, in a masked model that was pruned before."""
    model = dense()
    result = pruning.prune(model, RECIPE, **EXAMPLE)
    run = trainer(
        model, tmp_path, masks(result.bundle), save_strategy="steps", save_steps=2,
        eval_strategy="steps", eval_steps=2, load_best_model_at_end=True,
    )  # fmt: skip
    run.train()
    assert set(pruning.masks_of(model)) == set(result.bundle)
    assert exact(model)
    best = Path(run.state.best_model_checkpoint)
    stored = load_file(best / "model.safetensors")
    after = pruning.detach_masks_(model)
    for name in after:
        assert torch.equal(model.get_parameter(name), stored[name])
    resumed = dense()
    again = pruning.prune(resumed, RECIPE, **EXAMPLE).bundle
    trainer(resumed, tmp_path, masks(again), steps=5).train(resume_from_checkpoint=str(best))
    assert exact(resumed)


def test_tied_embeddings(tmp_path: Path) -> None:
    """A head tied to the embedding is masked once, saved once, and tied again when loaded."""
    model = dense(tied=True)
    weight = model.model.embed_tokens.weight.detach()
    mask = torch.from_numpy(NM(2, 4).keep(weight.abs().numpy()))
    pruning.attach_masks_(model, {"model.embed_tokens.weight": mask})
    handles = save_plainly(model)
    model.save_pretrained(tmp_path / "tied")
    loaded = type(model).from_pretrained(tmp_path / "tied")
    assert loaded.lm_head.weight is loaded.model.embed_tokens.weight
    assert torch.equal(loaded.lm_head.weight, model.lm_head.weight)
    twin = copy.deepcopy(model)
    twin.load_state_dict(loaded.state_dict())
    assert twin.state_dict().keys() == loaded.state_dict().keys()
    for handle in handles:
        handle.remove()
    assert len(model.state_dict()) > len(loaded.state_dict())


def test_resuming_without_masks_is_an_error(tmp_path: Path) -> None:
    """A checkpoint of a run without the callback is not pruned behind the user's back."""
    trainer(dense(), tmp_path, steps=2, save_strategy="steps", save_steps=1).train()
    with pytest.raises(StateError, match=r"no masks in .*checkpoint-1.masks"):
        trainer(dense(), tmp_path, masks(recipe=RECIPE, **EXAMPLE), steps=2).train(
            resume_from_checkpoint=str(tmp_path / "checkpoint-1")
        )


RANKS = """
import hashlib, json, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
sys.path.insert(0, sys.argv[1])
import pruning
from pruning.capture import unwrapped
from tests.pruning import test_callbacks_trainer as case

def digest(tensors):
    found = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        found.update(name.encode() + tensor.detach().numpy().tobytes())
    return found.hexdigest()

class Told(case.transformers.TrainerCallback):
    def on_step_end(self, args, state, control, *, model, **_):
        told["masks"].append(digest(pruning.masks_of(model)))
        told["exact"].append(case.exact(unwrapped(model)))

told = {"masks": [], "exact": []}
rank = int(sys.argv[3])
recipe = {**case.RECIPE, "steps": None, "seconds": 0.2, "seed": rank}  # clocks and seeds differ
options = {"recipe": recipe, "calibration": [{"input_ids": case.TOKENS[6 * rank : 6 * rank + 6]}]}
callback = case.masks(**options, **case.EXAMPLE)
model = case.dense()
trainer = case.trainer(model, Path(sys.argv[2]), callback, Told(), steps=3, ddp_backend="gloo")
trainer.train()
assert torch.distributed.get_world_size() == 2
told["weights"] = digest(dict(model.named_parameters()))
told["bundle"] = {name: entry.mask.tolist() for name, entry in callback.bundle.items()}
Path(sys.argv[2], f"{rank}.json").write_text(json.dumps(told))
torch.distributed.destroy_process_group()
"""


def test_ranks_hold_the_same_masks(tmp_path: Path) -> None:
    """Two ranks, which see other data and stop their searches by their own clocks, agree."""
    root = Path(__file__).resolve().parents[2]
    shared = {**os.environ, "MASTER_ADDR": "127.0.0.1", "WORLD_SIZE": "2"}
    shared |= {"MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    shared |= {"LOCAL_WORLD_SIZE": "2", "ACCELERATE_USE_CPU": "true"}
    runs = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", RANKS, str(root), str(tmp_path), str(rank)],
            cwd=root, env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    try:
        errors = [run.communicate(timeout=240)[1] for run in runs]
    finally:
        for run in runs:
            run.kill()
    assert [run.returncode for run in runs] == [0, 0], errors
    told = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1)]
    assert told[0] == told[1]
    assert told[0]["exact"] == [True] * 3
    assert len(set(told[0]["masks"])) == 1
    assert len(told[0]["bundle"]) == 7


def free_port() -> int:
    """Return a port that nobody listens on just now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        found: int = one.getsockname()[1]
    return found
