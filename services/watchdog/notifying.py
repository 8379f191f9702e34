"""Telling people: events become notices in the outbox, and the outbox is emptied, however long a receiver is away.

Two loops. One follows the record and asks for each event which notifications want it; the notices, and that the event
is read, are kept together. The other begins to post what is due, a few of each owner at a time: what fails is tried
again after a growing pause for a day, what can never succeed is given up at once. Receivers of one owner that are slow
or away delay nobody else, however many messages wait for them. A kill loses nothing; it may have a notice delivered
twice, with the same id.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter as Counted
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter

from services.watchdog.adapters.outbox import Delivery, Outbox, State
from services.watchdog.adapters.webhook import DeliveryError, Webhooks
from services.watchdog.domain.notices import Notice, notice_of
from services.watchdog.domain.notifications import Format, Notification, Webhook, is_usable, wants
from services.watchdog.domain.webhook_formats import refusal_in, request_of
from services.watchdog.recording import SUBJECT as OUTAGES
from shared import events as ev
from shared.bus import Bus, BusUnavailableError, CaughtUp
from shared.catalog import CatalogWatch, Secret
from shared.catalog.access import asker_named
from shared.clock import Clock
from shared.documents.fields import shown
from shared.events import IncidentRaised
from shared.jobs import Recorded
from shared.tasks import run_together
from shared.vault import SealError, Vault

SUBJECTS: Final = (
    f"tm.job.*.obs.{IncidentRaised.SUFFIX}",
    *(f"tm.job.*.state.{end.SUFFIX}" for end in (ev.Succeeded, ev.Failed, ev.Stopped)),
    OUTAGES,
)
AT_ONCE: Final = 64
OWNER_AT_ONCE: Final = 4
LOOK_S: Final = 0.5
FIRST_PAUSE_S: Final = 2.0
LONGEST_PAUSE_S: Final = 900.0
GIVEN_UP_AFTER: Final = timedelta(hours=24)
_TROUBLE_PAUSE_S: Final = 1.0
_TIDY_EVERY_S: Final = 3600.0


def pause_after(tries: int) -> timedelta:
    """How long a delivery waits that has failed so often."""
    return timedelta(seconds=min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(tries, 20)))


class Notifier:
    """Fills the outbox and empties it."""

    def __init__(
        self,
        bus: Bus,
        catalog: CatalogWatch,
        outbox: Outbox,
        webhooks: Webhooks,
        vault: Vault,
        clock: Clock,
        registry: CollectorRegistry,
    ) -> None:
        self._bus = bus
        self._catalog = catalog
        self._outbox = outbox
        self._webhooks = webhooks
        self._vault = vault
        self._clock = clock
        self._on_their_way: dict[int, str] = {}
        self._log = structlog.get_logger(service="watchdog")
        self._posted = Counter(
            "trainmaster_watchdog_notifications",
            "Tries to deliver a notice, by the shape of the message and the outcome.",
            ("format", "outcome"),
            registry=registry,
        )

    async def run(self) -> None:
        """Work until cancelled."""
        self._outbox.open(*await self._bus.stream_identity())
        await run_together(self._fill(), self._empty(), self._tidy())

    async def _fill(self) -> None:
        async for item in self._bus.follow(after=self._outbox.sequence, subjects=SUBJECTS):
            if not isinstance(item, CaughtUp):
                await self._take_patiently(item)

    async def _take_patiently(self, recorded: Recorded) -> None:
        while True:
            try:
                return await self._take(recorded)
            except (BusUnavailableError, sqlite3.OperationalError) as error:
                self._log.warning("notice_not_kept_yet", sequence=recorded.sequence, reason=str(error))
            await self._clock.sleep(_TROUBLE_PAUSE_S)

    async def _take(self, recorded: Recorded) -> None:
        catalog = await self._catalog.refresh()
        wanted: Sequence[Notification] = tuple(catalog.all(Notification))
        notice, owner = await self._notice(recorded) if wanted else (None, "")
        told = [
            each.name
            for each in wanted
            if notice is not None and wants(each, notice.type, owner, notice.job.project if notice.job else "", catalog)
        ]
        self._outbox.put(recorded.sequence, notice, told, self._clock.now())

    async def _notice(self, recorded: Recorded) -> tuple[Notice | None, str]:
        """What is to be told, and the id of the job's owner."""
        is_of_job = recorded.event.data.KIND in ("state", "obs")
        job = await self._bus.load_job(recorded.event.subject) if is_of_job else None
        return notice_of(recorded, job), job.owner if job else ""

    async def _empty(self) -> None:
        # Before the catalog is read every notification would look deleted.
        await self._catalog.loaded.wait()
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._begin_due(tasks)
                await self._clock.sleep(LOOK_S)

    def _begin_due(self, tasks: asyncio.TaskGroup) -> None:
        """Begin to post as much of what is due as may be on its way at a time."""
        begun = True
        while begun and len(self._on_their_way) < AT_ONCE:
            begun = False
            due = self._outbox.due(
                self._clock.now(),
                AT_ONCE - len(self._on_their_way),
                without=self._on_their_way,
                not_of=self._of_busy_owners(),
            )
            for delivery in due:
                owner = self._owner_of(delivery)
                if self._in_hand_of(owner) < OWNER_AT_ONCE:
                    self._on_their_way[delivery.number] = owner
                    tasks.create_task(self._see_through(delivery, tasks))
                    begun = True

    async def _see_through(self, delivery: Delivery, tasks: asyncio.TaskGroup) -> None:
        """Try once to deliver it; who waited for its place goes on at once."""
        try:
            await self._deliver(delivery)
        finally:
            del self._on_their_way[delivery.number]
        self._begin_due(tasks)

    def _owner_of(self, delivery: Delivery) -> str:
        notification = self._catalog.view.get(Notification, delivery.notification)
        return (notification.owner if notification else None) or ""

    def _in_hand_of(self, owner: str) -> int:
        return sum(each == owner for each in self._on_their_way.values())

    def _of_busy_owners(self) -> list[str]:
        """Names of the notifications whose owners have as many messages on their way as they may."""
        busy = {owner for owner, count in Counted(self._on_their_way.values()).items() if count >= OWNER_AT_ONCE}
        if not busy:
            return []
        return [each.name for each in self._catalog.view.all(Notification) if (each.owner or "") in busy]

    async def _tidy(self) -> None:
        while True:
            self._outbox.forget_old(self._clock.now())
            await self._clock.sleep(_TIDY_EVERY_S)

    async def _deliver(self, delivery: Delivery) -> None:
        notification = self._catalog.view.get(Notification, delivery.notification)
        if notification is None:
            self._outbox.forget(delivery.notification)
            return
        webhook = notification.spec.webhook
        try:
            await self._post(delivery.notice, notification.owner or "", webhook)
        except DeliveryError as error:
            self._failed(delivery, webhook.format, error)
        except Exception as error:  # noqa: BLE001  # one message that cannot be made must not keep the others
            self._log.exception("notice_not_posted", notification=delivery.notification)
            self._failed(delivery, webhook.format, DeliveryError(f"{type(error).__name__}: {error}"))
        else:
            self._outbox.tried(delivery, "delivered", self._clock.now())
            self._posted.labels(webhook.format, "delivered").inc()

    async def _post(self, notice: Notice, owner: str, webhook: Webhook) -> None:
        url = webhook.url or await self._secret(webhook.url_from, owner)
        key = await self._secret(webhook.sign_with, owner) if webhook.sign_with else None
        request = request_of(notice, webhook.format, url, key, self._clock.now())
        refusal = refusal_in(await self._webhooks.post(request), webhook.format)
        if refusal is not None:
            raise DeliveryError(refusal.reason, is_final=refusal.is_final)

    async def _secret(self, name: str | None, owner: str) -> str:
        """The value of a secret that the owner may use now."""
        catalog = await self._catalog.refresh()
        if name is None or not is_usable(name, asker_named(owner, catalog), catalog):
            raise DeliveryError(f"there is no secret {shown(name or '')} any more that {owner} may use")
        try:
            value = await self._vault.reveal(Secret.id_of(name))
        except (SealError, BusUnavailableError) as error:
            raise DeliveryError(f"the secret {shown(name)} cannot be opened: {error.message}") from error
        if value is None:
            raise DeliveryError(f"the secret {shown(name)} has no value; apply it again")
        return value.strip()

    def _failed(self, delivery: Delivery, form: Format, error: DeliveryError) -> None:
        now = self._clock.now()
        due_at = now + pause_after(delivery.tries)
        is_over = error.is_final or due_at - delivery.made_at > GIVEN_UP_AFTER
        state: State = "given-up" if is_over else "waiting"
        self._outbox.tried(delivery, state, due_at, error.message)
        self._posted.labels(form, "given-up" if is_over else "failed").inc()
        self._log.warning("notice_not_delivered", notification=delivery.notification, state=state, reason=error.message)
