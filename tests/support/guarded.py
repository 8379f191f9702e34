"""A nats-server with the users and rights that the launcher gives it."""

from __future__ import annotations

from pathlib import Path

from deploy.local.home import NATS_USERS
from deploy.nats.config import nats_config
from shared.bus import Bus, BusOptions
from tests.support.nats import NatsServer

PASSWORDS = {user: f"secret-of-{user}" for user in NATS_USERS}


class GuardedServer(NatsServer):
    """Every service connects as itself."""

    def write_config(self, *, sync_always: bool = True) -> Path:
        config = self.store / "nats.conf"
        text = nats_config(self.port, self.store / "js", PASSWORDS)
        config.write_text(text if sync_always else text.replace(", sync_interval: always", ""))
        return config

    async def connect(self, user: str) -> Bus:
        return await Bus.connect(BusOptions(self.url, user, PASSWORDS[user]), patience_s=0.1)
