"""Small reports of every kind, as the commands write them, for the tests of the pages."""

from __future__ import annotations

import json
from typing import Any

import permsearch as ps


def comparison_content() -> dict[str, Any]:
    """Return what `compare --json` writes, with a name that no column is wide enough for."""
    tensors = {
        f"encoder.layer.{n}.{kind}.with.a.long_name.and_no_end.{'x' * 40}.weight": (
            ps.instances.gaussian(24, 16, seed=n)
        )
        for n, kind in ((1, "mlp"), (0, "attention"), (2, "attention"))
    }
    solvers = ["none", "deal", "exhaustive"]
    compared = ps.compare({**tensors, "bias": [1.0]}, "2:4", solvers=solvers, bound=True)
    found: dict[str, Any] = json.loads(compared.to_json())
    return found


def group(name: str, size: int, share: float | None = None, **more: Any) -> dict[str, Any]:
    """Return the row of a group; with a share, as one that was searched."""
    members = [f"{name} writes", f"{name}.bias[0] follows", "reader.weight[1] reads in blocks of 4"]
    row: dict[str, Any] = {"name": name, "size": size, "blocks": 1, "kind": "plain"}
    row["members"] = members
    if share is not None:
        numbers = {"baseline": 0.74, "retained": 0.77, "bound": 0.8, "bound_kind": "row"}
        row |= {**numbers, "share": share, "together_with": []}
    return row | more


def network_content(groups: int = 3) -> dict[str, Any]:
    """Return what `prune --json` writes: everything that `permute` tells, and what masks keep."""
    names = [f"encoder.layer.{n}.mlp.{'y' * 30}.weight[0]" for n in range(groups)]
    told = [group(name, 64 + n, 0.1 * (n + 1)) for n, name in enumerate(names)]
    told.append(group("heads.weight[0]", 32, blocks=12, kind="within blocks"))
    layers = [
        {
            "tensor": f"{'mlp' if n else 'attention'}.{n}.weight",
            "pattern": "2:4",
            "state": "absorbed" if n else "left",
            "groups": [name] if n else [],
            "reason": "" if n else "embedding.weight stays: looked-up rows",
        }
        for n, name in enumerate(names)
    ]
    return {
        "total": {
            **{"retained": 0.77, "baseline": 0.75, "bound": 0.8, "bound_kind": "row and partition"},
            **{"solver": "auto", "seed": 0, "steps": 1234, "seconds": 2.5, "cpu_seconds": 2.0},
        },
        "proof": {
            **{"difference": 1e-15, "limit": 1e-9, "dtype": "float64", "runs": 4, "resized": 2},
            "unchanged": True,
        },
        "groups": told,
        "layers": layers,
        "gathers": [{"layer": "pooler", "bytes_per_token": 768, "share": 0.125}],
        "skipped": [{"tensor": "head.weight", "reason": "10 columns do not split"}],
        "pins": [
            {"tensor": "embedding.weight", "dim": 0, "size": 50, "reasons": ["looked-up rows"]}
        ],
        "unread": ["extra.weight"],
        "unknown": {"mylib::squash": "no rule for operator mylib::squash"},
        "pruned": [
            {"tensor": layer["tensor"], "pattern": "2:4", "state": layer["state"]}
            | {"note": "", "retained": 0.76 + 0.001 * n}
            for n, layer in enumerate(layers)
        ],
        "dense": ["norm.weight"],
    }


def bundle_content() -> dict[str, Any]:
    """Return the manifest of a bundle: one weight that a search wrote, one that `prune` did."""
    searched = {
        **{"tensor": "mlp.weight", "shape": [64, 32], "pattern": "2:4", "sha256": "0" * 64},
        **{"orders": {"cols": "mlp.weight/cols"}, "solver": "auto", "status": "stopped"},
        **{"retained": 0.76, "baseline": 0.75, "bound": 0.77, "bound_kind": "partition"},
        **{"total": 100.0, "steps": 10},
    }
    pruned = {
        **{"tensor": "attention.weight", "shape": [64, 32], "pattern": "64:2:8", "orders": {}},
        **{"sha256": "1" * 64, "retained": 0.5, "baseline": 0.45, "total": 50.0},
        **{"scores": "wanda", "method": "refit", "state": "absorbed", "output_error": 0.0123},
    }
    return {
        **{"format": "permsearch.bundle", "schema": 1, "complete": True, "source": "model/"},
        "settings": {"pattern": "2:4", "solver": "auto", "pad": False, "steps": None},
        "tensors": {"mlp.weight": searched, "attention.weight": pruned},
        "skipped": [{"tensor": "bias", "reason": "a weight needs at least two axes"}],
    }
