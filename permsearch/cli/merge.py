"""`permsearch merge`: shares of a run become one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from permsearch.cli.options import debug_option
from permsearch.cli.skipped import end_with
from permsearch.errors import FileError
from permsearch.io.bundle import read_parts
from permsearch.io.bundle_writer import BundleWriter, refuse_other_run
from permsearch.io.manifest import MANIFEST, PARTS, read_manifest
from permsearch.io.parts import copy_parts, stored_parts
from permsearch.io.select import Unusable
from permsearch.io.shares import all_ended
from permsearch.jobs.journal import HEAD, Journal, damage, read_head

_EXAMPLES = """\b
Examples:
  permsearch search model/ -p 2:4 --out masks --shard 1/2
  permsearch search model/ -p 2:4 --out masks --shard 2/2
  permsearch merge masks
  permsearch merge masks machine-a/masks machine-b/masks
"""


@click.command("merge", epilog=_EXAMPLES)
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.argument("others", type=click.Path(path_type=Path, exists=True, file_okay=False), nargs=-1)
@debug_option
def merge_command(*, folder: Path, others: tuple[Path, ...]) -> None:
    """Put the shares in FOLDER together, after taking over those in OTHERS.

    FOLDER is what the shares had as --out or --job. A mask bundle is finished, when all shares have
    ended; a job folder has everything then that its command without --shard needs to end.
    """
    if (folder / MANIFEST).exists():
        failed = _merge_bundle(folder, others)
        end_with(failed)
    elif (folder / HEAD).exists():
        _merge_job(folder, others)
    else:
        raise FileError(f"{folder}: neither a mask bundle nor a job folder; nothing to merge.")


def _merge_bundle(folder: Path, others: tuple[Path, ...]) -> list[Unusable]:
    """Finish a bundle; return the tensors that could not be searched."""
    manifest = read_manifest(folder)
    for other in others:
        refuse_other_run(other, read_manifest(other), *_asked(manifest))
    settings, source = _asked(manifest)
    if manifest["complete"] and not others:
        click.echo(f"{folder} is a whole bundle already", err=True)
        return []
    with BundleWriter(folder, settings, source=source) as writer:
        for other in others:
            copy_parts(other / PARTS, folder / PARTS)
        there = {*writer.finished, *(name for name, _ in read_parts(folder))}
        ends = all_ended(folder / PARTS, there)
        skipped = list(dict.fromkeys(skip for end in ends for skip in end.skipped))
        place = {name: position for position, name in enumerate(ends[0].names)}
        skipped.sort(key=lambda skip: (isinstance(skip, Unusable), place.get(skip.name, 0)))
        bundle = writer.finish(ends[0].names, skipped)
    click.echo(f"wrote {len(bundle)} masks and orders to {folder}", err=True)
    return [skip for skip in skipped if isinstance(skip, Unusable)]


def _merge_job(folder: Path, others: tuple[Path, ...]) -> None:
    """Take over what other job folders have finished."""
    head = read_head(folder)
    settings, source = _asked(head)
    with Journal(folder, head["kind"], settings, source=source):
        for other in others:
            refuse_other_run(other, read_head(other), settings, source, what="a job")
            copy_parts(other / PARTS, folder / PARTS)
        there = {part.record["task"] for part in stored_parts(folder / PARTS, damage)}
        ends = all_ended(folder / PARTS, there)
    click.echo(
        f"{len(ends)} shares are finished in {folder}; give the command of `permsearch "
        f"{head['kind']}` without --shard to write what comes of them",
        err=True,
    )


def _asked(head: dict[str, Any]) -> tuple[dict[str, Any], str]:
    return head["settings"], head["source"]
