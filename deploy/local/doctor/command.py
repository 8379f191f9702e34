"""`trainmaster doctor`: every check in its order, as a table or a document."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import click
from rich.console import Group, RenderableType
from rich.text import Text

from deploy.local.doctor import hardware, health, software, system
from deploy.local.doctor.finding import Check, Finding, Verdict, examined
from deploy.local.home import Home
from trainmaster.cli.screen import Screen, output_option
from trainmaster.rendering.style import table, text

_STYLES: Final = {Verdict.OK: "green", Verdict.WARN: "yellow", Verdict.FAIL: "bold red"}
_SEVERITY: Final = (Verdict.OK, Verdict.WARN, Verdict.FAIL)
FAILED: Final = 1


def checks(home: Home, port: int) -> dict[str, Check]:
    """What is looked at, by the names of the findings."""
    return {
        "python": software.python,
        "nats-server": software.nats_server,
        "shell": software.shell,
        "sandbox": partial(software.sandbox, home),
        "tensorboard": software.tensorboard,
        "machine": hardware.memory,
        "gpus": hardware.gpus,
        "memory-limits": hardware.memory_limits,
        "shared-memory": hardware.shared_memory,
        "home": partial(system.home, home),
        "disk": partial(system.disk, home),
        "port": lambda: system.port(port, home.running()),
        "clock": partial(system.clock, home),
        "open-files": system.open_files,
        "inotify": system.inotify,
        "platform": partial(health.platform, home),
    }


@click.command()
@click.option(
    "--home",
    "home_path",
    type=click.Path(file_okay=False, path_type=Path),
    help="State directory; default $TRAINMASTER_HOME or ~/.trainmaster.",
)
@click.option("--port", type=click.IntRange(1, 65535), default=8080, show_default=True, help="HTTP port of `up`.")
@output_option
def doctor(home_path: Path | None, port: int, output: str) -> int:
    """Say what this machine can and cannot do, with the commands that mend it.

    Works whether or not the platform runs, and changes nothing. Ends with exit code 1 where something keeps the
    platform from running.
    """
    home = Home(home_path.absolute()) if home_path else Home.default()
    findings = [examined(name, check) for name, check in checks(home, port).items()]
    verdict = worst(findings)
    document = {"verdict": str(verdict), "findings": [finding.document for finding in findings]}
    Screen.here().result(output, document, lambda: report(findings))
    return FAILED if verdict is Verdict.FAIL else 0


def worst(findings: Sequence[Finding]) -> Verdict:
    """The verdict over all of them."""
    return max((finding.verdict for finding in findings), key=_SEVERITY.index, default=Verdict.OK)


def report(findings: Sequence[Finding]) -> RenderableType:
    """A line for each finding; below it the command that mends it, where there is something to mend."""
    rows: list[tuple[Text, str | Text, str | Text]] = []
    for finding in findings:
        rows.append((Text(finding.verdict, style=_STYLES[finding.verdict]), finding.check, finding.message))
        if finding.mend:
            rows.append((Text(), Text(), text(f"mend: {finding.mend}", "bold")))
    counted = {verdict: sum(finding.verdict is verdict for finding in findings) for verdict in _SEVERITY}
    told = ", ".join(f"{count} {verdict}" for verdict, count in counted.items() if count)
    return Group(table(("", "CHECK", "FOUND"), rows), Text(), Text(told))
