"""Reading `.npy` and `.npz`: member by member, never unpickled, damage told."""

from __future__ import annotations

import contextlib
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from permsearch.errors import FileError, UnknownName
from permsearch.io.numpy_file import NumpyFile

reused = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)


def npy_bytes(array: np.ndarray) -> bytes:
    """Return an array as the bytes of a `.npy` file."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.mark.parametrize("layout", ["C", "F"])
def test_npy_is_one_tensor_named_after_the_file(tmp_path: Path, layout: str) -> None:
    """A `.npy` file holds one tensor with the file's name, whatever its memory layout."""
    array = np.asarray(np.arange(6, dtype=">f4").reshape(2, 3), order=layout)
    np.save(tmp_path / "query.npy", array)
    source = NumpyFile.open(tmp_path / "query.npy")
    assert source.names() == ("query",)
    assert (source.info("query").shape, source.info("query").dtype) == ((2, 3), "float32")
    np.testing.assert_array_equal(source.read("query"), array)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_is_read_member_by_member(tmp_path: Path, save: object) -> None:
    """A `.npz` file tells names, shapes and types without reading and reads what is asked for."""
    arrays = {"a": np.ones((2, 3), np.float16), "b/größe": np.arange(4), "s": np.float64(3)}
    save(tmp_path / "w.npz", **arrays)  # type: ignore[operator]
    source = NumpyFile.open(tmp_path / "w.npz")
    assert source.names() == tuple(arrays)
    for name, array in arrays.items():
        assert source.info(name).shape == np.shape(array)
        np.testing.assert_array_equal(source.read(name), array)


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    """An array of Python objects is listed as such, and reading it is an error."""
    np.save(tmp_path / "w.npy", np.array([{"a": 1}, None], dtype=object))
    source = NumpyFile.open(tmp_path / "w.npy")
    assert source.info("w").dtype == "object"
    with pytest.raises(FileError, match="never loaded"):
        source.read("w")


def test_unknown_member(tmp_path: Path) -> None:
    """A misspelt member is told with the file and near names."""
    np.savez(tmp_path / "w.npz", weight=np.ones(3))
    with pytest.raises(UnknownName, match=r"w\.npz: no tensor 'wieght'; did you mean 'weight'"):
        NumpyFile.open(tmp_path / "w.npz").read("wieght")


@reused
@given(share=st.floats(0, 1, exclude_max=True))
def test_a_cut_npy_is_refused(tmp_path: Path, share: float) -> None:
    """Wherever a `.npy` file was cut off, opening it is an error that names it."""
    content = npy_bytes(np.arange(20.0))
    path = tmp_path / "w.npy"
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(FileError, match=r"w\.npy"):
        NumpyFile.open(path)


@reused
@given(share=st.floats(0, 1, exclude_max=True))
def test_a_cut_npz_is_refused(tmp_path: Path, share: float) -> None:
    """Wherever a `.npz` file was cut off, opening it is an error that names it."""
    path = tmp_path / "w.npz"
    np.savez(path, a=np.arange(20.0), b=np.ones(3))
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(FileError, match=r"w\.npz"):
        NumpyFile.open(path)


@reused
@given(place=st.floats(0, 1, exclude_max=True), value=st.integers(0, 255))
def test_a_changed_byte_never_crashes(tmp_path: Path, place: float, value: int) -> None:
    """Damage inside an archive is an error of ours wherever it is, or changes no shape."""
    path = tmp_path / "w.npz"
    np.savez_compressed(path, a=np.arange(20.0))
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] = value
    path.write_bytes(bytes(content))
    with contextlib.suppress(FileError):
        source = NumpyFile.open(path)
        for name in source.names():
            assert source.read(name).shape == source.info(name).shape


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
@pytest.mark.parametrize("content", [b"", b"hello", b"\x80\x04K\x01."])
def test_foreign_files_are_told(tmp_path: Path, suffix: str, content: bytes) -> None:
    """A file that is no numpy file is told by its name."""
    path = tmp_path / f"w{suffix}"
    path.write_bytes(content)
    with pytest.raises(FileError, match=r"w\.np.: .*not a"):
        NumpyFile.open(path)


def test_a_header_that_promises_too_much(tmp_path: Path) -> None:
    """A header that promises more numbers than the archive holds is refused before reading."""
    content = npy_bytes(np.arange(20.0)).replace(b"(20,)", b"(9999999999,)"[:5] + b"")
    with zipfile.ZipFile(tmp_path / "w.npz", "w") as archive:
        archive.writestr("a.npy", content.replace(b"(9999", b"(21,)"))
    with pytest.raises(FileError, match=r"array 'a' .*takes 168 bytes, 160 are there"):
        NumpyFile.open(tmp_path / "w.npz")


HEADERS = [
    "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 4",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 4), }\0",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (4, -4), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (True, 16), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (2**62, 0), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (" + f"{2**62}, 0), " + "}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "1, " * 100 + "16), }",
    "{'descr': [1, 2], 'fortran_order': False, 'shape': (4, 4), }",
    "{[]: 1}",
    "(" * 5000,
    "-" * 9000 + "1",
]


@pytest.mark.parametrize("header", HEADERS, ids=range(len(HEADERS)))
def test_odd_headers_are_told(tmp_path: Path, header: str) -> None:
    """Whatever numpy's parser makes of a header, the error is ours and one line."""
    text = header.encode() + b"\n"
    path = tmp_path / "w.npy"
    path.write_bytes(b"\x93NUMPY\x01\0" + len(text).to_bytes(2, "little") + text + b"\0" * 64)
    with pytest.raises(FileError, match=r"w\.npy: array 'w'") as caught:
        NumpyFile.open(path)
    assert len(str(caught.value)) < 500
    assert "\n" not in str(caught.value)
    assert "give the file the ending .npy" not in str(caught.value)
