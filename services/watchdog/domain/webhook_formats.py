"""Notices in the shapes that receivers take: our own JSON, and the messages of Slack, Feishu and DingTalk.

Signatures are those of the receivers. Ours is `Trainmaster-Signature: v1=<hex>`, the HMAC-SHA256 of
`<Trainmaster-Timestamp>.<body>`; Feishu and DingTalk sign the time alone, in the body and in the query. What comes back
is judged here, too, since Feishu and DingTalk refuse a message with status 200 and a code in the body.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote_plus

from services.watchdog.domain.notices import Notice
from services.watchdog.domain.notifications import Format

LATER: Final = frozenset({408, 425, 429})
_ANSWER_SHOWN: Final = 200
_CODES: Final[Mapping[str, tuple[str, ...]]] = {"feishu": ("code", "StatusCode"), "dingtalk": ("errcode",)}
# Too many messages in a minute: the receivers ask us to come back.
_BUSY_CODES: Final = frozenset({11232, 9499, 130101, 410100})


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    """What is posted."""

    url: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WebhookAnswer:
    """What came back, the body as far as it was read."""

    status: int
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The receiver did not take it: why, and whether a later try may help."""

    reason: str
    is_final: bool


def request_of(notice: Notice, form: Format, url: str, key: str | None, now: datetime) -> WebhookRequest:
    """The message for a receiver; `key` signs it."""
    match form:
        case "json":
            return _own(notice, url, key, now)
        case "slack":
            return _json(url, {"text": f"*{_slack(notice.title)}*\n{_slack(notice.text)}"})
        case "feishu":
            return _json(url, {**_feishu_sign(key, now), "msg_type": "text", "content": {"text": _plain(notice)}})
        case "dingtalk":
            return _json(_dingtalk_url(url, key, now), {"msgtype": "text", "text": {"content": _plain(notice)}})


def refusal_in(answer: WebhookAnswer, form: Format) -> Refusal | None:
    """Why the receiver did not take the message; None where it did."""
    if not 200 <= answer.status < 300:
        is_final = 300 <= answer.status < 500 and answer.status not in LATER
        return Refusal(f"the receiver answered with status {answer.status}{_quoted(answer.body)}", is_final)
    code = _code(answer.body, form)
    if not code:
        return None
    return Refusal(f"the receiver answered with code {code}{_quoted(answer.body)}", code not in _BUSY_CODES)


def signature(key: str, timestamp: str, body: bytes) -> str:
    """Our own signature of a body at a time (seconds since 1970)."""
    signed = hmac.new(key.encode(), timestamp.encode() + b"." + body, hashlib.sha256)
    return f"v1={signed.hexdigest()}"


def _own(notice: Notice, url: str, key: str | None, now: datetime) -> WebhookRequest:
    body = notice.model_dump_json(by_alias=True, exclude_none=True, exclude={"once"}).encode()
    timestamp = str(int(now.timestamp()))
    headers = {"Trainmaster-Event": notice.type, "Trainmaster-Id": notice.id, "Trainmaster-Timestamp": timestamp}
    if key is not None:
        headers["Trainmaster-Signature"] = signature(key, timestamp, body)
    return WebhookRequest(url, body, headers)


def _json(url: str, document: Mapping[str, Any]) -> WebhookRequest:
    return WebhookRequest(url, json.dumps(document, ensure_ascii=False).encode())


def _plain(notice: Notice) -> str:
    return f"{notice.title}\n{notice.text}"


def _slack(text: str) -> str:
    """Text that means nothing to Slack: no links, no mentions."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _feishu_sign(key: str | None, now: datetime) -> dict[str, str]:
    if key is None:
        return {}
    timestamp = str(int(now.timestamp()))
    signed = hmac.new(f"{timestamp}\n{key}".encode(), b"", hashlib.sha256).digest()
    return {"timestamp": timestamp, "sign": base64.b64encode(signed).decode()}


def _dingtalk_url(url: str, key: str | None, now: datetime) -> str:
    if key is None:
        return url
    timestamp = str(int(now.timestamp() * 1000))
    signed = hmac.new(key.encode(), f"{timestamp}\n{key}".encode(), hashlib.sha256).digest()
    separator = "&" if "?" in url else "?"
    return f"{url}{separator}timestamp={timestamp}&sign={quote_plus(base64.b64encode(signed))}"


def _code(body: bytes, form: Format) -> int:
    """The code in the body of an answer; 0 where all is well or there is none."""
    try:
        told = json.loads(body) if form in _CODES else {}
    except ValueError:
        return 0
    codes = (told.get(name) for name in _CODES.get(form, ())) if isinstance(told, dict) else ()
    return next((code for code in codes if isinstance(code, int) and code != 0), 0)


def _quoted(body: bytes) -> str:
    text = body[:_ANSWER_SHOWN].decode("utf-8", "replace").strip()
    return f": {text}" if text else ""
