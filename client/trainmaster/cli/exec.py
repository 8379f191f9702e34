"""`trainmaster exec`."""

from __future__ import annotations

import sys

import click

from trainmaster.cli.connection import connected
from trainmaster.cli.screen import Screen
from trainmaster.errors import ExitCode
from trainmaster.sandboxes import ExecEnded


@click.command("exec")
@click.argument("job")
@click.argument("words", nargs=-1, required=True, metavar="-- COMMAND...")
@click.option("--role", help="A replica of this role; default: the first role.")
@click.option("--index", type=click.IntRange(0), default=0, show_default=True, help="The replica with this index.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0, 86_400, min_open=True),
    default=600.0,
    show_default=True,
    help="Seconds after which the command is ended.",
)
def command(job: str, words: tuple[str, ...], role: str | None, index: int, timeout_s: float) -> int:
    """Run a command in the sandbox of a running replica.

    It runs beside the replica's own, sees what the replica sees, has its environment and no more rights, and gets no
    input. The exit code is the command's; 124 where its time was over. Ctrl-C ends it.

    \b
      trainmaster exec mnist --index 1 -- nvidia-smi
      trainmaster exec mnist -- bash -c 'ls -l /tmp | head'
    """  # noqa: D301  # click reads the backspace character
    with connected() as client:
        for piece in client.execute(job, words, role=role, index=index, timeout_s=timeout_s):
            if isinstance(piece, ExecEnded):
                if piece.message:
                    Screen.here().say(piece.message)
                return piece.code
            stream = sys.stdout if piece.stream == "stdout" else sys.stderr
            stream.buffer.write(piece.data)
            stream.buffer.flush()
    return ExitCode.UNEXPECTED
