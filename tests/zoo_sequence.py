"""Zoo: attention, recurrent networks, experts."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.zoo_base import IDS, TOKENS, Fn, Model, weight

Linear = nn.Linear
attend = F.scaled_dot_product_attention


def multihead(m: Any, x: Any) -> Any:
    """Self-attention of torch between two linear layers."""
    h = m.i(x)
    return m.o(m.a(h, h, h)[0])


def cross(m: Any, x: Any, y: Any) -> Any:
    """Attention of one sequence to another, of other widths."""
    return m.o(m.a(m.i(x), m.j(y), m.j(y))[0])


def prenorm(m: Any, x: Any) -> Any:
    """Run a transformer layer that normalises first."""
    x = m.i(x)
    h = m.n1(x)
    x = x + m.a(h, h, h)[0]
    return m.o(x + m.d(F.gelu(m.u(m.n2(x)))))


def heads_of(x: Any, heads: int) -> Any:
    """Split the last dimension into heads."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merged(x: Any) -> Any:
    """Lay heads side by side."""
    return x.transpose(1, 2).flatten(2)


def fused_qkv(m: Any, x: Any) -> Any:
    """Take queries, keys and values from one layer, by a reshape to 3."""
    b, s, _ = x.shape
    q, k, v = m.qkv(x).reshape(b, s, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
    y = (q @ k.transpose(-2, -1) / math.sqrt(4)).softmax(-1) @ v
    return m.o(merged(y))


def split_qkv(m: Any, x: Any) -> Any:
    """Take queries, keys and values from one product with a transposed weight (GPT-2)."""
    qkv = torch.addmm(m.b, x.flatten(0, 1), m.w).view(2, 5, 24)
    q, k, v = (heads_of(t, 2) for t in qkv.split(8, -1))
    return m.o(merged(attend(q, k, v, is_causal=True)))


def per_head_qkv(m: Any, x: Any) -> Any:
    """Each head's queries, keys and values together (BLOOM)."""
    qkv = m.qkv(x).view(2, 5, 2, 3, 4)
    q, k, v = (qkv[..., at, :].transpose(1, 2) for at in range(3))
    return m.o(merged(attend(q, k, v)))


def grouped_queries(m: Any, x: Any) -> Any:
    """Two queries share a key and value, repeated."""
    q, k, v = heads_of(m.q(x), 4), heads_of(m.k(x), 2), heads_of(m.v(x), 2)
    k, v = (t.repeat_interleave(2, 1) for t in (k, v))
    return m.o(merged(attend(q, k, v)))


def grouped_by_flag(m: Any, x: Any) -> Any:
    """Two queries share a key and value, by the operator's own flag."""
    q, k, v = heads_of(m.q(x), 4), heads_of(m.k(x), 2), heads_of(m.v(x), 2)
    return m.o(merged(attend(q, k, v, enable_gqa=True)))


def one_key(m: Any, x: Any) -> Any:
    """All queries share one key and value."""
    q, k, v = heads_of(m.q(x), 4), m.k(x)[:, None], m.v(x)[:, None]
    return m.o(merged(attend(q, k.expand(-1, 4, -1, -1), v.expand(-1, 4, -1, -1))))


def rotated(x: Any) -> Any:
    """Turn halves of a head by the position."""
    half = x.shape[-1] // 2
    at = torch.outer(torch.arange(5.0), 10 ** -torch.arange(0, 1, 1 / half)).to(x.dtype)
    cos, sin = at.cos().repeat(1, 2), at.sin().repeat(1, 2)
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


def turned_pairs(x: Any) -> Any:
    """Turn neighbouring pairs of a head by the position."""
    half = x.shape[-1] // 2
    at = torch.outer(torch.arange(5.0), 10 ** -torch.arange(0, 1, 1 / half)).to(x.dtype)
    a, b = x[..., ::2], x[..., 1::2]
    pair = [a * at.cos() - b * at.sin(), a * at.sin() + b * at.cos()]
    return torch.stack(pair, -1).flatten(-2)


def rotary(m: Any, x: Any) -> Any:
    """Attention with rotated queries and keys."""
    q, k, v = (heads_of(part(x), 2) for part in (m.q, m.k, m.v))
    return m.o(merged(attend(m.turn(q), m.turn(k), v)))


def part_rotary(m: Any, x: Any) -> Any:
    """Only the first half of each head is rotated."""
    q, k, v = (heads_of(part(x), 2) for part in (m.q, m.k, m.v))
    q, k = (torch.cat([rotated(t[..., :4]), t[..., 4:]], -1) for t in (q, k))
    return m.o(merged(attend(q, k, v)))


def normed_heads(m: Any, x: Any) -> Any:
    """Normalise queries and keys with one scale for all heads."""
    q, k, v = (heads_of(part(x), 2) for part in (m.q, m.k, m.v))
    return m.o(merged(attend(m.nq(q), m.nk(k), v)))


def biased_heads(m: Any, x: Any) -> Any:
    """Every head has a learnt bias for each distance."""
    q, k, v = (heads_of(part(x), 2) for part in (m.q, m.k, m.v))
    far = (torch.arange(5)[:, None] - torch.arange(5)[None]).abs()
    bias = m.table(far).permute(2, 0, 1)
    return m.o(merged(attend(q, k, v, attn_mask=bias[None])))


def sloped_heads(m: Any, x: Any) -> Any:
    """Every head has a fixed slope (ALiBi), so that heads cannot change places."""
    q, k, v = (heads_of(part(x), 2) for part in (m.q, m.k, m.v))
    far = (torch.arange(5)[:, None] - torch.arange(5)[None]).abs().to(x.dtype)
    slopes = torch.tensor([0.5, 0.25], dtype=x.dtype)[:, None, None]
    return m.o(merged(attend(q, k, v, attn_mask=-(slopes * far)[None])))


def linear_attention(m: Any, x: Any) -> Any:
    """Attention without softmax."""
    q, k, v = (heads_of(part(x), 2) for part in (m.q, m.k, m.v))
    q, k = F.elu(q) + 1, F.elu(k) + 1
    y = q @ (k.transpose(-1, -2) @ v) / (q * k.sum(2, keepdim=True)).sum(-1, keepdim=True)
    return m.o(merged(y))


def llama(m: Any, x: Any) -> Any:
    """Run a LLaMA block: RMS norms, grouped queries, rotary, SwiGLU."""
    x = m.i(x)
    h = m.n1(x)
    q, k, v = heads_of(m.q(h), 4), heads_of(m.k(h), 2), heads_of(m.v(h), 2)
    k, v = (t[:, :, None].expand(2, 2, 2, 5, 4).reshape(2, 4, 5, 4) for t in (rotated(k), v))
    x = x + m.o(merged(attend(rotated(q), k, v, is_causal=True)))
    h = m.n2(x)
    return m.head(x + m.down(F.silu(m.gate(h)) * m.up(h)))


def vit(m: Any, x: Any) -> Any:
    """Patches, a class token, positions, one layer, the class token's logits."""
    h = m.patch(x).flatten(2).transpose(1, 2)
    h = torch.cat([m.cls.expand(2, -1, -1), h], 1) + m.pos
    y = m.n(h)
    h = h + m.a(y, y, y, need_weights=False)[0]
    return m.head(h[:, 0])


def bert(m: Any, ids: Any) -> Any:
    """Three embeddings, a norm, one layer."""
    at = torch.arange(ids.shape[1])
    h = m.n(m.word(ids) + m.place(at) + m.kind(torch.zeros_like(ids)))
    q, k, v = (heads_of(part(h), 2) for part in (m.q, m.k, m.v))
    return m.head(h + m.o(merged(attend(q, k, v))))


def last_state(m: Any, x: Any) -> Any:
    """Read the last hidden state of the first layer and the last cell of the second."""
    _, (h, c) = m.l(x)
    return m.a(h[0]) + m.b(c[1])


def unrolled(m: Any, x: Any) -> Any:
    """Step a cell by hand from zero states."""
    h = x.new_zeros(2, 8)
    c = x.new_zeros(2, 8)
    for step in range(5):
        h, c = m.cell(x[:, step], (h, c))
    return m.o(h)


def stepped(m: Any, x: Any) -> Any:
    """Step a GRU cell by hand from a learnt state."""
    h = m.start.expand(2, -1)
    for step in range(5):
        h = m.cell(x[:, step], h)
    return m.o(h)


def chosen_experts(m: Any, x: Any) -> Any:
    """Weigh two experts by the largest of their gates."""
    gates = m.gate(x).softmax(-1)
    best = (gates == gates.amax(-1, keepdim=True)).to(x.dtype) * gates
    found = [m.d0(F.relu(m.u0(x))), m.d1(F.relu(m.u1(x)))]
    return found[0] * best[..., :1] + found[1] * best[..., 1:]


def latents(m: Any, x: Any) -> Any:
    """Learnt latents attend to the input (Perceiver)."""
    q = heads_of(m.q(m.latent.expand(2, -1, -1)), 2)
    k, v = heads_of(m.k(x), 2), heads_of(m.v(x), 2)
    return m.o(merged(attend(q, k, v)).mean(1))


def qkv_parts(q: int = 8, kv: int = 8, **more: Any) -> dict[str, Any]:
    """Return the four layers of an attention on 6 channels."""
    parts = {"q": Linear(6, q), "k": Linear(6, kv), "v": Linear(6, kv), "o": Linear(q, 3)}
    return {**parts, **more}


def rnn(layer: nn.Module, width: int) -> Any:
    """Return a maker of a recurrent layer between two linear ones."""
    import copy

    return lambda: Fn(
        lambda m, x: m.o(m.l(m.i(x))[0]), i=Linear(6, 8), l=copy.deepcopy(layer), o=Linear(width, 3)
    )


IMAGES = torch.arange(384, dtype=torch.float64).reshape(2, 3, 8, 8).sin()

SEQUENCE = {
    "multi-head attention": Model(
        lambda: Fn(
            multihead,
            i=Linear(6, 8),
            a=nn.MultiheadAttention(8, 2, batch_first=True),
            o=Linear(8, 3),
        ),
        (TOKENS,),
        "8, 8, 4 in 2, 4 in 2, 2 blocks",
    ),
    "cross attention": Model(
        lambda: Fn(
            cross,
            i=Linear(6, 8),
            j=Linear(6, 10),
            a=nn.MultiheadAttention(8, 2, kdim=10, vdim=10, batch_first=True),
            o=Linear(8, 3),
        ),
        (TOKENS, TOKENS.flip(1)),
        "8, 10, 8, 4 in 2, 4 in 2, 2 blocks",
    ),
    "pre-norm layer": Model(
        lambda: Fn(
            prenorm,
            i=Linear(6, 8),
            n1=nn.LayerNorm(8),
            a=nn.MultiheadAttention(8, 2, batch_first=True),
            n2=nn.LayerNorm(8),
            u=Linear(8, 16),
            d=Linear(16, 8),
            o=Linear(8, 3),
        ),
        (TOKENS,),
        "8, 16, 4 in 2, 4 in 2, 2 blocks",
    ),
    "nn.TransformerEncoder": Model(
        lambda: Fn(
            lambda m, x: m.o(m.e(m.i(x))),
            i=Linear(6, 6),
            e=nn.TransformerEncoder(
                nn.TransformerEncoderLayer(6, 2, 16, batch_first=True),
                2,
                enable_nested_tensor=False,
            ),
            o=Linear(6, 3),
        ),
        (TOKENS,),
        "6, 16, 3 in 2, 3 in 2, 2 blocks, 16, 3 in 2, 3 in 2, 2 blocks",
    ),
    "nn.TransformerDecoderLayer": Model(
        lambda: Fn(
            lambda m, x, y: m.o(m.d(m.i(x), m.j(y))),
            i=Linear(6, 8),
            j=Linear(6, 8),
            d=nn.TransformerDecoderLayer(8, 2, 12, batch_first=True),
            o=Linear(8, 3),
        ),
        (TOKENS, TOKENS.flip(1)),
        "8, 8, 12, 4 in 2, 4 in 2, 2 blocks, 4 in 2, 4 in 2, 2 blocks",
    ),
    "fused qkv": Model(
        lambda: Fn(fused_qkv, qkv=Linear(6, 24), o=Linear(8, 3)),
        (TOKENS,),
        "4 in 2, 4 in 2, 2 blocks",
    ),
    "split qkv": Model(
        lambda: Fn(split_qkv, w=weight(6, 24), b=weight(24), o=Linear(8, 3)),
        (TOKENS,),
        "4 in 2, 4 in 2, 2 blocks",
    ),
    "qkv by head": Model(
        lambda: Fn(per_head_qkv, qkv=Linear(6, 24), o=Linear(8, 3)),
        (TOKENS,),
        "4 in 2, 4 in 2, 2 blocks",
    ),
    "grouped queries": Model(
        lambda: Fn(grouped_queries, **qkv_parts(16, 8)),
        (TOKENS,),
        "4 in 2, 4 in 2, 2 in 2, 2 blocks",
    ),
    "grouped queries by flag": Model(
        lambda: Fn(grouped_by_flag, **qkv_parts(16, 8)),
        (TOKENS,),
        "4 in 2, 4 in 2, 2 in 2, 2 blocks",
    ),
    "one key for all": Model(lambda: Fn(one_key, **qkv_parts(16, 4)), (TOKENS,), "4, 4, 4 blocks"),
    "rotary": Model(
        lambda: Fn(rotary, turn=rotated, **qkv_parts(16, 16)), (TOKENS,), "8 in 2, 2 blocks"
    ),
    "rotary by pairs": Model(
        lambda: Fn(rotary, turn=turned_pairs, **qkv_parts(16, 16)), (TOKENS,), "8 in 2, 2 blocks"
    ),
    "rotary in part": Model(
        lambda: Fn(part_rotary, **qkv_parts(16, 16)), (TOKENS,), "8 in 2, 4 in 2, 2 blocks"
    ),
    "normed queries and keys": Model(
        lambda: Fn(normed_heads, nq=nn.RMSNorm(4), nk=nn.RMSNorm(4), **qkv_parts()),
        (TOKENS,),
        "4 in 2, 4, 2 blocks",
    ),
    "learnt bias by head": Model(
        lambda: Fn(biased_heads, table=nn.Embedding(5, 2), **qkv_parts()),
        (TOKENS,),
        "4 in 2, 4 in 2, 2 blocks",
    ),
    "slope by head": Model(lambda: Fn(sloped_heads, **qkv_parts()), (TOKENS,), "4 in 2, 4 in 2"),
    "linear attention": Model(
        lambda: Fn(linear_attention, **qkv_parts()), (TOKENS,), "4 in 2, 4 in 2, 2 blocks"
    ),
    "latents": Model(
        lambda: Fn(latents, latent=weight(3, 7), **{**qkv_parts(), "q": Linear(7, 8)}),
        (TOKENS,),
        "3, 7, 4 in 2, 4 in 2, 2 blocks",
    ),
    "llama block": Model(
        lambda: Fn(
            llama,
            i=Linear(6, 12),
            n1=nn.RMSNorm(12),
            n2=nn.RMSNorm(12),
            q=Linear(12, 16, bias=False),
            k=Linear(12, 8, bias=False),
            v=Linear(12, 8, bias=False),
            o=Linear(16, 12, bias=False),
            gate=Linear(12, 20),
            up=Linear(12, 20),
            down=Linear(20, 12),
            head=Linear(12, 3),
        ),
        (TOKENS,),
        "12, 20, 4 in 2, 2 in 2, 2 blocks",
    ),
    "vit": Model(
        lambda: Fn(
            vit,
            patch=nn.Conv2d(3, 8, 4, 4),
            cls=weight(1, 1, 8),
            pos=weight(1, 5, 8),
            n=nn.LayerNorm(8),
            a=nn.MultiheadAttention(8, 2, batch_first=True),
            head=Linear(8, 3),
        ),
        (IMAGES,),
        "8, 4 in 2, 4 in 2, 2 blocks",
    ),
    "bert": Model(
        lambda: Fn(
            bert,
            word=nn.Embedding(9, 8),
            place=nn.Embedding(7, 8),
            kind=nn.Embedding(2, 8),
            n=nn.LayerNorm(8),
            q=Linear(8, 8),
            k=Linear(8, 8),
            v=Linear(8, 8),
            o=Linear(8, 8),
            head=Linear(8, 3),
        ),
        (IDS,),
        "8, 4 in 2, 4 in 2, 2 blocks",
    ),
    "lstm": Model(rnn(nn.LSTM(8, 12, batch_first=True), 12), (TOKENS,), "8, 12"),
    "lstm, two layers": Model(rnn(nn.LSTM(8, 12, 2, batch_first=True), 12), (TOKENS,), "8, 12, 12"),
    "lstm, both directions": Model(
        rnn(nn.LSTM(8, 12, bidirectional=True, batch_first=True), 24), (TOKENS,), "8, 12, 12"
    ),
    "lstm with projection": Model(
        rnn(nn.LSTM(8, 12, proj_size=5, batch_first=True), 5), (TOKENS,), "8, 12, 5"
    ),
    "lstm, last states": Model(
        lambda: Fn(
            last_state, l=nn.LSTM(6, 8, 2, batch_first=True), a=Linear(8, 3), b=Linear(8, 3)
        ),
        (TOKENS,),
        "8, 8",
    ),
    "gru": Model(rnn(nn.GRU(8, 12, batch_first=True), 12), (TOKENS,), "8, 12"),
    "gru, both directions, two layers": Model(
        rnn(nn.GRU(8, 12, 2, bidirectional=True, batch_first=True), 24),
        (TOKENS,),
        "8, 12, 12, 12, 12",
    ),
    "plain recurrent": Model(rnn(nn.RNN(8, 12, batch_first=True), 12), (TOKENS,), "8, 12"),
    "lstm cell": Model(
        lambda: Fn(unrolled, cell=nn.LSTMCell(6, 8), o=Linear(8, 3)), (TOKENS,), "8"
    ),
    "gru cell": Model(
        lambda: Fn(stepped, cell=nn.GRUCell(6, 8), start=weight(1, 8), o=Linear(8, 3)),
        (TOKENS,),
        "8",
    ),
    "two experts": Model(
        lambda: Fn(
            chosen_experts,
            gate=Linear(6, 2),
            u0=Linear(6, 8),
            d0=Linear(8, 3),
            u1=Linear(6, 8),
            d1=Linear(8, 3),
        ),
        (TOKENS,),
        "8, 8",
    ),
}
