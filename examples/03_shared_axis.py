"""Several weights that read one axis get one order, and the layer that writes the axis follows.

Query, key and value of an attention layer all read the same inputs, so their columns can only be
reordered together: three terms on one variable. Then a hidden axis of a small torch network:
linear, GELU, linear. The second layer's columns take the order, the first layer's rows and bias
follow, and the network computes what it did. Run one of::

    python examples/03_shared_axis.py            # about ten seconds
    python examples/03_shared_axis.py --small    # a few seconds, most of it torch's import
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

import permsearch as ps

DATA = Path(__file__).parent / "data" / "minilm_layer0.safetensors"
READERS = ("query", "key", "value")


def share_one_order(stop: ps.StoppingCriterion, out: Path | None, *, small: bool) -> None:
    """Search one order of the inputs that query, key and value share."""
    stored = load_file(DATA)
    weights = {
        name: stored[f"encoder.layer.0.attention.self.{name}.weight"].astype(np.float32)
        for name in READERS
    }
    if small:
        weights = {name: weight[:64, :64] for name, weight in weights.items()}
    inputs = weights["query"].shape[1]
    problem = ps.Problem(
        domains={"inputs": ps.Free(inputs)},
        terms=tuple(
            ps.Term(ps.magnitude(weight), "2:4", cols="inputs", name=name)
            for name, weight in weights.items()
        ),
    )
    r = ps.solve(problem, "auto", stop=stop, seed=0)
    print(f"query, key and value on one axis of {inputs} inputs")
    print(f"kept of sum |w| as they are {r.share(r.baseline):.4f}, in one order {r.retained:.4f}")
    masks = {term.name: term.mask(r.solution) for term in problem.terms}  # as the weights came in
    for name, mask in masks.items():
        kept = weights[name][mask]
        print(f"  {name:<6} {np.abs(kept).sum() / np.abs(weights[name]).sum():.4f}")
    if out:
        out.mkdir(parents=True, exist_ok=True)
        np.save(out / "order_of_inputs.npy", r.solution["inputs"])
        for name, mask in masks.items():
            np.save(out / f"{name}_mask.npy", mask)
        print(f"stored in {out}")


def reorder_a_network(stop: ps.StoppingCriterion, *, small: bool) -> None:
    """Reorder the hidden axis of linear, GELU, linear; its outputs stay what they were."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    width = 64 if small else 256
    first, second = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
    network = nn.Sequential(first, nn.GELU(), second)
    x = torch.randn(8, width)
    with torch.no_grad():
        before = network(x)
        r = ps.search(second.weight, "2:4", stop=stop, seed=0)
        cols = torch.from_numpy(r.cols)
        second.weight.copy_(second.weight[:, cols])  # the reader: its columns
        first.weight.copy_(first.weight[cols])  # the producer: its rows
        first.bias.copy_(first.bias[cols])  # and its bias
        assert torch.allclose(network(x), before, atol=1e-5)
        print(f"linear, GELU, linear: {r.retained:.4f} kept, outputs as before")

        # r.mask belongs to the weight as it came in, r.permuted_mask to what is stored now
        mask = torch.from_numpy(r.mask)[:, cols]
        assert torch.equal(mask, torch.from_numpy(r.permuted_mask))
        second.weight.mul_(mask)
    groups = (second.weight != 0).reshape(width, -1, 4).sum(dim=2)
    assert int(groups.max()) <= 2
    print("masked: at most 2 of 4 in every group")


def main() -> None:
    """Run both parts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--small", action="store_true", help="small weights, a few steps")
    parser.add_argument("--out", type=Path, help="also store the shared order and masks there")
    args = parser.parse_args()
    stop = ps.MaxSteps(20) if args.small else ps.MaxSeconds(3)
    share_one_order(stop, args.out, small=args.small)
    reorder_a_network(stop, small=args.small)


if __name__ == "__main__":
    main()
