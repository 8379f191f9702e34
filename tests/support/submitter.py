"""A submitter over a real nats-server, called in the test's own loop by users of one's choice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from pydantic import SecretStr

from services.submitter.bootstrap import Submitter, bootstrap
from services.submitter.settings import SubmitterSettings
from shared.auth.keys import SigningKey
from shared.auth.principal import Principal
from shared.auth.tokens import TokenIssuer
from shared.bus import Bus
from shared.catalog import Catalog, CatalogDocument, CatalogStore, CatalogWatch, User
from shared.clock import SystemClock
from shared.events import Event, Payload
from shared.ids import UserId
from shared.vault import Keyring
from tests.support.catalog import instance_type, made, pool, storage
from tests.support.services import eventually, running

ADMIN_PASSWORD = "the admin's own password"
PROBLEM = "application/problem+json"


@dataclass
class Submission:
    """A running submitter and what a test does to it."""

    service: Submitter
    bus: Bus
    issuer: TokenIssuer
    clients: list[httpx.AsyncClient] = field(default_factory=list)

    def client(self, name: str | None = "ann", *, admin: bool = False) -> httpx.AsyncClient:
        """A client that speaks for a user (whether or not the catalog has them), or for nobody."""
        headers = {}
        if name is not None:
            token = self.issuer.issue(Principal(UserId(User.id_of(name)), name, admin)).token
            headers = {"Authorization": f"Bearer {token}"}
        transport = httpx.ASGITransport(self.service.app, raise_app_exceptions=False)
        client = httpx.AsyncClient(transport=transport, base_url="http://test", headers=headers)
        self.clients.append(client)
        return client

    async def keep(self, *documents: CatalogDocument) -> None:
        """Put documents into the catalog, whatever was there."""
        watch = CatalogWatch(self.bus)
        view: Catalog = await watch.refresh()
        for document in documents:
            expected = view.revision(type(document), document.name)
            await CatalogStore(self.bus).put(document, expected=expected)

    async def tell(self, job: str, *payloads: Payload) -> None:
        """Play the scheduler: append state events to a job, and wait until the submitter has seen them."""
        for payload in payloads:
            before = await self.bus.load_job(job)
            assert before is not None
            event = Event.of(
                payload, job=job, attempt=1, time=SystemClock().now(), owner=before.owner, project=before.project
            )
            sequence = await self.bus.append(event, expected=before.sequence)
            await self.service.jobs.reached(sequence)

    async def observe(self, job: str, payload: Payload) -> None:
        """Play the scheduler: append an observation of a job, and wait until the submitter has seen it."""
        before = await self.bus.load_job(job)
        assert before is not None
        event = Event.of(
            payload, job=job, attempt=1, time=SystemClock().now(), owner=before.owner, project=before.project
        )
        await self.service.jobs.reached(await self.bus.observe(event))


def settings_for(home: Path, url: str, **more: Any) -> SubmitterSettings:
    """Settings of a submitter whose state lies in a directory of the test."""
    key_file = home / "key.pem"
    if not key_file.exists():
        home.mkdir(parents=True, exist_ok=True)
        key_file.write_text(SigningKey.generate().pem())
    keys_file = home / "secret-keys.json"
    if not keys_file.exists():
        keys_file.write_text(Keyring.generate().text())
    fields = {
        "home": home,
        "secret_keys_file": keys_file,
        "signing_key_file": key_file,
        "nats_url": url,
        "admin_password": SecretStr(ADMIN_PASSWORD),
        **more,
    }
    return SubmitterSettings.model_validate(fields)


@asynccontextmanager
async def submitting(bus: Bus, home: Path, **more: Any) -> AsyncIterator[Submission]:
    """A submitter that runs inside the block, with a public pool, an instance type and a storage in the catalog."""
    settings = settings_for(home, bus.options.url, **more)
    service = await bootstrap(settings)
    issuer = TokenIssuer(SigningKey.load(settings.signing_key_file.read_text()), SystemClock())
    submission = Submission(service, bus, issuer)
    await submission.keep(
        pool(),
        instance_type(),
        storage("team-data", uri="file:///data/team", public=True),
        *(made(User, name, {}) for name in ("ann", "bob")),
    )
    async with running(service):
        await eventually(lambda: _ready(service))
        yield submission
        for client in submission.clients:
            await client.aclose()


async def _ready(service: Submitter) -> bool | None:
    loaded = service.jobs.caught_up, service.catalog.loaded, service.revocations.loaded
    return all(event.is_set() for event in loaded) or None
