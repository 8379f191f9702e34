"""`trainmaster tensorboard`."""

from __future__ import annotations

import click

from trainmaster.cli.connection import connected
from trainmaster.cli.screen import TABLE, Screen, output_option, serialised
from trainmaster.documents.tensorboard import TensorBoard

_MOST_RUNS = 8


@click.command("tensorboard")
@click.argument("jobs", metavar="JOB...", nargs=-1, required=True)
@click.option(
    "--attempt", "attempts", type=click.IntRange(1), multiple=True, help="Only this attempt; may be repeated."
)
@click.option("--dir", "directory", help="A directory on a mount of the job, as its replicas name it.")
@click.option("--open", "opens", is_flag=True, help="Open the address in this machine's browser.")
@click.option("--stop", is_flag=True, help="Stop it before it stops by itself.")
@output_option
def command(
    jobs: tuple[str, ...],
    attempts: tuple[int, ...],
    directory: str | None,
    output: str,
    *,
    opens: bool,
    stop: bool,
) -> None:
    """Start TensorBoard on what jobs wrote, and print its address.

    Attempts of a job, and several jobs, are shown side by side. The address lets one browser in, once, within a minute;
    after that the browser may stay. TensorBoard stops by itself when nobody looks at it any more.
    """
    with connected() as client:
        board = client.open_tensorboard(jobs, attempts=attempts, directory=directory)
        if stop:
            client.stop_tensorboard(board.id)
            Screen.here().say("stopped")
            return
    if output != TABLE:
        click.echo(serialised(board.document, output))
        return
    click.echo(board.browser_url)
    Screen.here().say(_told(board))
    if opens:
        click.launch(board.browser_url)


def _told(board: TensorBoard) -> str:
    if not board.runs:
        return (
            "nothing was written for TensorBoard so far; what comes is shown as it comes. Records elsewhere on a "
            "mount of the job are shown with --dir"
        )
    more = f" and {len(board.runs) - _MOST_RUNS} more" if len(board.runs) > _MOST_RUNS else ""
    return f"shows {', '.join(board.runs[:_MOST_RUNS])}{more}; the address is good for {board.expires_in_s} s"
