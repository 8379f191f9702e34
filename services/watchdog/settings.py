"""Settings of the watchdog; each field is the environment variable `TRAINMASTER_<FIELD>`."""

from __future__ import annotations

from shared.settings import ServiceSettings


class WatchdogSettings(ServiceSettings):
    """What every service needs, and nothing more so far."""

    nats_user: str = "watchdog"
