"""Packed weights in files: they come back whole, or the damage is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

import sparsekernels as sk
from tests.sparsekernels import drawn

PUBLISHED = """4
4
2
2
2
0
0 1 2
0 1
1 2 1 2 3 1 1 2
"""  # the small example of the published kernels' documentation


def generator(seed: int = 0) -> torch.Generator:
    """Return a seeded generator."""
    return torch.Generator().manual_seed(seed)


@given(st.lists(drawn.masked(), min_size=1, max_size=3))
def test_files_give_back_everything(cases: list[drawn.Masked]) -> None:
    """Any formats, several in a file: every tensor, number and pattern comes back."""
    import tempfile

    weights = {f"layer.{place}.weight": case.pack() for place, case in enumerate(cases)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "packed.safetensors"
        sk.save_packed(weights, path)
        assert [file.name for file in Path(folder).iterdir()] == [path.name]
        found = sk.load_packed(path)
    assert list(found) == list(weights)
    for name, weight in weights.items():
        again = found[name]
        assert type(again) is type(weight)
        assert (again.pattern, again.shape) == (weight.pattern, weight.shape)
        assert again.numbers() == weight.numbers()
        for part, tensor in weight.tensors().items():
            assert torch.equal(again.tensors()[part], tensor)
            assert again.tensors()[part].dtype == tensor.dtype


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file with one packed weight of each kind of indices."""
    weights = {
        "a": drawn.vector(16, 12, 8, 3, generator()).pack(),
        "b": drawn.vnm(16, 2, 8, 8, generator()).pack(),
    }
    sk.save_packed(weights, tmp_path / "w.safetensors")
    return tmp_path / "w.safetensors"


@pytest.mark.parametrize("keep", [0, 5, 40, 400, -1])
def test_a_cut_file_is_told(path: Path, keep: int) -> None:
    """However much is missing, the file is named."""
    content = path.read_bytes()
    path.write_bytes(content[:keep])
    with pytest.raises(sk.PackedFileError, match=r"w\.safetensors is damaged"):
        sk.load_packed(path)


def test_any_altered_tensor_is_told(path: Path) -> None:
    """One changed number in any tensor is found, and the weight named."""
    about = _about(path)
    for key in load_file(path):
        tensors = load_file(path)
        flat = tensors[key].reshape(-1)
        flat[-1] = flat[-1] + 1
        changed = path.with_name("changed.safetensors")
        save_file(tensors, changed, about)
        with pytest.raises(sk.PackedFileError, match=f"tensors of {key[0]} were altered"):
            sk.load_packed(changed)


def test_wrong_indices_are_refused_even_with_a_right_sum(path: Path) -> None:
    """Indices that point outside never reach a kernel."""
    from sparsekernels import files

    tensors, about = load_file(path), _about(path)
    tensors["a/indices"][0] = 12
    told = json.loads(about["weights"])
    parts = {key[2:]: tensor for key, tensor in tensors.items() if key[0] == "a"}
    told["a"]["sum"] = files._sum(parts)
    save_file(tensors, path, {"format": about["format"], "weights": json.dumps(told)})
    with pytest.raises(sk.PackedFileError, match=r"outside 0\.\.11"):
        sk.load_packed(path)


def test_other_files_are_told(tmp_path: Path) -> None:
    """A missing file, and one of plain tensors."""
    with pytest.raises(sk.PackedFileError, match="does not exist"):
        sk.load_packed(tmp_path / "none.safetensors")
    save_file({"w": torch.ones(2)}, tmp_path / "plain.safetensors")
    with pytest.raises(sk.PackedFileError, match="no packed weights"):
        sk.load_packed(tmp_path / "plain.safetensors")


def _about(path: Path) -> dict[str, str]:
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        return dict(file.metadata())


def test_the_published_example_reads() -> None:
    """The documented text is the documented matrix, and is written the same."""
    weight = sk.load_text(PUBLISHED)
    expected = torch.tensor([[1.0, 1, 0, 0], [2, 2, 0, 0], [0, 0, 3, 1], [0, 0, 1, 2]])
    assert torch.equal(weight.unpack(), expected)
    assert sk.dump_text(weight).replace(".0", "") == PUBLISHED


@given(st.integers(0, 99), st.booleans(), st.sampled_from([torch.float32, torch.float16]))
def test_text_gives_back_every_bit(seed: int, blocks: bool, kind: torch.dtype) -> None:
    """Vectors and blocks, with row ids: the same weight, and flag 1 where ids follow."""
    rng = generator(seed)
    case = drawn.vector(16, 9, 4, 3, rng)
    if blocks:
        case = drawn.block(16, 12, 4, 3, rng)
        plain = case.mask[:, case.cols]
        case = drawn.Masked(case.weight, plain, case.pattern, case.rows)
    packed = sk.pack(case.weight.to(kind), case.mask, case.pattern, case.rows)
    text = sk.dump_text(packed)
    assert text.split("\n")[5] == "1"
    assert torch.equal(sk.load_text(text, kind).unpack(), packed.unpack())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "4 4 2",
        PUBLISHED.replace("2\n2\n0", "3\n2\n0"),
        PUBLISHED + "1",
        PUBLISHED.replace("0 1 2", "0 3 2"),
        PUBLISHED.replace("\n0 1\n", "\n0 2\n"),
        PUBLISHED.replace("2\n0\n0", "2\n7\n0"),
        PUBLISHED.replace("2\n0\n0", "2\n1\n0") + "0 0 1 2",
        "x" + PUBLISHED,
    ],
)
def test_broken_texts_are_told(text: str) -> None:
    """Missing, surplus and impossible numbers."""
    with pytest.raises(sk.PackedFileError, match="no dumped matrix"):
        sk.load_text(text)


def test_what_the_text_cannot_say_is_refused() -> None:
    """Padding, convolutions and column orders."""
    with pytest.raises(sk.PackError, match="no padding"):
        sk.dump_text(drawn.vector(15, 9, 4, 3, generator()).pack())
    with pytest.raises(sk.PackError, match="column order"):
        sk.dump_text(drawn.block(16, 12, 4, 3, generator()).pack())
    conv = sk.pack(torch.ones(4, 2, 1, 1), None, "vector:4@1")
    with pytest.raises(sk.PackError, match="convolutions"):
        sk.dump_text(conv)
