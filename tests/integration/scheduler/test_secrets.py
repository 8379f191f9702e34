"""Secrets on their way into replicas: the right values for the right users, and nothing of them left on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.catalog import CatalogDocument, CatalogStore, CatalogWatch, Secret
from shared.jobs import JobState
from shared.vault import Keyring, Vault
from tests.support.catalog import group, secret
from tests.support.holders import holders
from tests.support.scheduling import Rig
from tests.support.services import eventually, running

VALUE = "plain-text-of-the-secret"
SHOWS = 'printf %s "$TOKEN" | sha256sum | cut -c1-8; exec sleep "${LAST_S:-0}"'


async def keep(rig: Rig, *documents: CatalogDocument) -> None:
    view = await CatalogWatch(rig.bus).refresh()
    for document in documents:
        await CatalogStore(rig.bus).put(document, expected=view.revision(type(document), document.name))


async def keep_secret(rig: Rig, name: str = "hub", owner: str = "ada", value: str | None = VALUE, **access) -> None:
    await keep(rig, secret(name, owner, **access))
    if value is not None:
        await Vault(rig.bus, rig.keyring).keep(Secret.id_of(name), value)


async def test_a_secret_is_in_the_environment_and_in_no_file(rig: Rig):
    await keep_secret(rig)
    async with running(await rig.scheduler()):
        job = await rig.submit(SHOWS, secrets={"TOKEN": "hub"}, env={"LAST_S": "600"})
        await rig.until(job, JobState.RUNNING)
        assert holders(rig.home, VALUE) == []
        assert holders(rig.nats.store, VALUE) == []
        await eventually(shown)
    assert holders(rig.home, VALUE) == []


async def shown() -> bool | None:
    """Whether a process has it; the first one of a replica that runs may still be on its way to the command."""
    return any(VALUE.encode() in environ for environ in environments()) or None


def environments() -> list[bytes]:
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            found.append(path.read_bytes())
        except OSError:
            continue
    return found


async def test_a_platform_that_died_before_the_start_opens_the_secret_again(rig: Rig):
    await keep_secret(rig)
    job = await rig.submit(
        '[ "$TOKEN" = "' + VALUE[:5] + '${REST}" ]', secrets={"TOKEN": "hub"}, env={"REST": VALUE[5:]}
    )
    service = await rig.scheduler()
    async with running(service):
        await rig.until(job, JobState.STARTING, JobState.RUNNING, JobState.SUCCEEDED)
    async with running(await rig.scheduler()):
        await rig.until(job, JobState.SUCCEEDED)


async def test_a_secret_goes_to_those_it_is_shared_with(rig: Rig):
    await keep(rig, group("team", "ada"))
    await keep_secret(rig, "by-name", "bob", users=["ada"])
    await keep_secret(rig, "by-group", "bob", groups=["team"])
    async with running(await rig.scheduler()):
        job = await rig.submit('[ "$A" = "$B" ] && [ -n "$A" ]', secrets={"A": "by-name", "B": "by-group"})
        await rig.until(job, JobState.SUCCEEDED)


@pytest.mark.parametrize(
    ("owner", "value", "message"),
    [
        ("bob", VALUE, "no secret 'hub' any more that ada may use"),
        ("ada", None, "has no value"),
    ],
)
async def test_a_secret_that_may_not_be_used_any_more_fails_the_attempt(
    rig: Rig, owner: str, value: str | None, message: str
):
    await keep_secret(rig, "hub", owner, value)
    async with running(await rig.scheduler()):
        job = await rig.submit("true", secrets={"TOKEN": "hub"})
        done = await rig.until(job, JobState.DECIDING)
    assert message in done.attempt.ended.message


async def test_a_secret_sealed_with_a_lost_key_fails_the_attempt(rig: Rig):
    await keep_secret(rig, value=None)
    await Vault(rig.bus, Keyring.generate()).keep(Secret.id_of("hub"), VALUE)
    async with running(await rig.scheduler()):
        job = await rig.submit("true", secrets={"TOKEN": "hub"})
        done = await rig.until(job, JobState.DECIDING)
    assert "not in the key file" in done.attempt.ended.message
