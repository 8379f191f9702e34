"""What the watchdog keeps for people to read and sends to them: wires incident log, rules, notifications and routes."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from fastapi import APIRouter
from prometheus_client import CollectorRegistry

from services.watchdog.adapters.agents import Agents
from services.watchdog.adapters.incident_log import IncidentLog
from services.watchdog.adapters.outbox import Outbox
from services.watchdog.adapters.webhook import Destinations, Webhooks
from services.watchdog.api.backtests import backtests_router
from services.watchdog.api.incidents import incidents_router
from services.watchdog.api.notifications import notifications_router
from services.watchdog.api.rules import rules_router
from services.watchdog.api.stories import stories_router
from services.watchdog.backtesting import Backtests
from services.watchdog.catalogue import built_in_rules, preset_rows
from services.watchdog.domain.admin_rules import AdminRule
from services.watchdog.domain.notifications import Notification
from services.watchdog.notifying import Notifier
from services.watchdog.reading import ReadHandlers
from services.watchdog.recording import Recording
from services.watchdog.rulebooks import Rulebooks
from services.watchdog.ruling import RuleFeed, RuleHandlers
from services.watchdog.settings import WatchdogSettings
from services.watchdog.subscribing import NotificationHandlers
from shared.auth.authenticator import TokenAuthenticator
from shared.auth.keys import KeySet
from shared.auth.revocations import KvRevocations
from shared.auth.tokens import TokenVerifier
from shared.bus import Bus
from shared.bus.blobs import Blobs
from shared.catalog import CatalogStore, CatalogWatch, CatalogWriter
from shared.clock import Clock
from shared.http.health import Check
from shared.readmodel import JobReadModel
from shared.vault import Vault


class Desk:
    """Everything that has to do with users; the rest of the watchdog works without it."""

    def __init__(
        self,
        settings: WatchdogSettings,
        keys: KeySet,
        bus: Bus,
        jobs: JobReadModel,
        agents: Agents,
        blobs: Blobs,
        rulebooks: Rulebooks,
        clock: Clock,
        registry: CollectorRegistry,
    ) -> None:
        self._catalog = CatalogWatch(bus, (Notification, AdminRule))
        self._revocations = KvRevocations(bus.js, clock)
        self._rulebooks = rulebooks
        self._log = IncidentLog(settings.incidents_file)
        self._recording = Recording(bus, self._log, agents, blobs, clock, registry)
        self._outbox = Outbox(settings.outbox_file)
        webhooks = Webhooks(Destinations.parse(settings.webhook_networks))
        vault = Vault(bus, settings.keyring())
        self._notifier = Notifier(bus, self._catalog, self._outbox, webhooks, vault, clock, registry)
        writer = CatalogWriter(CatalogStore(bus), self._catalog)
        self._subscribing = NotificationHandlers(self._catalog, writer, self._outbox, clock)
        self._feed = RuleFeed(self._catalog, rulebooks)
        built_in, presets = built_in_rules(), preset_rows()
        self._ruling = RuleHandlers(self._catalog, writer, built_in, presets, self._log, clock)
        self._reading = ReadHandlers(bus, jobs, self._catalog, self._log, blobs)
        self.auth = TokenAuthenticator(TokenVerifier(keys, clock), self._revocations)

    def routers(self) -> list[APIRouter]:
        """The routes."""
        return [
            incidents_router(self._reading),
            notifications_router(self._subscribing),
            backtests_router(Backtests(self._rulebooks)),
            rules_router(self._ruling),
            stories_router(self._reading),
        ]

    def checks(self) -> dict[str, Check]:
        """What must be in order for the routes to answer."""
        return {"catalog": self._catalog.check, "revocations": self._revocations.check}

    def works(self) -> list[Coroutine[Any, Any, None]]:
        """What goes on in the background."""
        return [self._catalog.run(), self._revocations.run(), self._recording.run(), self._notifier.run()]

    def close(self) -> None:
        """Close the files."""
        self._log.close()
        self._outbox.close()
