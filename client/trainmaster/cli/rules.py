"""`trainmaster rules`."""

from __future__ import annotations

from pathlib import Path

import click

from trainmaster.backtests import FailedAttempt, log_text, stored_logs
from trainmaster.backtests import backtest as tried
from trainmaster.cli.connection import connected
from trainmaster.cli.screen import Screen, output_option
from trainmaster.errors import InputError
from trainmaster.rendering.backtest import backtest


@click.group("rules")
def command() -> None:
    """Try the rules by which failures are told."""


@command.command("test")
@click.option("-f", "--file", "path", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A log file.")
@click.option("--job", help="The stored logs of this job.")
@click.option("--attempt", type=click.IntRange(1), help="With --job: of this attempt; the last one otherwise.")
@click.option(
    "--exit", "exit_code", type=click.IntRange(1, 255), help="The exit code; default: that of the job, else 1."
)
@output_option
def test(path: Path | None, job: str | None, attempt: int | None, exit_code: int | None, output: str) -> None:
    """Say which rules hold where in a log, what the root cause is, and whether there would be another attempt.

    Of rules that hold on one line the first wins; the others stand in brackets.

    \b
      trainmaster rules test -f worker-0.log --exit 137
      trainmaster rules test --job mnist --attempt 2
    """  # noqa: D301  # click reads the backspace character
    if (path is None) == (job is None):
        raise InputError("give a log with -f FILE, or a job with --job JOB")
    with connected() as client:
        failed = (
            FailedAttempt((log_text(path.read_bytes()),), None) if path else stored_logs(client, job or "", attempt)
        )
        if any(log.cut for log in failed.logs):
            Screen.here().say("the log is long; only its last part is looked at")
        document = tried(client, failed.logs, exit_code or failed.exit_code or 1)
    Screen.here().result(output, document, lambda: backtest(document))
