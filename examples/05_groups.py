"""Groups of a small network, told and drawn: who has to move together, and what stays.

Usage::

    python examples/05_groups.py                      # tell them
    python examples/05_groups.py --out docs/images    # and draw them (residual_groups.svg)
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import nn

import permsearch as ps
import pruning


class Residual(nn.Module):
    """A stream of 8 channels that two branches, 16 and 12 units wide, read from and add to."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(6, 8)
        self.norm1, self.up1, self.down1 = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)
        self.norm2, self.up2, self.down2 = nn.RMSNorm(8), nn.Linear(8, 12), nn.Linear(12, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Run both branches."""
        stream: torch.Tensor = self.stem(value)
        stream = stream + self.down1(torch.relu(self.up1(self.norm1(stream))))
        stream = stream + self.down2(torch.tanh(self.up2(self.norm2(stream))))
        found: torch.Tensor = self.head(stream)
        return found


def main() -> None:
    """Trace, tell, draw, and prove that any order of the groups leaves the output."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--small", action="store_true", help="nothing smaller is needed")
    parser.add_argument("--out", type=Path, help="draw the groups there")
    args = parser.parse_args()

    torch.manual_seed(0)
    model = Residual()
    network = pruning.trace(model, torch.randn(2, 5, 6))
    print(network.summary())
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        network.draw(args.out / "residual_groups.svg")
        print(f"drawn: {args.out / 'residual_groups.svg'}")
    orders = ps.random_solution(network.problem(), seed=1)
    print(pruning.permute_(model, orders, network=network))


if __name__ == "__main__":
    main()
