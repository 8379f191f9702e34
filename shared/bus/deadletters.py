"""Messages that nobody could handle: kept in the stream `DLQ` with the reason, where an operator finds them.

A dead letter is the original body under `tm.dlq.<service>.<reason>`; its headers say where it came from.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from nats.js import JetStreamContext

from shared.bus.streams import DLQ
from shared.errors import TrainmasterError

_TIMEOUT_S: Final = 5.0
_NOT_TOKEN = re.compile(r"[^a-z0-9-]+")


class UnhandleableError(TrainmasterError):
    """A handler's word that a message can never be handled; `reason` is a short kebab-case code."""

    code = "internal"

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message, where it came from, and why it is here."""

    service: str
    reason: str
    detail: str
    stream: str
    sequence: int
    subject: str
    body: bytes

    @property
    def headers(self) -> dict[str, str]:
        """Headers under which it is kept; the id makes a repeat the same letter."""
        return {
            "Nats-Msg-Id": f"dlq/{self.service}/{self.stream}/{self.sequence}",
            "Tm-Reason": self.reason,
            "Tm-Detail": self.detail.replace("\r", " ").replace("\n", " ")[:1000],
            "Tm-Stream": self.stream,
            "Tm-Sequence": str(self.sequence),
            "Tm-Subject": self.subject,
        }


async def bury(js: JetStreamContext, letter: DeadLetter) -> None:
    """Keep a dead letter; raises where JetStream does not take it (the message is then delivered again)."""
    reason = _NOT_TOKEN.sub("-", letter.reason.lower()) or "unknown"
    subject = f"tm.dlq.{letter.service}.{reason}"
    await js.publish(subject, letter.body, stream=DLQ, headers=letter.headers, timeout=_TIMEOUT_S)
