"""One call on one layer: a better column order for 2:4 sparsity, and how to use it.

Takes the query matrix of a small sentence encoder, searches an order of its columns under which
the best 2:4 mask keeps more of the weights' magnitude, and checks the result by hand. Run one of::

    python examples/01_one_layer.py            # about five seconds
    python examples/01_one_layer.py --small    # under a second once the kernels are compiled
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

import permsearch as ps

DATA = Path(__file__).parent / "data" / "minilm_layer0.safetensors"
TENSOR = "encoder.layer.0.attention.self.query.weight"


def main() -> None:
    """Search, show the shares, then use the order and the mask."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--small", action="store_true", help="a corner of the matrix, a few steps")
    parser.add_argument("--out", type=Path, help="also store cols and mask in this folder")
    args = parser.parse_args()

    weight = load_file(DATA)[TENSOR].astype(np.float32)
    if args.small:
        weight = weight[:64, :64]
    stop = ps.MaxSteps(20) if args.small else ps.MaxSeconds(3)

    r = ps.search(weight, "2:4", stop=stop, seed=0)

    print(f"{TENSOR}, {weight.shape[0]} x {weight.shape[1]}")
    print(f"kept of sum |w| with the columns as they are   {r.baseline / r.total:.4f}")
    print(f"kept with the order found                      {r.retained:.4f}")
    print(f"no order can keep more than                    {r.bound / r.total:.4f}")
    print(f"share of what was lost to the pattern, won     {r.efficacy:.1%}")
    print(f"{r.steps} steps in {r.runtime:.2f} s, ended: {r.status.value}")

    # For training: the mask has the layout of the weight that came in, true = kept.
    kept = np.abs(weight)[r.mask].sum(dtype=np.float64)
    assert np.isclose(kept, r.score)

    # For hardware: reorder the columns, and every group of four holds two weights.
    stored = np.where(r.mask, weight, 0)[:, r.cols]
    assert (np.count_nonzero(stored.reshape(len(weight), -1, 4), axis=2) <= 2).all()

    # The product stays what it was if the inputs come in the same order.
    x = np.random.default_rng(0).standard_normal((weight.shape[1],))
    assert np.allclose(stored @ x[r.cols], np.where(r.mask, weight, 0) @ x)
    print("mask and order checked: 2 of 4 in every group, the same product")

    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        np.savez(args.out / "query_2_4.npz", cols=r.cols, mask=r.mask)
        print(f"stored in {args.out / 'query_2_4.npz'}")


if __name__ == "__main__":
    main()
