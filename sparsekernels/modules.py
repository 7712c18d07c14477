"""Layers over packed weights, to put where `torch.nn.Linear` and `Conv2d` were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from sparsekernels.errors import PackError
from sparsekernels.formats.base import PackedWeight
from sparsekernels.functional import conv2d_of, linear_of, window_of
from sparsekernels.ops.cuda import with_words
from sparsekernels.ops.operands import Gathered, Operands, Picked
from sparsekernels.ops.windows import in_groups

_FLOATS = ("values", "overlay")


class _SparseLayer(nn.Module):
    """A packed weight as parameters (values, overlay) and buffers (indices), and a bias.

    The operands are stored rather than the format's own tensors, so that a call computes nothing
    about places; `packed` puts the format together again.
    """

    def __init__(self, packed: PackedWeight, bias: Tensor | None) -> None:
        super().__init__()
        if bias is not None and tuple(bias.shape) != packed.shape[:1]:
            raise PackError(
                f"a bias of shape {tuple(bias.shape)} does not fit {packed.shape[0]} outputs."
            )
        self._op_colptr: Tensor
        self._op_cols: Any
        self._op_rowptr: Tensor
        self._op_rows: Any
        self._op_overlay_ptr: Tensor | None
        self._op_overlay_cols: Tensor | None
        self._op_meta: Tensor
        self._op_words: Tensor | None
        self.overlay: Tensor
        self._kind, self._pattern, self._shape = type(packed), packed.pattern, packed.shape
        self._numbers = packed.numbers()
        self._names = tuple(packed.tensors())
        for name, tensor in packed.tensors().items():
            if name in _FLOATS:
                self.register_parameter(name, nn.Parameter(tensor.detach().clone()))
            else:
                self.register_buffer(name, tensor)
        self._operand_type = type(self._derive(packed))
        self._numbers_of_operands: dict[str, int] = {}
        self.set_operands(packed)
        self.bias = None if bias is None else nn.Parameter(bias.detach().clone())
        self.values: Tensor
        self.register_load_state_dict_post_hook(_operands_again)  # type: ignore[no-untyped-call]

    @property
    def packed(self) -> PackedWeight:
        """The packed weight as it is now; shares the layer's tensors."""
        parts = {name: getattr(self, name).detach() for name in self._names}
        return self._kind.from_parts(self._pattern, self._shape, parts, self._numbers)

    def _derive(self, packed: PackedWeight) -> Operands:
        """Return the operands as this layer's operator takes them."""
        return packed.operands

    def set_operands(self, packed: PackedWeight) -> None:
        """Keep what the operator takes: numbers, and tensors not stored with the weights."""
        for name, value in (
            with_words(self._derive(packed), packed.values.shape[-1])._asdict().items()
        ):
            if isinstance(value, int):
                self._numbers_of_operands[name] = value
            elif name not in _FLOATS:
                self.register_buffer(f"_op_{name}", value, persistent=False)

    @property
    def operands(self) -> Operands:
        """What the operator takes beside values, with the parameters' overlay in place."""
        numbers = self._numbers_of_operands
        if self._operand_type is Gathered:
            overlay = self.overlay if self._op_overlay_ptr is not None else None
            places = (self._op_colptr, self._op_cols, self._op_rowptr, self._op_rows)
            single = (self._op_overlay_ptr, self._op_overlay_cols, overlay)
            return Gathered(*places, *single, numbers["height"])
        sizes = (numbers["n"], numbers["m"], numbers["bits"], numbers["share"])
        return Picked(self._op_meta, self._op_cols, self._op_rows, *sizes, self._op_words)

    def extra_repr(self) -> str:
        """Return pattern, shape and bias for print."""
        size = ", ".join(map(str, self._shape))
        return f"{self._pattern}, ({size}), bias={self.bias is not None}"


def _operands_again(layer: _SparseLayer, incompatible: Any) -> None:
    """Derive the operands anew from loaded indices, which are checked on the way."""
    del incompatible
    layer.set_operands(layer.packed)


