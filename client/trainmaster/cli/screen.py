"""Where commands print: results to standard output, everything about the way there to standard error."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Self

import click
from rich.console import Console, RenderableType

from trainmaster.rendering.style import colours_on, console, printable

TABLE, JSON, YAML = FORMATS = ("table", "json", "yaml")

_FILLING: Final = re.compile(r"[ ]+((?:\x1b\[[0-9;]*m)*)\n")

output_option = click.option(
    "-o", "--output", type=click.Choice(FORMATS), default=TABLE, show_default=True, help="How to print the result."
)


@dataclass(frozen=True, slots=True)
class Screen:
    """This process's standard output and standard error."""

    out: Console
    err: Console
    coloured: bool

    @classmethod
    def here(cls) -> Self:
        """The screen as it is now."""
        environ = os.environ
        return cls(console(sys.stdout, environ), console(sys.stderr, environ), colours_on(sys.stdout, environ))

    def say(self, message: str, style: str = "") -> None:
        """A remark for people, beside the result."""
        self.err.print(printable(message), style=style, soft_wrap=True)

    def show(self, rendered: RenderableType) -> None:
        """Something rendered, without the blanks that fill up the last column of tables."""
        with self.out.capture() as printed:
            self.out.print(rendered)
        self.out.file.write(_FILLING.sub(r"\1\n", printed.get()))

    def result(self, output: str, document: Any, render: Callable[[], RenderableType]) -> None:
        """The result: the platform's document, or what `render` makes of it."""
        if output == TABLE:
            self.show(render())
        else:
            click.echo(serialised(document, output))


def serialised(document: Any, output: str) -> str:
    """The document as JSON or YAML text."""
    if output == JSON:
        return json.dumps(document, indent=2, ensure_ascii=False)
    from trainmaster.manifests.writer import yaml_text  # noqa: PLC0415  # YAML is loaded only where it is asked for

    return yaml_text(document).rstrip("\n")


def json_line(document: Any) -> str:
    """The document as one line: how streams are printed with -o json."""
    return json.dumps(document, ensure_ascii=False)
