"""The manifest of a mask bundle: what was run, read back and checked before it is believed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from permsearch.errors import FileError
from permsearch.io.regular import check_regular

FORMAT = "permsearch.bundle"
SCHEMA = 1
MANIFEST, MASKS, ORDERS, PARTS = (
    "manifest.json",
    "masks.safetensors",
    "permutations.safetensors",
    "parts",
)

Record = Mapping[str, Any]

_MANIFEST_KINDS = {
    "complete": bool,
    "source": str,
    "settings": dict,
    "tensors": dict,
    "skipped": list,
}
_RECORD_KINDS = {"tensor": str, "shape": list, "pattern": str, "sha256": str, "orders": dict}
ANEW = "search again with --overwrite, or into another folder"


class Damaged(FileError):
    """A bundle that was one, and of which something is missing or garbled."""


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a bundle.

    Raises
    ------
    FileError
        It is missing, unreadable, foreign, or of a newer schema.
    """
    path = folder / MANIFEST
    check_regular(path)
    try:
        manifest = json.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise FileError(f"{folder}: not a mask bundle, it has no {MANIFEST}.") from error
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror or error}).") from error
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{path}: not JSON ({error}); {ANEW}.") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise FileError(f"{path}: not the manifest of a mask bundle.")
    if manifest.get("schema") != SCHEMA:
        raise FileError(
            f"{path}: schema {manifest.get('schema')!r}; this version reads {SCHEMA}, a newer "
            "permsearch may read it."
        )
    reason = _manifest_damage(manifest)
    if reason is not None:
        raise Damaged(f"{path}: damaged, {reason}; {ANEW}.")
    return manifest


def _manifest_damage(manifest: Record) -> str | None:
    """Say what is wrong with a manifest of this schema, or None."""
    reason = _lacks(manifest, _MANIFEST_KINDS)
    if reason is not None:
        return reason
    for name, record in manifest["tensors"].items():
        reason = record_damage(record)
        if reason is not None:
            return f"the record of {name!r}: {reason}"
    return None


def record_damage(record: object) -> str | None:
    """Say what is wrong with the record of a tensor, or None."""
    if not isinstance(record, dict):
        return "not a table"
    reason = _lacks(record, _RECORD_KINDS)
    if reason is not None:
        return reason
    if not all(type(size) is int and size >= 0 for size in record["shape"]):
        return "shape is not a list of counts"
    if not all(isinstance(key, str) for key in record["orders"].values()):
        return "orders are not names"
    return None


def _lacks(table: Record, kinds: Mapping[str, type]) -> str | None:
    missing = sorted(kinds.keys() - table.keys())
    if missing:
        return f"{', '.join(missing)} missing"
    wrong = [key for key, kind in kinds.items() if not isinstance(table[key], kind)]
    return f"{', '.join(wrong)} not of the right kind" if wrong else None
