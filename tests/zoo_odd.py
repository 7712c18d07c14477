"""Zoo: what forwards do besides layers: products of weights, writes, transforms, losses."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.zoo_base import IDS, IMAGE, ROWS, TOKENS, Fn, Model, weight
from tests.zoo_sequence import heads_of, merged

Conv, Linear = nn.Conv2d, nn.Linear


def two(forward: Any, hidden: int = 8, read: int | None = None, **parts: Any) -> Any:
    """Return a maker of a model with a first layer `a`, a last layer `b`, and weights by shape."""

    def made() -> nn.Module:
        own = {k: weight(*v) if isinstance(v, tuple) else v() for k, v in parts.items()}
        return Fn(forward, a=Linear(6, hidden), b=Linear(read or hidden, 3), **own)

    return made


def inverted(m: Any, x: Any) -> Any:
    """Apply the inverse of a weight times itself: its columns move together for all rows."""
    square = m.w @ m.w.t() + torch.eye(8, dtype=x.dtype)
    return m.b(m.a(x) @ torch.linalg.inv(square))


def written_halves(m: Any, x: Any) -> Any:
    """Write two layers into the halves of a new tensor."""
    h = torch.zeros(3, 8, dtype=x.dtype)
    h[:, :4], h[:, 4:] = m.c(x), m.d(x)
    return m.b(F.relu(h))


def written_input(m: Any, x: Any) -> Any:
    """Write into the input itself."""
    x.mul_(2.0)
    return m.b(F.relu(m.a(x)))


def shifted_in_time(m: Any, x: Any) -> Any:
    """Take some channels from the next position in time."""
    h = m.a(x)
    return m.b(torch.cat([F.pad(h[:, 1:, :2], (0, 0, 0, 1)), h[:, :, 2:]], -1))


def filtered(m: Any, x: Any) -> Any:
    """Multiply by a learnt filter in the frequencies of time."""
    return m.b(torch.fft.irfft(torch.fft.rfft(m.a(x), dim=1) * m.w, n=5, dim=1))


def attended(m: Any, x: Any, q: int, kv: int) -> Any:
    """Attend with several queries for each key."""
    query, key, value = heads_of(m.q(x), q), heads_of(m.k(x), kv), heads_of(m.v(x), kv)
    return m.o(merged(F.scaled_dot_product_attention(query, key, value, enable_gqa=True)))


def copied_keys(m: Any, x: Any) -> Any:
    """Attend with keys and values laid end to end twice."""
    key, value = (heads_of(layer(x), 2).repeat(1, 2, 1, 1) for layer in (m.k, m.v))
    return m.o(merged(F.scaled_dot_product_attention(heads_of(m.q(x), 4), key, value)))


def shared_key(m: Any, x: Any) -> Any:
    """Use the keys as values."""
    key = heads_of(m.k(x), 2)
    return m.o(merged(F.scaled_dot_product_attention(heads_of(m.q(x), 2), key, key)))


def talking(m: Any, x: Any) -> Any:
    """Mix the scores of all heads before the softmax."""
    query, key, value = (heads_of(layer(x), 2) for layer in (m.q, m.k, m.v))
    scores = torch.einsum("hg,bgij->bhij", m.w, query @ key.transpose(-1, -2))
    return m.o(merged(scores.softmax(-1) @ value))


def viewed_weight(m: Any, x: Any) -> Any:
    """Attend with one parameter viewed as three weights."""
    query, key, value = (heads_of(F.linear(x, w), 2) for w in m.w.view(3, 8, 6))
    return m.o(merged(F.scaled_dot_product_attention(query, key, value)))


def dynamic(m: Any, x: Any) -> Any:
    """Convolve by a mixture of kernels."""
    gates = m.g(x.mean((0, 2, 3))).softmax(-1)
    return m.b(F.conv2d(m.a(x), (gates[:, None, None, None, None] * m.w).sum(0)))


def flat(m: Any, x: Any) -> Any:
    """Cut all weights out of one parameter."""
    return F.relu(x @ m.p[:48].view(6, 8)) @ m.p[48:].view(8, 3)


def projections(q: int, kv: int, **more: Any) -> dict[str, Any]:
    """Return the layers of an attention with so many channels."""
    return {"q": Linear(6, q), "k": Linear(6, kv), "v": Linear(6, kv), "o": Linear(q, 3), **more}


def double_complex(*shape: int) -> nn.Parameter:
    """Return a complex parameter."""
    return nn.Parameter(torch.randn(*shape, dtype=torch.complex128))


ODD = {
    "first rows of a table": Model(
        lambda: Fn(
            lambda m, ids: m.o(m.e(ids) + m.p.weight[: ids.shape[1]]),
            e=nn.Embedding(9, 8),
            p=nn.Embedding(7, 8),
            o=Linear(8, 3),
        ),
        (IDS,),
        "8",
    ),
    "channels that nothing reads": Model(
        lambda: Fn(lambda m, x: m.b(F.relu(m.a(x))[:, :5]), a=Linear(6, 8), b=Linear(5, 3)),
        (ROWS,),
        "5",
    ),
    "slopes that training would draw": Model(
        lambda: nn.Sequential(Linear(6, 8), nn.RReLU(), Linear(8, 3)), (ROWS,), "8"
    ),
    "looked up along time": Model(
        two(lambda m, x: m.b(torch.take_along_dim(m.a(x), x.sum(-1, keepdim=True).argsort(1), 1))),
        (TOKENS,),
        "8",
    ),
    "weight times itself": Model(
        two(lambda m, x: m.b(m.a(x) @ (m.w @ m.w.t())), w=(8, 4)), (ROWS,), "8, 4"
    ),
    "inverse of a product": Model(two(inverted, w=(8, 7)), (ROWS,), "7", unknown=True),
    "symmetric weight": Model(
        two(lambda m, x: m.b(m.a(x) @ (m.w + m.w.t())), w=(8, 8)), (ROWS,), "8"
    ),
    "diagonal by einsum": Model(
        two(lambda m, x: m.b(torch.einsum("bi,ii->bi", m.a(x), m.w)), w=(8, 8)), (ROWS,), "8"
    ),
    "einsum with dots": Model(
        two(lambda m, x: m.b(torch.einsum("...i,oi->...o", m.a(x), m.w)), w=(8, 8)),
        (TOKENS,),
        "8, 8",
    ),
    "einsum without arrow": Model(
        two(lambda m, x: m.b(torch.einsum("bi,ic", m.a(x), m.w)), w=(8, 8)), (ROWS,), "8, 8"
    ),
    "tensordot": Model(
        two(lambda m, x: m.b(torch.tensordot(m.a(x), m.w, dims=([2], [0]))), w=(8, 8)),
        (TOKENS,),
        "8, 8",
    ),
    "distances to codes": Model(
        two(lambda m, x: m.b(torch.cdist(m.a(x), m.c)), 8, 5, c=(5, 8)), (ROWS,), "8, 5"
    ),
    "largest channel taken off": Model(
        two(lambda m, x: m.b((h := m.a(x)) - h.max(-1, keepdim=True).values)), (ROWS,), "8"
    ),
    "median channel taken off": Model(
        two(lambda m, x: m.b((h := m.a(x)) - h.median(-1, keepdim=True).values)), (ROWS,), "8"
    ),
    "place of the largest": Model(
        two(lambda m, x: m.b(F.one_hot(m.a(x).argmax(-1), 8).to(x.dtype))), (ROWS,), ""
    ),
    "fourier over time": Model(
        two(lambda m, x: m.b(torch.fft.fft(m.a(x), dim=1).real)), (TOKENS,), "8"
    ),
    "filter over time": Model(two(filtered, w=(3, 8)), (TOKENS,), "8"),
    "squared error": Model(
        two(lambda m, x, y: F.mse_loss(m.b(F.relu(m.a(x))), y)), (ROWS, ROWS[:, :3]), "8"
    ),
    "cross entropy": Model(
        two(lambda m, x, y: F.cross_entropy(m.b(F.relu(m.a(x))), y)),
        (ROWS, torch.tensor([0, 2, 1])),
        "8",
    ),
    "copies along a new axis": Model(
        two(lambda m, x: m.b((m.a(x)[:, None].expand(-1, 4, -1) * m.w).sum(1)), w=(4, 8)),
        (ROWS,),
        "8, 4 in 8",
    ),
    "channels twice": Model(
        two(lambda m, x: m.b(m.a(x).repeat(1, 2)), 8, 16), (ROWS,), "8, 2 in 8"
    ),
    "channels doubled one by one": Model(
        two(lambda m, x: m.b(m.a(x).repeat_interleave(2, 1)), 8, 16), (ROWS,), "8 blocks, 2 in 8"
    ),
    "weight twice": Model(
        lambda: Fn(
            lambda m, x: F.linear(F.relu(m.a(x)), m.w.repeat(1, 2)), a=Linear(6, 8), w=weight(3, 4)
        ),
        (ROWS,),
        "4, 2 in 4",
    ),
    "sum of two weights": Model(
        two(lambda m, x: m.b(F.relu(F.linear(m.a(x), m.u + m.v))), u=(8, 8), v=(8, 8)),
        (ROWS,),
        "8, 8",
    ),
    "weights end to end": Model(
        two(lambda m, x: m.b(F.linear(m.a(x), torch.cat([m.u, m.v]))), u=(3, 8), v=(5, 8)),
        (ROWS,),
        "8, 3, 5",
    ),
    "weights in one parameter": Model(lambda: Fn(flat, p=weight(72)), (ROWS,), "8"),
    "complex weights": Model(
        lambda: Fn(
            lambda m, x: ((x.to(m.w.dtype) @ m.w) @ m.v).real,
            w=double_complex(6, 8),
            v=double_complex(8, 3),
        ),
        (ROWS,),
        "8",
    ),
    "transposed weight reads": Model(
        lambda: Fn(lambda m, x: F.linear(F.relu(m.a(x)), m.a.weight.t()), a=Linear(6, 8)),
        (ROWS,),
        "8",
    ),
    "written into halves": Model(
        lambda: Fn(written_halves, c=Linear(6, 4), d=Linear(6, 4), b=Linear(8, 3)), (ROWS,), "4, 4"
    ),
    "written input": Model(two(written_input), (ROWS,), "8"),
    "shifted in time": Model(two(shifted_in_time), (TOKENS,), "2, 6"),
    "scan over time": Model(two(lambda m, x: m.b(m.a(x).cumsum(1))), (TOKENS,), "8"),
    "rows written by index": Model(
        two(
            lambda m, x: m.b(
                torch.zeros(4, 8, dtype=x.dtype).index_add(0, torch.tensor([0, 1, 0]), m.a(x))
            )
        ),
        (ROWS,),
        "8",
    ),
    "nearest code": Model(
        two(
            lambda m, x: m.b(m.c[((m.a(x)[:, None] - m.c) ** 2).sum(-1).argmin(-1)]),
            c=(5, 8),
        ),
        (ROWS,),
        "8",
    ),
    "groups of an odd number": Model(
        lambda: Fn(
            lambda m, x: m.b(F.relu(m.c(F.relu(m.a(x))))),
            a=Conv(3, 6, 1),
            c=Conv(6, 9, 3, groups=3),
            b=Conv(9, 3, 1),
        ),
        (IMAGE,),
        "2 in 3, 3 in 3, 3 blocks",
    ),
    "norm over space and channels": Model(
        lambda: Fn(
            lambda m, x: m.b(m.n(m.a(x))),
            a=Conv(3, 8, 1),
            n=nn.LayerNorm([8, 8, 8]),
            b=Conv(8, 3, 1),
        ),
        (IMAGE,),
        "8",
    ),
    "standardised kernels": Model(
        lambda: Fn(
            lambda m, x: m.b(F.conv2d(x, m.w - m.w.mean((1, 2, 3), keepdim=True))),
            w=weight(8, 3, 3, 3),
            b=Conv(8, 3, 1),
        ),
        (IMAGE,),
        "8",
    ),
    "mixture of kernels": Model(
        lambda: Fn(
            dynamic, a=Conv(3, 8, 1), g=Linear(3, 4), w=weight(4, 8, 8, 1, 1), b=Conv(8, 3, 1)
        ),
        (IMAGE,),
        "8, 4, 8",
    ),
    "three queries for each of three keys": Model(
        lambda: Fn(lambda m, x: attended(m, x, 9, 3), **projections(36, 12)),
        (TOKENS,),
        "4 in 3, 4 in 3, 3 in 3, 3 blocks",
    ),
    "keys end to end twice": Model(
        lambda: Fn(copied_keys, **projections(16, 8)),
        (TOKENS,),
        "4 in 2, 4 in 2, 2 in 2, 2 blocks",
    ),
    "keys are values": Model(
        lambda: Fn(shared_key, q=Linear(6, 8), k=Linear(6, 8), o=Linear(8, 3)),
        (TOKENS,),
        "4 in 2, 2 blocks",
    ),
    "talking heads": Model(
        lambda: Fn(talking, **projections(8, 8, w=weight(2, 2))),
        (TOKENS,),
        "4 in 2, 4 in 2, 2 blocks, 2 blocks",
    ),
    "one parameter for three weights": Model(
        lambda: Fn(viewed_weight, w=weight(24, 6), o=Linear(8, 3)),
        (TOKENS,),
        "4 in 2, 4 in 2, 2 blocks",
    ),
}
