"""Settings of the diagnoser; each field is the environment variable `TRAINMASTER_<FIELD>`."""

from __future__ import annotations

from shared.settings import ServiceSettings


class DiagnoserSettings(ServiceSettings):
    """What every service needs, and nothing more so far."""

    nats_user: str = "diagnoser"
