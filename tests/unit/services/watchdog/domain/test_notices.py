"""What is told of incidents and ends, and to whom."""

from __future__ import annotations

from typing import Any

import pytest

from services.watchdog.domain.notices import TEXT_MAX, Notice, notice_of
from services.watchdog.domain.notifications import Notification, violations_of, wants
from shared import events as ev
from shared.catalog import Asker, Catalog, CatalogDocument, Project, Secret, User
from shared.documents import must_parse
from shared.errors import InvalidInputError
from shared.events import Payload
from shared.jobs import Job, Recorded
from tests.support.jobs import event, job_after, placed

RUNNING = job_after(placed(), ev.Started())
OWNER = User.id_of("ada")


def told(payload: Payload, job: Job | None = RUNNING) -> Notice | None:
    return notice_of(Recorded(9, "", event(payload, "tj-a")), job)


def test_an_incident_is_told_with_its_job_rule_and_line() -> None:
    replica = ev.ReplicaRef(role="worker", index=1)
    notice = told(ev.IncidentRaised(rule="xid-79", line="Xid 79", replica=replica))
    assert notice is not None
    assert (notice.type, notice.title, notice.text) == ("incident", "demo, attempt 1: xid-79 in worker-1", "Xid 79")
    other = told(ev.IncidentRaised(rule="xid-79", line="x", replica=ev.ReplicaRef(role="worker", index=2)))
    assert other is not None
    assert other.once == notice.once


def test_every_silence_is_told_and_that_it_ends_the_attempt() -> None:
    first = told(ev.IncidentRaised(rule="hang", line="silent since 1", action="stop"))
    second = told(ev.IncidentRaised(rule="hang", line="silent since 2"))
    assert first is not None
    assert second is not None
    assert (first.type, first.text) == ("hang", "silent since 1 The attempt is ended.")
    assert first.once != second.once


def test_ends_are_told_with_their_reason() -> None:
    notice = told(ev.Failed(reason="failed", message="x" * 5000))
    assert notice is not None
    assert (notice.type, notice.title) == ("failed", "demo failed")
    assert len(notice.text) == TEXT_MAX
    assert [told(end).type for end in (ev.Succeeded(), ev.Stopped(message="by ada"))] == ["succeeded", "stopped"]  # type: ignore[union-attr]


def test_other_events_and_jobs_that_are_gone_are_not_told() -> None:
    assert told(ev.Started()) is None
    assert told(ev.Succeeded(), None) is None


def catalog(*documents: CatalogDocument) -> Catalog:
    view = Catalog((Notification,))
    for number, document in enumerate(documents, start=1):
        view.apply(document.key_of(document.name), document.model_dump_json(by_alias=True).encode(), number)
    return view


def document(kind: type[Any], name: str, spec: dict[str, Any], owner: str | None = None) -> Any:
    metadata = {"name": name, **({"owner": owner} if owner else {})}
    made = {"apiVersion": "trainmaster/v1", "kind": kind.__name__, "metadata": metadata, "spec": spec}
    return must_parse(kind, made)


def notification(owner: str = "ada", url: str | None = "https://hooks.example/x", **spec: Any) -> Notification:
    webhook = {"url": url, **spec.pop("webhook", {})}
    made: Notification = document(Notification, "n", {"webhook": webhook, **spec}, owner)
    return made


ADA, ROOT = document(User, "ada", {}), document(User, "root", {"admin": True})
VISION = document(Project, "vision", {"members": {"users": ["ada"]}}, "bob")


def test_without_a_project_the_owners_own_jobs_are_told() -> None:
    view = catalog(ADA)
    assert wants(notification(), "failed", OWNER, "default", view)
    assert not wants(notification(), "failed", "u-bob", "default", view)
    assert not wants(notification(events=["hang"]), "failed", OWNER, "default", view)


def test_a_projects_jobs_are_told_as_long_as_the_owner_is_a_member() -> None:
    told_of = notification(project="vision")
    assert wants(told_of, "failed", "u-bob", "vision", catalog(ADA, VISION))
    assert not wants(told_of, "failed", "u-bob", "other", catalog(ADA, VISION))
    assert not wants(told_of, "failed", "u-bob", "vision", catalog(ADA, document(Project, "vision", {}, "bob")))


def test_nothing_is_told_to_users_who_are_gone_or_disabled() -> None:
    assert not wants(notification(), "failed", OWNER, "default", catalog())
    assert not wants(notification(), "failed", OWNER, "default", catalog(document(User, "ada", {"disabled": True})))


def test_outages_are_told_to_admins_only() -> None:
    view = catalog(ADA, ROOT)
    assert wants(notification("root", events=["outage"]), "outage", "", "", view)
    assert not wants(notification("ada", events=["outage"]), "outage", "", "", view)


SECRET = document(Secret, "hook", {}, "ada")


@pytest.mark.parametrize(
    ("made", "pointer", "code"),
    [
        (notification(url=None), "/spec/webhook", "webhook-url"),
        (notification(webhook={"urlFrom": "hook"}), "/spec/webhook", "webhook-url"),
        (notification(url=None, webhook={"urlFrom": "other"}), "/spec/webhook/urlFrom", "unknown-secret"),
        (notification(webhook={"signWith": "other"}), "/spec/webhook/signWith", "unknown-secret"),
        (notification(webhook={"signWith": "hook", "format": "slack"}), "/spec/webhook/signWith", "not-signed"),
        (notification(project="nope"), "/spec/project", "unknown-project"),
        (notification(project="default"), "/spec/project", "unknown-project"),
        (notification(events=["hang", "outage"]), "/spec/events/1", "admins-only"),
    ],
)
def test_what_cannot_be_kept_is_refused_at_its_place(made: Notification, pointer: str, code: str) -> None:
    found = list(violations_of(made, Asker("ada"), catalog(ADA, VISION, SECRET)))
    assert [(each.pointer, each.code) for each in found] == [(pointer, code)]


def test_what_is_in_order_is_not() -> None:
    made = notification(url=None, project="vision", webhook={"urlFrom": "hook", "signWith": "hook"})
    assert list(violations_of(made, Asker("ada"), catalog(ADA, VISION, SECRET))) == []


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://x/y",
        "https://",
        "https://u:p@x/",
        "https://x/#f",
        "https://x:99999/",
        "https://x/a b",
        "https://x/\r\nA",
    ],
)
def test_what_is_no_address_of_a_webhook_is_refused(url: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        notification(url=url)
    assert refused.value.violations[0].pointer == "/spec/webhook/url"
