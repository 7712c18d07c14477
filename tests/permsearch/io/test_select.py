"""Choosing tensors: by name, by what a pattern takes, and never silently."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from permsearch.errors import UnknownName
from permsearch.io import NothingEligible, select
from permsearch.io.mapping import MappingSource
from permsearch.patterns import NM


def source(shapes: Mapping[str, tuple[int, ...]], dtype: str = "float32") -> MappingSource:
    """Return tensors of zeros."""
    return MappingSource({name: np.zeros(shape, dtype) for name, shape in shapes.items()})


CONVOLUTIONS = {
    "0.weight": (10, 3, 3, 3),
    "0.bias": (10,),
    "2.weight": (20, 10, 3, 3),
    "4.weight": (30, 20, 3, 3),
    "7.weight": (7, 30),
}


def test_every_tensor_left_out_has_a_reason() -> None:
    """Of four convolutions and a linear layer 2:4 takes one; the others say why, by name."""
    selection = select(source(CONVOLUTIONS), NM(2, 4))
    assert [info.name for info in selection.chosen] == ["4.weight"]
    reasons = {skip.name: skip.reason for skip in selection.skipped}
    assert reasons.keys() == {"0.weight", "0.bias", "2.weight", "7.weight"}
    assert "3 columns" in reasons["0.weight"]
    assert "10 columns" in reasons["2.weight"]
    assert "30 columns" in reasons["7.weight"]
    assert [s.name for s in selection.surprising()] == ["0.weight", "2.weight", "7.weight"]


def test_groups_run_along_input_channels() -> None:
    """A first convolution of 3 x 7 x 7 is left out although its 2352 entries divide by 4."""
    shapes = {"0.weight": (16, 3, 7, 7), "2.weight": (8, 16, 3, 3)}
    selection = select(source(shapes), NM(2, 4))
    assert [info.name for info in selection.chosen] == ["2.weight"]
    assert "3 columns" in str(selection.skipped[0])


def test_nothing_eligible_is_an_error() -> None:
    """A run that would do nothing is an error that names tensors and reasons."""
    with pytest.raises(NothingEligible, match=r"no tensor can be searched for 1:16: 0\.weight: 3"):
        select(source(CONVOLUTIONS), NM(1, 16))
    with pytest.raises(NothingEligible, match="no tensors at all"):
        select(source({}), NM(2, 4))


def test_padding_makes_tensors_eligible() -> None:
    """With `pad` columns need not divide, unless the mask would keep all that is there."""
    shapes = {"three": (8, 3), "depthwise": (8, 1, 3, 3), "thirty": (7, 30)}
    selection = select(source(shapes), NM(2, 4), pad=True)
    assert [info.name for info in selection.chosen] == ["three", "thirty"]
    assert "1 columns, all of which 2:4 would keep" in str(selection.skipped[0])


@pytest.mark.parametrize("dtype", ["bool", "complex64", "U3", "object"])
def test_what_is_no_real_number_is_left_out(dtype: str) -> None:
    """Tensors that are not real numbers are left out with their type."""
    both = MappingSource({"a": np.zeros((8, 8), dtype), "w": np.zeros((8, 8))})
    selection = select(both, NM(2, 4))
    assert [info.name for info in selection.chosen] == ["w"]
    assert "no real number type" in selection.skipped[0].reason


def test_wide_integers_must_be_asked_for_by_name() -> None:
    """Position tables and packed weights are no weights, unless somebody names one."""
    tensors = source({"position_ids": (1, 512)}, "int64")
    with pytest.raises(NothingEligible, match="ask for it by its full name"):
        select(tensors, NM(2, 4), ["pos*"])
    assert select(tensors, NM(2, 4), ["position_ids"]).chosen[0].name == "position_ids"
    assert select(source({"w": (4, 8)}, "int8"), NM(2, 4)).chosen


def test_globs_choose_in_the_source_order() -> None:
    """Globs choose by name, in the order of the source, each tensor once."""
    tensors = source({"b.weight": (4, 8), "a.weight": (4, 8), "c": (4, 8), "x[0]": (4, 8)})
    chosen = select(tensors, NM(2, 4), ["a*", "*.weight"]).chosen
    assert [info.name for info in chosen] == ["b.weight", "a.weight"]
    assert [info.name for info in select(tensors, NM(2, 4), "x[0]").chosen] == ["x[0]"]


def test_a_glob_that_matches_nothing_offers_near_names() -> None:
    """A glob without a match is an error, even beside one with a match."""
    tensors = source({"encoder.query.weight": (4, 8), "encoder.key.weight": (4, 8)})
    with pytest.raises(UnknownName, match=r"'\*qurey\*'; did you mean 'encoder.query.weight'"):
        select(tensors, NM(2, 4), ["*key*", "*qurey*"])
