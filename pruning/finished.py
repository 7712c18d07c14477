"""What a run had to tell of the folder that it wrote, kept until it has been told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from permsearch.errors import FileError
from permsearch.io.atomic import written_aside
from permsearch.io.jsontext import json_text
from permsearch.io.sampling import sampled_file

FINISHED = "finished.json"


def keep_report(journal: Path, out: Path, written: Path, report: Mapping[str, Any]) -> None:
    """Store a report in a job's folder, with what tells the folder that it is about.

    Parameters
    ----------
    out
        Where the folder will stand.
    written
        Where it stands now, whole.
    """
    content = {"out": str(out.resolve()), "files": _files(written), "report": report}
    with written_aside(journal / FINISHED) as file:
        file.write(json_text(content).encode("utf-8"))


def kept_report(journal: Path, out: Path) -> dict[str, Any] | None:
    """Return the report of a folder that a run finished; None where it is not that folder.

    All files that the run wrote are there, with their sizes, and samples of their bytes are the
    same. Files that came later do not count.
    """
    try:
        content = json.loads((journal / FINISHED).read_text("utf-8"))
        report, files = content["report"], content["files"]
        same = content["out"] == str(out.resolve()) and files.items() <= _files(out).items()
    except (OSError, FileError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return dict(report) if same and files else None


def _files(folder: Path) -> dict[str, str]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): sampled_file(path) for path in paths}
