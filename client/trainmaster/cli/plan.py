"""`trainmaster plan`: reads manifests and tells what would become of each job, without submitting it."""

from __future__ import annotations

import sys

import click

from trainmaster.cli.connection import connected
from trainmaster.cli.screen import TABLE, Screen, output_option, serialised
from trainmaster.client import Client
from trainmaster.documents import Plan
from trainmaster.errors import InputError, InvalidInputError
from trainmaster.kinds import TRAINING_JOB
from trainmaster.manifests.reader import Manifest, RefusedManifestError, read_file
from trainmaster.rendering.explanation import plan_page


@click.command("plan")
@click.option(
    "-f", "--file", "paths", multiple=True, required=True, metavar="FILE", help="A YAML file; - is standard input."
)
@output_option
def command(paths: tuple[str, ...], output: str) -> None:
    """Say what would become of a job, without submitting it.

    That is: whether it is valid, where it would start now, what an hour of it costs, or what it would wait for. Nothing
    is submitted and nothing uploaded. Errors are told at their place in the file, as `apply` does.
    """
    manifests = [manifest for path in paths for manifest in read_file(path, sys.stdin.buffer)]
    _check(manifests)
    with connected() as client:
        plans = [_plan(client, manifest) for manifest in manifests]
    _report(plans, output)


def _check(manifests: list[Manifest]) -> None:
    kinds = {str(manifest.document.get("kind")) for manifest in manifests}
    others = sorted(kinds - {TRAINING_JOB.name})
    if others:
        raise InputError(f"plans are made for kind TrainingJob; there is also {', '.join(others)}: apply that first")


def _plan(client: Client, manifest: Manifest) -> Plan:
    try:
        return client.plan(manifest.document, base=manifest.base)
    except InvalidInputError as error:
        if not error.problem.violations:
            raise
        raise RefusedManifestError(manifest, error.problem.violations) from error


def _report(plans: list[Plan], output: str) -> None:
    if output == TABLE:
        screen = Screen.here()
        for plan in plans:
            screen.out.print(plan_page(plan))
        return
    documents = [plan.document for plan in plans]
    click.echo(serialised(documents[0] if len(documents) == 1 else {"items": documents}, output))
