"""The base of the types that options take, for click from 8.1 on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

__all__ = ["Converter"]

if TYPE_CHECKING:
    Converter = click.ParamType
else:

    class Converter(click.ParamType):
        """A `click.ParamType` that can name what it returns, which click knows since 8.4 only."""

        def __class_getitem__(cls, returned: Any) -> type[Converter]:
            return cls
