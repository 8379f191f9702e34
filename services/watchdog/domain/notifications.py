"""`kind: Notification`: who wants to be told of what, by which webhook; and what is wrong with one.

A notification belongs to whoever made it. Without a project it tells of its owner's own jobs, with one of all jobs in
that project, as long as the owner may see them; platform incidents are for admins. A URL that is itself a secret, as
those of chat services are, and the key that signs messages are named secrets, which the owner must be able to use.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from shared.catalog import Asker, Catalog, CatalogDocument, Secret, User, may_change, may_use_secret
from shared.catalog.access import DEFAULT_PROJECT, asker_named, projects_of
from shared.documents.fields import Document, Name, Text, refuse, shown
from shared.errors import Violation

Topic = Literal["incident", "hang", "succeeded", "failed", "stopped", "outage"]
Format = Literal["json", "slack", "feishu", "dingtalk"]

OF_JOBS: Final[tuple[Topic, ...]] = ("incident", "hang", "succeeded", "failed", "stopped")
URL_MAX: Final = 2000
UNSIGNED: Final = "slack"
_TOPICS: Final = ", ".join((*OF_JOBS, "outage"))
_NAMED: Final = "the name of a secret"


def check_url(url: str) -> str:
    """An address that a webhook can be sent to; raises PydanticCustomError."""
    try:
        parts = urlsplit(url)
        port_fits = parts.port is None or parts.port > 0
    except ValueError:
        parts, port_fits = urlsplit(""), False
    whole = parts.scheme in ("http", "https") and bool(parts.hostname) and port_fits and len(url) <= URL_MAX
    if not whole or parts.username or parts.password or parts.fragment or not url.isprintable() or " " in url:
        raise refuse(
            "url-invalid",
            f"{shown(url)} is no address of a webhook; give one such as https://hooks.example/path, of at most "
            f"{URL_MAX} characters, without user, password and fragment",
        )
    return url


Url = Annotated[str, AfterValidator(check_url)]


class Webhook(Document):
    """Where messages go, and in which shape."""

    format: Format = Field("json", description="'json', 'slack', 'feishu' or 'dingtalk'")
    url: Url | None = Field(None, description="a URL such as https://hooks.example/path")
    url_from: Name | None = Field(None, description=f"{_NAMED} that holds the URL")
    sign_with: Name | None = Field(None, description=f"{_NAMED} that holds the key of the signature")


class NotificationSpec(Document):
    """What is told, of whose jobs, and where."""

    project: Name | None = Field(None, description="the name of a project, or nothing for your own jobs")
    events: tuple[Topic, ...] = Field(OF_JOBS, min_length=1, description=f"a list of {_TOPICS}")
    webhook: Webhook = Field(description="an object with format, url or urlFrom, and signWith")
    description: Text = Field("", description="a text")


class Notification(CatalogDocument):
    """Somebody who wants to be told."""

    SINGULAR = "notification"
    PREFIX = "nt"

    kind: Literal["Notification"] = Field(description="'Notification'")
    spec: NotificationSpec = Field(description="an object with webhook, events and project")


def violations_of(notification: Notification, owner: Asker, catalog: Catalog) -> Iterator[Violation]:
    """Everything that is wrong with the notification beside its shape."""
    spec, webhook = notification.spec, notification.spec.webhook
    if (webhook.url is None) == (webhook.url_from is None):
        yield Violation("/spec/webhook", "webhook-url", "give exactly one of url and urlFrom")
    if webhook.format == UNSIGNED and webhook.sign_with is not None:
        sentence = "webhooks of Slack know no signature; their URL is the secret. Leave this out and use urlFrom"
        yield Violation("/spec/webhook/signWith", "not-signed", sentence)
    for field, name in (("urlFrom", webhook.url_from), ("signWith", webhook.sign_with)):
        if name is not None and not is_usable(name, owner, catalog):
            sentence = f"there is no secret {shown(name)} that {owner.name} may use; apply one of kind Secret first"
            yield Violation(f"/spec/webhook/{field}", "unknown-secret", sentence)
    if spec.project is not None and not sees_project(spec.project, owner, catalog):
        sentence = f"there is no project {shown(spec.project)} that {owner.name} is a member of"
        yield Violation("/spec/project", "unknown-project", sentence)
    if "outage" in spec.events and not owner.admin:
        sentence = "platform incidents are told to admins only; leave outage out"
        yield Violation(f"/spec/events/{spec.events.index('outage')}", "admins-only", sentence)


def is_usable(secret: str, owner: Asker, catalog: Catalog) -> bool:
    """Whether the owner of a notification may use the secret."""
    found = catalog.get(Secret, secret)
    return found is not None and may_use_secret(found, owner)


def sees_project(project: str, owner: Asker, catalog: Catalog) -> bool:
    """Whether the owner sees all jobs of the project; of the one that everybody is in admins alone do."""
    return owner.admin if project == DEFAULT_PROJECT else project in projects_of(owner, catalog)


def is_listed(notification: Notification, asker: Asker) -> bool:
    """Whether the asker sees the notification: the owner's own, and admins all."""
    return may_change(notification.owner, asker)


def wants(notification: Notification, topic: Topic, job_owner: str, project: str, catalog: Catalog) -> bool:
    """Whether this is to be told, by what its owner may see now; of an outage, `job_owner` and `project` are empty."""
    if topic not in notification.spec.events or notification.owner is None:
        return False
    owner = asker_named(notification.owner, catalog)
    user = catalog.get(User, notification.owner)
    if user is None or user.spec.disabled:
        return False
    if topic == "outage":
        return owner.admin
    if notification.spec.project is None:
        return User.id_of(notification.owner) == job_owner
    return notification.spec.project == project and sees_project(project, owner, catalog)
