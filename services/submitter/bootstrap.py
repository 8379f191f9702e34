"""Wires the submitter: bus, read model, catalog, keys, use cases, HTTP; and the life of the whole."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, FastAPI

from services.submitter.adapters.credentials import Credentials
from services.submitter.adapters.followers import Followers
from services.submitter.api.accounts import accounts_router, login_router
from services.submitter.api.assets import assets_router, uploads_router
from services.submitter.api.jobs import job_events_router, jobs_router
from services.submitter.handlers.accounts import AccountHandlers
from services.submitter.handlers.archiving import Archiving
from services.submitter.handlers.assets import AssetHandlers
from services.submitter.handlers.expiry import Expiry
from services.submitter.handlers.jobs import JobHandlers
from services.submitter.handlers.names import Names
from services.submitter.handlers.uploads import UploadHandlers
from services.submitter.settings import SubmitterSettings
from shared import checks
from shared.admission.directories import LocalDirectories, UnseenDirectories
from shared.auth.authenticator import TokenAuthenticator
from shared.auth.keys import SigningKey
from shared.auth.login_limit import LoginLimiter
from shared.auth.passwords import Passwords
from shared.auth.revocations import KvRevocations
from shared.auth.tokens import TokenIssuer, TokenVerifier
from shared.bus import Bus
from shared.bus.blobs import Blobs
from shared.bus.streams import CODE_BUCKET
from shared.catalog import CatalogStore, CatalogWatch, CatalogWriter
from shared.clock import Clock, SystemClock
from shared.errors import UnavailableError
from shared.http.app import create_app
from shared.http.health import Check
from shared.readmodel import JobReadModel
from shared.tasks import run_until
from shared.vault import Vault


@dataclass(frozen=True, slots=True)
class Submitter:
    """The running whole; see `shared.service.Service`."""

    app: FastAPI
    bus: Bus
    jobs: JobReadModel
    catalog: CatalogWatch
    revocations: KvRevocations
    expiry: Expiry
    archiving: Archiving
    name: str = "submitter"
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Follow jobs, catalog and revocations until `stop`."""
        try:
            await run_until(self.stopping, *self._works())
        finally:
            self.jobs.close()
            await self.bus.close()

    async def stop(self) -> None:
        """Let `run` end."""
        self.stopping.set()

    def _works(self) -> tuple[Coroutine[Any, Any, None], ...]:
        following = (self.jobs.run(), self.catalog.run(), self.revocations.run())
        return (*following, self.expiry.run(), self.archiving.run())


async def bootstrap(settings: SubmitterSettings, clock: Clock | None = None) -> Submitter:
    """The submitter, ready to run; raises BusUnavailableError where NATS is not there."""
    clock = clock or SystemClock()
    key = SigningKey.load(settings.signing_key_file.read_text())
    bus = await Bus.connect(settings.bus_options())
    jobs, catalog = JobReadModel(settings.read_model_file, bus), CatalogWatch(bus)
    revocations = KvRevocations(bus.js, clock)
    writer, blobs = CatalogWriter(CatalogStore(bus), catalog), Blobs(bus.js, CODE_BUCKET)
    accounts = AccountHandlers(
        watch=catalog,
        writer=writer,
        credentials=Credentials(bus),
        passwords=Passwords(),
        limiter=LoginLimiter(clock),
        issuer=TokenIssuer(key, clock),
        revocations=revocations,
        jobs=jobs,
        clock=clock,
    )
    if settings.admin_password.get_secret_value():
        await accounts.ensure_admin(settings.admin_name, settings.admin_password.get_secret_value())
    locations = settings.locations(settings.home)
    directories = LocalDirectories() if settings.replicas_here else UnseenDirectories()
    handlers = JobHandlers(bus, jobs, catalog, blobs, locations, clock, Names(bus, jobs), directories)
    app = create_app(
        service="submitter",
        title="Trainmaster submitter",
        routers=_routers(
            handlers,
            Followers(bus, jobs),
            AssetHandlers(catalog, writer, blobs, Vault(bus, settings.keyring()), locations, clock, jobs, directories),
            UploadHandlers(blobs),
            accounts,
            key,
        ),
        auth=TokenAuthenticator(TokenVerifier(key.public(), clock), revocations),
        checks={
            "jetstream": checks.jetstream(bus),
            "jobs": _whether_read(jobs),
            "catalog": catalog.check,
            "revocations": revocations.check,
        },
    )
    expiry = Expiry(jobs, handlers, clock)
    archiving = Archiving(bus, jobs, clock, settings.archive_after_s)
    return Submitter(app, bus, jobs, catalog, revocations, expiry, archiving)


def _routers(
    jobs: JobHandlers,
    followers: Followers,
    assets: AssetHandlers,
    uploads: UploadHandlers,
    accounts: AccountHandlers,
    key: SigningKey,
) -> list[APIRouter]:
    # `/v1/assets/uploads` comes before `/v1/assets/{kind}`, which would match it, too.
    return [
        login_router(accounts, key.public()),
        accounts_router(accounts),
        uploads_router(uploads),
        assets_router(assets),
        jobs_router(jobs),
        job_events_router(jobs, followers),
    ]


def _whether_read(jobs: JobReadModel) -> Check:
    async def check() -> str:
        if not jobs.caught_up.is_set():
            raise UnavailableError("the events of all jobs are still being read")
        return f"sequence {jobs.sequence}"

    return check