class SparseLinear(_SparseLayer):
    """A linear layer whose weight is packed.

    Parameters
    ----------
    packed
        A packed matrix; its values become a parameter.
    bias
        (out,) or None.

    Examples
    --------
    >>> import torch, sparsekernels as sk
    >>> weight = torch.eye(8).repeat(1, 2)
    >>> layer = sk.SparseLinear(sk.pack(weight, weight != 0, "1:8"))
    >>> layer(torch.ones(1, 16)).detach()
    tensor([[2., 2., 2., 2., 2., 2., 2., 2.]])
    """

    def __init__(self, packed: PackedWeight, bias: Tensor | None = None) -> None:
        if len(packed.shape) != 2:
            raise PackError(f"SparseLinear takes a matrix, got a weight of shape {packed.shape}.")
        super().__init__(packed, bias)
        self.out_features, self.in_features = packed.shape

    def forward(self, x: Tensor) -> Tensor:
        """Return x W' + bias."""
        return linear_of(x, self.values, self.operands, self._shape, self.bias)


class SparseConv2d(_SparseLayer):
    """A two-dimensional convolution whose weight is packed.

    Parameters
    ----------
    packed
        A packed weight (out, in / groups, kh, kw).
    bias
        (out,) or None.
    stride, padding, dilation, groups
        As for `torch.nn.Conv2d`; padding is zeros.

    Examples
    --------
    >>> import torch, sparsekernels as sk
    >>> weight = torch.tensor([[5.0, 0.0, 2.0, 0.0]]).reshape(1, 4, 1, 1)
    >>> layer = sk.SparseConv2d(sk.pack(weight, None, "2:4"), stride=2)
    >>> layer(torch.ones(1, 4, 4, 4)).shape
    torch.Size([1, 1, 2, 2])
    """

    def __init__(
        self,
        packed: PackedWeight,
        bias: Tensor | None = None,
        *,
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
    ) -> None:
        if len(packed.shape) != 4:
            raise PackError(f"SparseConv2d takes four axes, got a weight of shape {packed.shape}.")
        self.groups = groups
        super().__init__(packed, bias)
        self.window = window_of(packed.shape, stride, padding, dilation)
        self.out_channels, self.in_channels = packed.shape[0], packed.shape[1] * groups

    def _derive(self, packed: PackedWeight) -> Operands:
        return in_groups(packed.operands, packed.values, packed.shape, self.groups)

    def forward(self, x: Tensor) -> Tensor:
        """Return the convolution."""
        shape = (self.out_channels, self.in_channels)
        return conv2d_of(x, self.values, self.operands, shape, self.bias, self.window)


def sparse_like(layer: nn.Module, packed: PackedWeight) -> nn.Module:
    """Return the packed counterpart of a `torch.nn.Linear` or `Conv2d`, with its bias.

    Raises
    ------
    PackError
        When there is none, with the reason.
    """
    if isinstance(layer, nn.Linear):
        return SparseLinear(packed, layer.bias).train(layer.training)
    if isinstance(layer, nn.Conv2d):
        if layer.padding_mode != "zeros":
            raise PackError(
                f"padding_mode={layer.padding_mode!r} is not supported; only zeros are."
            )
        new = SparseConv2d(
            packed,
            layer.bias,
            stride=layer.stride,
            padding=_padding(layer),
            dilation=layer.dilation,
            groups=layer.groups,
        )
        return new.train(layer.training)
    raise PackError(f"a {type(layer).__name__} has no packed counterpart.")


def _padding(layer: nn.Conv2d) -> tuple[int, ...]:
    if not isinstance(layer.padding, str):
        return tuple(layer.padding)
    if layer.padding == "valid":
        return 0, 0
    totals = [d * (k - 1) for d, k in zip(layer.dilation, layer.kernel_size, strict=True)]
    if any(total % 2 for total in totals):
        raise PackError("padding='same' of an even kernel pads unevenly; pad before the layer.")
    return tuple(total // 2 for total in totals)
