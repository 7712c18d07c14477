"""`permsearch prune`: a checkpoint with orders applied and structured zeros, by a recipe."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import click

from permsearch.cli.options import (
    OutputType,
    check_outputs_differ,
    check_report_can_be_made,
    debug_option,
    json_option,
    write_output,
)
from permsearch.io.jsontext import json_text
from pruning.group_cli import group_options, searching, show_dry_run
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
    from pruning.model_folder import check_target
    from pruning.recipe import as_recipe

    if out is None and not dry_run:
        raise click.UsageError("give --out DIR, or --dry-run.")
    check_outputs_differ({"--html": html, "--json": json_file})
    check_report_can_be_made(html)
    if out is not None:
        check_target(model, out)
    where, how = split_options(where)
    asked = Asked.of(out or model, **how)
    own = as_recipe(recipe)
    job, plan = prepare(model, own)
    options = searching(own.solver, own.stop, own.seed, **where)
    if dry_run:
        show_dry_run(job, options, str(plan), json_file)
        return
    assert out is not None
    settings = {"recipe": hashlib.sha256(repr(own).encode()).hexdigest()[:16]}
    with GroupJob("prune", model, out, settings, asked) as kept:
        if asked.share is not None:
            kept.do_share(*job.work(options))
            return
        content = job.run(options, kept.through)
        rows = write_pruned(job, plan, out)
        kept.end()
    report = {"about": about(model, recipe, own), **told(plan, content, rows)}
    if "-" not in (json_file, html):
        total = content["total"]
        click.echo(
            f"kept {total['baseline']:.5f} before, {total['retained']:.5f} after, of the scores "
            f"of {len(plan.layers)} weights; {len(plan.skipped)} skipped, {len(plan.dense)} dense"
        )
        for name, why in plan.skipped.items():
            click.echo(f"skipped {name}: {why}")
        click.echo(f"wrote {out}")
    write_output(json_file, json_text(report))
    if html is not None:
        from permsearch.report import page_of

        write_output(html, page_of(report, title=f"{model.name}, pruned"))
