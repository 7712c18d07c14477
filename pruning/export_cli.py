"""`permsearch export`: a checkpoint and its masks in the form that another tool reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from permsearch.cli.converter import Converter
from permsearch.cli.options import debug_option, json_option, write_output
from permsearch.io.jsontext import json_text

_EXAMPLES = """\b
Examples:
  permsearch export model/ --bundle masks --to hf --out zeros
  permsearch export model/ --bundle masks --to sparsekernels --out packed.safetensors --json -
  permsearch export model/ --bundle masks --to onnx --out model.onnx
"""


class TargetType(Converter[str]):
    """The name of a target."""

    name = "target"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name, or fail with the nearest ones."""
        from permsearch.errors import unknown
        from pruning.exports import TARGETS

        if value not in TARGETS:
            self.fail(str(unknown("target", value, TARGETS)), param, ctx)
        return str(value)


def _list(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    del param
    if value:
        from pruning.exports import TARGETS

        for name, target in TARGETS.items():
            click.echo(f"{name:<18} {target.gives}")
        ctx.exit()


@click.command("export", epilog=_EXAMPLES)
@click.argument("model", type=click.Path(path_type=Path, exists=True))
@click.option(
    "--bundle",
    "-b",
    required=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="The masks, as `permsearch search --out` or pruning.MaskBundle.save wrote them.",
)
@click.option("--to", required=True, type=TargetType(), help="See --list.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="A file or folder.")
@click.option("--dtype", metavar="TYPE", help="For semi-structured: pack as float16, bfloat16, …")
@click.option("--strict", is_flag=True, help="Fail where a masked weight cannot have the form.")
@click.option(
    "--no-check",
    is_flag=True,
    help="Take weights that are not those that the masks were made for (trained further).",
)
@click.option("--list", is_flag=True, is_eager=True, expose_value=False, callback=_list,
              help="Tell the targets.")  # fmt: skip
@json_option
@debug_option
def export_command(
    *,
    model: Path,
    bundle: Path,
    to: str,
    out: Path,
    dtype: str | None,
    strict: bool,
    no_check: bool,
    json_file: str | None,
) -> None:
    """Write MODEL, a Hugging Face folder, with the masks of a bundle, for another tool.

    Most targets work on the folder's tensors alone; torch-prune, sparsifier, modelopt and onnx load
    the model by transformers.
    """
    from pruning.exports import export

    if not model.is_dir():
        raise click.UsageError(
            f"{model} is a file; export takes a Hugging Face folder. To pack a file's weights: "
            f"permsearch pack {bundle} {model}"
        )
    options = {} if dtype is None else {"dtype": dtype}
    told = export(bundle, model, to, out, check=not no_check, strict=strict, **options)
    if json_file != "-":
        click.echo(str(told))
    content = {
        "target": told.target,
        "path": str(told.path),
        "weights": list(told.layers),
        "left": [{"tensor": name, "reason": why} for name, why in told.left.items()],
    }
    write_output(json_file, json_text(content))
