"""Zoo: convolutional networks."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.zoo_base import IMAGE, ROWS, TOKENS, Fn, Model, weight

Conv, Linear, Seq = nn.Conv2d, nn.Linear, nn.Sequential


def pooled(x: Any) -> Any:
    """Average over space."""
    return x.mean((2, 3))


def basic_block(m: Any, x: Any) -> Any:
    """Two residual blocks, the second with a projection on its shortcut."""
    h = F.relu(m.n0(m.stem(x)))
    h = F.relu(h + m.b2(m.c2(F.relu(m.b1(m.c1(h))))))
    h = F.relu(m.short(h) + m.b4(m.c4(F.relu(m.b3(m.c3(h))))))
    return m.fc(pooled(h))


def resnet() -> nn.Module:
    """Build the basic blocks of a ResNet."""
    norm = nn.BatchNorm2d
    return Fn(
        basic_block,
        stem=Conv(3, 8, 3, padding=1, bias=False),
        n0=norm(8),
        c1=Conv(8, 8, 3, padding=1),
        b1=norm(8),
        c2=Conv(8, 8, 3, padding=1),
        b2=norm(8),
        c3=Conv(8, 12, 3, 2, 1),
        b3=norm(12),
        c4=Conv(12, 12, 3, padding=1),
        b4=norm(12),
        short=Seq(Conv(8, 12, 1, 2), norm(12)),
        fc=Linear(12, 5),
    )


def bottleneck(m: Any, x: Any) -> Any:
    """Run a bottleneck on a stream of 16."""
    h = m.stem(x)
    h = h + m.c3(F.relu(m.n2(m.c2(F.relu(m.n1(m.c1(h)))))))
    return m.fc(pooled(F.relu(h)))


def mobile(m: Any, x: Any) -> Any:
    """Run an inverted residual with a depthwise convolution and squeeze and excitation."""
    h = m.stem(x)
    y = F.silu(m.n1(m.e(h)))
    y = F.silu(m.n2(m.d(y)))
    y = y * torch.sigmoid(m.s2(F.silu(m.s1(F.adaptive_avg_pool2d(y, 1)))))
    return m.fc(pooled(h + m.n3(m.p(y))))


def inverted() -> nn.Module:
    """Build a block of EfficientNet."""
    norm = nn.BatchNorm2d
    return Fn(
        mobile,
        stem=Conv(3, 8, 3, padding=1),
        e=Conv(8, 24, 1),
        n1=norm(24),
        d=Conv(24, 24, 3, padding=1, groups=24),
        n2=norm(24),
        s1=Conv(24, 6, 1),
        s2=Conv(6, 24, 1),
        p=Conv(24, 8, 1),
        n3=norm(8),
        fc=Linear(8, 5),
    )


def unet(m: Any, x: Any) -> Any:
    """One level down and up again, with a skip connection."""
    a = F.relu(m.a(x))
    b = F.relu(m.b(F.max_pool2d(a, 2)))
    return m.o(F.relu(m.c(torch.cat([m.up(b), a], 1))))


def inception(m: Any, x: Any) -> Any:
    """Branches side by side."""
    h = F.relu(m.stem(x))
    found = [m.a(h), m.b2(F.relu(m.b1(h))), m.c(F.max_pool2d(h, 3, 1, 1))]
    return m.o(F.relu(torch.cat(found, 1)))


def densenet(m: Any, x: Any) -> Any:
    """Layers that read the concatenation of all before."""
    h = m.a(x)
    h = torch.cat([h, m.b(F.relu(m.n1(h)))], 1)
    h = torch.cat([h, m.c(F.relu(m.n2(h)))], 1)
    return m.o(pooled(m.n3(h)))


def shuffle_by_view(m: Any, x: Any) -> Any:
    """Channel shuffle written out."""
    h = F.relu(m.a(x)).view(2, 2, 4, 8, 8).transpose(1, 2).reshape(2, 8, 8, 8)
    return m.b(h)


def convnext(m: Any, x: Any) -> Any:
    """Run a block with its norm and linear layers on the last dimension."""
    h = m.stem(x)
    y = m.dw(h).permute(0, 2, 3, 1)
    y = m.gamma * m.down(F.gelu(m.up(m.norm(y))))
    return m.o(pooled(h + y.permute(0, 3, 1, 2)))


def film(m: Any, x: Any, code: Any) -> Any:
    """Scale and shift channels by another network."""
    scale, shift = m.c(code).chunk(2, -1)
    h = m.a(x) * (1 + scale[..., None, None]) + shift[..., None, None]
    return m.b(F.relu(h))


def spatial_gate(m: Any, x: Any) -> Any:
    """Gate positions by statistics over all channels."""
    h = m.a(x)
    stats = torch.cat([h.mean(1, keepdim=True), h.amax(1, keepdim=True)], 1)
    return m.b(h * torch.sigmoid(m.g(stats)))


def mixer(m: Any, x: Any) -> Any:
    """Mix tokens, then channels."""
    h = m.i(x)
    h = h + m.t2(F.gelu(m.t1(m.n1(h).transpose(1, 2)))).transpose(1, 2)
    return m.o(h + m.c2(F.gelu(m.c1(m.n2(h)))))


def viewed_as_map(m: Any, x: Any) -> Any:
    """Take a linear layer for an image."""
    return m.u2(F.relu(m.u1(F.relu(m.fc(x)).view(-1, 8, 2, 2))))


def patches(m: Any, x: Any) -> Any:
    """Read patches of the hidden image by a linear layer."""
    return m.b(F.unfold(m.a(x), 2, stride=2).transpose(1, 2))


def depth_to_space(m: Any, x: Any) -> Any:
    """Pixel shuffle written out."""
    h = m.a(x).view(2, 4, 2, 2, 8, 8).permute(0, 1, 4, 2, 5, 3).reshape(2, 4, 16, 16)
    return m.b(h)


def seq(*layers: nn.Module) -> Any:
    """Return a maker of a sequence; the layers are made again under the seed."""
    import copy

    return lambda: fresh_(copy.deepcopy(Seq(*layers)))


def fresh_(model: nn.Module) -> nn.Module:
    """Draw the parameters anew."""
    for part in model.modules():
        if hasattr(part, "reset_parameters"):
            part.reset_parameters()
    return model


def between(forward: Any, first: int = 8, last: int | None = None, **parts: Any) -> Any:
    """Return a maker of a model of two pointwise convolutions `a` and `b`."""
    return lambda: Fn(forward, a=Conv(3, first, 1), b=Conv(last or first, 3, 1), **parts)


VISION = {
    "vgg": Model(
        seq(
            Conv(3, 8, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            Conv(8, 12, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            Linear(48, 10),
            nn.ReLU(),
            Linear(10, 3),
        ),
        (IMAGE,),
        "8, 12 blocks, 10",
    ),
    "flatten after pooling": Model(
        seq(Conv(3, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), Linear(8, 3)), (IMAGE,), "8"
    ),
    "resnet": Model(resnet, (IMAGE,), "8, 8, 12, 12"),
    "bottleneck": Model(
        lambda: Fn(
            bottleneck,
            stem=Conv(3, 16, 1),
            c1=Conv(16, 4, 1),
            n1=nn.BatchNorm2d(4),
            c2=Conv(4, 4, 3, padding=1),
            n2=nn.BatchNorm2d(4),
            c3=Conv(4, 16, 1),
            fc=Linear(16, 5),
        ),
        (IMAGE,),
        "16, 4, 4",
    ),
    "inverted residual": Model(inverted, (IMAGE,), "8, 24, 6"),
    "grouped": Model(
        seq(Conv(3, 16, 3), nn.ReLU(), Conv(16, 8, 3, groups=4), nn.ReLU(), Conv(8, 3, 1)),
        (IMAGE,),
        "4 in 4, 2 in 4, 4 blocks",
    ),
    "depthwise with multiplier": Model(
        seq(Conv(3, 8, 1), Conv(8, 16, 3, groups=8), nn.ReLU(), Conv(16, 3, 1)),
        (IMAGE,),
        "8 blocks, 2 in 8",
    ),
    "transposed": Model(
        seq(Conv(3, 8, 3), nn.ReLU(), nn.ConvTranspose2d(8, 12, 2, 2), Conv(12, 3, 1)),
        (IMAGE,),
        "8, 12",
    ),
    "transposed, grouped": Model(
        seq(Conv(3, 8, 1), nn.ConvTranspose2d(8, 6, 2, 2, groups=2), Conv(6, 3, 1)),
        (IMAGE,),
        "4 in 2, 3 in 2, 2 blocks",
    ),
    "one dimension": Model(
        seq(nn.Conv1d(5, 8, 3, padding="same"), nn.BatchNorm1d(8), nn.ReLU(), nn.Conv1d(8, 3, 1)),
        (TOKENS,),
        "8",
    ),
    "three dimensions": Model(
        seq(nn.Conv3d(2, 8, 3), nn.BatchNorm3d(8), nn.ReLU(), nn.Conv3d(8, 3, 1)),
        (torch.arange(288, dtype=torch.float64).reshape(1, 2, 4, 6, 6).sin(),),
        "8",
    ),
    "one output channel": Model(
        seq(Conv(3, 16, 3), nn.BatchNorm2d(16), Conv(16, 8, 2, 2), Conv(8, 1, 1)), (IMAGE,), "16, 8"
    ),
    "batch norm": Model(
        seq(Conv(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), Conv(16, 3, 1)), (IMAGE,), "16"
    ),
    "synchronised batch norm": Model(
        seq(Conv(3, 16, 3), nn.SyncBatchNorm(16), nn.ReLU(), Conv(16, 3, 1)), (IMAGE,), "16"
    ),
    "instance norm": Model(
        seq(
            Conv(3, 16, 3),
            nn.InstanceNorm2d(16, affine=True, track_running_stats=True),
            Conv(16, 3, 1),
        ),
        (IMAGE,),
        "16",
    ),
    "group norm": Model(
        seq(Conv(3, 16, 3), nn.GroupNorm(4, 16), nn.ReLU(), Conv(16, 3, 1)),
        (IMAGE,),
        "4 in 4, 4 blocks",
    ),
    "local response norm": Model(
        seq(Conv(3, 16, 1), nn.LocalResponseNorm(3), Conv(16, 3, 1)), (IMAGE,), ""
    ),
    "slope for each channel": Model(
        seq(Conv(3, 16, 3), nn.PReLU(16), Conv(16, 3, 1)), (IMAGE,), "16"
    ),
    "one slope": Model(seq(Conv(3, 16, 3), nn.PReLU(), Conv(16, 3, 1)), (IMAGE,), "16"),
    "pool, pad, interpolate": Model(
        seq(
            Conv(3, 8, 3),
            nn.MaxPool2d(2),
            nn.ZeroPad2d(1),
            nn.Upsample(scale_factor=2),
            Conv(8, 16, 3),
            nn.AvgPool2d(2),
            nn.ReflectionPad2d(1),
            nn.Upsample(scale_factor=2, mode="bilinear"),
            Conv(16, 3, 1),
        ),
        (IMAGE,),
        "8, 16",
    ),
    "padded channels": Model(
        between(lambda m, x: m.b(F.pad(m.a(x), (0, 0, 0, 0, 2, 2))), 8, 12), (IMAGE,), "8, 2, 2"
    ),
    "densenet": Model(
        lambda: Fn(
            densenet,
            a=Conv(3, 8, 1),
            n1=nn.BatchNorm2d(8),
            b=Conv(8, 4, 3, padding=1),
            n2=nn.BatchNorm2d(12),
            c=Conv(12, 4, 3, padding=1),
            n3=nn.BatchNorm2d(16),
            o=Linear(16, 3),
        ),
        (IMAGE,),
        "8, 4, 4",
    ),
    "u-net": Model(
        lambda: Fn(
            unet,
            a=Conv(3, 8, 3, padding=1),
            b=Conv(8, 12, 3, padding=1),
            up=nn.ConvTranspose2d(12, 6, 2, 2),
            c=Conv(14, 10, 1),
            o=Conv(10, 2, 1),
        ),
        (IMAGE,),
        "8, 12, 6, 10",
    ),
    "inception": Model(
        lambda: Fn(
            inception,
            stem=Conv(3, 8, 1),
            a=Conv(8, 4, 1),
            b1=Conv(8, 5, 1),
            b2=Conv(5, 6, 3, padding=1),
            c=Conv(8, 7, 1),
            o=Conv(17, 3, 1),
        ),
        (IMAGE,),
        "8, 4, 5, 6, 7",
    ),
    "channel shuffle by view": Model(between(shuffle_by_view), (IMAGE,), "8"),
    "channel shuffle": Model(
        seq(Conv(3, 8, 1, groups=1), nn.ChannelShuffle(2), Conv(8, 8, 1, groups=2), Conv(8, 3, 1)),
        (IMAGE,),
        "4 in 2, 2 blocks, 4 in 2",
    ),
    "pixel shuffle": Model(
        seq(Conv(3, 16, 3), nn.PixelShuffle(2), Conv(4, 6, 3)), (IMAGE,), "4 blocks"
    ),
    "pixel unshuffle": Model(
        seq(Conv(3, 4, 1), nn.PixelUnshuffle(2), Conv(16, 6, 3)), (IMAGE,), "4 blocks"
    ),
    "pixel shuffle by view": Model(between(depth_to_space, 16, 4), (IMAGE,), "4 blocks"),
    "rolled channels": Model(between(lambda m, x: m.b(m.a(x).roll(1, 1))), (IMAGE,), ""),
    "linear layer seen as image": Model(
        lambda: Fn(
            viewed_as_map,
            fc=Linear(6, 32),
            u1=nn.ConvTranspose2d(8, 6, 4, 2, 1),
            u2=nn.ConvTranspose2d(6, 4, 4, 2, 1),
        ),
        (ROWS,),
        "8 blocks, 6",
    ),
    "patches": Model(lambda: Fn(patches, a=Conv(3, 8, 1), b=Linear(32, 3)), (IMAGE,), "8 blocks"),
    "convnext": Model(
        lambda: Fn(
            convnext,
            stem=Conv(3, 8, 2, 2),
            dw=Conv(8, 8, 3, padding=1, groups=8),
            norm=nn.LayerNorm(8),
            up=Linear(8, 20),
            down=Linear(20, 8),
            gamma=weight(8),
            o=Linear(8, 3),
        ),
        (IMAGE,),
        "8, 20",
    ),
    "film": Model(
        lambda: Fn(film, c=Linear(6, 16), a=Conv(3, 8, 1), b=Conv(8, 3, 1)),
        (IMAGE, ROWS[:2]),
        "8",
    ),
    "spatial gate": Model(between(spatial_gate, g=Conv(2, 1, 3, padding=1)), (IMAGE,), "8"),
    "mixer": Model(
        lambda: Fn(
            mixer,
            i=Linear(6, 8),
            n1=nn.LayerNorm(8),
            t1=Linear(5, 7),
            t2=Linear(7, 5),
            n2=nn.LayerNorm(8),
            c1=Linear(8, 12),
            c2=Linear(12, 8),
            o=Linear(8, 3),
        ),
        (TOKENS,),
        "8, 7, 12",
    ),
}
