"""`trainmaster describe`."""

from __future__ import annotations

from datetime import UTC, datetime

import click
from rich.console import Group

from trainmaster.cli.connection import connected
from trainmaster.cli.screen import TABLE, Screen, output_option
from trainmaster.client import Client
from trainmaster.decoding import Fields
from trainmaster.documents import Explanation, Job, JobEvent
from trainmaster.errors import ApiError, ForbiddenError
from trainmaster.kinds import kind_of_argument
from trainmaster.rendering.description import description
from trainmaster.rendering.explanation import reasons
from trainmaster.rendering.node import node_page
from trainmaster.rendering.sandboxes import held
from trainmaster.rendering.style import text, titled
from trainmaster.usage import Bill


@click.command("describe")
@click.argument("kind_and_name", metavar="[node] NAME", nargs=-1, required=True)
@click.option("--attempt", type=click.IntRange(1), help="This attempt only.")
@output_option
def command(kind_and_name: tuple[str, ...], attempt: int | None, output: str) -> None:
    """Show one job on a page: state, roles, placement, exits; or a node.

    `trainmaster describe mnist` shows a job, `trainmaster describe node node-0` a node, what runs there, and to admins
    what happened to it.
    """
    if len(kind_and_name) == 1:
        _describe_job(kind_and_name[0], attempt, output)
    elif len(kind_and_name) == 2 and kind_of_argument(kind_and_name[0]).name == "Node" and attempt is None:
        _describe_node(kind_and_name[1], output)
    else:
        raise click.UsageError("give a job, or `node` and the name of one")


def _describe_job(job: str, attempt: int | None, output: str) -> None:
    screen = Screen.here()
    with connected() as client:
        found = client.job(job)
        if attempt is not None:
            found = found.only_attempt(attempt)
        bill = _bill(client, found.id) if output == TABLE else None
        kept = client.kept_sandboxes(found.id) if output == TABLE and found.spec.text("keepFor") else ()
        standing = _standing(client, found) if output == TABLE else None
        reports = _report(client, found) if output == TABLE else {}
    screen.result(output, found.document, lambda: description(found, datetime.now(UTC), bill, reports))
    if standing is not None and (told := list(reasons(standing))):
        screen.out.print(titled("Placement", Group(text(standing.summary), *told)))
    if lines := held(found, kept):
        screen.out.print(text("\n".join(lines)))


def _standing(client: Client, job: Job) -> Explanation | None:
    """What the job waits for, or why it is where it is; None where there is nothing to say, or nobody who says it."""
    try:
        return None if job.ended else client.explain(job.id)
    except ApiError:
        return None


def _report(client: Client, job: Job) -> dict[int, Fields]:
    """What the last diagnosis of the job has measured, by its attempt; where it can be read."""
    diagnosed = [each.number for each in job.attempts if each.diagnosis and each.diagnosis.finished_at]
    try:
        report = client.diagnoses.of_attempt(job, diagnosed[-1]) if diagnosed else None
    except ApiError:
        return {}
    return {diagnosed[-1]: Fields.of(report)} if report else {}


def _describe_node(name: str, output: str) -> None:
    with connected() as client:
        document = client.get("nodes", name)
        history = _history(client, name) if output == TABLE else ()
        ledger = _ledger(client, name) if output == TABLE else None
    Screen.here().result(output, document, lambda: node_page(Fields.of(document), history, ledger))


def _history(client: Client, node: str) -> tuple[JobEvent, ...]:
    """What happened to the node, for those who may know."""
    try:
        return client.nodes.history(node)
    except ForbiddenError:
        return ()


def _ledger(client: Client, node: str) -> Fields | None:
    """What the ledger of node health says, for those who may know; None where nobody says it."""
    try:
        return Fields.of(client.diagnoses.ledger(node))
    except ApiError:
        return None


def _bill(client: Client, job: str) -> Bill | None:
    """What the job costs; None where the platform cannot say so, which is no reason to show nothing."""
    try:
        return client.bill(job)
    except ApiError:
        return None
