"""One door to files, folders and dicts."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from permsearch.errors import FileError
from permsearch.io import TensorInfo, TensorSource, open_tensors
from permsearch.io.mapping import MappingSource


def write_shards(folder: Path, *, extra: dict[str, str] | None = None) -> dict[str, np.ndarray]:
    """Write a folder of two shards with an index and return its tensors."""
    arrays = {f"layer.{n}.weight": np.full((2, 4), n, np.float32) for n in range(4)}
    files = {name: f"model-0000{1 + n % 2}-of-00002.safetensors" for n, name in enumerate(arrays)}
    for file in set(files.values()):
        save_file({n: a for n, a in arrays.items() if files[n] == file}, folder / file)
    index = {"metadata": {"total_size": 128}, "weight_map": files | (extra or {})}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return arrays


def test_a_folder_with_an_index(tmp_path: Path) -> None:
    """Shards are found by the index; a file beside them that it does not name is ignored."""
    arrays = write_shards(tmp_path)
    save_file({"layer.0.weight": np.zeros(1)}, tmp_path / "consolidated.safetensors")
    source = open_tensors(tmp_path)
    assert set(source.names()) == set(arrays)
    assert list(source.names()) == sorted(arrays, key=lambda n: (int(n.split(".")[1]) % 2, n))
    for name, array in arrays.items():
        assert source.info(name) == TensorInfo(name, (2, 4), "float32")
        np.testing.assert_array_equal(source.read(name), array)


def test_a_folder_without_an_index(tmp_path: Path) -> None:
    """`model.safetensors` alone counts where it is there, otherwise every file does."""
    save_file({"a": np.zeros(1)}, tmp_path / "part1.safetensors")
    save_file({"b": np.zeros(1)}, tmp_path / "part2.safetensors")
    assert open_tensors(tmp_path).names() == ("a", "b")
    save_file({"c": np.zeros(1)}, tmp_path / "model.safetensors")
    assert open_tensors(tmp_path).names() == ("c",)


def test_a_vanished_shard_is_named(tmp_path: Path) -> None:
    """A shard that the index names and the folder lacks is told before anything is read."""
    write_shards(tmp_path)
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(FileError, match=r"model-00002-of-00002\.safetensors' is missing"):
        open_tensors(tmp_path)


def test_a_tensor_missing_in_its_shard_is_named(tmp_path: Path) -> None:
    """A tensor that the index puts into a shard that lacks it is told."""
    write_shards(tmp_path, extra={"ghost": "model-00001-of-00002.safetensors"})
    with pytest.raises(FileError, match="'ghost' is missing"):
        open_tensors(tmp_path)


@pytest.mark.parametrize("shard", ["../outside.safetensors", "/etc/passwd", ""])
def test_an_index_cannot_leave_its_folder(tmp_path: Path, shard: str) -> None:
    """An index that points elsewhere is refused."""
    write_shards(tmp_path, extra={"x": shard})
    with pytest.raises(FileError, match=r"outside the folder|is missing"):
        open_tensors(tmp_path)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"weight_map": [1]}', '{"weight_map": {"a": 1}}']
)
def test_a_damaged_index_is_told(tmp_path: Path, content: str) -> None:
    """An index that is none is told by its name."""
    (tmp_path / "model.safetensors.index.json").write_text(content)
    with pytest.raises(FileError, match=r"index\.json"):
        open_tensors(tmp_path)


def test_a_name_in_two_files_is_told(tmp_path: Path) -> None:
    """Without an index, a tensor that two files hold is an error, not a coin toss."""
    save_file({"a": np.zeros(1)}, tmp_path / "x.safetensors")
    save_file({"a": np.ones(1)}, tmp_path / "y.safetensors")
    with pytest.raises(FileError, match=r"y\.safetensors: tensor 'a' is also in x\.safetensors"):
        open_tensors(tmp_path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("model.bin", "pickles"),
        ("model.pt", "pickles"),
        ("model.gguf", "unknown kind of file"),
        ("model.safetensor", "unknown kind of file"),
    ],
)
def test_other_kinds_of_files_are_told(tmp_path: Path, name: str, message: str) -> None:
    """A file of another kind is told with the kinds that are read."""
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(FileError, match=message):
        open_tensors(tmp_path / name)


def test_folders_without_tensors_are_told(tmp_path: Path) -> None:
    """A folder of pickles and an empty one are told apart."""
    with pytest.raises(FileError, match=r"no \.safetensors file"):
        open_tensors(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    with pytest.raises(FileError, match="pickled weights only"):
        open_tensors(tmp_path)


def test_a_missing_path_offers_a_near_one(tmp_path: Path) -> None:
    """A misspelt path is told with the nearest name in its folder."""
    save_file({"a": np.zeros(1)}, tmp_path / "minilm.safetensors")
    with pytest.raises(FileError, match=r"Did you mean .*minilm\.safetensors"):
        open_tensors(tmp_path / "minlm.safetensors")


def test_a_dict_of_arrays_and_tensors() -> None:
    """Arrays, lists and torch tensors of any type live together in a dict."""
    torch = pytest.importorskip("torch")
    parameter = torch.nn.Parameter(torch.tensor([[1.5, -2.0]]))
    values = {
        "array": np.ones((2, 2)),
        "list": [[1, 2], [3, 4]],
        "bf16": torch.tensor([[0.1, 0.2]], dtype=torch.bfloat16),
        "parameter": parameter,
    }
    source = open_tensors(values)
    assert isinstance(source, TensorSource)
    assert source.info("bf16") == TensorInfo("bf16", (1, 2), "bfloat16")
    assert source.read("bf16").dtype == np.float32
    assert source.read("bf16").tolist() == values["bf16"].float().tolist()
    assert source.read("parameter").tolist() == [[1.5, -2.0]]
    assert source.info("list").shape == (2, 2)
    assert open_tensors(source) is source


def test_nothing_else_opens() -> None:
    """An array on its own is not a collection of tensors, and the error says what is."""
    with pytest.raises(FileError, match="ndarray; give a path, a mapping"):
        open_tensors(np.ones((2, 2)))  # type: ignore[arg-type]


def test_mappings_are_not_copied() -> None:
    """Opening a dict reads nothing: arrays come back as they are."""
    array = np.ones((2, 2))
    assert MappingSource({"a": array}).read("a") is array


def test_dangling_links_are_told(tmp_path: Path) -> None:
    """A link to nowhere is told as one, with where it points; a loop is told too."""
    (tmp_path / "w.npy").symlink_to("nowhere.npy")
    with pytest.raises(FileError, match=r"w\.npy: a link to nowhere\.npy, which does not exist"):
        open_tensors(tmp_path / "w.npy")
    (tmp_path / "loop.npy").symlink_to("loop.npy")
    with pytest.raises(FileError, match=r"loop\.npy: cannot be read"):
        open_tensors(tmp_path / "loop.npy")


@pytest.mark.parametrize("path", ["x" * 5000, "y" * 300 + ".npy", "a\0b.npy"])
def test_impossible_paths_are_told(path: str) -> None:
    """A path that the system cannot have is an error of ours, cut to what a line holds."""
    with pytest.raises(FileError, match="cannot be read") as caught:
        open_tensors(path)
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize("suffix", [".safetensors", ".npy", ".npz"])
def test_pipes_are_refused_without_waiting(tmp_path: Path, suffix: str) -> None:
    """A pipe in the place of a file is told at once, by itself and in a folder."""
    os.mkfifo(tmp_path / f"pipe{suffix}")
    with pytest.raises(FileError, match="a pipe or a device"):
        open_tensors(tmp_path / f"pipe{suffix}")
    os.mkfifo(tmp_path / "model.safetensors.index.json")
    with pytest.raises(FileError, match="a pipe or a device"):
        open_tensors(tmp_path)
