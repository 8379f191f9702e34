"""Messages in the shapes of their receivers, signed as these check it, and what comes back judged."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from services.watchdog.domain.notices import JobFacts, Notice
from services.watchdog.domain.webhook_formats import WebhookAnswer, refusal_in, request_of, signature
from tests.support.jobs import START

URL = "https://hooks.example/a?token=t"
NOTICE = Notice(
    id="tj-a/1/incident.raised/xid",
    once="tj-a/1/xid",
    type="incident",
    time=START,
    title="mnist, attempt 1: xid <79>",
    text="GPU & bus",
    job=JobFacts(id="tj-a", name="mnist", owner="ada", project="vision", attempt=1),
)


def body_of(form: Any, key: str | None = None, now: datetime = START) -> tuple[str, dict[str, Any], Any]:
    request = request_of(NOTICE, form, URL, key, now)
    return request.url, json.loads(request.body), request


def test_our_own_shape_has_the_facts_and_a_signature_over_time_and_body() -> None:
    url, body, request = body_of("json", "key")
    assert url == URL
    assert (body["type"], body["title"], body["job"]["name"]) == ("incident", NOTICE.title, "mnist")
    assert "once" not in body
    timestamp = request.headers["Trainmaster-Timestamp"]
    expected = hmac.new(b"key", f"{timestamp}.".encode() + request.body, hashlib.sha256).hexdigest()
    assert request.headers["Trainmaster-Signature"] == f"v1={expected}" == signature("key", timestamp, request.body)
    assert "Trainmaster-Signature" not in body_of("json")[2].headers


def test_slack_gets_text_that_means_nothing_to_it() -> None:
    assert body_of("slack")[1] == {"text": "*mnist, attempt 1: xid &lt;79&gt;*\nGPU &amp; bus"}


def test_feishu_is_signed_with_time_and_key_as_the_key() -> None:
    _, body, _ = body_of("feishu", "key")
    assert body["content"] == {"text": f"{NOTICE.title}\nGPU & bus"}
    expected = hmac.new(f"{body['timestamp']}\nkey".encode(), b"", hashlib.sha256).digest()
    assert body["sign"] == base64.b64encode(expected).decode()
    assert "sign" not in body_of("feishu")[1]


def test_dingtalk_is_signed_in_the_query() -> None:
    url, body, _ = body_of("dingtalk", "key")
    query = parse_qs(urlsplit(url).query)
    signed = hmac.new(b"key", f"{query['timestamp'][0]}\nkey".encode(), hashlib.sha256).digest()
    assert query["sign"] == [base64.b64encode(signed).decode()]
    assert query["token"] == ["t"]
    assert body["msgtype"] == "text"


@pytest.mark.parametrize(
    ("form", "answer", "refused"),
    [
        ("json", WebhookAnswer(204), None),
        ("json", WebhookAnswer(200, b'{"code": 5}'), None),
        ("json", WebhookAnswer(404, b"no such hook"), True),
        ("json", WebhookAnswer(302), True),
        ("json", WebhookAnswer(429), False),
        ("slack", WebhookAnswer(500), False),
        ("feishu", WebhookAnswer(200, b'{"code": 0}'), None),
        ("feishu", WebhookAnswer(200, b'{"code": 19021, "msg": "sign match fail"}'), True),
        ("feishu", WebhookAnswer(200, b'{"code": 11232}'), False),
        ("dingtalk", WebhookAnswer(200, b'{"errcode": 0}'), None),
        ("dingtalk", WebhookAnswer(200, b'{"errcode": 310000, "errmsg": "sign"}'), True),
        ("dingtalk", WebhookAnswer(200, b"<html>"), None),
    ],
)
def test_what_comes_back_says_whether_it_was_taken_and_whether_to_try_again(
    form: Any, answer: WebhookAnswer, refused: bool | None
) -> None:
    refusal = refusal_in(answer, form)
    assert (refusal.is_final if refusal else None) is refused
