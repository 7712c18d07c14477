"""Shares of a run: which of n equal parts of the work a process does, and that it has done it."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from permsearch.errors import FileError, PermsearchError
from permsearch.io.atomic import written_aside
from permsearch.io.jsontext import json_text
from permsearch.io.select import Skipped, Unusable

_FORM = re.compile(r"(\d+)/(\d+)")


class ShareError(PermsearchError, ValueError):
    """A share is ill-formed, or the shares of a run do not fit together."""


@dataclass(frozen=True, slots=True)
class Share:
    """The share number `index` of `count`, counted from 1.

    Raises
    ------
    ShareError
        There is no such share.
    """

    index: int
    count: int

    def __post_init__(self) -> None:
        """Refuse a number outside the count."""
        if not 1 <= self.index <= self.count:
            raise ShareError(
                f"there is no share {self.index} of {self.count}; they count from 1 to "
                f"{self.count} (SLURM: --array=1-{max(1, self.count)})."
            )

    @classmethod
    def parse(cls, text: str) -> Share:
        """Return the share that "3/16" names.

        Raises
        ------
        ShareError
            The text has another form.
        """
        found = _FORM.fullmatch(text.strip())
        if found is None:
            raise ShareError(f"{text!r} is no share; give i/n, such as 3/16.")
        return cls(int(found[1]), int(found[2]))

    @property
    def name(self) -> str:
        """The share as a part of file names."""
        return f"{self.index}-of-{self.count}"

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


@dataclass(frozen=True, slots=True)
class Ended:
    """A share that came to its end.

    Attributes
    ----------
    share
        Which one.
    names
        All names of the source, in its order.
    finished
        What this share has finished.
    skipped
        What was left out, of the whole run or of this share.
    """

    share: Share
    names: tuple[str, ...]
    finished: tuple[str, ...]
    skipped: tuple[Skipped, ...]


def write_end(folder: Path, end: Ended) -> None:
    """Say in a folder of parts that a share has come to its end."""
    content = {
        "share": end.share.index,
        "of": end.share.count,
        "names": end.names,
        "finished": end.finished,
        "skipped": [
            {"tensor": s.name, "reason": s.reason, "failed": isinstance(s, Unusable)}
            for s in end.skipped
        ],
    }
    with written_aside(folder / f"share-{end.share.name}.json") as file:
        file.write(json_text(content).encode("utf-8"))


def all_ended(folder: Path, there: Collection[str]) -> tuple[Ended, ...]:
    """Return the shares of a run, all of them, in their order.

    Parameters
    ----------
    folder
        The folder of parts.
    there
        What lies in it, whole.

    Raises
    ------
    ShareError
        Some have not ended, none has, they are shares of different counts, or something that they
        finished is not there any more.
    """
    found = sorted(map(_read_end, folder.glob("share-*.json")), key=lambda end: end.share.index)
    if not found:
        raise ShareError(f"{folder.parent}: no share of a run has ended here.")
    counts = sorted({end.share.count for end in found})
    if len(counts) > 1:
        raise ShareError(
            f"{folder.parent}: shares of {' and of '.join(map(str, counts))} lie together; give "
            "the command without --shard to finish what is left."
        )
    missing = sorted(set(range(1, counts[0] + 1)) - {end.share.index for end in found})
    if missing:
        listed = ",".join(map(str, missing))
        raise ShareError(
            f"{folder.parent}: {len(missing)} of {counts[0]} shares have not ended: {listed}; give "
            f"their commands again (SLURM: --array={listed}), or the command without --shard."
        )
    lost = [name for end in found for name in end.finished if name not in there]
    if lost:
        raise ShareError(
            f"{folder.parent}: {lost[0]!r} was finished and is missing or damaged, {len(lost)} in "
            "all; give the command without --shard to do what is left."
        )
    return tuple(found)


def _read_end(path: Path) -> Ended:
    try:
        content = json.loads(path.read_text("utf-8"))
        skipped = (
            (Unusable if skip["failed"] else Skipped)(skip["tensor"], skip["reason"])
            for skip in content["skipped"]
        )
        share = Share(content["share"], content["of"])
        names, finished = (tuple(map(str, content[key])) for key in ("names", "finished"))
        return Ended(share, names, finished, tuple(skipped))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise FileError(f"{path}: not the end of a share ({error}); run it again.") from error
