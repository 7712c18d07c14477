"""Reading and writing `.safetensors`: equal to the reference implementation, hostile files told."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from permsearch.errors import FileError, UnknownName
from permsearch.io.safetensors_file import SafetensorsFile
from permsearch.io.safetensors_write import Piece, write_safetensors

NUMPY_TYPES = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"]
NAMES = ["plain", "a.b/c", "../up", "größe 重み", "x" * 300, ' "quoted" ', "line\nbreak"]

reused = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)


def raw(header: Any, data: bytes = b"", *, length: int | None = None) -> bytes:
    """Return the bytes of a file with any header at all."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def opened(tmp_path: Path, content: bytes) -> SafetensorsFile:
    """Write bytes to a file and open it."""
    path = tmp_path / "w.safetensors"
    path.write_bytes(content)
    return SafetensorsFile.open(path)


def entry(shape: list[int], begin: int, end: int, dtype: str = "F32") -> dict[str, Any]:
    """Return a tensor's entry in a header."""
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.mark.parametrize("length", [640, 1152])
def test_a_header_whose_length_starts_like_a_pickle(tmp_path: Path, length: int) -> None:
    """Headers of 0x280 and 0x480 bytes are lengths, not the magic of another file."""
    text = json.dumps({"w": entry([1], 0, 4)}).encode().ljust(length)
    assert raw(text)[:2] in (b"\x80\x02", b"\x80\x04")
    assert opened(tmp_path, raw(text, b"\0" * 4)).info("w").shape == (1,)


@pytest.mark.parametrize("kind", NUMPY_TYPES)
def test_reads_what_the_reference_wrote(
    tmp_path: Path, rng: np.random.Generator, kind: str
) -> None:
    """Every numpy type comes back bit for bit, with the names and shapes it was saved under."""
    arrays = {
        name: (rng.standard_normal((3, 5, 2)) * 50).astype(kind)[: n % 4]
        for n, name in enumerate(NAMES)
    }
    save_file(arrays, tmp_path / "w.safetensors", metadata={"format": "np"})
    source = SafetensorsFile.open(tmp_path / "w.safetensors")
    assert set(source.names()) == set(NAMES)
    assert source.metadata == {"format": "np"}
    for name, array in arrays.items():
        info = source.info(name)
        assert (info.shape, info.dtype) == (array.shape, array.dtype.name)
        back = source.read(name)
        assert back.dtype == array.dtype
        np.testing.assert_array_equal(back, array)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float16"])
def test_narrow_floats_equal_torchs(tmp_path: Path, name: str) -> None:
    """Every bit pattern of a narrow float is read as the float32 that torch makes of it."""
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file as save_torch

    dtype = getattr(torch, name)
    bits = 8 * dtype.itemsize
    codes = np.arange(2**bits, dtype=f"u{bits // 8}").view(f"i{bits // 8}")
    tensor = torch.from_numpy(codes).view(dtype)
    save_torch({"w": tensor}, tmp_path / "w.safetensors")
    source = SafetensorsFile.open(tmp_path / "w.safetensors")
    assert source.info("w").dtype == name
    np.testing.assert_array_equal(source.read("w").astype(np.float32), tensor.float().numpy())


def test_names_come_in_the_order_of_their_data(tmp_path: Path) -> None:
    """Reading in the order of `names` goes through the file once, from front to back."""
    header = {"b": entry([1], 0, 4), "a": entry([1], 4, 8)}
    assert opened(tmp_path, raw(header, b"\0" * 8)).names() == ("b", "a")


