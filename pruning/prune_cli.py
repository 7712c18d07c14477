"""`permsearch prune`: a checkpoint with orders applied and structured zeros, by a recipe."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from permsearch.cli.options import (
    OutputType,
    check_outputs_differ,
    check_report_can_be_made,
    debug_option,
    json_option,
)
from pruning.dry_run import OUTPUT, free_outputs_hint
from pruning.group_cli import group_options, outputs_option, searching, show_dry_run, write_reports
from pruning.job_cli import Asked, GroupJob, job_options, split_options

_EXAMPLES = """\b
Examples:
  permsearch prune model/ --recipe recipe.toml --out pruned
  permsearch prune model/ --recipe 2:4 --out pruned --html report.html
  permsearch prune model/ --recipe recipe.toml --dry-run
"""


@click.command("prune", epilog=_EXAMPLES)
@click.argument("model", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--recipe",
    "-r",
    required=True,
    metavar="FILE|PATTERN",
    help="A TOML recipe, or one pattern for all layers.",
)
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="The new folder.")
@outputs_option
@group_options
@job_options
@click.option("--dry-run", is_flag=True, help="Only tell what the recipe comes to; write nothing.")
@json_option
@click.option("--html", type=OutputType(), metavar="FILE", help="Write the report as a page.")
@debug_option
def prune_command(
    *,
    model: Path,
    recipe: str,
    out: Path | None,
    free_outputs: bool,
    dry_run: bool,
    json_file: str | None,
    html: str | None,
    **where: Any,
) -> None:
    """Prune MODEL, a Hugging Face folder, by magnitude, in orders that cost nothing at run time.

    The new folder has the same shards, names and types, with zeros. The model's code is not run:
    calibrated scores and refits need pruning.prune in Python.
    """
    from pruning.checkpoint_prune import about, prepare, told, write_pruned
    from pruning.recipe import as_recipe

    if out is None and not dry_run:
        raise click.UsageError("give --out DIR, or --dry-run.")
    check_outputs_differ({"--html": html, "--json": json_file})
    check_report_can_be_made(html)
    where, how = split_options(where)
    asked = Asked.of(out or model, **how)
    if out is not None:
        asked.check_out(model, out)
    own = as_recipe(recipe)
    job, plan = prepare(model, own, "free" if free_outputs else "pin")
    options = searching(own.solver, own.stop, own.seed, **where)
    if dry_run:
        left = [layer for layer in plan.layers if layer.state == "left"]
        hint = free_outputs_hint(sum(OUTPUT in layer.note for layer in left))
        show_dry_run(job, options, "\n".join([str(plan), *hint]), json_file)
        return
    assert out is not None
    settings = {"recipe": hashlib.sha256(repr(own).encode()).hexdigest()[:16]}
    if free_outputs:
        settings["outputs"] = "free"
    with GroupJob("prune", model, out, settings, asked) as kept:
        if asked.share is not None:
            kept.do_share(*job.work(options))
            return
        report = kept.finished_before(job.work(options)[0])
        if report is None:
            content = job.run(options, kept.through)
            report = {"about": about(model, recipe, own)}

            def whole(aside: Path, rows: dict[str, dict[str, Any]]) -> None:
                report.update(told(plan, content, rows))
                kept.keep_report(aside, report)

            write_pruned(job, plan, out, whole)
        if "-" not in (json_file, html):
            click.echo(f"{_told(report)}\nwrote {out}")
        write_reports(report, json_file, html, title=f"{model.name}, pruned")
        kept.end()


def _told(report: Mapping[str, Any]) -> str:
    total, skipped = report["total"], report["skipped"]
    lines = [
        f"kept {total['baseline']:.5f} before, {total['retained']:.5f} after, of the scores "
        f"of {len(report['pruned'])} weights; {len(skipped)} skipped, {len(report['dense'])} dense"
    ]
    lines += [f"skipped {skip['tensor']}: {skip['reason']}" for skip in skipped]
    left = [row for row in report["pruned"] if row["state"] == "left"]
    return "\n".join([*lines, *free_outputs_hint(sum(OUTPUT in row["note"] for row in left))])
