"""`trainmaster version`."""

from __future__ import annotations

import platform

import click

from trainmaster import __version__
from trainmaster.cli.screen import Screen, output_option


@click.command("version")
@output_option
def command(output: str) -> None:
    """Print the version of this command."""
    document = {"version": __version__, "python": platform.python_version()}
    Screen.here().result(output, document, lambda: f"trainmaster {__version__} (Python {document['python']})")