def test_a_read_touches_one_tensor_only(tmp_path: Path) -> None:
    """A tensor is read from a file whose other data cannot fit into memory."""
    rest = 1 << 40
    header = {"w": entry([2], 0, 8), "huge": entry([rest // 4], 8, 8 + rest)}
    path = tmp_path / "w.safetensors"
    path.write_bytes(raw(header, np.array([1, 2], "<f4").tobytes()))
    with path.open("r+b") as file:
        try:
            file.truncate(path.stat().st_size + rest)  # sparse: takes no space
        except OSError:
            pytest.skip("this file system has no sparse files of a terabyte")
    assert SafetensorsFile.open(path).read("w").tolist() == [1, 2]


def test_an_empty_table_is_no_error(tmp_path: Path) -> None:
    """A file without tensors is valid and holds none."""
    assert opened(tmp_path, raw({})).names() == ()


def test_an_unknown_name_offers_near_ones(tmp_path: Path) -> None:
    """A misspelt tensor is told with its file and the nearest names."""
    source = opened(tmp_path, raw({"layer.weight": entry([1], 0, 4)}, b"\0" * 4))
    with pytest.raises(UnknownName, match=r"w\.safetensors.*layer\.weigth.*did you mean.*weight"):
        source.read("layer.weigth")


HOSTILE = {
    "empty file": (b"", "0 bytes"),
    "too short": (b"\x01\x00", "2 bytes"),
    "header beyond the end": (raw({}, length=500), r"should take 500 bytes and 2 are there"),
    "absurd length": (b"\xff" * 16, "not a safetensors file.*18,446,744,073,709,551,615"),
    "not JSON": (raw(b"{nonsense}"), "not JSON"),
    "not UTF-8": (raw(b'{"\xff": 1}'), "not JSON"),
    "deep nesting": (raw(b"[" * 100_000), "not JSON"),
    "huge number": (raw(b'{"a": ' + b"9" * 10_000 + b"}"), "not JSON"),
    "not a table": (raw([1, 2]), "list, not a table"),
    "entry is no table": (raw({"a": 3}), "'a': its header entry is not a table"),
    "name twice": (raw(b'{"a": {}, "a": {}}'), "'a' stands twice"),
    "lone surrogate": (raw(b'{"\\ud800": {}}'), "not valid Unicode"),
    "metadata of numbers": (raw({"__metadata__": {"a": 1}}), "__metadata__"),
    "unknown type": (raw({"a": entry([1], 0, 4, "F99")}, b"\0" * 4), "'a': unknown number type"),
    "negative shape": (raw({"a": entry([-1], 0, 4)}, b"\0" * 4), r"'a': shape \[-1\]"),
    "shape of booleans": (raw({"a": entry([True], 0, 4)}, b"\0" * 4), "'a': shape"),
    "offsets backwards": (raw({"a": entry([1], 4, 0)}, b"\0" * 4), r"data_offsets \[4, 0\]"),
    "three offsets": (
        raw({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 4]}}, b"\0" * 4),
        "data_offsets",
    ),
    "wrong size": (raw({"a": entry([2], 0, 4)}, b"\0" * 4), "takes 8 bytes, the header gives it 4"),
    "product beyond 64 bits": (raw({"a": entry([2**40] * 4, 0, 4)}, b"\0" * 4), "takes .* bytes"),
    "rank beyond numpy's": (
        raw({"a": entry([1] * 100, 0, 4)}, b"\0" * 4),
        r"'a': no .*\(100 axes\)",
    ),
    "empty and absurd": (raw({"a": entry([2**62, 0], 0, 0)}), "'a': no array can have the shape"),
    "overlap": (
        raw({"a": entry([2], 0, 8), "b": entry([2], 4, 12)}, b"\0" * 12),
        "'b' overlaps .* byte 8, found 4",
    ),
    "gap": (raw({"a": entry([1], 0, 4), "b": entry([1], 8, 12)}, b"\0" * 12), "'b' leaves a gap"),
    "truncated data": (raw({"a": entry([4], 0, 16)}, b"\0" * 15), "truncated: tensor 'a'"),
    "trailing bytes": (raw({"a": entry([1], 0, 4)}, b"\0" * 9), "5 bytes follow the last tensor"),
    "git LFS pointer": (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
    "zip": (b"PK\x03\x04" + b"\0" * 40, "torch.save"),
    "pickle": (pickle.dumps({"weight": [1.0]}, protocol=2), "never loaded"),
    "pickle of protocol 4": (pickle.dumps({"weight": [1.0]}, protocol=4), "never loaded"),
    "numpy array": (b"\x93NUMPY\x01\0" + b"\0" * 40, r"give the file the ending \.npy"),
    "web page": (b"<!DOCTYPE html><html>", "web page"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_are_told(tmp_path: Path, case: str) -> None:
    """Each kind of damage gives an error that names the file and what is wrong with it."""
    content, message = HOSTILE[case]
    with pytest.raises(FileError, match=message) as caught:
        opened(tmp_path, content)
    assert "w.safetensors" in str(caught.value)


def small_file() -> bytes:
    """Return a valid file of two tensors."""
    header = {"a": entry([2, 3], 0, 24), "b": entry([5], 24, 34, "BF16")}
    return raw(header, bytes(range(34)))


@reused
@given(cut=st.integers(0, len(small_file()) - 1))
@example(cut=7)
@example(cut=8)
@example(cut=len(small_file()) - 34)
def test_a_file_cut_anywhere_is_refused(tmp_path: Path, cut: int) -> None:
    """Wherever a file was cut off, opening it is an error and never wrong numbers."""
    with pytest.raises(FileError):
        opened(tmp_path, small_file()[:cut])


@reused
@given(place=st.integers(0, len(small_file()) - 35), value=st.integers(0, 255))
def test_a_changed_header_byte_never_crashes(tmp_path: Path, place: int, value: int) -> None:
    """A damaged header is refused, or still describes exactly the bytes that are there."""
    content = bytearray(small_file())
    content[place] = value
    try:
        source = opened(tmp_path, bytes(content))
    except FileError:
        return
    total = 0
    for name in source.names():
        source.info(name)
        total += source.entries[name].end - source.entries[name].begin
        if source.entries[name].stored.readable:
            assert source.read(name).shape == source.info(name).shape
    assert total == 34


@reused
@given(content=st.binary(max_size=200))
def test_foreign_bytes_are_refused(tmp_path: Path, content: bytes) -> None:
    """No handful of bytes is taken for tensors by accident."""
    with contextlib.suppress(FileError):
        assert opened(tmp_path, content).names() == ()


def test_a_file_cut_while_in_use_is_told(tmp_path: Path) -> None:
    """A file that shrinks between opening and reading gives an error, not garbage or a crash."""
    source = opened(tmp_path, small_file())
    source.path.write_bytes(small_file()[:-20])
    with pytest.raises(FileError, match=r"tensor 'b': expected 10 bytes, found 0"):
        source.read("b")


def test_unreadable_types_are_listed_but_not_read(tmp_path: Path) -> None:
    """A type without numbers has a name and a size; asking for its numbers is an error."""
    source = opened(tmp_path, raw({"a": entry([3], 0, 3, "F8_E8M0")}, b"\0" * 3))
    assert source.info("a").dtype == "float8_e8m0fnu"
    with pytest.raises(FileError, match="float8_e8m0fnu cannot be read"):
        source.read("a")


def test_the_reference_reads_what_we_write(tmp_path: Path, rng: np.random.Generator) -> None:
    """The streaming writer makes files that the safetensors package accepts and reads alike."""
    arrays = {
        "bits": rng.integers(0, 256, 13).astype(np.uint8),
        "größe/重み": rng.permutation(9).astype(np.int32),
        "none": np.zeros((0, 4), np.uint8),
    }
    path = tmp_path / "out.safetensors"
    write_safetensors(path, [Piece.of(n, a) for n, a in arrays.items()], {"k": "v"})
    back = load_file(path)
    assert back.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(back[name], array)
    assert SafetensorsFile.open(path).metadata == {"k": "v"}


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    """A write that fails half way keeps what stood there and leaves nothing beside it."""
    path = tmp_path / "out.safetensors"
    path.write_bytes(b"old")

    def fail() -> Any:
        raise FileError("the disk is full")

    with pytest.raises(FileError, match="disk is full"):
        write_safetensors(path, [Piece("a", "uint8", (3,), fail)])
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.safetensors"]


def test_metadata_is_no_tensor_name(tmp_path: Path) -> None:
    """A tensor that is called like the header's own entry is refused, not lost."""
    with pytest.raises(FileError, match="rename it"):
        write_safetensors(tmp_path / "o", [Piece.of("__metadata__", np.zeros(1, np.uint8))])


def test_pipes_and_folders_are_no_files(tmp_path: Path) -> None:
    """A pipe is refused at once, where opening it would wait for ever, and so is a folder."""
    os.mkfifo(tmp_path / "pipe.safetensors")
    (tmp_path / "folder.safetensors").mkdir()
    with pytest.raises(FileError, match=r"pipe\.safetensors: a pipe or a device, not a file"):
        SafetensorsFile.open(tmp_path / "pipe.safetensors")
    with pytest.raises(FileError, match=r"folder\.safetensors: a folder, not a file"):
        SafetensorsFile.open(tmp_path / "folder.safetensors")
    path = tmp_path / "out.safetensors"
    os.mkfifo(path)
    with pytest.raises(FileError, match="not a regular file, so it is not replaced"):
        write_safetensors(path, [])
    assert not path.is_file()


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """Writing to a link replaces what it points to, be it there yet or not."""
    for there in (True, False):
        target, link = tmp_path / f"{there}.safetensors", tmp_path / f"to-{there}.safetensors"
        if there:
            target.write_bytes(b"old")
        link.symlink_to(target)
        write_safetensors(link, [Piece.of("a", np.ones(3, np.uint8))])
        assert link.is_symlink()
        assert SafetensorsFile.open(target).names() == ("a",)


@pytest.mark.parametrize("path", ["/dev/null", "/dev/stdout", "/dev/fd/1"])
def test_devices_are_not_replaced(path: str) -> None:
    """A device, or a link to whatever is open, is refused with the way out."""
    with pytest.raises(FileError, match="- for the standard output"):
        write_safetensors(Path(path), [])
