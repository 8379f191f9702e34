"""`trainmaster get`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import click

from trainmaster.cli.connection import connected
from trainmaster.cli.screen import Screen, output_option
from trainmaster.client import Client
from trainmaster.decoding import Document
from trainmaster.documents import Page
from trainmaster.kinds import KINDS, Kind, kind_of_argument
from trainmaster.rendering.lists import listing
from trainmaster.transport import Params

_FILTERS: Final = {
    "TrainingJob": ("state", "label", "project", "owner"),
    "Incident": ("project", "owner", "job", "rule", "class"),
}


@click.command("get")
@click.argument("kind")
@click.argument("name", required=False)
@click.option("--state", "states", multiple=True, help="Jobs in this state only, such as Running; may be repeated.")
@click.option("--label", "labels", multiple=True, help="Jobs that have this label; may be repeated.")
@click.option("--project", help="Jobs of this project only.")
@click.option("--owner", help="Jobs of this user only.")
@click.option("--job", help="Incidents of this job only.")
@click.option("--rule", help="Incidents of this rule only.")
@click.option("--class", "failure_class", help="Incidents of this class of failure only, such as node.")
@click.option("--limit", type=click.IntRange(1, 1000), help="Show at most so many; the platform decides otherwise.")
@click.option("--cursor", help="Go on where the list before ended.")
@click.option("--all", "everything", is_flag=True, help="Show all there are, page after page.")
@output_option
def command(
    kind: str,
    name: str | None,
    states: tuple[str, ...],
    labels: tuple[str, ...],
    project: str | None,
    owner: str | None,
    job: str | None,
    rule: str | None,
    failure_class: str | None,
    limit: int | None,
    cursor: str | None,
    output: str,
    *,
    everything: bool,
) -> None:
    """List jobs, pools, instance types, datasets, nodes and so on, or show one.

    KIND is jobs, pools, instance-types, storages, datasets, models, images, code-sets, secrets, projects, users,
    groups, rules, notifications, clusters, nodes, queue, incidents or platform-incidents.
    """
    found_kind = kind_of_argument(kind)
    filters: Params = {
        "state": states or None,
        "label": labels or None,
        "project": project,
        "owner": owner,
        "job": job,
        "rule": rule,
        "class": failure_class,
    }
    _check_filters(found_kind, filters)
    with connected() as client:
        if name is not None:
            _show_one(client, found_kind, name, output)
        elif everything:
            _show_page(found_kind, Page(tuple(client.list(found_kind.plural, filters)), None), output)
        else:
            _show_page(found_kind, client.page(found_kind.plural, filters, limit=limit, cursor=cursor), output)


def _check_filters(kind: Kind, filters: Params) -> None:
    """Filters are for the kinds that have them."""
    accepted = _FILTERS.get(kind.name, ())
    wrong = next((name for name, value in filters.items() if value is not None and name not in accepted), None)
    if wrong is not None:
        kinds = " and ".join(kind.plural for kind in KINDS if wrong in _FILTERS.get(kind.name, ()))
        raise click.UsageError(f"--{wrong} is for {kinds}")


def _show_one(client: Client, kind: Kind, name: str, output: str) -> None:
    document = client.get(kind.plural, name)
    Screen.here().result(output, document, lambda: listing(kind, [document], datetime.now(UTC)))


def _show_page(kind: Kind, page: Page, output: str) -> None:
    screen = Screen.here()
    document: Document = {"items": list(page.items), "next": page.cursor}
    if page.items or output != "table":
        screen.result(output, document, lambda: listing(kind, page.items, datetime.now(UTC)))
    else:
        screen.say(f"no {kind.plural}")
    if page.cursor and output == "table":
        screen.say(f"there are more: --cursor {page.cursor}, or --all", style="dim")
