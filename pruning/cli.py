"""`permsearch permute`: reorder a whole checkpoint so that pruning it costs less."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from permsearch.cli.options import (
    OutputType,
    PatternType,
    SolverType,
    criterion,
    debug_option,
    json_option,
    limit_options,
    write_output,
)
from permsearch.io.jsontext import json_text
from permsearch.patterns import Pattern

_EXAMPLES = """\b
Examples:
  permsearch permute model/ -p 2:4 --out permuted
  permsearch permute model/ -p 2:4 -t 'model.layers.*' --seconds 60 --out permuted --html r.html
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
@click.option("--solver", type=SolverType(), default="auto", show_default=True)
@limit_options
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="The new folder.")
@click.option(
    "--free-outputs",
    is_flag=True,
    help="Let the last axis of the outputs move as well (for embeddings that are only compared).",
)
@click.option("--dry-run", is_flag=True, help="Only tell the groups; search and write nothing.")
@click.option("--html", type=OutputType(), metavar="FILE", help="Write the report as a page.")
@json_option
@debug_option
def permute_command(
    *,
    model: Path,
    pattern: Pattern,
    globs: tuple[str, ...],
    solver: str,
    steps: int | None,
    seconds: float | None,
    seed: int,
    out: Path | None,
    free_outputs: bool,
    dry_run: bool,
    html: str | None,
    json_file: str | None,
) -> None:
    """Reorder the channels of MODEL, a Hugging Face folder, without changing what it computes.

    Architectures are known by config.json: bert, gpt2, llama, mistral, qwen2, qwen3, mixtral, vit,
    t5. Shards, names, types and all other files are kept.
    """
    from pruning.model_folder import check_target

    if out is None and not dry_run:
        raise click.UsageError("give --out DIR, or --dry-run.")
    if out is not None:
        check_target(model, out)
    patterns = {glob: pattern for glob in globs} or pattern
    stop = criterion(steps, seconds)
    job = _Job(model, patterns, outputs="free" if free_outputs else "pin")
    if dry_run:
        click.echo(job.network.summary())
        return
    content = job.run(solver, stop, seed)
    assert out is not None
    job.write(out)
    if json_file != "-":
        click.echo(_told(content, out))
    write_output(json_file, json_text(content))
    if html is not None:
        from pruning.plan_report import html_of

        write_output(html, html_of(f"{model.name}, {pattern}", content))


class _Job:
    """A checkpoint with its network and what was done to it."""

    def __init__(self, folder: Path, patterns: Any, outputs: Any) -> None:
        from pruning.formulate import formulate
        from pruning.model_folder import read_folder
        from pruning.specs import checkpoint, example_inputs, read_config
        from pruning.trace import trace

        config = read_config(folder)
        self.folder = folder
        self.module = checkpoint(read_folder(folder), config)
        self.network = trace(self.module, example_inputs(config), outputs=outputs)
        self.found = formulate(self.network, patterns)
        self.moves: dict[str, Any] = {}

    def run(self, solver: str, stop: Any, seed: int) -> dict[str, Any]:
        """Search, permute with proof, and return the report."""
        import permsearch as ps
        from pruning.permute import permute_
        from pruning.plan_report import report_of
        from pruning.reorder import moves_of

        result = ps.solve(self.found.problem, solver, stop=stop, seed=seed)
        proof = permute_(self.module, result, network=self.network, seed=seed)
        self.moves = moves_of(self.network, result.solution)
        for alias, name in self.network.aliases.items():
            if name in self.moves:
                self.moves[alias] = self.moves[name]
        return report_of(self.network, self.found, result, proof)

    def write(self, target: Path) -> None:
        """Write the permuted folder."""
        from pruning.model_folder import write_folder

        write_folder(self.folder, target, self.moves)


def _told(content: dict[str, Any], out: Path) -> str:
    total, proof, layers = content["total"], content["proof"], content["layers"]
    absorbed = sum(layer["state"] == "absorbed" for layer in layers)
    lines = [
        f"kept {total['baseline']:.5f} before, {total['retained']:.5f} after "
        f"({total['bound_kind']} bound {total['bound']:.5f})",
        f"{len(content['groups'])} groups; of {len(layers)} weights {absorbed} absorb an order",
    ]
    if proof is not None:
        lines.append(
            f"outputs unchanged: {proof['difference']:.1e} relative, {proof['runs']} inputs, "
            f"{proof['dtype']}"
        )
    return "\n".join([*lines, f"wrote {out}"])
