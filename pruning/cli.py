"""`permsearch permute`: reorder a whole checkpoint so that pruning it costs less."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from permsearch.cli.options import (
    OutputType,
    PatternType,
    SolverType,
    check_outputs_differ,
    check_report_can_be_made,
    criterion,
    debug_option,
    json_option,
    limit_options,
)
from permsearch.patterns import Pattern
from pruning.dry_run import OUTPUT, free_outputs_hint, planned_text
from pruning.group_cli import group_options, outputs_option, searching, show_dry_run, write_reports
from pruning.job_cli import Asked, GroupJob, job_options, split_options

_EXAMPLES = """\b
Examples:
  permsearch permute model/ -p 2:4 --out permuted
  permsearch permute model/ -p 2:4 -t 'model.layers.*' --seconds 5 --out permuted --html r.html
  permsearch permute model/ -p 2:4 --gather '*q_proj' --out permuted
  permsearch permute model/ -p 2:4 --dry-run
"""


@click.command("permute", epilog=_EXAMPLES)
@click.argument("model", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--pattern", "-p", type=PatternType(), required=True, help="As for `search`.")
@click.option(
    "--tensor",
    "-t",
    "globs",
    multiple=True,
    metavar="GLOB",
    help="Score only weights whose name matches; may be repeated. All without it.",
)
@click.option(
    "--gather",
    "gather",
    multiple=True,
    metavar="GLOB",
    help="Give these layers an order of their own, applied to their input at run time; "
    "may be repeated. The report tells what it costs.",
)
@click.option("--solver", type=SolverType(), default="auto", show_default=True)
@limit_options
@group_options
@job_options
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="The new folder.")
@outputs_option
@click.option("--dry-run", is_flag=True, help="Only tell groups and layers; write nothing.")
@click.option("--html", type=OutputType(), metavar="FILE", help="Write the report as a page.")
@json_option
@debug_option
def permute_command(
    *,
    model: Path,
    pattern: Pattern,
    globs: tuple[str, ...],
    gather: tuple[str, ...],
    solver: str,
    steps: int | None,
    seconds: float | None,
    seed: int,
    out: Path | None,
    free_outputs: bool,
    dry_run: bool,
    html: str | None,
    json_file: str | None,
    **where: Any,
) -> None:
    """Reorder the channels of MODEL, a Hugging Face folder, without changing what it computes.

    Architectures are known by config.json: bert, gpt2, llama, mistral, qwen2, qwen3, mixtral, vit,
    t5. Shards, names, types and all other files are kept. Groups are searched one after another
    or by --workers, and tensors are read when their turn comes: memory holds the readers of one
    group for each worker, or of groups too large for --group-memory a part. What is finished is
    kept in OUT.job, or in --job, until the folder is written: the same command goes on after a
    stop.
    """
    from pruning.checkpoint_job import Job

    if out is None and not dry_run:
        raise click.UsageError("give --out DIR, or --dry-run.")
    check_outputs_differ({"--html": html, "--json": json_file})
    check_report_can_be_made(html)
    where, how = split_options(where)
    asked = Asked.of(out or model, **how)
    if out is not None:
        asked.check_out(model, out)
    stop = criterion(steps, seconds)
    patterns = dict.fromkeys(globs, pattern) if globs else pattern
    job = Job.open(model, patterns, gather, "free" if free_outputs else "pin")
    options = searching(solver, stop, seed, **where)
    if dry_run:
        show_dry_run(job, options, planned_text(job.network, job.plan), json_file)
        return
    assert out is not None
    settings = {
        "pattern": str(pattern),
        "tensors": ",".join(globs),
        "gather": ",".join(gather),
        "free_outputs": free_outputs,
        "solver": solver,
        "seed": seed,
        "steps": steps,
        "seconds": seconds,
    }
    with GroupJob("permute", model, out, settings, asked) as kept:
        if asked.share is not None:
            kept.do_share(*job.work(options))
            return
        content = kept.finished_before(job.work(options)[0])
        if content is None:
            content = job.run(options, kept.through)
            job.write(out, partial(kept.keep_report, report=content))
        if json_file != "-":
            click.echo(_told(content, out))
        write_reports(content, json_file, html, title=f"{model.name}, {pattern}")
        kept.end()


def _told(content: dict[str, Any], out: Path) -> str:
    total, proof, layers = content["total"], content["proof"], content["layers"]
    states = [layer["state"] for layer in layers]
    counts = ", ".join(f"{states.count(s)} {s}" for s in ("absorbed", "gathered", "left"))
    lines = [
        f"kept {total['baseline']:.5f} before, {total['retained']:.5f} after "
        f"({total['bound_kind']} bound {total['bound']:.5f})",
        f"{len(content['groups'])} groups{_idle(content)}; {len(layers)} weights: {counts}",
    ]
    for cost in content["gathers"]:
        lines.append(
            f"{cost['layer']} is gathered: {cost['bytes_per_token']} bytes for each token, "
            f"{cost['share']:.1%} more traffic"
        )
    if proof["unchanged"] is None:
        lines.append(f"outputs not compared: {proof['reason']}")
    else:
        lines.append(
            f"outputs unchanged: {proof['difference']:.1e} relative, {proof['runs']} inputs, "
            f"{proof['resized']} of them of other sizes, {proof['dtype']}"
        )
    pinned = sum(OUTPUT in layer["reason"] for layer in layers if layer["state"] == "left")
    lines += free_outputs_hint(pinned)
    return "\n".join([*lines, f"wrote {out}"])


def _idle(content: dict[str, Any]) -> str:
    idle = sum("retained" not in group for group in content["groups"])
    return f", of which {idle} have no effect on this pattern" if idle else ""
