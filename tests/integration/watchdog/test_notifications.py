"""Notices reach a real receiver, signed, once it is there, also over a restart; and never an address inside."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from services.watchdog import notifying
from services.watchdog.bootstrap import WatchdogService, bootstrap
from services.watchdog.domain.webhook_formats import signature
from shared import events as ev
from shared.bus import Bus
from shared.catalog import CatalogStore, Secret, User
from shared.vault import Vault
from shared.vault.keyring import Keyring
from tests.support.nats import NatsServer
from tests.support.receiver import Receiver, receiver
from tests.support.services import eventually, running
from tests.support.watchdog import TestJob, token, watchdog_settings

Start = Callable[..., "AsyncIterator[WatchdogService]"]


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as found:
        yield found


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifying, "FIRST_PAUSE_S", 0.05)
    monkeypatch.setattr(notifying, "LOOK_S", 0.02)


@pytest.fixture
async def keyring(bus: Bus, tmp_path: Path) -> Keyring:
    """The user ada with the secret `key`."""
    keys = Keyring.generate()
    watchdog_settings("nats://unused", tmp_path)
    (tmp_path / "secret-keys.json").write_text(keys.text())
    await put(bus, User, "ada", {})
    await put(bus, Secret, "key", {}, "ada")
    await Vault(bus, keys).keep(Secret.id_of("key"), "s3cret")
    return keys


@pytest.fixture
def watchdog(bus: Bus, nats_server: NatsServer, tmp_path: Path, keyring: Keyring) -> Start:
    @asynccontextmanager
    async def start(networks: str = "127.0.0.0/8") -> AsyncIterator[WatchdogService]:
        settings = watchdog_settings(nats_server.url, tmp_path).model_copy(
            update={"webhook_networks": networks, "secret_keys_file": tmp_path / "secret-keys.json"}
        )
        async with running(await bootstrap(settings)) as service:
            await service.reacts.wait()
            yield service

    return start


async def put(bus: Bus, kind: type[Any], name: str, spec: dict[str, Any], owner: str | None = None) -> None:
    metadata = {"name": name, **({"owner": owner} if owner else {})}
    document = {"apiVersion": "trainmaster/v1", "kind": kind.__name__, "metadata": metadata, "spec": spec}
    await CatalogStore(bus).put(kind.model_validate(document), expected=0)


def client(service: WatchdogService, home: Path, name: str = "ada") -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {token(home, name)}"}
    return httpx.AsyncClient(transport=httpx.ASGITransport(service.app), base_url="http://watchdog", headers=headers)


async def applied(
    service: WatchdogService, home: Path, name: str = "mine", user: str = "ada", **spec: Any
) -> httpx.Response:
    document = {"apiVersion": "trainmaster/v1", "kind": "Notification", "metadata": {"name": name}, "spec": spec}
    async with client(service, home, user) as http:
        return await http.put(f"/v1/notifications/{name}", json=document)


async def status(service: WatchdogService, home: Path) -> dict[str, Any]:
    async with client(service, home) as http:
        found: dict[str, Any] = (await http.get("/v1/notifications/mine")).json()["status"]
        return found


async def until(service: WatchdogService, home: Path, **wanted: Any) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        found = await status(service, home)
        return found if found.items() >= wanted.items() else None

    return await eventually(look)


async def failing(bus: Bus, owner: str = "ada") -> TestJob:
    """A job that raises an incident."""
    job = await TestJob(bus, owner=User.id_of(owner)).run()
    for index in range(2):
        await job.tell(ev.IncidentRaised(rule="xid", line="Xid", replica=ev.ReplicaRef(role="worker", index=index)))
    return job


async def test_an_incident_is_posted_once_signed_with_the_key(
    bus: Bus, watchdog: Start, tmp_path: Path, hook: Receiver
) -> None:
    async with watchdog() as service:
        answer = await applied(service, tmp_path, webhook={"url": f"{hook.url}/in?a=b", "signWith": "key"})
        assert answer.status_code == 201
        job = await failing(bus)
        await until(service, tmp_path, delivered=1, waiting=0)
    (posted,) = hook.posted
    assert posted.path == "/in?a=b"
    body = json.loads(posted.body)
    assert (body["type"], body["job"]["id"], body["incident"]["line"]) == ("incident", job.id, "Xid")
    headers = posted.headers
    expected = signature("s3cret", headers["Trainmaster-Timestamp"], posted.body)
    assert headers["Trainmaster-Signature"] == expected
    assert headers["Trainmaster-Id"] == body["id"]


async def test_a_receiver_that_fails_is_tried_again_also_after_a_restart(
    bus: Bus, watchdog: Start, tmp_path: Path, hook: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook.statuses = [500, 503]
    async with watchdog() as service:
        await applied(service, tmp_path, webhook={"url": hook.url})
        monkeypatch.setattr(notifying, "LONGEST_PAUSE_S", 1.0)
        await failing(bus)
        first = await until(service, tmp_path, waiting=1, lastError="the receiver answered with status 500: ok")
        assert first["delivered"] == 0
    async with watchdog() as service:
        await until(service, tmp_path, delivered=1, waiting=0)
    assert [json.loads(each.body)["id"] for each in hook.posted] == [json.loads(hook.posted[0].body)["id"]] * 3


async def test_what_happened_while_the_watchdog_was_away_is_told_when_it_is_back(
    bus: Bus, watchdog: Start, tmp_path: Path, hook: Receiver
) -> None:
    async with watchdog() as service:
        await applied(service, tmp_path, events=["incident"], webhook={"url": hook.url, "format": "slack"})
    await failing(bus)
    assert hook.posted == []
    async with watchdog() as service:
        await until(service, tmp_path, delivered=1)
    assert json.loads(hook.posted[0].body)["text"].startswith("*demo, attempt 1: xid in worker-0*")


async def test_receivers_of_one_user_that_do_not_answer_delay_nobody_else(
    bus: Bus, watchdog: Start, tmp_path: Path, hook: Receiver
) -> None:
    hook.stalled = {"/stalled"}
    await put(bus, User, "bob", {})
    async with watchdog() as service:
        await applied(service, tmp_path, "slow", webhook={"url": f"{hook.url}/stalled"})
        await applied(service, tmp_path, "quick", "bob", webhook={"url": f"{hook.url}/bob"})
        for _ in range(notifying.OWNER_AT_ONCE + 2):
            await failing(bus)
        await until_posted(hook, "/stalled", notifying.OWNER_AT_ONCE)
        await failing(bus, "bob")
        await until_posted(hook, "/bob", 1)
        assert paths(hook).count("/stalled") == notifying.OWNER_AT_ONCE
        hook.released.set()
        await until_posted(hook, "/stalled", notifying.OWNER_AT_ONCE + 2)


def paths(hook: Receiver) -> list[str]:
    return [posted.path for posted in hook.posted]


async def until_posted(hook: Receiver, path: str, count: int) -> None:
    async def look() -> bool | None:
        return paths(hook).count(path) >= count or None

    await eventually(look)


async def test_a_refusal_and_a_redirection_end_the_matter(
    bus: Bus, watchdog: Start, tmp_path: Path, hook: Receiver
) -> None:
    hook.statuses = [302]
    async with watchdog() as service:
        await applied(service, tmp_path, webhook={"url": hook.url})
        await failing(bus)
        found = await until(service, tmp_path, givenUp=1)
    assert found["lastError"].startswith("the receiver answered with status 302")
    assert len(hook.posted) == 1


async def test_an_address_inside_is_not_reached_unless_an_admin_allows_it(
    bus: Bus, watchdog: Start, tmp_path: Path, hook: Receiver
) -> None:
    async with watchdog("") as service:
        await applied(service, tmp_path, webhook={"url": hook.url.replace("127.0.0.1", "localhost")})
        await failing(bus)
        found = await until(service, tmp_path, givenUp=1)
    assert "TRAINMASTER_WEBHOOK_NETWORKS" in found["lastError"]
    assert hook.posted == []


async def test_the_address_may_be_a_secret_and_is_then_in_no_answer(
    bus: Bus, watchdog: Start, tmp_path: Path, hook: Receiver, keyring: Keyring
) -> None:
    await put(bus, Secret, "hook", {}, "ada")
    await Vault(bus, keyring).keep(Secret.id_of("hook"), f"{hook.url}/very-secret")
    async with watchdog() as service:
        answer = await applied(service, tmp_path, webhook={"urlFrom": "hook", "format": "dingtalk"})
        assert "very-secret" not in answer.text
        await failing(bus)
        await until(service, tmp_path, delivered=1)
    assert hook.posted[0].path == "/very-secret"


async def test_notifications_are_their_owners(bus: Bus, watchdog: Start, tmp_path: Path, hook: Receiver) -> None:
    async with watchdog() as service:
        await applied(service, tmp_path, webhook={"url": hook.url})
        async with client(service, tmp_path, "bob") as http:
            assert (await http.get("/v1/notifications")).json()["items"] == []
            assert (await http.get("/v1/notifications/mine")).status_code == 404
            assert (await http.delete("/v1/notifications/mine")).status_code == 404
            document = {
                "apiVersion": "trainmaster/v1",
                "kind": "Notification",
                "metadata": {"name": "mine"},
                "spec": {"webhook": {"url": hook.url}},
            }
            assert (await http.put("/v1/notifications/mine", json=document)).status_code == 409
            named = {**document, "metadata": {"name": "other"}}
            refused = await http.put("/v1/notifications/mine", json=named)
            assert refused.json()["errors"][0]["code"] == "name-mismatch"
        refused = await applied(service, tmp_path, webhook={"url": hook.url, "urlFrom": "key"})
        assert refused.json()["errors"][0]["code"] == "webhook-url"
        async with client(service, tmp_path) as http:
            assert (await http.delete("/v1/notifications/mine")).status_code == 204
            assert (await http.get("/v1/notifications/mine")).status_code == 404
