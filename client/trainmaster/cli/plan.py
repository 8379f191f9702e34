"""`trainmaster plan`: reads manifests and tells what would become of each job, without submitting it."""

from __future__ import annotations

import sys
from dataclasses import replace

import click

from trainmaster.cli.connection import connected
from trainmaster.cli.screen import TABLE, Screen, output_option, serialised
from trainmaster.client import Client, name_of
from trainmaster.decoding import Fields
from trainmaster.diagnoses import how_long
from trainmaster.documents import Plan
from trainmaster.errors import InputError, InvalidInputError, NotFoundError, UnavailableError
from trainmaster.kinds import TRAINING_JOB, kind_of_document
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
    is submitted and nothing uploaded. Errors are told at their place in the file, as `apply` does. Whatever else is in
    the file must be in place already, and counts as it is there.
    """
    manifests = [manifest for path in paths for manifest in read_file(path, sys.stdin.buffer)]
    jobs = [manifest for manifest in manifests if manifest.document.get("kind") == TRAINING_JOB.name]
    if not jobs:
        raise InputError(f"plans are made for kind {TRAINING_JOB.name}, and there is none")
    others = [manifest for manifest in manifests if manifest not in jobs]
    with connected() as client:
        _check_in_place(client, others)
        plans = [_plan(client, manifest) for manifest in jobs]
    _report(plans, output)


def _check_in_place(client: Client, manifests: list[Manifest]) -> None:
    """Raise InputError with all that a job could need and that is not there; what is there counts as it is."""
    missing = [_label(manifest) for manifest in manifests if not _is_there(client, manifest)]
    if missing:
        raise InputError(
            f"not in place yet: {', '.join(missing)}; a plan is made with what is there, so apply that first"
        )
    if manifests:
        there = ", ".join(map(_label, manifests))
        Screen.here().say(f"planned with what is in place, and not with what the file says of it: {there}")


def _label(manifest: Manifest) -> str:
    return f"{kind_of_document(manifest.document.get('kind')).singular} {name_of(manifest.document)}"


def _is_there(client: Client, manifest: Manifest) -> bool:
    try:
        client.get(kind_of_document(manifest.document.get("kind")).plural, name_of(manifest.document))
    except NotFoundError:
        return False
    return True


def _plan(client: Client, manifest: Manifest) -> Plan:
    try:
        plan = client.plan(manifest.document, base=manifest.base)
        return replace(plan, diagnosis=_diagnosis(client, manifest, plan))
    except InvalidInputError as error:
        if not error.problem.violations:
            raise
        raise RefusedManifestError(manifest, error.problem.violations) from error


def _diagnosis(client: Client, manifest: Manifest, plan: Plan) -> str:
    """How long its nodes are tested before it starts; empty where they are not, or where it would wait."""
    wanted = Fields.of(manifest.document).fields("spec").fields("diagnosis").flag("enabled")
    if not wanted or not plan.gpus:
        return ""
    try:
        return how_long(client.diagnoses.plan(plan.gpus, plan.instance_types))
    except (UnavailableError, NotFoundError) as error:
        return f"for how long is not known now ({error})"


def _report(plans: list[Plan], output: str) -> None:
    if output == TABLE:
        screen = Screen.here()
        for plan in plans:
            screen.out.print(plan_page(plan))
        return
    documents = [plan.document for plan in plans]
    click.echo(serialised(documents[0] if len(documents) == 1 else {"items": documents}, output))
