"""What Hypothesis draws here: weights with masks of a pattern, and the pattern's orders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Masked:
    """A weight with a mask of a pattern, the orders under which it is one, and both as text."""

    weight: Tensor
    mask: Tensor
    pattern: str
    rows: Tensor | None = None
    cols: Tensor | None = None
    tiles: Tensor | None = None

    @property
    def dense(self) -> Tensor:
        """The masked weight."""
        return torch.where(self.mask, self.weight, torch.zeros_like(self.weight))

    def pack(self) -> Any:
        """Pack it."""
        import sparsekernels as sk

        return sk.pack(self.weight, self.mask, self.pattern, self.rows, self.cols, tiles=self.tiles)


def pick(shape: tuple[int, ...], n: int, rng: torch.Generator) -> Tensor:
    """Return a boolean tensor with n true in every last axis."""
    return torch.rand(shape, generator=rng).argsort(-1) < n


def vector(rows: int, cols: int, v: int, kept: int, rng: torch.Generator) -> Masked:
    """Draw a vector-wise mask in a drawn row order; the last group may be short."""
    order = torch.randperm(rows, generator=rng)
    mask = pick((-(-rows // v), cols), kept, rng).repeat_interleave(v, 0)[:rows]
    share = kept / cols
    return finish(mask, f"vector:{v}@{share:.6f}", rng, order, None)


def block(rows: int, cols: int, v: int, w: int, rng: torch.Generator) -> Masked:
    """Draw blocks on a grid in drawn orders; those at the edges may be cut."""
    high, wide = -(-rows // v), -(-cols // w)
    grid = torch.rand((high, wide), generator=rng) < 0.4
    mask = grid.repeat_interleave(v, 0).repeat_interleave(w, 1)[:rows, :cols]
    orders = (torch.randperm(rows, generator=rng), torch.randperm(cols, generator=rng))
    return finish(mask, f"block:{v}x{w}@1", rng, *orders)


def tile(rows: int, cols: int, v: int, single: float, rng: torch.Generator) -> Masked:
    """Draw tiles over surviving rows in a drawn order, and single entries on top."""
    order = torch.randperm(rows, generator=rng)
    mask = torch.zeros(rows, cols, dtype=torch.bool)
    survivors = (torch.rand(rows, generator=rng) < 0.8).nonzero().flatten()
    for part in survivors.split(v):
        columns = torch.rand(cols, generator=rng) < 0.4
        columns[int(torch.randint(cols, (1,), generator=rng))] = True
        mask[part] = columns
    text = f"tile:{v}@1"
    if single:
        mask |= torch.rand(rows, cols, generator=rng) < single
        text = f"tile:{v}@1+1"
    return finish(mask, text, rng, order, None)


def nm(rows: int, groups: int, n: int, m: int, rng: torch.Generator, *, full: bool) -> Masked:
    """Draw N:M in a drawn column order; unless `full`, groups may keep fewer."""
    mask = pick((rows, groups, m), n, rng).reshape(rows, -1)
    if not full:
        mask &= torch.rand(mask.shape, generator=rng) < 0.7
    cols = torch.randperm(groups * m, generator=rng)
    return finish(mask, f"{n}:{m}", rng, None, cols)


def vnm(rows: int, blocks: int, v: int, m: int, rng: torch.Generator) -> Masked:
    """Draw V:2:M in drawn orders; the last group of rows may be short."""
    groups = -(-rows // v)
    live = pick((groups, 1, blocks, m), 4, rng).repeat_interleave(v, 1)
    kept = (torch.rand(live.shape, generator=rng) * live).argsort(-1).argsort(-1) >= m - 2
    mask = kept.reshape(groups * v, -1)[:rows]
    orders = (torch.randperm(rows, generator=rng), torch.randperm(blocks * m, generator=rng))
    return finish(mask, f"{v}:2:{m}", rng, *orders)


def hinm(rows: int, groups: int, v: int, kept: int, rng: torch.Generator) -> Masked:
    """Draw HiNM with 2:4 in tiles' own orders; kept counts groups of four columns."""
    tiles, cols = -(-rows // v), groups * 4
    own = torch.stack([torch.randperm(cols, generator=rng)[: kept * 4] for _ in range(tiles)])
    inside = pick((tiles, v, kept, 4), 2, rng).reshape(tiles, v, -1)
    mask = torch.zeros(tiles, v, cols, dtype=torch.bool)
    mask.scatter_(2, own[:, None].expand(tiles, v, kept * 4), inside)
    order = torch.randperm(rows, generator=rng)
    text = f"hinm:{v}@{kept / groups:.6f}:2:4"
    found = finish(mask.reshape(tiles * v, cols)[:rows], text, rng, order, None)
    return Masked(found.weight, found.mask, text, order, None, own)


def finish(
    stored: Tensor, text: str, rng: torch.Generator, rows: Tensor | None, cols: Tensor | None
) -> Masked:
    """Bring a mask in storage order back to the weight's order, and draw the weight."""
    mask = stored.clone()
    if rows is not None:
        mask = mask[rows.argsort()]
    if cols is not None:
        mask = mask[:, cols.argsort()]
    weight = torch.randn(mask.shape, generator=rng)
    return Masked(weight, mask.contiguous(), text, rows, cols)


@st.composite
def masked(draw: st.DrawFn) -> Masked:
    """Draw a weight of any packed pattern, of odd shapes and any float type."""
    rng = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    kind = draw(st.sampled_from(["vector", "block", "tile", "overlay", "nm", "vnm", "hinm"]))
    rows, cols = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    v = draw(st.sampled_from([1, 3, 4, 8, 16]))
    if kind == "vector":
        found = vector(rows, cols, v, draw(st.integers(0, cols)), rng)
    elif kind == "block":
        found = block(rows, cols, v, draw(st.integers(1, 9)), rng)
    elif kind in ("tile", "overlay"):
        found = tile(rows, cols, v, 0.05 if kind == "overlay" else 0.0, rng)
    elif kind == "nm":
        m = draw(st.integers(1, 32))
        groups, full = draw(st.integers(1, 5)), draw(st.booleans())
        found = nm(rows, groups, draw(st.integers(1, m)), m, rng, full=full)
    elif kind == "vnm":
        m = draw(st.integers(4, 20))
        found = vnm(rows, draw(st.integers(1, 5)), v, m, rng)
    else:
        groups = draw(st.integers(1, 8))
        found = hinm(rows, groups, v, draw(st.integers(1, groups)), rng)
    kind_of_float = draw(st.sampled_from(TYPES))
    return Masked(
        found.weight.to(kind_of_float),
        found.mask,
        found.pattern,
        found.rows,
        found.cols,
        found.tiles,
    )
