"""Checksums of a bundle's files and of its manifest, kept in the manifest itself."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from permsearch.io.jsontext import json_text
from permsearch.io.manifest import ANEW, MANIFEST, Damaged, Record

_SUMS = "sha256"


def with_sums(folder: Path, manifest: Record, names: Iterable[str]) -> dict[str, Any]:
    """Return a manifest with the SHA-256 of some of the folder's files, and of its own content."""
    sums = {name: _of_file(folder / name) for name in names}
    return {**manifest, _SUMS: {**sums, MANIFEST: _of_content({**manifest, _SUMS: sums})}}


def check_sums(folder: Path, manifest: Record) -> None:
    """Refuse a bundle whose files or manifest are not what was written.

    Raises
    ------
    Damaged
        Naming the file.
    """
    sums = manifest.get(_SUMS)
    if not isinstance(sums, dict) or MANIFEST not in sums:
        raise Damaged(f"{folder}: its {MANIFEST} has no checksums; {ANEW}.")
    files = {name: value for name, value in sums.items() if name != MANIFEST}
    if _of_content({**manifest, _SUMS: files}) != sums[MANIFEST]:
        raise Damaged(f"{folder / MANIFEST}: was altered, its checksum differs; {ANEW}.")
    for name, value in files.items():
        path = folder / name
        if not path.is_file():
            raise Damaged(f"{folder}: damaged, {name} is missing; copy it here again, or {ANEW}.")
        if _of_file(path) != value:
            raise Damaged(f"{path}: was altered or cut short, its checksum differs; {ANEW}.")


def _of_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _of_content(manifest: Record) -> str:
    """Return the sum of a manifest's content, however its text is laid out."""
    plain = json.loads(json_text(manifest))
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
