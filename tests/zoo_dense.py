"""Zoo: networks of linear layers, and all that can stand between two of them."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.zoo_base import IDS, ROWS, TOKENS, Fn, Model, weight

Linear = nn.Linear


def mlp() -> nn.Module:
    """Two hidden layers."""
    return nn.Sequential(Linear(6, 16), nn.ReLU(), Linear(16, 12), nn.GELU(), Linear(12, 3))


def activations() -> nn.Module:
    """Put a hidden layer behind each activation."""
    kinds = (nn.Tanh, nn.SiLU, nn.ELU, nn.Mish, nn.Hardswish, nn.Softplus, nn.LeakyReLU, nn.CELU)
    layers = [part for kind in kinds for part in (Linear(8, 8), kind())]
    return nn.Sequential(Linear(6, 8), *layers, Linear(8, 3))


def residual() -> nn.Module:
    """Two residual branches on one stream."""

    def run(m: Any, x: Any) -> Any:
        h = m.i(x)
        h = h + m.d1(F.relu(m.u1(m.n1(h))))
        return m.o(h + m.gamma * m.d2(F.gelu(m.u2(m.n2(h)))))

    return Fn(
        run,
        i=Linear(6, 8),
        n1=nn.LayerNorm(8),
        n2=nn.RMSNorm(8),
        u1=Linear(8, 16),
        d1=Linear(16, 8),
        u2=Linear(8, 12),
        d2=Linear(12, 8),
        gamma=weight(8),
        o=Linear(8, 3),
    )


def tied() -> nn.Module:
    """Two square layers with one weight: input and output axes are one."""
    m = Fn(
        lambda m, x: m.o(m.b(F.relu(m.a(m.i(x))))),
        i=Linear(6, 7),
        a=Linear(7, 7),
        b=Linear(7, 7),
        o=Linear(7, 3),
    )
    m.b.weight = m.a.weight
    return m


def tied_embedding() -> nn.Module:
    """Make an output head that is the embedding."""

    def run(m: Any, ids: Any) -> Any:
        h = m.e(ids)
        return m.head(h + m.down(F.gelu(m.up(m.norm(h)))))

    m = Fn(
        run,
        e=nn.Embedding(9, 16),
        norm=nn.LayerNorm(16),
        up=Linear(16, 32),
        down=Linear(32, 16),
        head=Linear(16, 9, bias=False),
    )
    m.head.weight = m.e.weight
    return m


def experts(m: Any, x: Any) -> Any:
    """Run all experts, weighted by a gate."""
    hidden = F.relu(torch.einsum("bi,eih->beh", x, m.up))
    return torch.einsum("beh,eho,be->bo", hidden, m.down, F.softmax(m.gate(x), -1))


def batched(m: Any, x: Any) -> Any:
    """Run all experts by batched products, and add them up."""
    hidden = F.gelu(torch.bmm(x.expand(4, -1, -1), m.up))
    return torch.bmm(hidden, m.down).sum(0)


def looped(m: Any, x: Any) -> Any:
    """Run experts one after another, each a slice of stacked weights."""
    return sum(F.relu(x @ m.up[at]) @ m.down[at] for at in range(3))


def hyper(m: Any, x: Any) -> Any:
    """Use a weight that a layer makes from a code."""
    made = m.g(m.z).view(8, 6)
    return m.o(F.relu(F.linear(x, made)))


def branch(m: Any, x: Any) -> Any:
    """Choose a reader by the data."""
    h = F.relu(m.a(x))
    return m.b(h) if x.sum() > 0 else m.c(h)


def cond(m: Any, x: Any) -> Any:
    """Choose a reader by torch.cond."""
    return torch.cond(x.sum() > 0, lambda h: m.b(h), lambda h: m.c(h), (F.relu(m.a(x)),))


def flag(m: Any, x: Any) -> Any:
    """Choose a reader by a flag that the capture takes as it is."""
    h = F.relu(m.a(x))
    return m.c(h) if m.other else m.b(h)


def maxout(m: Any, x: Any) -> Any:
    """Keep the larger of each pair."""
    return m.b(m.a(x).view(3, 16, 2).amax(-1))


def with_mask(m: Any, x: Any) -> Any:
    """Multiply by a saved buffer, which moves along."""
    return m.b(m.a(x) * m.mask)


def masked() -> nn.Module:
    """Make a hidden layer with a buffer of the state dict."""
    m = Fn(with_mask, a=Linear(6, 8), b=Linear(8, 3))
    m.register_buffer("mask", torch.rand(8))
    return m


def with_constant(m: Any, x: Any) -> Any:
    """Multiply by a constant, which cannot be saved in another order."""
    return m.b(m.a(x) * torch.arange(8.0).to(x.dtype))


def lora(m: Any, x: Any) -> Any:
    """Add a low-rank update to the hidden layer."""
    return m.o(F.relu(m.w(x) + m.up(m.down(x))))


def halves(m: Any, x: Any) -> Any:
    """Two chunks of one layer with readers of their own."""
    a, b = m.a(x).chunk(2, -1)
    return m.d(F.relu(m.c(a * torch.sigmoid(b))))


def pieces(m: Any, x: Any) -> Any:
    """Two unequal pieces of one layer."""
    a, b = m.a(x).split([5, 11], -1)
    return m.c(F.relu(a)) + m.d(torch.tanh(b))


def dense(m: Any, x: Any) -> Any:
    """Every layer reads all earlier ones."""
    h = F.relu(m.a(x))
    h = torch.cat([h, F.relu(m.b(h))], -1)
    return m.o(torch.cat([h, F.relu(m.c(h))], -1))


def outer(m: Any, x: Any) -> Any:
    """Flatten all products of two hidden layers."""
    return m.o((m.a(x)[:, :, None] * m.b(x)[:, None, :]).flatten(1))


def spectral() -> nn.Module:
    """Put a spectral norm on the hidden layer."""
    first = nn.utils.parametrizations.spectral_norm(Linear(6, 8))
    return nn.Sequential(first, nn.ReLU(), Linear(8, 3))


def weight_normed() -> nn.Module:
    """Put a weight norm on both layers."""
    norm = nn.utils.parametrizations.weight_norm
    return nn.Sequential(norm(Linear(6, 8)), nn.ReLU(), norm(Linear(8, 3)))


def two(forward: Any, hidden: int = 8, read: int | None = None, **parts: Any) -> Any:
    """Return a maker of a model with a first layer `a` and a last layer `b`."""
    return lambda: Fn(forward, a=Linear(6, hidden), b=Linear(read or hidden, 3), **parts)


DENSE = {
    "mlp": Model(mlp, (ROWS,), "16, 12"),
    "mlp on tokens": Model(mlp, (TOKENS,), "16, 12"),
    "activations": Model(activations, (ROWS,), ", ".join(["8"] * 9)),
    "dropout": Model(two(lambda m, x: m.b(F.dropout(m.a(x), 0.5, m.training))), (ROWS,), "8"),
    "softmax over channels": Model(two(lambda m, x: m.b(F.softmax(m.a(x), -1))), (ROWS,), "8"),
    "log-sum-exp gate": Model(
        two(lambda m, x: m.b(m.a(x) - m.a(x).logsumexp(-1, keepdim=True))), (ROWS,), "8"
    ),
    "batch norm 1d": Model(
        lambda: nn.Sequential(Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), Linear(16, 3)),
        (ROWS,),
        "16",
    ),
    "layer norm": Model(
        lambda: nn.Sequential(Linear(6, 16), nn.LayerNorm(16), Linear(16, 3)), (ROWS,), "16"
    ),
    "rms norm": Model(
        lambda: nn.Sequential(Linear(6, 16), nn.RMSNorm(16), Linear(16, 3)), (ROWS,), "16"
    ),
    "rms norm by hand": Model(
        two(
            lambda m, x: m.b(m.g * (h := m.a(x)) * torch.rsqrt(h.pow(2).mean(-1, True) + 1e-6)),
            g=weight(8),
        ),
        (ROWS,),
        "8",
    ),
    "functional group norm": Model(
        two(lambda m, x: m.b(F.group_norm(m.a(x), 4)), 16), (ROWS,), "4 in 4, 4 blocks"
    ),
    "glu": Model(lambda: nn.Sequential(Linear(6, 32), nn.GLU(), Linear(16, 3)), (ROWS,), "16"),
    "swiglu, two layers": Model(
        lambda: Fn(
            lambda m, x: m.d(F.silu(m.g(h := m.i(x))) * m.u(h)),
            i=Linear(6, 12),
            g=Linear(12, 16),
            u=Linear(12, 16),
            d=Linear(16, 3),
        ),
        (ROWS,),
        "12, 16",
    ),
    "swiglu, fused": Model(
        lambda: Fn(
            lambda m, x: m.d(F.silu((gu := m.gu(x).chunk(2, -1))[0]) * gu[1]),
            gu=Linear(6, 32),
            d=Linear(16, 3),
        ),
        (ROWS,),
        "16",
    ),
    "swiglu, sliced": Model(
        two(lambda m, x: m.b(F.silu((h := m.a(x))[..., :8]) * h[..., 8:]), 16, 8), (ROWS,), "8"
    ),
    "residual": Model(residual, (TOKENS,), "8, 16, 12"),
    "input skip": Model(
        lambda: Fn(
            lambda m, x: m.c(F.relu(m.b(x + m.a(x)))),
            a=Linear(6, 6),
            b=Linear(6, 12),
            c=Linear(12, 3),
        ),
        (ROWS,),
        "12",
    ),
    "hidden is output": Model(
        lambda: Fn(
            lambda m, x: ((h := m.a(x)), m.c(F.relu(m.b(h)))),
            a=Linear(6, 8),
            b=Linear(8, 12),
            c=Linear(12, 3),
        ),
        (ROWS,),
        "12",
    ),
    "two branches": Model(
        lambda: Fn(
            lambda m, hidden: m.c(F.relu(m.a(hidden))) + m.d(torch.tanh(m.b(hidden))),
            a=Linear(6, 8),
            b=Linear(6, 8),
            c=Linear(8, 3),
            d=Linear(8, 3),
        ),
        (ROWS,),
        "8, 8",
    ),
    "names that collide": Model(
        lambda: Fn(
            lambda m, x: m.out(F.relu(m.fc11(F.relu(m.fc1(x))))),
            fc1=nn.Sequential(Linear(6, 8), Linear(8, 12)),
            fc11=Linear(12, 16),
            out=Linear(16, 3),
        ),
        (ROWS,),
        "8, 12, 16",
    ),
    "concatenation": Model(
        lambda: Fn(
            lambda m, x: m.f(torch.cat([m.a(x), m.b(x)], dim=-1)),
            a=Linear(6, 8),
            b=Linear(6, 12),
            f=Linear(20, 3),
        ),
        (ROWS,),
        "8, 12",
    ),
    "concatenation with itself": Model(
        two(lambda m, x: m.b(torch.cat([h := m.a(x), h], -1)), 8, 16), (ROWS,), "8"
    ),
    "dense connections": Model(
        lambda: Fn(dense, a=Linear(6, 8), b=Linear(8, 4), c=Linear(12, 4), o=Linear(16, 3)),
        (ROWS,),
        "8, 4, 4",
    ),
    "stack and mean": Model(
        lambda: Fn(
            lambda m, x: m.o(torch.stack([m.a(x), m.b(x)], 1).mean(1)),
            a=Linear(6, 8),
            b=Linear(6, 8),
            o=Linear(8, 3),
        ),
        (ROWS,),
        "8",
    ),
    "stack and unbind": Model(
        lambda: Fn(
            lambda m, x: m.c((s := torch.stack([m.a(x), m.b(x)], 1))[:, 0]) + m.d(s[:, 1]),
            a=Linear(6, 8),
            b=Linear(6, 8),
            c=Linear(8, 3),
            d=Linear(8, 3),
        ),
        (ROWS,),
        "8, 8",
    ),
    "halves": Model(
        lambda: Fn(halves, a=Linear(6, 16), c=Linear(8, 16), d=Linear(16, 3)), (ROWS,), "8, 16"
    ),
    "unequal pieces": Model(
        lambda: Fn(pieces, a=Linear(6, 16), c=Linear(5, 3), d=Linear(11, 3)), (ROWS,), "5, 11"
    ),
    "sum of two slices": Model(
        two(lambda m, x: m.b((h := m.a(x))[:, :8] + h[:, 8:]), 16, 8), (ROWS,), "8"
    ),
    "every second channel": Model(
        two(lambda m, x: m.b((h := m.a(x))[:, ::2] * h[:, 1::2]), 16, 8), (ROWS,), "8 blocks"
    ),
    "maxout": Model(
        lambda: Fn(maxout, a=Linear(6, 32), b=Linear(16, 3)), (ROWS,), "16 blocks, 2 in 16"
    ),
    "products of two layers": Model(
        lambda: Fn(outer, a=Linear(6, 4), b=Linear(6, 5), o=Linear(20, 3)), (ROWS,), "4 blocks, 5"
    ),
    "einsum": Model(
        lambda: Fn(
            lambda m, x: torch.einsum("bh,ho->bo", F.relu(torch.einsum("bi,hi->bh", x, m.a)), m.b),
            a=weight(8, 6),
            b=weight(8, 3),
        ),
        (ROWS,),
        "8",
    ),
    "bilinear": Model(
        lambda: Fn(
            lambda m, x: m.w(m.a(x), m.c(x)), a=Linear(6, 4), c=Linear(6, 5), w=nn.Bilinear(4, 5, 3)
        ),
        (ROWS,),
        "4, 5",
    ),
    "all experts": Model(
        lambda: Fn(experts, up=weight(4, 6, 8), down=weight(4, 8, 3), gate=Linear(6, 4)),
        (ROWS,),
        "4, 8 in 4",
    ),
    "experts by batches": Model(
        lambda: Fn(batched, up=weight(4, 6, 8), down=weight(4, 8, 3)), (ROWS,), "4, 8 in 4"
    ),
    "experts in a loop": Model(
        lambda: Fn(looped, up=weight(3, 6, 8), down=weight(3, 8, 3)), (ROWS,), "8, 8, 8"
    ),
    "low-rank update": Model(
        lambda: Fn(lora, w=Linear(6, 8), down=Linear(6, 2), up=Linear(2, 8), o=Linear(8, 3)),
        (ROWS,),
        "2, 8",
    ),
    "cosine of two towers": Model(
        lambda: Fn(
            lambda m, x, y: F.cosine_similarity(m.b(F.relu(m.a(x))), m.c(y), -1),
            a=Linear(6, 8),
            b=Linear(8, 5),
            c=Linear(6, 5),
        ),
        (ROWS, ROWS.flip(0)),
        "8, 5",
    ),
    "made weight": Model(
        lambda: Fn(hyper, g=Linear(4, 48), z=weight(4), o=Linear(8, 3)), (ROWS,), "4, 8 blocks"
    ),
    "tied weights": Model(tied, (ROWS,), "7"),
    "tied embedding": Model(tied_embedding, (IDS,), "16, 32"),
    "called twice": Model(
        lambda: Fn(
            lambda m, x: m.o(m.a(F.relu(m.a(m.i(x))))),
            i=Linear(6, 8),
            a=Linear(8, 8),
            o=Linear(8, 3),
        ),
        (ROWS,),
        "8",
    ),
    "embedding": Model(
        lambda: nn.Sequential(nn.Embedding(9, 16), Linear(16, 8), nn.ReLU(), Linear(8, 3)),
        (IDS,),
        "16, 8",
    ),
    "embedding bag": Model(
        lambda: nn.Sequential(nn.EmbeddingBag(9, 16), nn.ReLU(), Linear(16, 3)), (IDS,), "16"
    ),
    "weight norm": Model(weight_normed, (ROWS,), "8"),
    "spectral norm": Model(spectral, (ROWS,), "8"),
    "saved buffer": Model(masked, (ROWS,), "8"),
    "constant along channels": Model(two(with_constant), (ROWS,), ""),
    "branch on data": Model(
        lambda: Fn(branch, a=Linear(6, 8), b=Linear(8, 3), c=Linear(8, 3)), (ROWS,), "8"
    ),
    "cond": Model(lambda: Fn(cond, a=Linear(6, 8), b=Linear(8, 3), c=Linear(8, 3)), (ROWS,), "8"),
    "branch on a flag": Model(
        lambda: Fn(flag, a=Linear(6, 8), b=Linear(8, 3), c=Linear(8, 3), other=False),
        (ROWS,),
        "",
        unread=True,
    ),
    "cumulative sum": Model(two(lambda m, x: m.b(m.a(x).cumsum(-1))), (ROWS,), ""),
    "sorted": Model(two(lambda m, x: m.b(m.a(x).sort(-1).values)), (ROWS,), ""),
    "flipped": Model(two(lambda m, x: m.b(m.a(x).flip(-1))), (ROWS,), ""),
    "looked up": Model(two(lambda m, x: m.b(m.a(x)[:, [3, 1, 2, 0, 7, 5, 6, 4]])), (ROWS,), ""),
    "fourier": Model(two(lambda m, x: m.b(torch.fft.fft(m.a(x)).real)), (ROWS,), ""),
    "tokens become channels": Model(
        two(lambda m, x: m.b(F.relu(m.a(x)).transpose(1, 2).reshape(2, 5, 8))), (TOKENS,), ""
    ),
}
