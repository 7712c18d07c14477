"""Recognising files that are often mistaken for tensor files, to say what they really are."""

from __future__ import annotations

from pathlib import Path

_NUMPY = b"\x93NUMPY"
_MAGIC = (
    (
        b"PK\x03\x04",
        "a zip archive, as torch.save writes; convert it with safetensors.torch.save_file",
    ),
    (
        b"\x80\x02",
        "a Python pickle, which is never loaded; convert it with safetensors.torch.save_file",
    ),
    (
        b"\x80\x04",
        "a Python pickle, which is never loaded; convert it with safetensors.torch.save_file",
    ),
    (_NUMPY, "a numpy array; give the file the ending .npy"),
    (b"version ", "a Git LFS pointer, not the weights; fetch them with `git lfs pull`"),
    (b"<!DOCTYP", "a web page, probably of a failed download"),
    (b"<!doctyp", "a web page, probably of a failed download"),
    (b"<html", "a web page, probably of a failed download"),
    (b"GGUF", "a GGUF file, which is not supported; use the model's safetensors"),
    (b"\x89HDF", "an HDF5 file, which is not supported; use the model's safetensors"),
)


def foreign_kind(path: Path, start: bytes) -> str | None:
    """Return what a file is that starts like that, or None where nothing is recognised."""
    if path.suffix == ".npy" and start.startswith(_NUMPY):
        return None
    return next((kind for magic, kind in _MAGIC if start.startswith(magic[:8])), None)
