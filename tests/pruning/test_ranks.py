"""Distributed runs: ranks that saw other batches agree on statistics, masks and weights."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = """
import sys, torch
from torch import nn, distributed
from torch.nn.parallel import DistributedDataParallel
import pruning
from pruning import scores
from pruning.calibrate import calibrate
rank, folder = int(sys.argv[1]), sys.argv[2]
torch.set_num_threads(1)
distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)))
batches = [torch.randn(32, 16), torch.randn(32, 16) * torch.logspace(-2, 2, 16)]
own = calibrate(model, [batches[rank]])
both = sum(batch.double().square().sum(0) for batch in batches)
assert torch.equal(own["0.weight"].squares[0], both) and own["0.weight"].rows == 64
class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(16, 4), nn.Linear(16, 4)
    def forward(self, x):  # one input on the first rank, two on the second
        return self.q(x), self.k(x + 0 if rank else x)
for pair in [calibrate(Pair(), [batches[rank]], gram=True)]:
    assert pair["q.weight"].gram is not pair["k.weight"].gram
    for found in pair.values():
        assert torch.equal(found.squares[0], both) and found.rows == 64
        assert torch.allclose(found.gram[0], sum(b.double().T @ b.double() for b in batches))
masks = {}
for name, found in own.items():
    importance = scores.wanda(model.module.get_parameter(name), found)
    groups = importance.reshape(len(importance), -1, 4)
    top = groups.topk(2, -1).indices
    mask = torch.zeros_like(groups, dtype=torch.bool).scatter(-1, top, True)
    masks[name] = mask.reshape(importance.shape)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
pruning.attach_masks_(model, masks, optimizer=optimizer)
assert set(pruning.masks_of(model)) == {"0.weight", "2.weight"}
trained = DistributedDataParallel(model.module)
for _ in range(3):
    optimizer.zero_grad()
    trained(batches[rank]).square().mean().backward()
    optimizer.step()
pruning.detach_masks_(model)
for name, mask in masks.items():
    weight = model.module.get_parameter(name).detach()
    assert bool((weight[~mask] == 0).all())
    seen = [torch.empty_like(weight) for _ in range(2)]
    distributed.all_gather(seen, weight)
    assert torch.equal(*seen)
masks["0.weight"][0] = bool(rank)
try:
    pruning.attach_masks_(model, masks)
except pruning.StateError as error:
    assert "ranks hold different masks" in str(error)
    assert pruning.masks_of(model) == {}
    masks["0.weight"][0] = True
seen = []
torch.manual_seed(1)
hidden = [nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU()]
rule = {"match": "*", "pattern": "2:4", "method": "refit"}
result = pruning.prune(
    DistributedDataParallel(nn.Sequential(*hidden, nn.Linear(16, 8))),
    {"seconds": 0.2, "seed": rank, "calibration": "sequential", "layer": [rule]},
    example_inputs=batches[0][:2],
    calibration=[batches[rank]],
)
for name, entry in result.bundle.items():
    orders = [None if order is None else order.tolist() for order in (entry.rows, entry.cols)]
    seen.append((name, entry.mask.tobytes(), orders, entry.record["stored_sha256"]))
told = [None, None]
distributed.all_gather_object(told, seen)
assert len(seen) == 3 and told[0] == told[1]
print("agreed")
distributed.destroy_process_group()
"""


def test_ranks_agree(tmp_path: Path) -> None:
    """Statistics are summed over ranks, masks checked, weights equal after DDP steps."""
    runs = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", WORK, str(rank), str(tmp_path)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    told = [run.communicate(timeout=600) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], told
    assert [out.strip() for out, _ in told] == ["agreed"] * 2
