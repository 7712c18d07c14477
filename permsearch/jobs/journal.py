"""A job folder: what was asked for, and what is finished of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from permsearch.errors import FileError
from permsearch.io.atomic import check_writable, remove_leftovers, written_aside
from permsearch.io.bundle_writer import refuse_other_run
from permsearch.io.jsontext import json_text, plain
from permsearch.io.lock import FolderLock
from permsearch.io.parts import Part, StoredPart, stored_parts, write_part
from permsearch.io.regular import check_regular
from permsearch.io.shares import Ended, Share, write_end
from permsearch.jobs.task import Task

FORMAT = "permsearch.job"
SCHEMA = 1
HEAD, PARTS = "job.json", "parts"


class Journal:
    """The finished tasks of a job, on the disk; a context manager that holds the folder's lock.

    `job.json` says what decides the results, `parts/` holds a file for each finished task. Whatever
    ends a process leaves every task either finished or not begun.

    Parameters
    ----------
    folder
        Where the journal lies; created if need be.
    kind
        What the job makes, such as "permute": a journal of another kind is refused.
    settings
        What decides the results: a journal is only continued with the same ones.
    source
        Where the weights come from; a journal is only continued from the same place.
    share
        The share of the work that this process does; other processes may do others meanwhile.

    Raises
    ------
    FileError
        The folder cannot be written, holds other things, is in use by another run, or holds a job
        of another kind, with other settings or from another source.
    """

    def __init__(
        self,
        folder: str | Path,
        kind: str,
        settings: Mapping[str, Any],
        *,
        source: str,
        share: Share | None = None,
    ) -> None:
        self.folder = Path(folder)
        check_writable(self.folder)
        self._lock = FolderLock(self.folder, None if share is None else share.name)
        try:
            self._open(kind, plain(settings), source)
            if share is None:
                remove_leftovers(self.folder)
                remove_leftovers(self.folder / PARTS)
            self._stored = {
                part.record["task"]: part for part in stored_parts(self.folder / PARTS, damage)
            }
        except BaseException:
            self._lock.release()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def finished(self, tasks: Iterable[Task]) -> dict[str, StoredPart]:
        """Return what is finished of some tasks.

        Raises
        ------
        FileError
            A finished task has another fingerprint: its inputs have changed.
        """
        found = {task.name: self._stored[task.name] for task in tasks if task.name in self._stored}
        for task in tasks:
            if task.name in found and found[task.name].record["fingerprint"] != task.fingerprint:
                raise FileError(
                    f"{self.folder}: {task.name!r} was done with other values; choose another "
                    f"folder, or remove {self.folder} to start anew."
                )
        return found

    def add(self, task: Task, part: Part) -> None:
        """Store what came of a task; it is on the disk, whole, when this returns."""
        record = {**part.record, "task": task.name, "fingerprint": task.fingerprint}
        write_part(self.folder / PARTS, task.name, Part(record, part.arrays))

    def end_share(self, end: Ended) -> None:
        """Say on the disk that a share of the work has come to its end; merging waits for all."""
        write_end(self.folder / PARTS, end)

    def remove(self) -> None:
        """Drop the journal, once what it was for lies elsewhere."""
        self._lock.release()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _open(self, kind: str, settings: dict[str, Any], source: str) -> None:
        others = [entry.name for entry in self.folder.iterdir() if not entry.name.startswith(".")]
        head = self.folder / HEAD
        if head.exists():  # asked last: another share may just have begun
            before = read_head(self.folder)
            if before["kind"] != kind:
                raise FileError(
                    f"{self.folder}: holds a job of `permsearch {before['kind']}`, not of "
                    f"`permsearch {kind}`; choose another folder."
                )
            refuse_other_run(self.folder, before, settings, source, what="a job")
        elif others:
            raise FileError(
                f"{self.folder}: holds other things ({sorted(others)[0]!r} and so on), not a job; "
                "choose a new folder."
            )
        else:
            self._write_head(kind, settings, source)
        check_writable(self.folder / PARTS)

    def _write_head(self, kind: str, settings: dict[str, Any], source: str) -> None:
        from permsearch import __version__

        content = {
            "format": FORMAT,
            "schema": SCHEMA,
            "permsearch": __version__,
            "kind": kind,
            "source": source,
            "settings": settings,
        }
        with written_aside(self.folder / HEAD) as file:
            file.write(json_text(content).encode("utf-8"))


def read_head(folder: Path) -> dict[str, Any]:
    """Return what a job folder says of its job.

    Raises
    ------
    FileError
        It is missing, unreadable, foreign, or of a newer schema.
    """
    path = folder / HEAD
    check_regular(path)
    try:
        content = json.loads(path.read_text("utf-8"))
        known = content["format"] == FORMAT and isinstance(content["settings"], dict)
        if not known or not all(isinstance(content[key], str) for key in ("kind", "source")):
            raise ValueError("not the head of a job")
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror or error}).") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FileError(
            f"{path}: damaged or foreign ({error}); choose another folder, or remove {folder}."
        ) from error
    if content.get("schema") != SCHEMA:
        raise FileError(
            f"{path}: schema {content.get('schema')!r}; this version reads {SCHEMA}, a newer "
            "permsearch may read it."
        )
    return dict(content)


def damage(record: object) -> str | None:
    """Say what is wrong with the record of a finished task, or None."""
    if not isinstance(record, dict):
        return "not a table"
    kinds = (record.get("task"), record.get("fingerprint"))
    return None if all(isinstance(kind, str) for kind in kinds) else "no task"
